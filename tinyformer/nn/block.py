"""The block that a transformer repeats, and the stacks of its repetitions.

Encoder and decoder are one block with options: a mask, attention to a memory, the norm before or
after each half, and the order of operations as in the paper of 2017 or as in the lecture.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Optional

from tinyformer.autograd import Tensor
from tinyformer.nn.attention import MultiHeadAttention, Places
from tinyformer.nn.cache import Cache
from tinyformer.nn.layers import ACTIVATIONS, NORMS, Dropout, FeedForward, named
from tinyformer.nn.masks import Mask
from tinyformer.nn.module import Module
from tinyformer.nn.positions import Position


def check_options(norm: str, order: str, norm_kind: str, activation: str,
                  cross_attention: bool = False) -> None:
    """Raises ValueError for names that do not exist and for options that contradict each other."""
    named("place of the norm", norm, {"pre": 0, "post": 0})
    named("order", order, {"paper": 0, "lecture": 0})
    named("norm", norm_kind, NORMS)
    named("activation", activation, ACTIVATIONS)
    if order == "lecture" and (norm == "pre" or cross_attention):
        raise ValueError('the lecture\'s block (order="lecture") has its norms after each half '
                         f'(norm="post") and no cross-attention; this has norm={norm!r}, '
                         f"cross_attention={cross_attention}")


class Block(Module):
    """Attention between positions, then a feed-forward map within each; both add to one stream.

        norm="pre"   x = x + dropout(part(norm(x)))           (GPT-2)
        norm="post"  x = norm(x + dropout(part(x)))           (Vaswani et al., 2017; BERT)
        order="lecture"   the first half is norm(dropout(attention(x) + x)), the dropout on the sum
                          (slide 14); the second as in "post"

    With the norm before each half the way from the last block to the first is a plain sum, and deep
    stacks train without a warm-up. `norm_kind` is "layer" or "lecture"; `cross_attention` puts a
    look at a memory between the halves; `position` is a scheme of the self-attention; the widths
    `d_k`, `d_v` and `projections` are those of the attention. While `notes` is a dict, the
    intermediate values are written into it under the lecture's letters. Raises ValueError for names
    that do not exist and options that contradict each other.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1,
                 std: float = 0.02, out_std: float = 0.02, *, norm: str = "pre",
                 order: str = "paper", norm_kind: str = "layer", eps: float = 1e-5,
                 activation: str = "gelu_tanh", cross_attention: bool = False,
                 position: Optional[Position] = None, attention_dropout: Optional[float] = None,
                 **attention: Any) -> None:
        check_options(norm, order, norm_kind, activation, cross_attention)
        self.norm, self.order = norm, order
        make_norm = NORMS[norm_kind]
        falls = dropout if attention_dropout is None else attention_dropout
        self.attention_norm = make_norm(d_model, eps)
        self.attention = MultiHeadAttention(d_model, n_heads, falls, std, out_std,
                                            position=position, **attention)
        if cross_attention:
            self.cross_norm = make_norm(d_model, eps)
            self.cross_attention = MultiHeadAttention(d_model, n_heads, falls, std, out_std,
                                                      **attention)
        self.feed_forward_norm = make_norm(d_model, eps)
        self.feed_forward = FeedForward(d_model, d_ff, std, out_std, activation)
        self.dropout = Dropout(dropout)
        self.notes: Optional[Dict[str, Tensor]] = None

    def forward(self, x: Tensor, mask: Optional[Mask] = None, memory: Optional[Tensor] = None,
                memory_mask: Optional[Mask] = None, places: Optional[Places] = None,
                cache: Optional[Cache] = None) -> Tensor:
        """x (B, T, D), with cross-attention memory (B, S, D) -> (B, T, D)."""
        if (memory is not None) != hasattr(self, "cross_attention"):
            raise ValueError("a block with cross-attention needs a memory, one without takes none")
        self._note("c_input", x)
        if self.order == "lecture":
            mixed = self._note("c_attn", self.attention(x, mask=mask, places=places, cache=cache))
            x = self.attention_norm(self._note("c_alayer", self.dropout(mixed + x)))
        else:
            x = self._half(x, self.attention_norm, lambda h: self._note("c_attn", self.attention(
                h, mask=mask, places=places, cache=cache)), "c_alayer")
        self._note("c_anorm", x)
        if memory is not None:
            x = self._half(x, self.cross_norm, lambda h: self.cross_attention(
                h, memory, mask=memory_mask, cache=cache), "c_cross")
        x = self._half(x, self.feed_forward_norm,
                       lambda h: self._note("c_ff", self.feed_forward(h)), "c_fflayer")
        return self._note("c_out", x)

    def _half(self, x: Tensor, norm: Module, part: Any, name: str) -> Tensor:
        """One half of the block around `part`, with its norm before or after."""
        if self.norm == "pre":
            return self._note(name, x + self.dropout(part(norm(x))))
        return norm(self._note(name, x + self.dropout(part(x))))

    def _note(self, name: str, value: Tensor) -> Tensor:
        if self.notes is not None:
            self.notes[name] = value
        return value

    def extra_repr(self) -> str:
        """The place of the norm, and the order where it is the lecture's."""
        return f"norm={self.norm}" + (", order=lecture" if self.order == "lecture" else "")


