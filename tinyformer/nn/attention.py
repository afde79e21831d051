"""Multi-head attention: the only place of a transformer where positions exchange anything."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from tinyformer import functional as F
from tinyformer.arrays import xp
from tinyformer.autograd import Tensor, no_grad
from tinyformer.autograd.operations.dropout import check_probability
from tinyformer.autograd.operations.shaping import join_heads, split_heads
from tinyformer.nn.cache import Cache
from tinyformer.nn.layers import Linear
from tinyformer.nn.masks import Mask, allowed_by
from tinyformer.nn.module import Module
from tinyformer.nn.positions import Position


class Places(NamedTuple):
    """The absolute positions of the queries (B, T), and of the keys (B, S); 1 for B: all alike."""

    queries: Any
    keys: Any


NO_SCHEME = Position()


class MultiHeadAttention(Module):
    """H attentions side by side, each with its own projections (Vaswani et al., 2017, 3.2.2).

    head_h = attention(x Wq_h, memory Wk_h, memory Wv_h); queries and keys have the width `d_k`,
    values `d_v`, both D / H unless given; the heads are joined and mixed by a last projection. The
    H projections of one kind are one matrix, sliced. Without `projections` there are none: queries,
    keys and values are the vectors themselves, cut into heads (slide 14).

    `position` is a scheme that acts within attention. `dropout` falls on the weights. `out_std` is
    the std of the first weights of the last projection, `std` of the others. Raises ValueError
    where H does not divide D and no widths are given.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0, std: float = 0.02,
                 out_std: float = 0.02, *, d_k: Optional[int] = None, d_v: Optional[int] = None,
                 position: Optional[Position] = None, projections: bool = True) -> None:
        if n_heads < 1 or d_model % n_heads and (d_k is None or d_v is None or not projections):
            raise ValueError(f"d_model={d_model} cannot be shared by n_heads={n_heads}: it must be "
                             "a multiple")
        if not projections and (d_k, d_v) != (None, None):
            raise ValueError(f"without projections heads are cut out of the vectors, {d_model} / "
                             f"{n_heads} wide: d_k={d_k} and d_v={d_v} say nothing")
        check_probability(dropout)
        self.n_heads, self.dropout = n_heads, dropout
        d_k, d_v = d_k or d_model // n_heads, d_v or d_model // n_heads
        self.position = position
        self.query = self.key = self.value = self.output = None
        if projections:
            self.query = Linear(d_model, n_heads * d_k, std=std)
            self.key = Linear(d_model, n_heads * d_k, std=std)
            self.value = Linear(d_model, n_heads * d_v, std=std)
            self.output = Linear(n_heads * d_v, d_model, std=out_std)
        self.records: Optional[List[Tensor]] = None

    def forward(self, x: Tensor, memory: Optional[Tensor] = None, mask: Optional[Mask] = None,
                places: Optional[Places] = None, cache: Optional[Cache] = None) -> Tensor:
        """x (B, T, D) looks at memory (B, S, D), or at itself: -> (B, T, D). No mask: all see all.

        `places` are the positions for a scheme; without them the keys stand at 0 ... S - 1 and the
        last query at the last key. With a cache, x is only what is new of a text. Raises ValueError
        for other shapes and for a mask that does not fit them.
        """
        there = x if memory is None else memory
        if x.ndim != 3 or there.ndim != 3 or x.shape[0] != there.shape[0]:
            raise ValueError("attention leads from x (B, T, D) to memory (B, S, D), not from "
                             f"{x.shape} to {there.shape}")
        query = split_heads(x if self.query is None else self.query(x), self.n_heads)
        scheme = self.position or NO_SCHEME
        if memory is None:
            query, key, value, places = self._own(query, x, places, cache, scheme)
        else:
            key, value = (self._keys_and_values(memory) if cache is None else
                          cache.once(self, lambda: self._keys_and_values(memory)))
            places = places or _counted(query.shape[2], key.shape[2])
            query, key = scheme.at_heads(query, key, *places)
        allowed = allowed_by(mask, (x.shape[0], self.n_heads, query.shape[2], key.shape[2]))
        mixed = self._attend(query, key, value, allowed, places, scheme)
        joined = join_heads(mixed)
        return joined if self.output is None else self.output(joined)

    def _own(self, query: Tensor, x: Tensor, places: Optional[Places], cache: Optional[Cache],
             scheme: Position) -> Tuple[Tensor, Tensor, Tensor, Places]:
        """Queries, keys and values of x itself; those of a cache in front of them."""
        key, value = self._keys_and_values(x)
        past = 0 if cache is None else cache.held(self)
        places = places or _counted(x.shape[1], past + x.shape[1])
        query, key = scheme.at_heads(query, key, places.queries, places.queries)
        if cache is not None:
            key, value = cache.extend(self, key, value)
        return query, key, value, places

    def _keys_and_values(self, memory: Tensor) -> Tuple[Tensor, Tensor]:
        return (split_heads(memory if self.key is None else self.key(memory), self.n_heads),
                split_heads(memory if self.value is None else self.value(memory), self.n_heads))

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, allowed: Any, places: Places,
                scheme: Position) -> Tensor:
        """The mixed values (B, H, T, V)."""
        scale = scheme.scale(query.shape[-1])
        bias = scheme.score_bias(query, key, *places)
        dropout = self.dropout if self.training else 0.0
        if self.records is not None:
            with no_grad():
                self.records.append(_weights(query, key, bias, allowed, scale))
        if scheme.mixes_values:
            weights = F.dropout(_weights(query, key, bias, allowed, scale), dropout)
            return weights @ value + scheme.value_term(weights, *places)
        mask = allowed
        if bias is not None:
            mask = bias if allowed is None else F.where(allowed, bias, float("-inf"))
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout,
                                              scale=scale)

    def extra_repr(self) -> str:
        """The number of heads and the dropout on the weights."""
        return f"n_heads={self.n_heads}, dropout={self.dropout}"


def _weights(query: Tensor, key: Tensor, bias: Optional[Tensor], allowed: Any,
             scale: float) -> Tensor:
    """The weights of attention (B, H, T, S), as a step of their own."""
    scores = (query * scale) @ key.mT
    return F.masked_softmax(scores if bias is None else scores + bias, allowed)


def _counted(queries: int, keys: int) -> Places:
    """Positions where none are given: 0 ... S - 1, the last query at the last key."""
    every = xp.reshape(xp.arange(keys), (1, keys))
    return Places(every[:, keys - queries:] if queries <= keys else
                  xp.reshape(xp.arange(keys - queries, keys), (1, queries)), every)


@contextlib.contextmanager
def recorded_attention(model: Module) -> Iterator[Dict[str, List[Tensor]]]:
    """Inside, the weights (B, H, T, S) of every attention of `model` are kept, by module name.

    The outputs stay what they are, to the last bit; weights are those before dropout.
    """
    layers = {name: module for name, module in model.named_modules()
              if isinstance(module, MultiHeadAttention)}
    records: Dict[str, List[Tensor]] = {name: [] for name in layers}
    for name, layer in layers.items():
        layer.records = records[name]
    try:
        yield records
    finally:
        for layer in layers.values():
            layer.records = None
