"""Many numbers to one: sums, means, extremes, along any axes.

`lines` writes an array as the list of the runs that are reduced, one run per element of the result.
The last axes are slices of the flat list, the first axes are its strided slices.
"""

from __future__ import annotations

import builtins
import math
from functools import partial
from math import prod
from operator import ne

from tinyformer.arrays.pure.array import Array, Shape, asarray, convert
from tinyformer.arrays.pure.elementwise import divide, sqrt, square, subtract
from tinyformer.arrays.pure.layout import normal_axes, permute_dims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Optional, Sequence, Tuple, Union
    Axes = Optional[Union[int, Sequence[int]]]


def chosen_axes(axis: Axes, ndim: int) -> Tuple[int, ...]:
    """The axes to reduce, counted from the front and in order: all of them for None."""
    return tuple(range(ndim)) if axis is None else normal_axes(axis, ndim)


def lines(x: Array, axes: Tuple[int, ...]) -> List[List[Any]]:
    """The runs of elements along `axes`, one for each element of the other axes."""
    ndim, kept = x.ndim, tuple(axis for axis in range(x.ndim) if axis not in axes)
    count = prod(x.shape[axis] for axis in kept)
    length = prod(x.shape[axis] for axis in axes)
    if axes == tuple(range(len(axes))) and len(axes) < ndim:         # the first axes
        return [x.values[j::count] for j in range(count)]
    if axes != tuple(range(ndim - len(axes), ndim)):
        x = permute_dims(x, kept + axes)
    return [x.values[i * length:(i + 1) * length] for i in range(count)]


def reduced_shape(shape: Shape, axes: Tuple[int, ...], keepdims: bool) -> Shape:
    """The shape after `axes` are gone, or of length 1."""
    if keepdims:
        return tuple(1 if axis in axes else length for axis, length in enumerate(shape))
    return tuple(length for axis, length in enumerate(shape) if axis not in axes)


def _reduce(x: Any, axis: Axes, keepdims: bool, function: Callable[[List[Any]], Any],
            kind: Optional[str] = None) -> Array:
    x = asarray(x)
    axes = chosen_axes(axis, x.ndim)
    values = list(map(function, lines(x, axes)))
    return Array(values, reduced_shape(x.shape, axes, keepdims), kind or x.kind)


def sum(x: Any, axis: Axes = None, keepdims: bool = False) -> Array:
    """The sum along the axes; a count of the true elements for a bool array."""
    x = asarray(x)
    kind = "int" if x.kind == "bool" else x.kind
    zero, = convert([0], kind)
    return _reduce(x, axis, keepdims, partial(builtins.sum, start=zero), kind)


def _count(x: Array, axis: Axes) -> int:
    return prod(x.shape[each] for each in chosen_axes(axis, x.ndim))


def mean(x: Any, axis: Axes = None, keepdims: bool = False) -> Array:
    """The arithmetic mean along the axes; nan over no elements."""
    x = asarray(x)
    return divide(sum(x, axis, keepdims), _count(x, axis))


def var(x: Any, axis: Axes = None, correction: float = 0, keepdims: bool = False) -> Array:
    """The mean squared distance from the mean, divided by the count less `correction`."""
    x = asarray(x)
    squares = square(subtract(x, mean(x, axis, keepdims=True)))
    return divide(sum(squares, axis, keepdims), builtins.max(_count(x, axis) - correction, 0))


def std(x: Any, axis: Axes = None, correction: float = 0, keepdims: bool = False) -> Array:
    """The square root of the variance."""
    return sqrt(var(x, axis, correction, keepdims))


def _extreme(name: str, choose: Callable[[List[Any]], Any], x: Any, axis: Axes,
             keepdims: bool) -> Array:
    x = asarray(x)
    if not _count(x, axis):
        raise ValueError(f"{name}: there is no {name} of zero elements")

    def of_floats(line: List[Any]) -> Any:
        """nan if any number is nan: only then, or for inf - inf, is the sum nan."""
        total = builtins.sum(line)
        return math.nan if total != total and any_nan(line) else choose(line)

    return _reduce(x, axis, keepdims, of_floats if x.kind == "float" else choose)


def any_nan(line: List[Any]) -> bool:
    """Whether any number of the line is not a number."""
    return builtins.any(map(ne, line, line))


def max(x: Any, axis: Axes = None, keepdims: bool = False) -> Array:
    """The largest element along the axes; nan if any is nan, ValueError if there is none."""
    return _extreme("max", builtins.max, x, axis, keepdims)


def min(x: Any, axis: Axes = None, keepdims: bool = False) -> Array:
    """The smallest element along the axes; nan if any is nan, ValueError if there is none."""
    return _extreme("min", builtins.min, x, axis, keepdims)


def any(x: Any, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether any element along the axes is true."""
    return _reduce(x, axis, keepdims, builtins.any, "bool")


def all(x: Any, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether all elements along the axes are true."""
    return _reduce(x, axis, keepdims, builtins.all, "bool")


def _first_largest(line: List[Any]) -> int:
    if any_nan(line):
        return list(map(ne, line, line)).index(True)
    return line.index(builtins.max(line))


def argmax(x: Any, axis: Optional[int] = None, keepdims: bool = False) -> Array:
    """The index of the first largest element (of the first nan, if there is one) along one axis.

    Of the flat array for None. Raises ValueError over zero elements.
    """
    x = asarray(x)
    if isinstance(axis, (tuple, list)):
        raise TypeError(f"argmax: needs one axis or None, not {axis}")
    if not _count(x, axis):
        raise ValueError("argmax: there is no largest of zero elements")
    return _reduce(x, axis, keepdims, _first_largest, "int")
