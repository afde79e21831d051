"""Where a token stands. Attention alone cannot tell: a sum of weighted values knows no order.

A scheme can act in three places: on the vectors that enter the stack (`at_input`), on queries and
keys or on their scores (`at_heads`, `score_bias`), and on the values that are mixed (`value_term`).
`Position` does nothing in all of them; each scheme overrides the place where it acts.

A scheme receives absolute positions, of queries (B, T) and of keys (B, S) with 1 for B where all
rows are alike, and never lengths, so that it comes out right behind padding and in a cache.
`max_len` is the number of positions that it knows, or None where it sets no limit.
"""

from __future__ import annotations

import math
from typing import Any, Optional, Tuple

from tinyformer import functional as F
from tinyformer.arrays import xp
from tinyformer.autograd import Tensor
from tinyformer.nn.layers import Embedding
from tinyformer.nn.module import Module


class Position(Module):
    """No positions at all, and the protocol of all schemes: to it, A B C and C B A are alike."""

    max_len: Optional[int] = None
    mixes_values = False            # whether `value_term` is anything

    def at_input(self, x: Tensor, positions: Any) -> Tensor:
        """What enters the stack, from the token vectors x (B, T, D)."""
        return x

    def at_heads(self, query: Tensor, key: Tensor, query_positions: Any,
                 key_positions: Any) -> Tuple[Tensor, Tensor]:
        """The queries (B, H, T, K) and keys (B, H, S, K) that are compared."""
        return query, key

    def score_bias(self, query: Tensor, key: Tensor, query_positions: Any,
                   key_positions: Any) -> Optional[Tensor]:
        """What is added to the scores (B, H, T, S) after they were scaled; None for nothing."""
        return None

    def value_term(self, weights: Tensor, query_positions: Any, key_positions: Any) -> Tensor:
        """What is added to the mixed values (B, H, T, V), given the weights (B, H, T, S)."""
        raise NotImplementedError(f"{type(self).__name__} adds nothing to the values")

    def scale(self, width: int) -> float:
        """What the products of queries and keys of this width are multiplied by."""
        return 1 / math.sqrt(width)


class Learned(Position):
    """One trained vector per position, added to the token's: 512 vectors, and there is no 513th."""

    def __init__(self, max_len: int, d_model: int, std: float = 0.02) -> None:
        self.table = Embedding(max_len, d_model, std)
        self.max_len = max_len

    def at_input(self, x: Tensor, positions: Any) -> Tensor:
        """x (B, T, D) plus the vectors of positions (T,) or (B, T).

        Raises ValueError, with both numbers, for a position beyond the table.
        """
        limit = self.table.weight.shape[0]
        last = int(xp.max(positions)) if positions.size else 0
        if last >= limit:
            raise ValueError(f"{last + 1} positions are asked for, but learned positions reach "
                             f"only max_len={limit}: give a shorter sequence, make a model with a "
                             "larger max_len, or use a scheme without a limit (sinusoidal, "
                             "relative, rotary, alibi, t5, disentangled, none)")
        return x + self.table(positions)


class Sinusoidal(Position):
    """Sines and cosines of the position, added to the token's vector: any position has one.

    Coordinate 2i is sin(p / 10000^(2i/D)), coordinate 2i + 1 the cosine of the same (Vaswani et
    al., 2017, section 3.5); for odd D the last cosine is left away.
    """

    def at_input(self, x: Tensor, positions: Any) -> Tensor:
        """x (B, T, D) plus the vectors of positions (T,) or (B, T)."""
        return x + Tensor(xp.astype(sinusoids(positions, x.shape[-1]), x.data.dtype))


def sinusoids(positions: Any, width: int) -> Any:
    """The sinusoidal vectors of positions (...): (..., width), in float64."""
    waves = (width + 1) // 2
    angles = _angles(positions, [10000.0 ** (-2 * wave / width) for wave in range(waves)])
    pairs = xp.stack([xp.sin(angles), xp.cos(angles)], axis=-1)
    return xp.reshape(pairs, tuple(angles.shape[:-1]) + (2 * waves,))[..., :width]


def _angles(positions: Any, rates: Any) -> Any:
    """positions (...) times rates (R): (..., R), in float64 whatever the model computes in."""
    places = xp.expand_dims(xp.astype(positions, xp.float64), axis=-1)
    return places * xp.asarray(rates, xp.float64)


class Rotary(Position):
    """Queries and keys turned by an angle that grows with the position (Su et al., 2021).

    Coordinate i < K/2 and coordinate i + K/2 are a point of the plane, turned by
    p 10000^(-2i/K). The product of a query and a key then depends on the difference of their
    positions alone. Raises ValueError for an odd width.
    """

    def at_heads(self, query: Tensor, key: Tensor, query_positions: Any,
                 key_positions: Any) -> Tuple[Tensor, Tensor]:
        """Both turned, each by its own positions."""
        return _turned(query, query_positions), _turned(key, key_positions)


def _turned(x: Tensor, positions: Any) -> Tensor:
    """x (B, H, T, K), each vector turned by its position."""
    width = x.shape[-1]
    if width % 2:
        raise ValueError(f"rotary positions turn pairs of coordinates: heads of width {width} are "
                         "odd, choose an even d_model / n_heads")
    half = width // 2
    angles = _angles(positions, [10000.0 ** (-2 * wave / width) for wave in range(half)])
    angles = xp.expand_dims(angles, axis=1)                               # for all heads
    cos, sin = (Tensor(xp.astype(xp.concat([wave(angles)] * 2, axis=-1), x.data.dtype))
                for wave in (xp.cos, xp.sin))
    turned = F.concat([-x[..., half:], x[..., :half]], axis=-1)
    return x * cos + turned * sin


class ALiBi(Position):
    """Each head scores a key lower the farther it is: bias -m |i - j| (Press et al., 2022).

    The slope m of head h of H is 2^(-8 h / H), h = 1 ... H; for an H that is no power of two the
    slopes of the power below are followed by every second of the one above.
    """

    def __init__(self, n_heads: int) -> None:
        self.slopes = alibi_slopes(n_heads)

    def score_bias(self, query: Tensor, key: Tensor, query_positions: Any,
                   key_positions: Any) -> Optional[Tensor]:
        """(B, H, T, S)."""
        distance = xp.expand_dims(xp.abs(distances(query_positions, key_positions)), axis=1)
        slopes = xp.reshape(xp.asarray(self.slopes, query.data.dtype), (1, len(self.slopes), 1, 1))
        return Tensor(xp.astype(distance, query.data.dtype) * -slopes)


def alibi_slopes(n_heads: int) -> Any:
    """The slope of every head.

    >>> alibi_slopes(4)
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    power = 2 ** int(math.log2(n_heads))
    slopes = [2.0 ** (-8 * (head + 1) / power) for head in range(power)]
    between = [2.0 ** (-8 * (head + 1) / (2 * power)) for head in range(0, 2 * power, 2)]
    return slopes + between[:n_heads - power]


def distances(query_positions: Any, key_positions: Any) -> Any:
    """j - i for every query i and key j: positions (B, T) and (B, S) -> (B, T, S)."""
    return xp.expand_dims(key_positions, axis=1) - xp.expand_dims(query_positions, axis=2)
