"""Greedy text from the decoder in PyTorch, with a cache of keys and values written by hand.

Two caches: keys and values joined to the former ones by `cat`, or written into memory that was
taken at the beginning.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import torch

from tests.bench.torch_decoder import Decoder, Pair, joined
from tests.bench.trained import Size


def joining() -> Callable[..., Pair]:
    """A cache that grows by `cat`."""
    kept: Dict[str, Pair] = {}

    def past(name: str, key: Any, value: Any) -> Pair:
        if name in kept:
            key, value = (torch.cat(both, 2) for both in zip(kept[name], (key, value)))
        kept[name] = key, value
        return key, value

    return past


def reserving(size: Size, length: int) -> Callable[..., Pair]:
    """A cache in memory for `length` tokens, taken at once."""
    heads = size["n_heads"]
    shape = (2, 1, heads, length, size["d_model"] // heads)
    kept: Dict[str, Any] = {}
    filled: Dict[str, int] = {}

    def past(name: str, key: Any, value: Any) -> Pair:
        if name not in kept:
            kept[name], filled[name] = torch.empty(shape), 0
        start, end = filled[name], filled[name] + key.shape[2]
        kept[name][0, :, :, start:end] = key
        kept[name][1, :, :, start:end] = value
        filled[name] = end
        return kept[name][0, :, :, :end], kept[name][1, :, :, :end]

    return past


def writers(size: Size, state: Dict[str, Any], first: int, count: int) -> Dict[str, Any]:
    """Functions that write `count` ids behind the id `first`, by the name of their cache."""
    torch.set_num_threads(1)
    weights = joined({name: torch.from_numpy(value.data.copy()) for name, value in state.items()})
    model = Decoder(weights, size)

    def write(cache: Callable[[], Callable[..., Pair]]) -> List[int]:
        past, token, ids = cache(), torch.tensor([[first]]), []
        with torch.inference_mode():
            for place in range(count):
                token = model(token, place, past)[:, -1].argmax(-1, keepdim=True)
                ids.append(token)
        return torch.cat(ids).flatten().tolist()

    return {"PyTorch, cat": lambda: write(joining),
            "PyTorch, reserved": lambda: write(lambda: reserving(size, count))}
