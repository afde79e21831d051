"""Reading and scattering by index, after NumPy's rules.

A key gives each axis of the selection its offsets into the flat list; the sum of one offset per
axis is the position of an element. Slices and integers give equally spaced offsets, so their
selection is a view. Reading picks the positions; its transpose, which every gradient of an index
needs, adds into them.
"""

from __future__ import annotations

from math import prod

from tinyformer.arrays.pure.array import (Array, Shape, as_shape, asarray, full, is_foreign,
                                          mixed_backends)
from tinyformer.arrays.pure.layout import (broadcast_shapes, broadcast_to, expand, gather,
                                           normal_axis)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Sequence, Tuple
    Group = Tuple[Sequence[int], Shape]  # offsets into the flat list; the axes that they make


def groups_of(shape: Shape, key: Any) -> List[Group]:
    """The offsets that `key` names in an array of `shape`, in the order of the selection's axes.

    Integers, slices, None and one Ellipsis as usual; integer arrays or lists broadcast together,
    bool arrays stand for the integers of their true elements. As in NumPy the axes of index arrays
    come first when anything separates them. Raises IndexError.
    """
    groups: List[Group] = []
    fancy: List[Group] = []
    places: List[int] = []
    for place, (entry, axis, lengths) in enumerate(_assigned(shape, key)):
        stride = prod(shape[axis + len(lengths):]) or 1
        if entry is None:
            groups.append((range(1), (1,)))
        elif entry is Ellipsis:
            groups.append((range(0, prod(lengths) * stride, stride), lengths))
        elif isinstance(entry, slice):
            steps = range(lengths[0])[entry]
            offsets = range(steps.start * stride, steps.stop * stride, steps.step * stride)
            groups.append((offsets, (len(steps),)))
        else:
            numbers = _numbers(entry, axis, lengths)
            fancy.append(([number * stride for number in numbers.values], numbers.shape))
            places.append(place)
    if all(not lengths for _, lengths in fancy):        # plain integers: one offset each, no axis
        return groups + [(range(offset, offset + 1), ()) for (offset,), _ in fancy]
    adjacent = places[-1] - places[0] == len(places) - 1
    groups.insert(places[0] if adjacent else 0, _together(fancy))
    return groups


def _together(fancy: List[Group]) -> Group:
    """Index arrays broadcast to one shape: the sums of their offsets."""
    whole: Shape = ()
    for _, lengths in fancy:
        try:
            whole = broadcast_shapes("index arrays", whole, lengths)
        except ValueError as error:
            raise IndexError(str(error)) from None
    columns = [expand(list(offsets), lengths, whole) for offsets, lengths in fancy]
    return list(map(sum, zip(*columns))), whole


def _assigned(shape: Shape, key: Any) -> List[Tuple[Any, int, Shape]]:
    """Each entry of a key, the axis where it begins and the lengths of the axes that it uses."""
    entries = [_entry(entry) for entry in (key if isinstance(key, tuple) else (key,))]
    ellipses = sum(entry is Ellipsis for entry in entries)
    if ellipses > 1:
        raise IndexError("an index can have only one ellipsis (...)")
    widths = [0 if entry is None or entry is Ellipsis else entry.ndim if _is_mask(entry) else 1
              for entry in entries]
    left = len(shape) - sum(widths)
    if left < 0:
        raise IndexError(f"too many indices: {sum(widths)} for an array of shape {shape}")
    if not ellipses:
        entries.append(Ellipsis)
        widths.append(0)
    assigned: List[Tuple[Any, int, Shape]] = []
    axis = 0
    for entry, width in zip(entries, widths):
        width = left if entry is Ellipsis else width
        assigned.append((entry, axis, shape[axis:axis + width]))
        axis += width
    return assigned


