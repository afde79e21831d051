"""First weights, all drawn from the one random stream, or none at all."""

from __future__ import annotations

from contextlib import contextmanager
from math import prod
from typing import Any, Iterator, NoReturn, Tuple

from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.nn.module import Parameter

_described = False


@contextmanager
def described() -> Iterator[None]:
    """Inside, models are made of parameters that have a shape but no numbers: nothing is drawn, and
    no memory taken.

    For a model that is to be printed, counted, or loaded next. Computing with it raises
    TypeError until its parameters are given numbers.
    """
    global _described
    former, _described = _described, True
    try:
        yield
    finally:
        _described = former


class Outline:
    """What stands for an array of which only the shape and the dtype are known."""

    def __init__(self, shape: Tuple[int, ...]) -> None:
        self.shape, self.ndim, self.size = tuple(shape), len(shape), prod(shape)
        self.dtype = xp.zeros((0,)).dtype

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        self._refuse()

    def __repr__(self) -> str:
        return (f"a weight of shape {self.shape} without numbers (its model was made inside "
                "described(), to be printed or loaded; load weights, or make it outside)")

    def _refuse(self) -> NoReturn:
        raise TypeError(f"there is nothing to compute with: {self!r}")


def _outlined(shape: Tuple[int, ...]) -> Parameter:
    parameter = Parameter(0.0)
    parameter._data = Outline(shape)        # `data` itself takes nothing of another shape
    return parameter


def normal(shape: Tuple[int, ...], std: float) -> Parameter:
    """Draws from N(0, std^2)."""
    if _described:
        return _outlined(shape)
    return Parameter(xp.astype(stream.normal(shape) * std, xp.default_float))


def uniform(shape: Tuple[int, ...], bound: float) -> Parameter:
    """Draws from the interval [-bound, bound)."""
    if _described:
        return _outlined(shape)
    draws = xp.reshape(stream.uniform(prod(shape)), shape)
    return Parameter(xp.astype(draws * (2 * bound) - bound, xp.default_float))


def zeros(shape: Tuple[int, ...]) -> Parameter:
    """All 0."""
    return _outlined(shape) if _described else Parameter(xp.zeros(shape))


def ones(shape: Tuple[int, ...]) -> Parameter:
    """All 1."""
    return _outlined(shape) if _described else Parameter(xp.ones(shape))
