"""Reading and scattering by index, after NumPy's rules.

A key is turned into the flat positions that it names, in the order of the result. Reading picks those
positions; its transpose, which every gradient of an index needs, adds into them.
"""

from __future__ import annotations

from math import prod
from typing import Any, List, Tuple

from tinyformer.arrays.pure.array import Array, Shape, asarray, full
from tinyformer.arrays.pure.layout import (broadcast_shapes, broadcast_to, expand, normal_axis,
                                            strides_of)

Group = Tuple[List[int], Shape]      # offsets into the flat list, and the axes that they make


def positions(shape: Shape, key: Any) -> Tuple[List[int], Shape]:
    """The flat positions that `key` names in an array of `shape`, and the shape of the selection.

    Integers, slices, None and one Ellipsis as usual; integer arrays or lists broadcast together, bool
    arrays stand for the integers of their true elements. As in NumPy the axes of index arrays come
    first when a slice separates them. Raises IndexError.
    """
    groups: List[Group] = []
    fancy: List[Group] = []
    places: List[int] = []
    for entry, axis, lengths in _assign(shape, key):
        stride = prod(shape[axis + len(lengths):])
        if entry is None:
            groups.append(([0], (1,)))
        elif isinstance(entry, slice):
            steps = range(*entry.indices(lengths[0]))
            groups.append(([step * stride for step in steps], (len(steps),)))
        else:
            numbers = _numbers(entry, axis, lengths)
            fancy.append(([number * stride for number in numbers.values], numbers.shape))
            places.append(len(groups))
    if fancy:
        place = places[0] if len(set(places)) == 1 or all(not part[1] for part in fancy) else 0
        groups = _insert(groups, fancy, places, place)
    indices, axes = [0], ()  # type: Tuple[List[int], Shape]
    for offsets, lengths in groups:
        indices = [index + offset for index in indices for offset in offsets]
        axes += lengths
    return indices, axes


def _insert(groups: List[Group], fancy: List[Group], places: List[int], place: int) -> List[Group]:
    """The groups of slices with those of the index arrays among them."""
    if all(not lengths for _, lengths in fancy):           # plain integers: each at its own place
        for (offsets, lengths), where in reversed(list(zip(fancy, places))):
            groups.insert(where, (offsets, lengths))
        return groups
    try:
        whole: Shape = ()
        for _, lengths in fancy:
            whole = broadcast_shapes("index arrays", whole, lengths)
    except ValueError as error:
        raise IndexError(str(error)) from None
    columns = [expand(offsets, lengths, whole) for offsets, lengths in fancy]
    groups.insert(place, ([sum(column) for column in zip(*columns)], whole))
    return groups


def _assign(shape: Shape, key: Any) -> List[Tuple[Any, int, Shape]]:
    """Each entry of a key with the axis where it begins and the lengths of the axes that it uses."""
    entries = list(key) if isinstance(key, tuple) else [key]
    entries = [asarray(entry) if isinstance(entry, list) else entry for entry in entries]
    used = sum(0 if entry is None or entry is Ellipsis else entry.ndim if _is_mask(entry) else 1
               for entry in entries)
    if used > len(shape):
        raise IndexError(f"too many indices: {used} for an array of shape {shape}")
    if sum(entry is Ellipsis for entry in entries) > 1:
        raise IndexError("an index can have only one ellipsis (...)")
    if not any(entry is Ellipsis for entry in entries):
        entries.append(Ellipsis)
    assigned: List[Tuple[Any, int, Shape]] = []
    axis = 0
    for entry in entries:
        if entry is Ellipsis:
            for _ in range(len(shape) - used):
                assigned.append((slice(None), axis, (shape[axis],)))
                axis += 1
            continue
        width = 0 if entry is None else entry.ndim if _is_mask(entry) else 1
        assigned.append((entry, axis, shape[axis:axis + width]))
        axis += width
    return assigned


def _is_mask(entry: Any) -> bool:
    return isinstance(entry, Array) and entry.kind == "bool"


