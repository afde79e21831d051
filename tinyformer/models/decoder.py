"""The decoder-only language model: each position predicts the token that follows it (GPT)."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

from tinyformer import functional as F
from tinyformer.arrays import xp
from tinyformer.autograd import Tensor
from tinyformer.models.config import Config
from tinyformer.nn import Dropout, Embedding, Learned, Linear, Mask, Module, Stack


@dataclasses.dataclass(frozen=True)
class DecoderConfig(Config):
    """The sizes of a decoder-only model; `d_ff` is 4 d_model unless given.

    Raises ValueError for sizes that are not whole numbers of at least 1, heads that do not divide
    d_model, and a dropout outside [0, 1).
    """

    vocab_size: int
    max_len: int
    d_model: int = 64
    n_layers: int = 2
    n_heads: int = 4
    d_ff: Optional[int] = None
    dropout: float = 0.1
    tie_weights: bool = True

    def __post_init__(self) -> None:
        self.at_least_one("vocab_size", "max_len", "d_model", "n_layers", "n_heads")
        if self.d_ff is None:
            object.__setattr__(self, "d_ff", 4 * self.d_model)
        self.at_least_one("d_ff")
        if self.d_model % self.n_heads:
            raise ValueError(f"d_model={self.d_model} cannot be shared by n_heads={self.n_heads}: "
                             "it must be a multiple")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), not {self.dropout}")


class DecoderModel(Module):
    """Token and position vectors, a stack of causal blocks, and a score for every token there is.

    With `tie_weights` the scores are products with the token vectors themselves (Press and Wolf,
    2017). All weights begin as N(0, 0.02^2), those into the residual stream smaller, so that an
    untrained model is undecided: its loss is about ln V.
    """

    def __init__(self, config: DecoderConfig) -> None:
        self.config = config
        self.tokens = Embedding(config.vocab_size, config.d_model, std=0.02)
        self.positions = Learned(config.max_len, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.stack = Stack(config.n_layers, config.d_model, config.n_heads, config.d_ff or 0,
                           config.dropout)
        self.output = None if config.tie_weights else Linear(config.d_model, config.vocab_size,
                                                             bias=False, std=0.02)

    def forward(self, ids: Any, mask: Optional[Mask] = None) -> Tensor:
        """The scores of the next token at every position: ids (B, T) -> logits (B, T, V).

        Each position sees itself and those before it; `mask` takes more away. Raises ValueError for
        more positions than max_len, IndexError for an id outside the vocabulary.
        """
        ids = ids.data if isinstance(ids, Tensor) else xp.asarray(ids)
        if len(ids.shape) != 2 or not ids.size:
            raise ValueError("ids must have the shape (B, T), one row per sequence, at least one "
                             f"token each, not {tuple(ids.shape)}")
        length = ids.shape[1]
        causal = Mask.causal(length)
        x = self.positions.at_input(self.tokens(ids), xp.arange(length))
        x = self.stack(self.dropout(x), causal if mask is None else causal & mask)
        return F.linear(x, self.tokens.weight) if self.output is None else self.output(x)
