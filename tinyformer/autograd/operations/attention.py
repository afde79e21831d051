"""Scaled dot-product attention, softmax(Q K^T / sqrt(d_k)) V (Vaswani et al., 2017, equation 1).

Each query scores every key; the softmax of a row of scores is the weights with which the row's
output mixes the values. The mask decides who may be looked at, the scores decide how much.
"""

from __future__ import annotations

import math

from tinyformer.arrays import xp
from tinyformer.arrays.backend import fusible
from tinyformer.autograd.operations.dropout import keep_factors
from tinyformer.autograd.operations.operands import (as_tensor, broadcast_shape, check_broadcast,
                                                     floats, is_float)
from tinyformer.autograd.operations.probabilities import softmax_vjp
from tinyformer.autograd.tensor import Tensor, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Tuple

LOWEST = -1e30          # finite, and below any score that is not minus infinity


@fusible
def attention_weights(scores: Any) -> Any:
    """The softmax of each row of scores (..., T, S), where -inf marks a key that may not be seen.

    The largest score is subtracted, so that its own term is exp(0) = 1 and a sum is at least 1.
    Only the sum of a row that may look nowhere is less, namely 0: it gets zeros, not 0 / 0.
    """
    largest = xp.maximum(xp.max(scores, axis=-1, keepdims=True), LOWEST)
    e = xp.exp(scores - largest)
    return e / xp.maximum(xp.sum(e, axis=-1, keepdims=True), 1.0)


def closed(allowed: Any, dtype: Any) -> Any:
    """What is added to scores: 0 where a query may look, minus infinity where not."""
    return xp.where(allowed, xp.asarray(0.0, dtype), xp.asarray(-math.inf, dtype))


def causal_mask(queries: int, keys: int) -> Any:
    """(T, S), true where a query may look: the last query is aligned with the last key."""
    ends = xp.reshape(xp.arange(queries) + (keys - queries), (queries, 1))
    return xp.arange(keys) <= ends


@fusible
def attend(q: Any, k: Any, v: Any, added: Any, factors: Any) -> Tuple[Any, Any]:
    """The weights P = softmax(q k^T + added) of each query, and what it mixes, (P factors) v.

    `added`, which stretches to the scores, and `factors`, those of dropout, may be None.
    """
    scores = xp.matmul(q, xp.matrix_transpose(k))
    weights = attention_weights(scores if added is None else scores + added)
    return weights, xp.matmul(weights if factors is None else weights * factors, v)


@fusible
def attend_vjp(g: Any, q: Any, k: Any, v: Any, weights: Any, factors: Any, mixture: Any,
               scores_too: bool) -> Tuple[Any, ...]:
    """The gradients of q, k, v, and of the scores where wanted, given g, that of the mixture O.

    With O = P v: dv = P^T g and dP = g v^T; through the softmax dS = P (dP - rowsum(dP P)); then
    dq = dS k and dk = dS^T q. Dropout multiplies P and dP by the same factors.
    """
    d_weights = xp.matmul(g, xp.matrix_transpose(v))
    d_scores = softmax_vjp(d_weights if factors is None else d_weights * factors, weights)
    mixed = weights if factors is None else weights * factors
    gradients = (xp.matmul(d_scores, k), xp.matmul(xp.matrix_transpose(d_scores), q),
                 xp.matmul(xp.matrix_transpose(mixed), g))
    return (*gradients, d_scores) if scores_too else gradients


def masked_softmax(scores: Tensor, allowed: Any = None) -> Tensor:
    """The weights of attention alone: the softmax of each row of scores (..., T, S), over the keys
    where the bools `allowed` are true. A row that may look nowhere gets zeros.
    """
    scores = floats(scores)
    mask = None if allowed is None else as_tensor(allowed)
    closing = 0.0 if mask is None else closed(mask.data, scores.data.dtype)
    weights = attention_weights(scores.data + closing)
    edges: Any = [(scores, lambda g: softmax_vjp(g, weights))]
    if mask is not None:
        edges.append((mask, None))
    return record("masked_softmax", weights, *edges)


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None,
                                 dropout_p: float = 0.0, is_causal: bool = False,
                                 scale: Optional[float] = None) -> Tensor:
    """softmax(query key^T * scale) value: (..., T, K), (..., S, K), (..., S, V) -> (..., T, V).

    `attn_mask`, broadcast to (..., T, S), is either bool, true where a query may look, or float,
    added to the scores, with a gradient if it is a tensor that requires one. `is_causal` lets query
    t of T see the keys up to t + S - T: the last sees all (PyTorch aligns the first ones instead).
    `scale` is 1 / sqrt(K) unless given. A row that may look nowhere gives zeros, forward and
    backward. Raises ValueError naming the shapes that do not fit.
    """
    query, key, value = floats(query), floats(key), floats(value)
    mask = None if attn_mask is None else as_tensor(attn_mask)
    _check_shapes(query, key, value, mask)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    q, k, v = query.data * scale, key.data, value.data
    additive = mask is not None and is_float(mask)
    added = None if mask is None else mask.data if additive else closed(mask.data, q.dtype)
    if is_causal:
        future = closed(causal_mask(q.shape[-2], k.shape[-2]), q.dtype)
        added = future if added is None else added + future
    factors = None
    if dropout_p:
        leading = broadcast_shape(q.shape[:-2], k.shape[:-2])
        scores = (*leading, q.shape[-2], k.shape[-2])
        factors = keep_factors(scores if added is None else broadcast_shape(scores, added.shape),
                               dropout_p, q.dtype)
    weights, mixture = attend(q, k, v, added, factors)

    def vjp(g: Any) -> Any:
        """dQ = scale dq, dK and dV, and dS for an additive mask."""
        dq, *others = attend_vjp(g, q, k, v, weights, factors, mixture, additive)
        return (dq * scale, *others)

    edges: Any = [((query, key, value, mask) if additive else (query, key, value), vjp)]
    if mask is not None and not additive:
        edges.append((mask, None))
    return record("scaled_dot_product_attention", mixture, *edges)


def _check_shapes(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor]) -> None:
    q, k, v = query.shape, key.shape, value.shape
    if min(len(q), len(k), len(v)) < 2 or q[-1] != k[-1] or k[-2] != v[-2]:
        raise ValueError(f"attention: query {q}, key {k} and value {v} do not fit: query and key "
                         "need one width (the last length), key and value one number of "
                         "positions (the last but one)")
    if not k[-2]:
        raise ValueError(f"attention: key {k} holds no position to look at")
    for other in (k, v):
        check_broadcast("attention, all axes but the last two", q[:-2], other[:-2])
    if mask is None:
        return
    seen, scores = mask.shape, q[:-1] + k[-2:-1]
    if any(have not in (1, want) for have, want in zip(seen[::-1], scores[:-3:-1])):
        raise ValueError(f"attention: a mask of shape {seen} does not fit scores of shape "
                         f"{scores}: the last two lengths must be equal, or 1 in the mask")
    check_broadcast("attention, scores and mask", scores, seen)