def _entry(entry: Any) -> Any:
    """An entry of a key, integers, sequences and bools made into arrays; or IndexError."""
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return entry
    if isinstance(entry, (bool, list, tuple, range)):
        entry = asarray(entry, None if entry or isinstance(entry, bool) else "int")
    if isinstance(entry, Array):
        if entry.kind not in ("int", "bool"):
            raise IndexError(f"an index array must hold int or bool, not {entry.kind}")
        return entry
    if is_foreign(entry):
        raise mixed_backends("numpy", "python")
    if not hasattr(entry, "__index__"):
        raise IndexError(f"{entry!r} is no index: use integers, slices, ..., None, integer or bool "
                         "arrays")
    return Array([entry.__index__()], (), "int")


def _is_mask(entry: Any) -> bool:
    return isinstance(entry, Array) and entry.kind == "bool"


def _numbers(entry: Array, axis: int, lengths: Shape) -> Array:
    """An integer array or a mask as an array of valid positions counted from the front."""
    if not _is_mask(entry):
        return Array(_within(entry.values, lengths[0], axis), entry.shape, "int")
    if entry.shape != lengths:
        raise IndexError(f"a bool index of shape {entry.shape} does not match axes of {lengths}")
    found = [position for position, true in enumerate(entry.values) if true]
    return Array(found, (len(found),), "int")


def _within(numbers: List[int], length: int, axis: int) -> List[int]:
    """Indices counted from the front of an axis; IndexError for one beyond its length."""
    if numbers and (min(numbers) < -length or max(numbers) >= length):
        wrong = next(number for number in numbers if not -length <= number < length)
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} of length {length}")
    return [number % length for number in numbers]


def _shape_of(groups: List[Group]) -> Shape:
    return tuple(length for _, lengths in groups for length in lengths)


def _positions(groups: List[Group]) -> List[int]:
    """The flat positions of a selection, in its row-major order."""
    positions = [0]
    for offsets, _ in groups:
        positions = [position + offset for position in positions for offset in offsets]
    return positions


def getitem(x: Array, key: Any) -> Array:
    """The elements of `x` that the key names."""
    if type(key) is slice and x.shape and (key.step is None or key.step == 1):  # rows as they lie
        start, stop, _ = key.indices(x.shape[0])
        width, stop = prod(x.shape[1:]), max(start, stop)
        return Array(x.values[start * width:stop * width], (stop - start,) + x.shape[1:], x.kind)
    groups = groups_of(x.shape, key)
    shape = _shape_of(groups)
    ranges = [offsets for offsets, _ in groups if isinstance(offsets, range)]
    if len(ranges) == len(groups) and 0 not in shape:
        axes = [offsets for offsets in ranges if len(offsets) > 1]
        values = gather(x.values, sum(offsets[0] for offsets in ranges),
                        tuple(len(offsets) for offsets in axes),
                        tuple(offsets.step for offsets in axes))
    else:
        values = [x.values[position] for position in _positions(groups)]
    return Array(values, shape, x.kind)


setattr(Array, "__getitem__", getitem)


def _stretched(values: Any, shape: Shape, kind: Any = None) -> Array:
    """The values for a selection of `shape`, to which they must broadcast."""
    given = asarray(values, kind)
    while given.ndim > len(shape) and given.shape[0] == 1:
        given = Array(given.values, given.shape[1:], given.kind)
    return broadcast_to(given, shape)


def with_item(x: Any, key: Any, value: Any) -> Array:
    """A copy of `x` in which the elements that the key names are `value`."""
    x = asarray(x)
    groups = groups_of(x.shape, key)
    given = _stretched(value, _shape_of(groups), x.kind)
    values = list(x.values)
    for position, number in zip(_positions(groups), given.values):
        values[position] = number
    return Array(values, x.shape, x.kind)


def scatter_add(shape: Any, key: Any, values: Any) -> Array:
    """Zeros of `shape` with `values` added where the key points: twice where it points twice."""
    groups = groups_of(as_shape(shape), key)
    given = _stretched(values, _shape_of(groups))
    return _summed(shape, _positions(groups), given)


