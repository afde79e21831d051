"""One training step of a decoder, NumPy backend, against PyTorch eager on the same machine.

Size a of the project's comparisons: 64 wide, 4 heads, 2 layers, 32 tokens, batch 8, vocabulary 128;
forward, backward, AdamW, float32, one thread each.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

import tinyformer as tf
from tinyformer import functional as F
from tinyformer.arrays.stream import Stream
from tinyformer.models import DecoderConfig, DecoderModel
from tinyformer.training.optimisers import AdamW

SIZES = {"a": dict(vocab_size=128, max_len=32, d_model=64, n_layers=2, n_heads=4, batch=8),
         "b": dict(vocab_size=512, max_len=64, d_model=128, n_layers=4, n_heads=4, batch=16)}


def data(size: Dict[str, int]) -> Tuple[Any, Any]:
    """Random ids (B, T) and the ids one place further, as nested lists."""
    rows = [
        Stream(7 + row).integers(size["vocab_size"], size["max_len"] + 1)
        for row in range(size["batch"])
    ]
    return [row[:-1] for row in rows], [row[1:] for row in rows]


def tinyformer_step(size: Dict[str, int]) -> Tuple[Callable[[], float], Any]:
    """A function that trains one step and returns the loss, and the model."""
    tf.manual_seed(0)
    sizes = {key: value for key, value in size.items() if key != "batch"}
    model = DecoderModel(DecoderConfig(**sizes, dropout=0.0))
    optimiser = AdamW(list(model.named_parameters()), lr=1e-3)
    ids, targets = map(tf.tensor, data(size))

    def step() -> float:
        loss = F.cross_entropy(model(ids), targets)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return float(loss.item())

    return step, model


def torch_step(size: Dict[str, int], weights: Any) -> Callable[[], float]:
    """The same model, written with PyTorch's own operations and its fused attention."""
    import torch
    torch.set_num_threads(1)
    parameters = {
        name: torch.tensor(value.tolist(), requires_grad=True)
        for name, value in weights.items()
    }
    decayed = [value for value in parameters.values() if value.ndim > 1]
    others = [value for value in parameters.values() if value.ndim == 1]
    optimiser = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01},
                                   {"params": others, "weight_decay": 0.0}], lr=1e-3)
    ids, targets = map(torch.tensor, data(size))
    heads, width = size["n_heads"], size["d_model"]
    functional = torch.nn.functional

    def linear(x: Any, name: str) -> Any:
        return functional.linear(x, parameters[name + ".weight"], parameters[name + ".bias"])

    def norm(x: Any, name: str) -> Any:
        return functional.layer_norm(x, (width,), parameters[name + ".weight"],
                                     parameters[name + ".bias"])

    def block(x: Any, name: str) -> Any:
        h = norm(x, f"{name}.attention_norm")
        split = (*h.shape[:2], heads, -1)
        q, k, v = (linear(h, f"{name}.attention.{part}").view(split).transpose(1, 2)
                   for part in ("query", "key", "value"))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(mixed.transpose(1, 2).reshape(h.shape), f"{name}.attention.output")
        h = linear(norm(x, f"{name}.feed_forward_norm"), f"{name}.feed_forward.inner")
        return x + linear(functional.gelu(h, approximate="tanh"), f"{name}.feed_forward.outer")

    def step() -> float:
        x = parameters["tokens.weight"][ids] + parameters["positions.table.weight"]
        for number in range(size["n_layers"]):
            x = block(x, f"stack.blocks.{number}")
        logits = functional.linear(norm(x, "stack.norm"), parameters["tokens.weight"])
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return float(loss.item())

    return step
