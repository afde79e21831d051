"""What all models do with what they are given: ids to arrays, padding to positions and masks."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from tinyformer.arrays import xp
from tinyformer.autograd import Tensor
from tinyformer.nn import Cache, Mask, Places


def as_ids(ids: Any) -> Any:
    """Ids (B, T) as an array of integers. Raises ValueError for another shape."""
    ids = ids.data if isinstance(ids, Tensor) else xp.asarray(ids)
    if len(ids.shape) != 2 or not ids.size:
        raise ValueError("ids must have the shape (B, T), one row per sequence, at least one "
                         f"token each, not {tuple(ids.shape)}")
    return ids


def seen_from_lengths(lengths: Optional[Sequence[int]], width: int) -> Any:
    """(B, width), true for the first `lengths[b]` tokens of row b; None where there are no lengths.

    Raises ValueError for a length beyond the width.
    """
    if lengths is None:
        return None
    return xp.reshape(Mask.padding(list(lengths), width).allowed, (len(lengths), width))


def placed(shape: Tuple[int, ...], seen: Any, cache: Optional[Cache]) -> Tuple[Any, Places, Any]:
    """Where new tokens (B, T) stand: their positions, those of queries and keys, who is no padding.

    `seen` (B, T) is true for tokens that are no padding; positions count those alone, so that a
    text stands at 0, 1, ... behind padding on the left as well. With a cache, the tokens go on
    behind those that it remembers.
    """
    rows, width = shape
    if seen is not None:
        seen = xp.asarray(seen)
        if not xp.isdtype(seen.dtype, "bool") or tuple(seen.shape) != tuple(shape):
            raise ValueError(f"of tokens of shape {tuple(shape)}, bools of that shape say which "
                             "are no padding (one length per row where lengths are given), not "
                             f"{seen.dtype} of shape {tuple(seen.shape)}")
    past = 0 if cache is None else len(cache)
    known = None if cache is None else cache.seen
    if seen is None and known is None:
        positions = xp.reshape(xp.arange(past, past + width), (1, width))
    else:
        before = [past] * rows if known is None else [sum(row) for row in known.tolist()]
        new = [[True] * width] * rows if seen is None else seen.tolist()
        positions = xp.asarray([_counted(start, row) for start, row in zip(before, new)], xp.int64)
    if cache is None:
        return positions, Places(positions, positions), seen
    if cache.positions is not None and cache.positions.shape[0] != positions.shape[0]:
        widest = max(cache.positions.shape[0], positions.shape[0])
        cache.positions = xp.broadcast_to(cache.positions, (widest, past))
        positions = xp.broadcast_to(positions, (widest, width))
    every, seen = cache.follow(positions, seen)
    return positions, Places(positions, every), seen


def _counted(start: int, row: List[bool]) -> List[int]:
    """The position of each token; padding takes the place of the token before it."""
    places, at = [], start
    for real in row:
        places.append(max(at - (0 if real else 1), 0))
        at += real
    return places


def key_mask(seen: Any) -> Optional[Mask]:
    """The mask (B, 1, 1, S) that hides padding from all queries; None where there is none."""
    if seen is None:
        return None
    return Mask(xp.reshape(seen, (seen.shape[0], 1, 1, seen.shape[1])))


def both(one: Optional[Mask], other: Optional[Mask]) -> Optional[Mask]:
    """What two masks allow together, either of which may be None."""
    if one is None or other is None:
        return one or other
    return one & other