def _summed(shape: Any, positions: List[int], given: Array) -> Array:
    """Zeros of `shape` with the numbers of `given` added at their positions."""
    out = full(shape, 0, given.kind)
    total = out.values
    for position, number in zip(positions, given.values):
        total[position] += number
    return out


def _integers(name: str, indices: Any) -> Array:
    """Indices as an int array; IndexError for what holds other numbers."""
    array = asarray(indices)
    if array.kind != "int" and (array.size or isinstance(indices, Array)):
        raise IndexError(f"{name}: the indices must be ints, not {array.kind}")
    return Array(array.values, array.shape, "int")


def take(x: Any, indices: Any, axis: int) -> Array:
    """The slices of `x` along an axis that integers name; their axes stand in its place."""
    x, indices = asarray(x), _integers("take", indices)
    return getitem(x, (slice(None),) * normal_axis(axis, x.ndim) + (indices,))


def take_rows(table: Any, ids: Any) -> Array:
    """The rows of a table (V, ...) that integers of any shape name: ids (B, T) -> (B, T, ...)."""
    return take(table, ids, axis=0)


def scatter_add_rows(n_rows: int, ids: Any, rows: Any) -> Array:
    """A table of `n_rows` rows, zero but for `rows` added where `ids` points: a lookup transposed.

    ids (B, T), rows (B, T, ...) -> (n_rows, ...). Raises IndexError for an id beyond the table.
    """
    ids, rows = _integers("scatter_add_rows", ids), asarray(rows)
    if rows.shape[:ids.ndim] != ids.shape or rows.kind == "bool":
        raise (TypeError if rows.kind == "bool" else ValueError)(
            f"scatter_add_rows: ids {ids.shape} do not fit {rows.kind} rows {rows.shape}")
    return scatter_add((n_rows,) + rows.shape[ids.ndim:], ids, rows)


def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Array:
    """For every position, the element of its line along `axis` that `indices` names there.

    The other axes of `x` and of `indices` broadcast together; IndexError where they do not.
    """
    x, indices, axis = asarray(x), _integers("take_along_axis", indices), normal_axis(axis, x.ndim)
    positions, lines, chosen = _along(x.shape, indices, axis)
    values = broadcast_to(x, lines).values
    return Array([values[position] for position in positions], chosen, x.kind)


def scatter_along_axis(shape: Any, indices: Any, values: Any, axis: int = -1) -> Array:
    """Zeros of `shape` with `values` added where `take_along_axis` would have read."""
    shape, indices = as_shape(shape), _integers("scatter_along_axis", indices)
    positions, lines, chosen = _along(shape, indices, normal_axis(axis, len(shape)))
    if lines != shape:
        raise IndexError(f"scatter_along_axis: indices {indices.shape} do not fit the shape "
                         f"{shape}")
    return _summed(shape, positions, _stretched(values, chosen))


def _along(shape: Shape, indices: Array, axis: int) -> Tuple[List[int], Shape, Shape]:
    """The flat positions that `indices` name along an axis, and two shapes.

    The first is `shape` with its other axes broadcast against those of `indices`: the positions are
    those of an array of that shape. The second is the shape of the selection.
    """
    if indices.ndim != len(shape):
        raise ValueError(f"indices of shape {indices.shape} name nothing along an axis of shape "
                         f"{shape}: they need as many axes")
    length, count = shape[axis], indices.shape[axis]
    try:
        lines = broadcast_shapes("indices along an axis", shape[:axis] + (1,) + shape[axis + 1:],
                                 indices.shape[:axis] + (1,) + indices.shape[axis + 1:])
    except ValueError as error:
        raise IndexError(str(error)) from None
    chosen = lines[:axis] + (count,) + lines[axis + 1:]
    inner = prod(lines[axis + 1:])
    block = count * inner                       # positions within one element of the axes before
    numbers = _within(expand(indices.values, indices.shape, chosen), length, axis)
    positions = [(place // block * length + number) * inner + place % inner
                 for place, number in enumerate(numbers)]
    return positions, lines[:axis] + (length,) + lines[axis + 1:], chosen
