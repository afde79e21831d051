"""Positions that are vectors or numbers per distance, learned: Shaw, T5 and DeBERTa.

A distance j - i is mapped to one of W classes, by clipping it to a window or by buckets that grow
with it. `choice` writes the classes as one-hot rows (B, T, S, W); picking, for every pair, one of W
products is then itself a product, forward and backward.
"""

from __future__ import annotations

import math
from typing import Any, Optional

from tinyformer import functional as F
from tinyformer.arrays import xp
from tinyformer.autograd import Tensor
from tinyformer.nn import init
from tinyformer.nn.layers import Linear
from tinyformer.nn.positions import Position, distances


def clipped(query_positions: Any, key_positions: Any, window: int) -> Any:
    """The class of every distance, 0 ... 2 window: (B, T, S). All beyond the window share one.

    With window 2, query 4 of 7 sees the classes of -2 -2 -1 0 1 2 2.
    """
    far = xp.minimum(xp.maximum(distances(query_positions, key_positions), -window), window)
    return far + window


def choice(classes: Any, count: int, dtype: Any) -> Tensor:
    """One-hot rows of classes (B, T, S): (B, T, S, count)."""
    return Tensor(xp.astype(xp.expand_dims(classes, axis=-1) == xp.arange(count), dtype))


def picked(products: Tensor, chosen: Tensor) -> Tensor:
    """products (B, H, T, W) of each query with each class; of every pair (T, S) the one that
    `chosen` (B, T, S, W) says: (B, H, T, S)."""
    return (products.transpose(1, 2) @ chosen.mT).transpose(1, 2)


class Relative(Position):
    """A vector per distance, added to the keys and to the values (Shaw et al., 2018; slide 27).

        score_ij = x_i Wq (x_j Wk + a^K_ij)^T / sqrt(d_k)
        output_i = sum_j w_ij (x_j Wv + a^V_ij)

    a_ij belongs to the distance j - i, clipped to -window ... window; the 2 window + 1 vectors of a
    layer serve all its heads. `d_k` and `d_v` are the widths of a head.
    """

    mixes_values = True

    def __init__(self, window: int, d_k: int, d_v: int, std: float = 0.02) -> None:
        if window < 0:
            raise ValueError(f"a window reaches 0 or more positions to each side, not {window}")
        self.window = window
        self.keys = init.normal((2 * window + 1, d_k), std)
        self.values = init.normal((2 * window + 1, d_v), std)

    def score_bias(self, query: Tensor, key: Tensor, query_positions: Any,
                   key_positions: Any) -> Optional[Tensor]:
        """q_i a^K_ij / sqrt(d_k): (B, H, T, S)."""
        chosen = self._chosen(query_positions, key_positions, query)
        return picked(query @ self.keys.mT, chosen) * self.scale(query.shape[-1])

    def value_term(self, weights: Tensor, query_positions: Any, key_positions: Any) -> Tensor:
        """sum_j w_ij a^V_ij: (B, H, T, V). First the weights of each class are summed."""
        chosen = self._chosen(query_positions, key_positions, weights)
        return (weights.transpose(1, 2) @ chosen).transpose(1, 2) @ self.values

    def _chosen(self, query_positions: Any, key_positions: Any, like: Tensor) -> Tensor:
        classes = clipped(query_positions, key_positions, self.window)
        return choice(classes, 2 * self.window + 1, like.data.dtype)

    def extra_repr(self) -> str:
        """The window."""
        return f"window={self.window}"


