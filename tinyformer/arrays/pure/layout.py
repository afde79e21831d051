"""The same numbers in another order: broadcasting, permuting, cutting, joining.

All of it is one idea. A view of a row-major array is an offset, a shape and one stride per axis,
and the element (i, j, ...) of the view is `values[offset + i * stride_0 + j * stride_1 + ...]`.
`gather` writes such a view out as a new flat list.
"""

from __future__ import annotations

import sys
from functools import lru_cache, partial, reduce
from itertools import chain
from math import prod
from operator import index, itemgetter

from tinyformer.arrays.pure.array import (Array, AxisError, Shape, as_shape, asarray,
                                          common_kind, convert)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Optional, Sequence, Tuple, Union


def strides_of(shape: Shape) -> Tuple[int, ...]:
    """How far apart neighbours along each axis lie in the flat list: (2, 3, 4) -> (12, 4, 1)."""
    return tuple(prod(shape[axis + 1:]) for axis in range(len(shape)))


def normal_axis(axis: int, ndim: int) -> int:
    """The axis counted from the front; AxisError if there is no such axis."""
    if not -ndim <= axis < ndim:
        raise AxisError(f"axis {axis} is out of bounds for an array with {ndim} axes")
    return index(axis) % ndim


def normal_axes(axis: Union[int, Sequence[int]], ndim: int) -> Tuple[int, ...]:
    """One axis or several, counted from the front, in order; ValueError if one is there twice."""
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    normal = sorted(normal_axis(each, ndim) for each in axes)
    if len(set(normal)) != len(normal):
        raise ValueError(f"axis {axis} names an axis twice")
    return tuple(normal)


@lru_cache(maxsize=None)             # a model repeats its shapes
def broadcast_shapes(name: str, first: Shape, second: Shape) -> Shape:
    """The shape that both stretch to: axes align at the right, and a length of 1 stretches."""
    length = max(len(first), len(second))
    one = (1,) * (length - len(first)) + first
    two = (1,) * (length - len(second)) + second
    if any(p != q and p != 1 and q != 1 for p, q in zip(one, two)):
        raise ValueError(f"{name}: shapes {first} and {second} do not broadcast: from the right, "
                         "each pair of lengths must be equal or one of them 1")
    return tuple(q if p == 1 else p for p, q in zip(one, two))


def starts_of(offset: int, shape: Shape, strides: Tuple[int, ...]) -> List[int]:
    """The flat positions of the elements of a view, in its row-major order."""
    positions = [offset]
    for length, stride in zip(shape, strides):
        steps = range(0, length * stride, stride) if stride else [0] * length
        positions = [position + step for position in positions for step in steps]
    return positions


LONG_ROW = 16                # from this length on it pays to copy a view row by row


@lru_cache(maxsize=128)
def _picker(offset: int, shape: Shape,
            strides: Tuple[int, ...]) -> Callable[[List[Any]], Sequence[Any]]:
    """A function that picks the elements of a view; remembered: a model repeats its shapes."""
    positions = starts_of(offset, shape, strides)
    if sys.implementation.name == "pypy" or len(positions) < 2:
        return lambda values: [values[position] for position in positions]
    return itemgetter(*positions)


def gather(values: List[Any], offset: int, shape: Shape, strides: Tuple[int, ...]) -> List[Any]:
    """The elements of a view, in row-major order of the view."""
    if not prod(shape):
        return []
    if not shape or not strides[-1] or shape[-1] < LONG_ROW:
        return list(_picker(offset, shape, strides)(values))
    stride = strides[-1]
    width = shape[-1] * stride
    out: List[Any] = []
    for start in starts_of(offset, shape[:-1], strides[:-1]):
        stop = start + width
        out += values[start:stop if stop >= 0 else None:stride]
    return out


def expand(values: List[Any], shape: Shape, target: Shape) -> List[Any]:
    """The elements of an array of `shape` stretched to `target`, to which it must broadcast."""
    if shape == target:
        return values
    if len(values) == 1:
        return values * prod(target)
    if shape[-1] == 1 and shape[:-1] == target[:-1]:           # one number per row: a mean
        out: List[Any] = []
        for value in values:
            out += [value] * target[-1]
        return out
    tail = shape
    while tail and tail[0] == 1:
        tail = tail[1:]
    if target[len(target) - len(tail):] == tail:               # whole rows repeated: a bias
        return values * prod(target[:len(target) - len(tail)])
    padded = (1,) * (len(target) - len(shape)) + shape
    strides = tuple(0 if length == 1 else stride
                    for length, stride in zip(padded, strides_of(padded)))
    return gather(values, 0, target, strides)


def broadcast_to(x: Any, shape: Any) -> Array:
    """`x` stretched to `shape`; ValueError where it does not broadcast."""
    x, shape = asarray(x), as_shape(shape)
    if len(x.shape) > len(shape) or broadcast_shapes("broadcast_to", x.shape, shape) != shape:
        raise ValueError(f"broadcast_to: shape {x.shape} does not broadcast to {shape}")
    return Array(expand(x.values, x.shape, shape), shape, x.kind)


