"""Models: layers put together, each with a configuration that says how."""

from tinyformer.models.config import Config
from tinyformer.models.decoder import DecoderConfig, DecoderModel

__all__ = ["Config", "DecoderConfig", "DecoderModel"]
