"""Multi-head attention: the only place of a transformer where positions exchange anything."""

from __future__ import annotations

from typing import Optional

from tinyformer import functional as F
from tinyformer.autograd import Tensor
from tinyformer.autograd.operations.dropout import check_probability
from tinyformer.nn.layers import Linear
from tinyformer.nn.masks import Mask, allowed_by
from tinyformer.nn.module import Module


class MultiHeadAttention(Module):
    """H attentions side by side, each with its own projections (Vaswani et al., 2017, 3.2.2).

    head_h = attention(x Wq_h, memory Wk_h, memory Wv_h), each of width K = D / H; the heads are
    joined and mixed by a last projection. The H projections of one kind are one matrix, sliced.
    `dropout` falls on the weights of the attention. `out_std` is the std of the first weights of
    the last projection, `std` of the others. Raises ValueError where H does not divide D.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0, std: float = 0.02,
                 out_std: float = 0.02) -> None:
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(f"d_model={d_model} cannot be shared by n_heads={n_heads}: it must be "
                             "a multiple")
        check_probability(dropout)
        self.n_heads = n_heads
        self.dropout = dropout
        self.query = Linear(d_model, d_model, std=std)
        self.key = Linear(d_model, d_model, std=std)
        self.value = Linear(d_model, d_model, std=std)
        self.output = Linear(d_model, d_model, std=out_std)

    def forward(self, x: Tensor, memory: Optional[Tensor] = None,
                mask: Optional[Mask] = None) -> Tensor:
        """x (B, T, D) looks at memory (B, S, D), or at itself: -> (B, T, D). No mask: all see all.

        Raises ValueError for other shapes and for a mask that does not fit them.
        """
        memory = x if memory is None else memory
        if x.ndim != 3 or memory.ndim != 3 or x.shape[0] != memory.shape[0]:
            raise ValueError("attention leads from x (B, T, D) to memory (B, S, D), not from "
                             f"{x.shape} to {memory.shape}")
        batch, queries, _ = x.shape
        allowed = allowed_by(mask, (batch, self.n_heads, queries, memory.shape[1]))
        mixed = F.scaled_dot_product_attention(
            self._heads(self.query(x)), self._heads(self.key(memory)),
            self._heads(self.value(memory)), attn_mask=allowed,
            dropout_p=self.dropout if self.training else 0.0)
        return self.output(mixed.transpose(1, 2).reshape(x.shape))

    def _heads(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, H, T, K)."""
        batch, length, width = x.shape
        return x.reshape(batch, length, self.n_heads, width // self.n_heads).transpose(1, 2)

    def extra_repr(self) -> str:
        """The number of heads and the dropout on the weights."""
        return f"n_heads={self.n_heads}, dropout={self.dropout}"
