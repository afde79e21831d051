"""Text from a decoder, one token after the other: NumPy backend with its cache, and PyTorch with a
cache written by hand, of two kinds; the faster is the peer.

The weights are drawn large, and the scores of the tokens have a matrix of their own, so that an
untrained model writes something that changes: all engines must write the same ids.
"""

from __future__ import annotations

import statistics
from typing import Any, Dict, List

import tinyformer as tf
from tests.bench import trained
from tests.bench.measure import Asked, Figures, alternate, figure, number
from tinyformer.generation import generate
from tinyformer.models import DecoderConfig, DecoderModel

ROUNDS = 11


def model_of(size: trained.Size, length: int) -> DecoderModel:
    """A decoder with room for `length` tokens."""
    tf.manual_seed(0)
    options: Dict[str, Any] = {**trained.options(size), "max_len": length}
    return DecoderModel(DecoderConfig(**options, std=0.2, tie_weights=False))


def measure(asked: Asked, size: str = "b", count: int = 200, rounds: int = ROUNDS) -> Figures:
    """The row of the part "generation"."""
    from tests.bench import torch_generation
    tf.use_backend("numpy")
    model = model_of(trained.SIZES[size], count)

    def ours() -> List[int]:
        ids: List[int] = generate(model, [1], count, temperature=0)
        return ids

    peers = torch_generation.writers(trained.SIZES[size], model.state_dict(), 1, count)
    timed = alternate({"tinyformer": ours, **peers}, rounds, warm_up=1)
    texts = {tuple(text) for found in timed.results.values() for text in found}
    assert len(texts) == 1, f"{len(texts)} different texts: not the same work"
    best = min(peers, key=lambda name: statistics.median(timed.times[name]))
    speeds = {name: 1000 * count / statistics.median(times) for name, times in timed.times.items()}
    words = ", ".join(f"{name} {number(speed)} tokens/s" for name, speed in speeds.items())
    different = len(set(texts.pop()))
    yield figure("generation", timed.ratio(best, "tinyformer"),
                 f"{words}; {different} different tokens")
