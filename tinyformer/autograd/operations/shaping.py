"""The same elements elsewhere. On the way back every element returns to where it came from."""

from __future__ import annotations

from tinyformer.arrays import xp
from tinyformer.autograd.operations.operands import as_tensor
from tinyformer.autograd.tensor import Tensor, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Sequence, Tuple


def reshape(x: Tensor, shape: Any) -> Tensor:
    """The same elements in the same order under another shape; one length may be -1."""
    former = x.data.shape
    return record("reshape", xp.reshape(x.data, shape), (x, lambda g: xp.reshape(g, former)),
                  shares=x)


def permute(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Axis `axes[i]` becomes axis i; the gradient takes the inverse permutation."""
    order = [axis % x.ndim if -x.ndim <= axis < x.ndim else axis for axis in axes]
    y = xp.permute_dims(x.data, tuple(order))
    back = tuple(order.index(axis) for axis in range(x.ndim))
    return record("permute", y, (x, lambda g: xp.permute_dims(g, back)), shares=x)


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Vectors cut into H heads, which come before the positions: (B, T, H K) -> (B, H, T, K)."""
    batch, length, width = whole = x.data.shape
    heads = (batch, length, n_heads, width // n_heads)
    y = xp.permute_dims(xp.reshape(x.data, heads), (0, 2, 1, 3))
    return record("split_heads", y, (
        x, lambda g: xp.reshape(xp.permute_dims(g, (0, 2, 1, 3)), whole)), shares=x)


def join_heads(x: Tensor) -> Tensor:
    """The way back from `split_heads`: (B, H, T, K) -> (B, T, H K)."""
    batch, n_heads, length, width = x.data.shape
    heads = (batch, length, n_heads, width)
    y = xp.reshape(xp.permute_dims(x.data, (0, 2, 1, 3)), (batch, length, n_heads * width))
    return record("join_heads", y, (
        x, lambda g: xp.permute_dims(xp.reshape(g, heads), (0, 2, 1, 3))), shares=x)


def raw_key(key: Any) -> Any:
    """An index whose tensors are the arrays that they hold, and whose lists are copies."""
    if isinstance(key, (tuple, list)):
        return type(key)(raw_key(part) for part in key)
    return key.data if isinstance(key, Tensor) else key


def getitem(x: Tensor, key: Any) -> Tensor:
    """The elements that an index names. An element that is named twice receives both gradients."""
    places = raw_key(key)
    shape = x.data.shape
    named = [(part, None) for part in (key if isinstance(key, tuple) else (key,))
             if isinstance(part, Tensor)]
    return record("getitem", x.data[places], *named,
                  (x, lambda g: xp.scatter_add(shape, places, g)), shares=x)


def concat(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """The tensors one after the other along an axis. Each gradient is its own stretch of g."""
    parts = [as_tensor(each) for each in tensors]
    for part in parts:
        if not _joins(part.shape, parts[0].shape, axis):
            raise ValueError(f"concat: shapes {parts[0].shape} and {part.shape} do not fit: all "
                             f"lengths but that of axis {axis} must be equal")
    whole = xp.concat([part.data for part in parts], axis=axis)
    axis %= whole.ndim
    front = (slice(None),) * axis
    edges: List[Any] = []
    start = 0
    for part in parts:
        stop = start + part.shape[axis]
        edges.append((part, lambda g, piece=slice(start, stop): g[front + (piece,)]))
        start = stop
    return record("concat", whole, *edges)


def _joins(one: Tuple[int, ...], other: Tuple[int, ...], axis: int) -> bool:
    """Whether two shapes are equal but along one axis; an axis that is none is left to others."""
    if len(one) != len(other) or not one:
        return len(one) == len(other)
    return all(p == q for place, (p, q) in enumerate(zip(one, other)) if place != axis % len(one))


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors of one shape side by side along a new axis. Each gradient is its own slice of g."""
    parts = [as_tensor(each) for each in tensors]
    for part in parts:
        if part.shape != parts[0].shape:
            raise ValueError(f"stack: shapes {parts[0].shape} and {part.shape} differ; all must be "
                             "equal")
    whole = xp.stack([part.data for part in parts], axis=axis)
    front = (slice(None),) * (axis % whole.ndim)
    return record("stack", whole, *[(part, lambda g, place=place: g[front + (place,)])
                                    for place, part in enumerate(parts)])


def embedding(ids: Any, weight: Tensor) -> Tensor:
    """The rows of a table that ids name: ids (...), weight (V, D) -> (..., D).

    In algebra the one-hot matrix S of the ids times the table, X = S E, so that dL/dE = S^T G: the
    rows of G summed into the rows of E that they were copied from. No one-hot matrix is ever made.
    Raises IndexError naming the id, its position and V; TypeError for ids that are not integers.
    """
    ids, weight = as_tensor(ids), as_tensor(weight)
    integers = ids.data
    if not xp.isdtype(integers.dtype, "integral") and integers.size:
        raise TypeError(f"embedding: ids must be integers, not {ids.dtype}")
    table = weight.data
    check_ids(integers, table.shape[0])
    return record("embedding", xp.take_rows(table, integers), (ids, None),
                  (weight, lambda g: xp.scatter_add_rows(table.shape[0], integers, g)))


def check_ids(integers: Any, vocab_size: int) -> None:
    """IndexError for the first id that is not one of 0 ... vocab_size - 1."""
    if not integers.size or 0 <= xp.min(integers) and xp.max(integers) < vocab_size:
        return
    flat = xp.reshape(integers, (-1,)).tolist()
    place = next(index for index, each in enumerate(flat) if not 0 <= each < vocab_size)
    position, rest = [], place
    for length in reversed(integers.shape):
        position.append(rest % length)
        rest //= length
    raise IndexError(f"id {flat[place]} at position {tuple(reversed(position))} of ids of shape "
                     f"{tuple(integers.shape)} is outside the vocabulary of {vocab_size}: ids run "
                     f"from 0 to {vocab_size - 1}")
