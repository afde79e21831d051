"""Mask: who may look at whom. True means may look, everywhere in the package.

A mask is a type of its own and never a bare array, so that no convention can be taken for another:
not 0 for minus infinity, not "true is hidden", not a table whose axes are in another order.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

from tinyformer.arrays import xp
from tinyformer.autograd.operations.attention import causal_mask

AXES = ("the axes are rows of the batch, heads, queries (of each as many, or 1 for all alike) and, "
        "last, keys")


class Mask:
    """A table of bools: may query t look at key s?

    `allowed` is (T, S), the same for all, or (B, H, T, S) with 1 for B, H or T where one serves
    all. Made by `causal`, `padding` and `segments` and combined by `&`; printing it draws it.
    Raises ValueError for anything but bools in such a shape.
    """

    def __init__(self, allowed: Any) -> None:
        allowed = xp.asarray(allowed)
        if not xp.isdtype(allowed.dtype, "bool") or len(allowed.shape) not in (2, 4):
            raise ValueError("a mask is made of bools, true where a query may look, in the shape "
                             f"(T, S) or (B, H, T, S); this has dtype {allowed.dtype} and shape "
                             f"{tuple(allowed.shape)}")
        self.allowed = allowed

    @classmethod
    def causal(cls, queries: int, keys: Optional[int] = None) -> "Mask":
        """Each query sees the keys up to its own place; the last query stands at the last key.

        >>> print(Mask.causal(2, 3))
        x x .
        x x x
        """
        return cls(causal_mask(queries, queries if keys is None else keys))

    @classmethod
    def padding(cls, lengths: Sequence[int], width: int) -> "Mask":
        """(B, 1, 1, S): of row b, all may look at the first `lengths[b]` keys; the rest is padding.

        Raises ValueError for a length beyond the width.
        """
        if any(not 0 <= length <= width for length in lengths):
            raise ValueError(f"lengths {list(lengths)} must lie between 0 and the width {width}")
        ends = xp.reshape(xp.asarray(list(lengths), xp.int64), (len(lengths), 1, 1, 1))
        return cls(xp.arange(width) < ends)

    @classmethod
    def segments(cls, queries: Any, keys: Any = None) -> "Mask":
        """(B, 1, T, S): a query sees the keys of its own segment, and no other.

        `queries` (B, T) and `keys` (B, S), the same unless given, number the segments: sentences of
        a pair, or texts that share a row. Raises ValueError for another shape.

        >>> print(Mask.segments([[0, 0, 1]]))
        x x .
        x x .
        . . x
        """
        here = xp.asarray(queries)
        there = here if keys is None else xp.asarray(keys)
        if len(here.shape) != 2 or len(there.shape) != 2 or here.shape[0] != there.shape[0]:
            raise ValueError("segments are numbers in the shape (B, T), of the keys (B, S), not "
                             f"{tuple(here.shape)} and {tuple(there.shape)}")
        same = xp.expand_dims(here, axis=2) == xp.expand_dims(there, axis=1)
        return cls(xp.expand_dims(same, axis=1))

    @property
    def shape(self) -> Tuple[int, int, int, int]:
        """(B, H, T, S), with 1 where one serves all."""
        shape = tuple(self.allowed.shape)
        return shape if len(shape) == 4 else (1, 1) + shape

    def __and__(self, other: "Mask") -> "Mask":
        """Only what both allow. Raises ValueError for shapes that do not fit each other."""
        if not isinstance(other, Mask):
            raise TypeError(f"a Mask goes together with a Mask, not with {_kind(other)}: make it "
                            "one by Mask(...), true where a query may look")
        pairs = list(zip(self.shape, other.shape))
        if pairs[3][0] != pairs[3][1] or any(p != q and 1 not in (p, q) for p, q in pairs):
            raise ValueError(f"masks of shapes {self.shape} and {other.shape} do not fit: {AXES}")
        return Mask(xp.logical_and(self.allowed, other.allowed))

    def __str__(self) -> str:
        """One line per query, one column per key: x may look, . may not."""
        batch, heads, queries, keys = self.shape
        tables = xp.reshape(self.allowed, (batch * heads, queries, keys)).tolist()
        drawn = ["\n".join(" ".join("x" if seen else "." for seen in row) for row in table)
                 for table in tables]
        if len(drawn) == 1:
            return drawn[0]
        return "\n".join(f"row {index // heads}, head {index % heads}:\n{table}"
                         for index, table in enumerate(drawn))

    def __repr__(self) -> str:
        return f"Mask of shape {tuple(self.allowed.shape)}, x may look:\n{self}"


def allowed_by(mask: Optional[Mask], scores: Tuple[int, int, int, int]) -> Any:
    """The bools of a mask, for scores of the shape (B, H, T, S); None where there is no mask.

    Raises TypeError for what is no Mask, ValueError, with both shapes, for one that does not fit.
    A single column never stands for all keys: whoever hides a key hides it by its place.
    """
    if mask is None:
        return None
    if not isinstance(mask, Mask):
        raise TypeError(f"a mask must be a Mask, not {_kind(mask)}: make it one by Mask(...), true "
                        "where a query may look")
    *shared, keys = zip(mask.shape, scores)
    if keys[0] != keys[1] or any(have not in (1, want) for have, want in shared):
        raise ValueError(f"a mask of shape {tuple(mask.allowed.shape)} does not fit scores of "
                         f"shape (B, H, T, S) = {scores}: {AXES}")
    return mask.allowed


def _kind(thing: Any) -> str:
    return f"a {type(thing).__name__}"
