"""What several tests of the layers need: draws, flat numbers, attention written as plain loops."""

from __future__ import annotations

import math
from typing import Any, Callable, List, Optional

from tinyformer import tensor
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.nn import Module, Places


def normal(*shape: int, **options: Any) -> Any:
    """A tensor of draws."""
    return tensor(xp.astype(stream.normal(shape), xp.default_float), **options)


def flat(x: Any) -> List[float]:
    """All numbers of a tensor."""
    return x.reshape(-1).tolist()


def loud(module: Module, std: float = 0.5) -> Module:
    """The module with all its parameters, gains and biases as well, drawn anew and large."""
    for parameter in module.parameters():
        parameter.data = xp.astype(stream.normal(parameter.shape) * std, parameter.data.dtype)
    return module


def at(queries: Any, keys: Any = None) -> Places:
    """Places from nested lists of positions (B, T) and (B, S)."""
    return Places(xp.asarray(queries), xp.asarray(queries if keys is None else keys))


def affine(layer: Any, x: List[float]) -> List[float]:
    """W x + b."""
    return [sum(w * v for w, v in zip(row, x)) + b
            for row, b in zip(layer.weight.tolist(), layer.bias.tolist())]


def dot(x: List[float], y: List[float]) -> float:
    """The product of two vectors."""
    return sum(p * q for p, q in zip(x, y))


def attend_slowly(layer: Any, x: List[List[float]], allowed: Callable[[int, int], bool],
                  key_of: Callable[[int, int, List[float]], List[float]],
                  value_of: Callable[[int, int, List[float]], List[float]],
                  scale: float, extra: Optional[Callable[..., float]] = None) -> List[List[float]]:
    """Attention of x (T, D) to itself, one score at a time.

    `key_of(i, j, key)` and `value_of(i, j, value)` are what query i sees of key and value j;
    `extra(h, i, j, query, key)` is added to the product before it is scaled.
    """
    queries, keys, values = ([affine(part, row) for row in x]
                             for part in (layer.query, layer.key, layer.value))
    d_k, d_v = len(queries[0]) // layer.n_heads, len(values[0]) // layer.n_heads
    rows = []
    for i in range(len(x)):
        joined: List[float] = []
        for h in range(layer.n_heads):
            q = queries[i][h * d_k:(h + 1) * d_k]
            scores = {}
            for j in range(len(x)):
                k = keys[j][h * d_k:(h + 1) * d_k]
                more = 0.0 if extra is None else extra(h, i, j, q, k)
                if allowed(i, j):
                    scores[j] = scale * (dot(q, key_of(i, j, k)) + more)
            total = sum(math.exp(s) for s in scores.values())
            mixed = [0.0] * d_v
            for j, s in scores.items():
                v = value_of(i, j, values[j][h * d_v:(h + 1) * d_v])
                mixed = [m + math.exp(s) / total * part for m, part in zip(mixed, v)]
            joined += mixed
        rows.append(affine(layer.output, joined))
    return rows


def plain(i: int, j: int, vector: List[float]) -> List[float]:
    """A key or value as it is."""
    return vector


def close(rows: Any, others: Any, tolerance: float = 1e-12) -> bool:
    """Whether two equally nested lists differ by no more than the tolerance anywhere."""
    if isinstance(rows, list):
        return len(rows) == len(others) and all(
            close(row, other, tolerance) for row, other in zip(rows, others))
    return abs(rows - others) <= tolerance