def _numbers(entry: Any, axis: int, lengths: Shape) -> Array:
    """An integer, an integer array or a mask as an array of valid positions counted from the front."""
    if _is_mask(entry):
        if entry.shape != lengths:
            raise IndexError(f"a bool index of shape {entry.shape} does not match axes of {lengths}")
        found = [position for position, true in enumerate(entry.values) if true]
        return Array(found, (len(found),), "int")
    if isinstance(entry, Array):
        if entry.kind != "int" and entry.size:
            raise IndexError(f"an index array must hold int or bool, not {entry.kind}")
        numbers = entry
    elif isinstance(entry, bool) or not hasattr(entry, "__index__"):
        raise IndexError(f"{entry!r} is no index: use integers, slices, ..., None, integer or bool arrays")
    else:
        numbers = Array([entry.__index__()], (), "int")
    length = lengths[0]
    for number in numbers.values:
        if not -length <= number < length:
            raise IndexError(f"index {number} is out of bounds for axis {axis} of length {length}")
    return Array([number % length for number in numbers.values], numbers.shape, "int")


def getitem(x: Array, key: Any) -> Array:
    """The elements of `x` that the key names."""
    indices, shape = positions(x.shape, key)
    values = x.values
    return Array([values[index] for index in indices], shape, x.kind)


def with_item(x: Array, key: Any, value: Any) -> Array:
    """A copy of `x` in which the elements that the key names are `value`."""
    indices, shape = positions(x.shape, key)
    given = broadcast_to(asarray(value, x.kind), shape)
    values = list(x.values)
    for index, number in zip(indices, given.values):
        values[index] = number
    return Array(values, x.shape, x.kind)


def scatter_add(shape: Shape, key: Any, values: Any) -> Array:
    """Zeros of `shape` with `values` added where the key points: twice where it points twice."""
    given = asarray(values)
    out = full(shape, 0, given.kind)
    for index, number in zip(positions(tuple(shape), key)[0], given.values):
        out.values[index] += number
    return out


def take_rows(table: Array, ids: Any) -> Array:
    """The rows of a table (V, ...) that integers of any shape name: ids (B, T) -> (B, T, ...)."""
    return getitem(table, asarray(ids, "int"))


def scatter_add_rows(n_rows: int, ids: Any, rows: Array) -> Array:
    """A table of `n_rows` rows, zero but for `rows` added where `ids` points: the transpose of a lookup."""
    ids = asarray(ids, "int")
    return scatter_add((n_rows,) + rows.shape[ids.ndim:], ids, rows)


def take(x: Array, indices: Any, axis: int) -> Array:
    """The slices of `x` along an axis that a list of integers names."""
    key: Tuple[Any, ...] = (slice(None),) * normal_axis(axis, x.ndim) + (asarray(indices, "int"),)
    return getitem(x, key)


def take_along_axis(x: Array, indices: Any, axis: int = -1) -> Array:
    """For every position, the element of its line along `axis` that `indices` names there."""
    indices, axis = asarray(indices, "int"), normal_axis(axis, x.ndim)
    if indices.ndim != x.ndim:
        raise ValueError(f"take_along_axis: indices of shape {indices.shape} for an array of shape {x.shape}")
    return getitem(x, _along(indices, axis))


def scatter_along_axis(shape: Shape, indices: Any, values: Array, axis: int = -1) -> Array:
    """Zeros of `shape` with `values` added where `take_along_axis` would have read."""
    return scatter_add(shape, _along(asarray(indices, "int"), normal_axis(axis, len(shape))), values)


def _along(indices: Array, axis: int) -> Tuple[Array, ...]:
    """A key of integer arrays: `indices` for the axis, each position's own index for the others."""
    return tuple(indices if other == axis else Array(
        [position for _ in range(prod(indices.shape[:other])) for position in range(length)
         for _ in range(prod(indices.shape[other + 1:]))], indices.shape, "int")
        for other, length in enumerate(indices.shape))
