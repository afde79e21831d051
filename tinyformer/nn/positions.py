"""Where a token stands. Attention alone cannot tell: a sum of weighted values knows no order.

A scheme receives absolute positions, never lengths, so that it comes out right wherever a piece of
text begins. `max_len` is the number of positions that it knows, or None where it sets no limit.
"""

from __future__ import annotations

from typing import Any, Optional

from tinyformer.arrays import xp
from tinyformer.autograd import Tensor
from tinyformer.nn.layers import Embedding
from tinyformer.nn.module import Module


class Learned(Module):
    """One trained vector per position, added to the token's: 512 vectors, and there is no 513th."""

    def __init__(self, max_len: int, d_model: int, std: float = 0.02) -> None:
        self.table = Embedding(max_len, d_model, std)

    @property
    def max_len(self) -> Optional[int]:
        """The number of positions that have a vector."""
        return self.table.weight.shape[0]

    def at_input(self, x: Tensor, positions: Any) -> Tensor:
        """x (B, T, D) plus the vectors of positions (T,) or (B, T).

        Raises ValueError, with both numbers, for a position beyond the table.
        """
        limit = self.table.weight.shape[0]
        last = int(xp.max(positions)) if positions.size else 0
        if last >= limit:
            raise ValueError(f"{last + 1} positions are asked for, but learned positions reach "
                             f"only max_len={limit}: give a shorter sequence, or make a model "
                             "with a larger max_len")
        return x + self.table(positions)
