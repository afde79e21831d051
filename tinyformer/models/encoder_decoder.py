"""The encoder-decoder: one text read as a whole, another written with an eye on it (Vaswani, 2017).

The decoder has a third part that the lecture leaves out: between its self-attention and its
feed-forward map, every position looks at all of the encoder's.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, Sequence

from tinyformer import functional as F
from tinyformer.autograd import Tensor
from tinyformer.models.config import TransformerConfig
from tinyformer.models.inputs import as_ids, key_mask, placed, seen_from_lengths
from tinyformer.nn import Cache, Decoder, Dropout, Embedding, Encoder, Linear, Module
from tinyformer.nn.block import check_options


@dataclasses.dataclass(frozen=True)
class EncoderDecoderConfig(TransformerConfig):
    """The sizes of an encoder-decoder. `n_decoder_layers` is n_layers unless given. With a
    `target_vocab_size` the two languages have tables of their own; without one they share theirs.
    With `tie_weights` the target's table gives the scores as well."""

    n_decoder_layers: Optional[int] = None
    target_vocab_size: Optional[int] = None
    tie_weights: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_decoder_layers is None:
            object.__setattr__(self, "n_decoder_layers", self.n_layers)
        self.whole("n_decoder_layers", *(["target_vocab_size"] if self.target_vocab_size
                                         is not None else []))
        check_options(self.norm, self.order, self.norm_kind, self.activation, cross_attention=True)


class EncoderDecoderModel(Module):
    """source ids (B, S), target ids (B, T) -> the scores of each next target token (B, T, V)."""

    def __init__(self, config: EncoderDecoderConfig) -> None:
        self.config = config
        sizes = config.d_model, config.n_heads, config.d_ff or 0, config.dropout, config.std
        self.tokens = Embedding(config.vocab_size, config.d_model, std=config.std)
        self.target_tokens = self.tokens if config.target_vocab_size is None else Embedding(
            config.target_vocab_size, config.d_model, std=config.std)
        self.positions = config.input_positions()
        self.dropout = Dropout(config.dropout)
        options = config.block_options()
        self.encoder = Encoder(config.n_layers, *sizes,
                               position=config.attention_positions(causal=False), **options)
        self.decoder = Decoder(config.n_decoder_layers or 0, *sizes, cross_attention=True,
                               position=config.attention_positions(causal=True), **options)
        self.output = None if config.tie_weights else Linear(
            config.d_model, config.target_vocab_size or config.vocab_size, bias=False,
            std=config.std)

    def forward(self, source: Any, target: Any, source_lengths: Optional[Sequence[int]] = None,
                target_lengths: Optional[Sequence[int]] = None) -> Tensor:
        """Of row b, the first `source_lengths[b]` and `target_lengths[b]` tokens are real.

        Target position t sees the source, and the target up to t. Raises ValueError for more
        positions than the scheme has, IndexError for an id outside its vocabulary.
        """
        target = as_ids(target)
        memory = self.encode(source, source_lengths)
        return self.decode(target, memory, source_lengths,
                           seen=seen_from_lengths(target_lengths, target.shape[1]))

    def encode(self, source: Any, lengths: Optional[Sequence[int]] = None) -> Tensor:
        """The memory (B, S, D) of source ids (B, S)."""
        return self.encoded(self.tokens(as_ids(source)), lengths)

    def encoded(self, vectors: Tensor, lengths: Optional[Sequence[int]] = None) -> Tensor:
        """The same from the vectors of the tokens (B, S, D)."""
        shape = vectors.shape[:2]
        positions, places, seen = placed(shape, seen_from_lengths(lengths, shape[1]), None)
        x = self.dropout(self.positions.at_input(vectors, positions))
        return self.encoder(x, key_mask(seen), places=places)

    def decode(self, target: Any, memory: Tensor, source_lengths: Optional[Sequence[int]] = None,
               *, seen: Any = None, cache: Optional[Cache] = None) -> Tensor:
        """The scores (B, T, V) behind target ids (B, T), given the memory of the source.

        `seen` (B, T) is false for padding. With a cache, the ids are those behind what it
        remembers.
        """
        return self.decoded(self.target_tokens(as_ids(target)), memory, source_lengths, seen=seen,
                            cache=cache)

    def decoded(self, vectors: Tensor, memory: Tensor,
                source_lengths: Optional[Sequence[int]] = None, *, seen: Any = None,
                cache: Optional[Cache] = None) -> Tensor:
        """The same from the vectors of the tokens (B, T, D)."""
        positions, places, seen = placed(vectors.shape[:2], seen, cache)
        x = self.dropout(self.positions.at_input(vectors, positions))
        source_mask = key_mask(seen_from_lengths(source_lengths, memory.shape[1]))
        x = self.decoder(x, key_mask(seen), memory, source_mask, places, cache)
        if self.output is not None:
            return self.output(x)
        return F.linear(x, self.target_tokens.weight)