class Stack(Module):
    """N blocks one after the other, and the norm that pre-norm blocks leave to the end.

    The projections that write into the residual stream begin smaller, by 1/sqrt(2 N), so that the
    sum of all 2 N of them has the size of one (Radford et al., 2019, section 2.3). `options` are
    those of `Block`; `position` there is a function that makes one scheme per block.
    """

    def __init__(self, n_layers: int, d_model: int, n_heads: int, d_ff: int,
                 dropout: float = 0.1, std: float = 0.02, *, position: Any = None,
                 **options: Any) -> None:
        out_std = std / math.sqrt(2 * max(n_layers, 1))
        self.blocks = [Block(d_model, n_heads, d_ff, dropout, std, out_std,
                             position=position and position(), **options)
                       for _ in range(n_layers)]
        pre = options.get("norm", "pre") == "pre"
        norm_kind = named("norm", options.get("norm_kind", "layer"), NORMS)
        self.norm = norm_kind(d_model, options.get("eps", 1e-5)) if pre else None

    def forward(self, x: Tensor, mask: Optional[Mask] = None, memory: Optional[Tensor] = None,
                memory_mask: Optional[Mask] = None, places: Optional[Places] = None,
                cache: Optional[Cache] = None) -> Tensor:
        """x (B, T, D) -> (B, T, D); the other arguments as in `Block`."""
        for block in self.blocks:
            x = block(x, mask, memory, memory_mask, places, cache)
        return x if self.norm is None else self.norm(x)


class Encoder(Stack):
    """A stack in which every position sees every other, as far as a mask lets it."""


class Decoder(Stack):
    """A stack in which no position sees a later one, whatever else a mask says; with attention to a
    memory where an encoder gives one."""

    def forward(self, x: Tensor, mask: Optional[Mask] = None, memory: Optional[Tensor] = None,
                memory_mask: Optional[Mask] = None, places: Optional[Places] = None,
                cache: Optional[Cache] = None) -> Tensor:
        """x (B, T, D) -> (B, T, D); the other arguments as in `Block`."""
        past = 0 if cache is None or not self.blocks else cache.held(self.blocks[0].attention)
        causal = Mask.causal(x.shape[1], past + x.shape[1])
        return super().forward(x, causal if mask is None else causal & mask, memory, memory_mask,
                               places, cache)


class EncoderDecoder(Module):
    """An encoder, and a decoder that looks at what it makes (Vaswani et al., 2017, figure 1)."""

    def __init__(self, n_encoder_layers: int, n_decoder_layers: int, d_model: int, n_heads: int,
                 d_ff: int, dropout: float = 0.1, std: float = 0.02, **options: Any) -> None:
        self.encoder = Encoder(n_encoder_layers, d_model, n_heads, d_ff, dropout, std, **options)
        self.decoder = Decoder(n_decoder_layers, d_model, n_heads, d_ff, dropout, std,
                               cross_attention=True, **options)

    def forward(self, source: Tensor, target: Tensor, source_mask: Optional[Mask] = None,
                target_mask: Optional[Mask] = None) -> Tensor:
        """Vectors (B, S, D) and (B, T, D) -> (B, T, D). The target is seen causally."""
        memory = self.encoder(source, source_mask)
        return self.decoder(target, target_mask, memory, source_mask)
