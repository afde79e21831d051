"""Mask: who may look at whom. True means may look, everywhere in the package."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from tinyformer.arrays import xp
from tinyformer.autograd.operations.attention import causal_mask


class Mask:
    """A table of bools that broadcasts to (B, H, T, S): may query t look at key s?

    Made by `causal` and `padding` and combined by `&`; printing it draws it.
    """

    def __init__(self, allowed: Any) -> None:
        allowed = xp.asarray(allowed)
        if not xp.isdtype(allowed.dtype, "bool") or not 2 <= len(allowed.shape) <= 4:
            raise ValueError(f"a mask is a bool array that broadcasts to (B, H, T, S), true where a query may "
                             f"look; this one has dtype {allowed.dtype} and shape {tuple(allowed.shape)}")
        self.allowed = allowed

    @classmethod
    def causal(cls, queries: int, keys: Optional[int] = None) -> "Mask":
        """Each query sees the keys up to its own place; the last query is aligned with the last key.

        >>> print(Mask.causal(2, 3))
        x x .
        x x x
        """
        return cls(causal_mask(queries, queries if keys is None else keys))

    @classmethod
    def padding(cls, lengths: Sequence[int], width: int) -> "Mask":
        """(B, 1, 1, S): of row b, all may look at the first `lengths[b]` keys; the rest is padding."""
        if any(not 0 <= length <= width for length in lengths):
            raise ValueError(f"lengths {list(lengths)} must lie between 0 and the width {width}")
        ends = xp.reshape(xp.asarray(list(lengths), xp.int64), (len(lengths), 1, 1, 1))
        return cls(xp.arange(width) < ends)

    def __and__(self, other: "Mask") -> "Mask":
        """Only what both allow."""
        return Mask(xp.logical_and(self.allowed, other.allowed))

    def __repr__(self) -> str:
        table = self.allowed.tolist()
        for _ in range(len(self.allowed.shape) - 2):
            table = table[0]
        return "\n".join(" ".join("x" if seen else "." for seen in row) for row in table)