class T5Bias(Position):
    """A number per bucket of distance and head, added to the scores (Raffel et al., 2020, 2.1).

    Near distances have a bucket each, far ones share buckets that grow as the logarithm, up to
    `max_distance`; beyond it all share the last. `bidirectional` has buckets for both sides.
    """

    def __init__(self, n_heads: int, n_buckets: int = 32, max_distance: int = 128,
                 bidirectional: bool = True, std: float = 0.02) -> None:
        exact = n_buckets // 4 if bidirectional else n_buckets // 2
        if not 1 <= exact < max_distance:
            raise ValueError(f"n_buckets={n_buckets} make {exact} buckets of one distance each, "
                             f"which must be 1 or more and fewer than max_distance={max_distance}")
        self.n_buckets, self.max_distance = n_buckets, max_distance
        self.bidirectional = bidirectional
        self.weight = init.normal((n_buckets, n_heads), std)

    def score_bias(self, query: Tensor, key: Tensor, query_positions: Any,
                   key_positions: Any) -> Optional[Tensor]:
        """(B, H, T, S)."""
        apart = distances(query_positions, key_positions)
        low, high = int(xp.min(apart)), int(xp.max(apart))
        buckets = [self.bucket(distance) for distance in range(low, high + 1)]
        classes = xp.take_rows(xp.asarray(buckets, xp.int64), apart - low)
        return F.embedding(classes, self.weight).permute(0, 3, 1, 2)

    def bucket(self, distance: int) -> int:
        """The bucket of a distance j - i, key less query.

        >>> [T5Bias(1).bucket(distance) for distance in (-3, -2, -1, 0, 1, 2, 3)]
        [3, 2, 1, 0, 17, 18, 19]
        """
        side = self.n_buckets
        first = 0
        if self.bidirectional:
            side //= 2
            first = side if distance > 0 else 0
            distance = abs(distance)
        else:
            distance = max(-distance, 0)
        exact = side // 2
        if distance < exact:
            return first + distance
        growth = math.log(distance / exact) / math.log(self.max_distance / exact)
        return first + min(exact + int(growth * (side - exact)), side - 1)

    def extra_repr(self) -> str:
        """The buckets."""
        return f"{self.weight.shape[1]} heads, {self.n_buckets} buckets"


class Disentangled(Position):
    """Content and position apart, each attending to the other (DeBERTa; He et al., 2021, eq. 4).

        score_ij = (q_i k_j + q_i r^k_(i-j) + k_j r^q_(j-i)) / sqrt(3 d_k)

    r^k and r^q are projections of a table of vectors for the distances i - j, clipped to
    -span ... span - 1. The content vectors that enter the stack carry no position. (As printed: the
    authors' code has r^q_(i-j) in the last product.)
    """

    def __init__(self, d_model: int, n_heads: int, d_k: int, span: int = 16,
                 std: float = 0.02) -> None:
        if span < 1:
            raise ValueError(f"a span reaches 1 or more positions to each side, not {span}")
        self.span, self.n_heads = span, n_heads
        self.table = init.normal((2 * span, d_model), std)
        self.position_key = Linear(d_model, n_heads * d_k, std=std)
        self.position_query = Linear(d_model, n_heads * d_k, std=std)

    def score_bias(self, query: Tensor, key: Tensor, query_positions: Any,
                   key_positions: Any) -> Optional[Tensor]:
        """Content to position and position to content: (B, H, T, S)."""
        position_key, position_query = (
            layer(self.table).reshape(2 * self.span, self.n_heads, -1).transpose(0, 1)
            for layer in (self.position_key, self.position_query))          # (H, 2 span, K)
        dtype = query.data.dtype
        forth = choice(self._classes(query_positions, key_positions), 2 * self.span, dtype)
        back = choice(self._classes(key_positions, query_positions), 2 * self.span, dtype)
        to_position = picked(query @ position_key.mT, forth)
        to_content = picked(key @ position_query.mT, back).mT
        return (to_position + to_content) * self.scale(query.shape[-1])

    def _classes(self, here: Any, there: Any) -> Any:
        """The class of here - there, clipped to -span ... span - 1: (B, here, there)."""
        apart = -distances(here, there)
        return xp.minimum(xp.maximum(apart, -self.span), self.span - 1) + self.span

    def scale(self, width: int) -> float:
        """1 / sqrt(3 d_k): three products are summed instead of one."""
        return 1 / math.sqrt(3 * width)

    def extra_repr(self) -> str:
        """The span."""
        return f"span={self.span}"
