"""Models: layers put together, each with a configuration that says how."""

from tinyformer.models.config import POSITIONS, Config, TransformerConfig
from tinyformer.models.decoder import DecoderConfig, DecoderModel
from tinyformer.models.encoder import (Encoded, EncoderConfig, EncoderModel, MaskedLanguageModel,
                                       SequenceClassifier, SpanClassifier, TokenClassifier)
from tinyformer.models.encoder_decoder import EncoderDecoderConfig, EncoderDecoderModel

__all__ = ["POSITIONS", "Config", "DecoderConfig", "DecoderModel", "Encoded", "EncoderConfig",
           "EncoderDecoderConfig", "EncoderDecoderModel", "EncoderModel", "MaskedLanguageModel",
           "SequenceClassifier", "SpanClassifier", "TokenClassifier", "TransformerConfig"]
