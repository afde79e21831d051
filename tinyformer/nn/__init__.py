"""Layers: modules with parameters, attention, masks, positions, the block and its stack."""

from tinyformer.nn.attention import MultiHeadAttention
from tinyformer.nn.block import Block, Stack
from tinyformer.nn.init import without_drawing
from tinyformer.nn.layers import Dropout, Embedding, FeedForward, LayerNorm, Linear
from tinyformer.nn.masks import Mask
from tinyformer.nn.module import Module, Parameter
from tinyformer.nn.positions import Learned

__all__ = ["Block", "Dropout", "Embedding", "FeedForward", "LayerNorm", "Learned", "Linear", "Mask",
           "Module", "MultiHeadAttention", "Parameter", "Stack", "without_drawing"]
