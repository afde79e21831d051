"""Models: layers put together, each with a configuration that says how."""

from tinyformer.models.config import POSITIONS, Config, TransformerConfig
from tinyformer.models.decoder import DecoderConfig, DecoderModel
from tinyformer.models.encoder import (Encoded, EncoderConfig, EncoderModel, MaskedLanguageModel,
                                       SequenceClassifier, SpanClassifier, TokenClassifier)
from tinyformer.models.encoder_decoder import EncoderDecoderConfig, EncoderDecoderModel
from tinyformer.models.presets import PRESETS, describe, preset
from tinyformer.models.pretrained import Pretrained, load_pretrained, save_pretrained

__all__ = ["POSITIONS", "PRESETS", "Config", "DecoderConfig", "DecoderModel", "Encoded",
           "EncoderConfig", "EncoderDecoderConfig", "EncoderDecoderModel", "EncoderModel",
           "MaskedLanguageModel", "Pretrained", "SequenceClassifier", "SpanClassifier",
           "TokenClassifier", "TransformerConfig", "describe", "load_pretrained", "preset",
           "save_pretrained"]
