"""Many elements to one. On the way back each element receives what became of its group."""

from __future__ import annotations

import builtins
from math import prod

from tinyformer.arrays import xp
from tinyformer.autograd.operations.operands import floats
from tinyformer.autograd.tensor import Tensor, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Sequence, Tuple, Union
    Axes = Optional[Union[int, Sequence[int]]]


def _axes(axis: Axes) -> Any:
    """Several axes as the tuple that the array functions ask for."""
    return axis if axis is None or hasattr(axis, "__index__") else tuple(axis)


def _kept(shape: Tuple[int, ...], axis: Axes) -> Tuple[int, ...]:
    """The shape with the reduced axes at length 1, so that results stretch back over the input."""
    if axis is None:
        return (1,) * len(shape)
    axes = {each % len(shape) for each in (axis if isinstance(axis, tuple) else (axis,))}
    return tuple(1 if position in axes else length for position, length in enumerate(shape))


def _count(shape: Tuple[int, ...], kept: Tuple[int, ...]) -> int:
    """How many elements are reduced to one."""
    return prod(length for length, left in zip(shape, kept) if length != left)


def sum(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum along the axes. The gradient is g for every element of a group."""
    axis = _axes(axis)
    y = xp.sum(x.data, axis=axis, keepdims=keepdims)
    shape = x.data.shape
    return record("sum", y, (
        x, lambda g: xp.broadcast_to(xp.reshape(g, _kept(shape, axis)), shape)))


def mean(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean along the axes. The gradient is g / n for every element of a group of n."""
    x = floats(x)
    axis = _axes(axis)
    y = xp.mean(x.data, axis=axis, keepdims=keepdims)
    shape = x.data.shape
    kept = _kept(shape, axis)
    count = _count(shape, kept)
    return record("mean", y, (x, lambda g: xp.broadcast_to(xp.reshape(g / count, kept), shape)))


def max(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest element along the axes. Equal largest elements share the gradient evenly."""
    a = x.data
    axis = _axes(axis)
    y = xp.max(a, axis=axis, keepdims=keepdims)
    kept = _kept(a.shape, axis)

    def vjp(g: Any) -> Any:
        winners = xp.astype(a == xp.reshape(xp.asarray(y), kept), a.dtype)
        shares = winners / xp.sum(winners, axis=axis, keepdims=True)
        return shares * xp.reshape(g, kept)

    return record("max", y, (x, vjp))


def var(x: Tensor, axis: Axes = None, correction: float = 1, keepdims: bool = False) -> Tensor:
    """The sum of squared distances from the mean, divided by n - correction.

    The gradient is 2 (x - mean) g / (n - correction): the mean moves too, but the distances from it
    sum to 0, so that it adds nothing. PyTorch's default of 1 is the unbiased estimate; layer norm
    uses 0.
    """
    x = floats(x)
    a = x.data
    axis = _axes(axis)
    y = xp.var(a, axis=axis, correction=correction, keepdims=keepdims)
    kept = _kept(a.shape, axis)
    freedom = builtins.max(_count(a.shape, kept) - correction, 0)
    return record("var", y, (x, lambda g: (
        a - xp.mean(a, axis=axis, keepdims=True)) * (xp.reshape(g, kept) * 2 / freedom)))
