"""The decoder-only language model: each position predicts the token that follows it (GPT)."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

from tinyformer import functional as F
from tinyformer.autograd import Tensor
from tinyformer.models.config import TransformerConfig
from tinyformer.models.inputs import as_ids, both, key_mask, placed
from tinyformer.nn import Cache, Decoder, Dropout, Embedding, Linear, Mask, Module


@dataclasses.dataclass(frozen=True)
class DecoderConfig(TransformerConfig):
    """The sizes of a decoder-only model. With `tie_weights` the scores of the tokens are products
    with the token vectors themselves (Press and Wolf, 2017)."""

    tie_weights: bool = True


class DecoderModel(Module):
    """Token and position vectors, a stack of causal blocks, and a score for every token there is.

    All weights begin as N(0, std^2), those into the residual stream smaller, so that an untrained
    model is undecided: its loss is about ln V.
    """

    def __init__(self, config: DecoderConfig) -> None:
        self.config = config
        self.tokens = Embedding(config.vocab_size, config.d_model, std=config.std)
        self.positions = config.input_positions()
        self.dropout = Dropout(config.dropout)
        self.stack = Decoder(config.n_layers, config.d_model, config.n_heads, config.d_ff or 0,
                             config.dropout, config.std,
                             position=config.attention_positions(causal=True),
                             **config.block_options())
        self.output = None if config.tie_weights else Linear(config.d_model, config.vocab_size,
                                                             bias=False, std=config.std)

    def forward(self, ids: Any, mask: Optional[Mask] = None, *, seen: Any = None,
                cache: Optional[Cache] = None) -> Tensor:
        """The scores of the next token at every position: ids (B, T) -> logits (B, T, V).

        Each position sees itself and those before it; `mask` takes more away. `seen` (B, T), bools,
        is false for padding, on either side. With a `cache`, ids are the tokens behind those that
        it remembers. Raises ValueError for more positions than the scheme has, IndexError for an
        id outside the vocabulary.
        """
        ids = as_ids(ids)
        return self.scores(self.tokens(ids), mask, seen=seen, cache=cache)

    def scores(self, vectors: Tensor, mask: Optional[Mask] = None, *, seen: Any = None,
               cache: Optional[Cache] = None) -> Tensor:
        """The same from the vectors of the tokens (B, T, D)."""
        positions, places, seen = placed(vectors.shape[:2], seen, cache)
        x = self.dropout(self.positions.at_input(vectors, positions))
        x = self.stack(x, both(key_mask(seen), mask), places=places, cache=cache)
        return F.linear(x, self.tokens.weight) if self.output is None else self.output(x)
