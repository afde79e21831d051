"""First weights, all drawn from the one random stream."""

from __future__ import annotations

from contextlib import contextmanager
from math import prod
from typing import Iterator, Tuple

from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.nn.module import Parameter

_drawing = True


@contextmanager
def without_drawing() -> Iterator[None]:
    """Inside, nothing is drawn and random weights are 0: for a model that is to be loaded next."""
    global _drawing
    former, _drawing = _drawing, False
    try:
        yield
    finally:
        _drawing = former


def normal(shape: Tuple[int, ...], std: float) -> Parameter:
    """Draws from N(0, std^2)."""
    if not _drawing:
        return zeros(shape)
    return Parameter(xp.astype(stream.normal(shape) * std, xp.default_float))


def uniform(shape: Tuple[int, ...], bound: float) -> Parameter:
    """Draws from the interval [-bound, bound)."""
    if not _drawing:
        return zeros(shape)
    draws = xp.reshape(stream.uniform(prod(shape)), shape)
    return Parameter(xp.astype(draws * (2 * bound) - bound, xp.default_float))


def zeros(shape: Tuple[int, ...]) -> Parameter:
    """All 0."""
    return Parameter(xp.zeros(shape))


def ones(shape: Tuple[int, ...]) -> Parameter:
    """All 1."""
    return Parameter(xp.ones(shape))