def permute_dims(x: Any, axes: Sequence[int]) -> Array:
    """Axis `axes[i]` of `x` becomes axis i of the result."""
    x = asarray(x)
    shape, strides = permuted(x.shape, tuple(axes))
    if len(shape) == 2 and strides[0] == 1:
        return Array(list(chain.from_iterable(columns_of(x.values, shape[0]))), shape, x.kind)
    return Array(gather(x.values, 0, shape, strides), shape, x.kind)


@lru_cache(maxsize=None)
def permuted(shape: Shape, axes: Tuple[int, ...]) -> Tuple[Shape, Tuple[int, ...]]:
    """The lengths and the strides of an array of `shape` in another order of its axes."""
    ndim = len(shape)
    order = [normal_axis(axis, ndim) for axis in axes] if len(axes) == ndim else []
    if sorted(order) != list(range(ndim)):
        raise ValueError(f"permute_dims: {axes} does not name each of {ndim} axes once")
    strides = strides_of(shape)
    return tuple(shape[axis] for axis in order), tuple(strides[axis] for axis in order)


def rows_of(values: List[Any], width: int) -> List[List[Any]]:
    """The rows of a flat matrix of `width` columns."""
    return [values[i:i + width] for i in range(0, len(values), width)]


def columns_of(values: List[Any], width: int) -> List[List[Any]]:
    """The columns of a flat matrix of `width` columns."""
    return [values[j::width] for j in range(width)]


def matrix_transpose(x: Any) -> Array:
    """The last two axes exchanged; ValueError for fewer than two."""
    x = asarray(x)
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: needs at least two axes, the shape is {x.shape}")
    return permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def reshape(x: Any, shape: Any) -> Array:
    """The same elements in the same order under another shape; one length may be -1."""
    x, shape = asarray(x), as_shape(shape)
    if -1 in shape:
        known = -prod(shape)
        if shape.count(-1) > 1 or known <= 0 or x.size % known:
            raise ValueError(f"reshape: {x.size} elements, shape {x.shape}, do not fit {shape}")
        shape = tuple(x.size // known if length == -1 else length for length in shape)
    if prod(shape) != len(x.values) or min(shape, default=0) < 0:
        raise ValueError(f"reshape: {x.size} elements, shape {x.shape}, do not fit {shape}")
    return Array(x.values, shape, x.kind)


def expand_dims(x: Any, axis: Union[int, Tuple[int, ...]]) -> Array:
    """New axes of length 1 that stand at `axis` of the result."""
    x = asarray(x)
    count = len(axis) if isinstance(axis, tuple) else 1
    shape = list(x.shape)
    for each in normal_axes(axis, x.ndim + count):
        shape.insert(each, 1)
    return Array(x.values, tuple(shape), x.kind)


def squeeze(x: Any, axis: Union[int, Tuple[int, ...]]) -> Array:
    """Without the axes `axis`, whose lengths must be 1."""
    x = asarray(x)
    gone = normal_axes(axis, x.ndim)
    for each in gone:
        if x.shape[each] != 1:
            raise ValueError(f"squeeze: axis {each} of shape {x.shape} has length {x.shape[each]}, "
                             "not 1")
    return Array(x.values, tuple(n for each, n in enumerate(x.shape) if each not in gone), x.kind)


def concat(arrays: Sequence[Any], axis: Optional[int] = 0) -> Array:
    """The arrays one after the other along an axis; their other lengths must agree. For None, all
    of their elements along one axis."""
    arrays = [asarray(array) if axis is not None else reshape(array, (-1,)) for array in arrays]
    if not arrays:
        raise ValueError("concat: needs at least one array")
    first = arrays[0]
    if not first.shape:
        raise ValueError("concat: arrays without axes cannot be concatenated, stack joins them")
    axis = normal_axis(axis or 0, first.ndim)
    for array in arrays:
        if array.shape[:axis] != first.shape[:axis] \
                or array.shape[axis + 1:] != first.shape[axis + 1:]:
            raise ValueError(f"concat: shapes {first.shape} and {array.shape} differ in another "
                             f"axis than {axis}")
    kind = reduce(partial(common_kind, "concat"), [array.kind for array in arrays])
    parts = [convert(array.values, kind, array.kind) for array in arrays]
    widths = [prod(array.shape[axis:]) for array in arrays]
    values: List[Any] = []
    for row in range(prod(first.shape[:axis])):
        for part, width in zip(parts, widths):
            values += part[row * width:(row + 1) * width]
    length = sum(array.shape[axis] for array in arrays)
    return Array(values, first.shape[:axis] + (length,) + first.shape[axis + 1:], kind)


def stack(arrays: Sequence[Any], axis: int = 0) -> Array:
    """Arrays of one shape side by side along a new axis."""
    arrays = [asarray(array) for array in arrays]
    if not arrays:
        raise ValueError("stack: needs at least one array")
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise ValueError(f"stack: all shapes must be equal, these are {sorted(shapes)}")
    return concat([expand_dims(array, axis) for array in arrays], axis)
