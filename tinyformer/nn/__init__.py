"""Layers: modules with parameters, attention, masks, positions, the block and its stacks."""

from tinyformer.nn.attention import MultiHeadAttention, Places, recorded_attention
from tinyformer.nn.block import Block, Decoder, Encoder, EncoderDecoder, Stack
from tinyformer.nn.cache import Cache
from tinyformer.nn.init import described
from tinyformer.nn.layers import Dropout, Embedding, FeedForward, LayerNorm, LectureNorm, Linear
from tinyformer.nn.masks import Mask
from tinyformer.nn.module import Module, Parameter
from tinyformer.nn.positions import ALiBi, Learned, Position, Rotary, Sinusoidal
from tinyformer.nn.relative import Disentangled, Relative, T5Bias

__all__ = ["ALiBi", "Block", "Cache", "Decoder", "Disentangled", "Dropout", "Embedding", "Encoder",
           "EncoderDecoder", "FeedForward", "LayerNorm", "Learned", "LectureNorm", "Linear",
           "Mask", "Module", "MultiHeadAttention", "Parameter", "Places", "Position", "Relative",
           "Rotary", "Sinusoidal", "Stack", "T5Bias", "described", "recorded_attention"]
