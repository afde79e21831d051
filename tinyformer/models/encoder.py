"""The encoder-only model: every position is read in the light of all others (BERT)."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from tinyformer import functional as F
from tinyformer.arrays import xp
from tinyformer.autograd import Tensor
from tinyformer.models.config import TransformerConfig
from tinyformer.models.inputs import as_ids, both, key_mask, placed, seen_from_lengths
from tinyformer.nn import Dropout, Embedding, Encoder, LayerNorm, Linear, Mask, Module
from tinyformer.nn import init
from tinyformer.nn.layers import ACTIVATIONS, named

POOLERS = {"tanh": Tensor.tanh, "relu": F.relu}


@dataclasses.dataclass(frozen=True)
class EncoderConfig(TransformerConfig):
    """The sizes of an encoder-only model, with BERT's block (Devlin et al., 2019): norms after each
    half, exact GELU. `n_segments` is the number of kinds of sentence (0: none are told apart),
    `pooler` makes a vector of the whole text from its first token, `pooler_activation` ("tanh", or
    "relu" as in DistilBERT's classifier) ends it."""

    norm: str = "post"
    activation: str = "gelu"
    eps: float = 1e-12
    n_segments: int = 2
    pooler: bool = True
    pooler_activation: str = "tanh"

    def __post_init__(self) -> None:
        super().__post_init__()
        named("activation of the pooler", self.pooler_activation, POOLERS)
        self.whole("n_segments", least=0)


class Encoded(NamedTuple):
    """What an encoder makes of a text: a vector per token (B, T, D), and, where the model has a
    pooler, one of the whole (B, D)."""

    hidden: Tensor
    pooled: Optional[Tensor]


class Pooler(Linear):
    """One vector of a whole text, out of that of its first token: tanh(W h + b)."""

    def __init__(self, d_model: int, std: float, activation: str = "tanh") -> None:
        super().__init__(d_model, d_model, std=std)
        self.activation = activation

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden (B, T, D) -> (B, D)."""
        return POOLERS[self.activation](super().forward(hidden[:, 0]))

    def extra_repr(self) -> str:
        """The widths and the activation."""
        return f"{super().extra_repr()}, {self.activation}"


class EncoderModel(Module):
    """Token, position and segment vectors, normed, and a stack in which all see all.

    ids (B, T) -> `Encoded`.
    """

    def __init__(self, config: EncoderConfig) -> None:
        self.config = config
        d_model, std = config.d_model, config.std
        self.tokens = Embedding(config.vocab_size, d_model, std)
        self.positions = config.input_positions()
        self.segments = Embedding(config.n_segments, d_model, std) if config.n_segments else None
        self.norm = LayerNorm(d_model, config.eps)
        self.dropout = Dropout(config.dropout)
        self.stack = Encoder(config.n_layers, d_model, config.n_heads, config.d_ff or 0,
                             config.dropout, std,
                             position=config.attention_positions(causal=False),
                             **config.block_options())
        self.pooler = Pooler(d_model, std, config.pooler_activation) if config.pooler else None

    def forward(self, ids: Any, segments: Any = None, lengths: Optional[Sequence[int]] = None,
                mask: Optional[Mask] = None) -> Encoded:
        """ids (B, T), segments (B, T) of 0, 1, ... (all 0 unless given), of row b the first
        `lengths[b]` tokens real and the rest padding; `mask` takes more away.

        Raises ValueError for shapes that do not fit, more positions than the scheme has, and
        segments where the model tells none apart; IndexError for an id or segment out of range.
        """
        ids = as_ids(ids)
        return self.encode(self.tokens(ids), segments, lengths, mask)

    def encode(self, vectors: Tensor, segments: Any = None,
               lengths: Optional[Sequence[int]] = None, mask: Optional[Mask] = None) -> Encoded:
        """The same from the vectors of the tokens (B, T, D)."""
        shape = vectors.shape[:2]
        positions, places, seen = placed(shape, seen_from_lengths(lengths, shape[1]), None)
        x = self.positions.at_input(vectors, positions)
        if self.segments is not None:
            x = x + self.segments(self._segments_or_0(segments, shape))
        elif segments is not None:
            raise ValueError("this model tells no segments apart (n_segments=0)")
        x = self.dropout(self.norm(x))
        hidden = self.stack(x, both(key_mask(seen), mask), places=places)
        return Encoded(hidden, None if self.pooler is None else self.pooler(hidden))

    @staticmethod
    def _segments_or_0(segments: Any, shape: Tuple[int, ...]) -> Any:
        if segments is None:
            return xp.zeros(shape, xp.int64)
        segments = as_ids(segments)
        if tuple(segments.shape) != tuple(shape):
            raise ValueError(f"segments of shape {tuple(segments.shape)} do not fit ids of shape "
                             f"{tuple(shape)}: every token has one")
        return segments


class MaskedLanguageModel(Module):
    """What token stood here? Scores for every position of an encoder: -> logits (B, T, V).

    A transform (Linear, activation, LayerNorm), then products with the token vectors and a bias per
    token (Devlin et al., 2019).
    """

    def __init__(self, encoder: EncoderModel) -> None:
        self.encoder = encoder
        config = encoder.config
        self.transform = Linear(config.d_model, config.d_model, std=config.std)
        self.norm = LayerNorm(config.d_model, config.eps)
        self.bias = init.zeros((config.vocab_size,))

    def forward(self, ids: Any, segments: Any = None, lengths: Optional[Sequence[int]] = None,
                mask: Optional[Mask] = None) -> Tensor:
        """The arguments of `EncoderModel` -> logits (B, T, V)."""
        hidden = self.encoder(ids, segments, lengths, mask).hidden
        vectors = self.norm(ACTIVATIONS[self.encoder.config.activation](self.transform(hidden)))
        return F.linear(vectors, self.encoder.tokens.weight, self.bias)


class SequenceClassifier(Module):
    """One of `n_labels` for a whole text, or for a pair of sentences told apart by segments.

    A linear map of the pooled vector, after dropout: -> logits (B, n_labels). Raises ValueError for
    an encoder without a pooler.
    """

    def __init__(self, encoder: EncoderModel, n_labels: int) -> None:
        if encoder.pooler is None:
            raise ValueError("a sequence classifier needs the pooled vector: make the encoder with "
                             "pooler=True")
        self.encoder = encoder
        self.dropout = Dropout(encoder.config.dropout)
        self.classifier = Linear(encoder.config.d_model, n_labels, std=encoder.config.std)

    def forward(self, ids: Any, segments: Any = None, lengths: Optional[Sequence[int]] = None,
                mask: Optional[Mask] = None) -> Tensor:
        """The arguments of `EncoderModel` -> logits (B, n_labels)."""
        pooled = self.encoder(ids, segments, lengths, mask).pooled
        return self.classifier(self.dropout(pooled))


class TokenClassifier(Module):
    """One of `n_labels` for every token (NER, part of speech): -> logits (B, T, n_labels)."""

    def __init__(self, encoder: EncoderModel, n_labels: int) -> None:
        self.encoder = encoder
        self.dropout = Dropout(encoder.config.dropout)
        self.classifier = Linear(encoder.config.d_model, n_labels, std=encoder.config.std)

    def forward(self, ids: Any, segments: Any = None, lengths: Optional[Sequence[int]] = None,
                mask: Optional[Mask] = None) -> Tensor:
        """The arguments of `EncoderModel` -> logits (B, T, n_labels)."""
        return self.classifier(self.dropout(self.encoder(ids, segments, lengths, mask).hidden))


class SpanClassifier(Module):
    """Where an answer begins and ends (question answering): -> logits (B, 2, T), begin and end.

    The softmax of either row goes over the positions of the text.
    """

    def __init__(self, encoder: EncoderModel) -> None:
        self.encoder = encoder
        self.classifier = Linear(encoder.config.d_model, 2, std=encoder.config.std)

    def forward(self, ids: Any, segments: Any = None, lengths: Optional[Sequence[int]] = None,
                mask: Optional[Mask] = None) -> Tensor:
        """The arguments of `EncoderModel` -> logits (B, 2, T)."""
        return self.classifier(self.encoder(ids, segments, lengths, mask).hidden).mT
