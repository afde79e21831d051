"""Dropout: random elements are zeroed in training, the others scaled up so that the mean stays."""

from __future__ import annotations

from math import prod

from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.autograd.operations.operands import floats
from tinyformer.autograd.tensor import Tensor, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Tuple


def keep_factors(shape: Tuple[int, ...], p: float, dtype: Any) -> Any:
    """An array of `shape`: 0 with probability p, else 1 / (1 - p).

    An element is kept where 16 random bits reach p * 65,536, rounded; the scale is that of the
    rounded p, so that the mean is exactly 1. Raises ValueError for p outside [0, 1].
    """
    check_probability(p)
    threshold = round(p * 65536)
    if threshold == 65536:
        return xp.zeros(shape, dtype)
    kept = xp.reshape(stream.bits16(prod(shape)), shape) >= threshold
    return xp.astype(kept, dtype) * (65536 / (65536 - threshold))


def check_probability(p: float) -> None:
    """ValueError for p outside [0, 1], nan included."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: the probability must lie in [0, 1], not {p}")


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """In training, each element of x zeroed with probability p, or scaled by 1 / (1 - p); else x.

    Srivastava et al., 2014, in the "inverted" form. The gradient is g times the same factors.
    """
    check_probability(p)
    x = floats(x)
    if not training or p == 0:
        return x
    factors = keep_factors(x.shape, p, x.data.dtype)
    return record("dropout", x.data * factors, (x, lambda g: g * factors))
