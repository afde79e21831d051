"""The block that a transformer repeats, and the stack of its repetitions."""

from __future__ import annotations

import math
from typing import Optional

from tinyformer.autograd import Tensor
from tinyformer.nn.attention import MultiHeadAttention
from tinyformer.nn.layers import Dropout, FeedForward, LayerNorm
from tinyformer.nn.masks import Mask
from tinyformer.nn.module import Module


class Block(Module):
    """Attention between positions, then a feed-forward map within each; both add to one stream.

        x = x + dropout(attention(norm(x)))
        x = x + dropout(feed_forward(norm(x)))

    The norm stands before each half (pre-norm, as in GPT-2): the way from the last block to the
    first is then a plain sum, and deep stacks train without a warm-up.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1,
                 std: float = 0.02, out_std: float = 0.02) -> None:
        self.attention_norm = LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, n_heads, dropout, std, out_std)
        self.feed_forward_norm = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff, std, out_std)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Optional[Mask] = None) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        x = x + self.dropout(self.attention(self.attention_norm(x), mask=mask))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class Stack(Module):
    """N blocks one after the other, and the norm that pre-norm blocks leave to the end.

    The projections that write into the residual stream begin smaller, by 1/sqrt(2 N), so that the
    sum of all 2 N of them has the size of one (Radford et al., 2019, section 2.3).
    """

    def __init__(self, n_layers: int, d_model: int, n_heads: int, d_ff: int,
                 dropout: float = 0.1, std: float = 0.02) -> None:
        out_std = std / math.sqrt(2 * max(n_layers, 1))
        self.blocks = [Block(d_model, n_heads, d_ff, dropout, std, out_std)
                       for _ in range(n_layers)]
        self.norm = LayerNorm(d_model)

    def forward(self, x: Tensor, mask: Optional[Mask] = None) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)
