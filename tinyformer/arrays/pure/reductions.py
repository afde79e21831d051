"""Many numbers to one: sums, means, extremes, along any axes.

`plan` writes an array as the list of the runs that are reduced, one run per element of the result.
The last axes are slices of the flat list, the first axes are its strided slices.
"""

from __future__ import annotations

import builtins
import math
from functools import lru_cache
from itertools import repeat
from math import prod
from operator import ne

from tinyformer.arrays.pure.array import Array, Shape, asarray, convert
from tinyformer.arrays.pure.elementwise import divide, sqrt, square, subtract
from tinyformer.arrays.pure.layout import normal_axes, permute_dims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple, Union
    Axes = Optional[Union[int, Sequence[int]]]


@lru_cache(maxsize=None)
def plan(shape: Shape, axis: Axes, keepdims: bool) -> Tuple[Callable[..., Any], int, Shape]:
    """How an array of `shape` is reduced: a function that gives the runs of its flat list, one for
    each element of the result; their length; the shape of the result. A model repeats its shapes.
    """
    ndim = len(shape)
    axes = tuple(range(ndim)) if axis is None else normal_axes(axis, ndim)
    kept = tuple(each for each in range(ndim) if each not in axes)
    count, length = prod(shape[each] for each in kept), prod(shape[each] for each in axes)
    left = tuple(1 if each in axes else shape[each] for each in range(ndim)
                 if keepdims or each in kept)

    def runs(values: List[Any]) -> List[List[Any]]:
        """The elements of a flat list that are reduced to one, for each element of the result."""
        if kept and axes + kept == tuple(range(ndim)):               # the first axes
            return [values[j::count] for j in range(count)]
        if kept + axes != tuple(range(ndim)):
            values = permute_dims(Array(values, shape, ""), kept + axes).values
        return [values[i * length:(i + 1) * length] for i in range(count)]

    return runs, length, left


def _reduce(x: Any, axis: Axes, keepdims: bool, function: Callable[..., Any],
            kind: Optional[str] = None, *more: Iterable[Any]) -> Array:
    x = asarray(x)
    runs, _, shape = plan(x.shape, tuple(axis) if type(axis) is list else axis, keepdims)
    return Array(list(map(function, runs(x.values), *more)), shape, kind or x.kind)


def sum(x: Any, axis: Axes = None, keepdims: bool = False) -> Array:
    """The sum along the axes; a count of the true elements for a bool array."""
    x = asarray(x)
    kind = "int" if x.kind == "bool" else x.kind
    zero = 0.0 if kind == "float" else convert([0], kind)[0]
    return _reduce(x, axis, keepdims, builtins.sum, kind, repeat(zero))


def _count(x: Array, axis: Axes) -> int:
    return plan(x.shape, tuple(axis) if type(axis) is list else axis, False)[1]


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

    def careful(line: List[Any]) -> Any:
        return math.nan if any_nan(line) else choose(line)

    total = builtins.sum(x.values) if x.kind == "float" else 0      # nan for a nan, or inf - inf
    return _reduce(x, axis, keepdims, choose if total == total else careful)


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
