"""Scaled dot-product attention, softmax(Q K^T / sqrt(d_k)) V (Vaswani et al., 2017, equation 1).

Each query scores every key; the softmax of a row of scores is the weights with which the row's
output mixes the values. The mask decides who may be looked at, the scores decide how much.
"""

from __future__ import annotations

import math
from typing import Any, Optional

from tinyformer.arrays import xp
from tinyformer.autograd.operations.dropout import keep_factors
from tinyformer.autograd.operations.operands import as_tensor, check_broadcast, floats, is_float
from tinyformer.autograd.operations.probabilities import softmax_vjp
from tinyformer.autograd.tensor import Tensor, record


def attention_weights(scores: Any, allowed: Any) -> Any:
    """Row-wise softmax of scores (..., T, S) over the keys where `allowed` is true, or all for
    None.

    A row that may look nowhere gets zeros: its largest score counts as 0 and its sum as 1.
    """
    if allowed is not None:
        scores = xp.where(allowed, scores, xp.asarray(-math.inf, scores.dtype))
    largest = xp.max(scores, axis=-1, keepdims=True)
    if allowed is not None:
        largest = xp.where(largest == -math.inf, xp.zeros_like(largest), largest)
    e = xp.exp(scores - largest)
    total = xp.sum(e, axis=-1, keepdims=True)
    if allowed is not None:
        total = xp.where(total == 0, xp.ones_like(total), total)
    return e / total


def causal_mask(queries: int, keys: int) -> Any:
    """(T, S), true where a query may look: the last query is aligned with the last key."""
    ends = xp.reshape(xp.arange(queries) + (keys - queries), (queries, 1))
    return xp.arange(keys) <= ends


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None,
                                 dropout_p: float = 0.0, is_causal: bool = False,
                                 scale: Optional[float] = None) -> Tensor:
    """softmax(query key^T * scale) value: (..., T, K), (..., S, K), (..., S, V) -> (..., T, V).

    `attn_mask`, broadcast to (..., T, S), is either bool, true where a query may look, or float,
    added to the scores, with a gradient if it is a tensor that requires one. `is_causal` lets query
    t of T see the keys up to t + S - T: the last sees all (PyTorch aligns the first ones instead).
    `scale` is 1 / sqrt(K) unless given. A row that may look nowhere gives zeros, forward and
    backward.

    With P the weights, O = P V: dV = P^T G and dP = G V^T; through the softmax dS = P (dP -
    rowsum(dP P)); then dQ = scale dS K and dK = scale dS^T Q. Dropout multiplies P and dP by the
    same factors.
    """
    query, key, value = floats(query), floats(key), floats(value)
    mask = None if attn_mask is None else as_tensor(attn_mask)
    _check_shapes(query, key, value, mask)
    q, k, v = query.data, key.data, value.data
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    bias = mask if mask is not None and is_float(mask) else None
    allowed = None if mask is None or bias is not None else mask.data
    scores = xp.matmul(q * scale, xp.matrix_transpose(k))
    if bias is not None:
        scores = scores + bias.data
    if is_causal:
        causal = causal_mask(q.shape[-2], k.shape[-2])
        allowed = causal if allowed is None else xp.logical_and(allowed, causal)
    weights = attention_weights(scores, allowed if bias is None else _looks(scores, allowed))
    factors = keep_factors(tuple(weights.shape), dropout_p, weights.dtype) if dropout_p else None
    mixed = weights if factors is None else weights * factors

    def vjp(g: Any) -> Any:
        d_mixed = xp.matmul(g, xp.matrix_transpose(v))
        d_scores = softmax_vjp(d_mixed if factors is None else d_mixed * factors, weights)
        d_query = xp.matmul(d_scores, k) * scale
        d_key = xp.matmul(xp.matrix_transpose(d_scores), q) * scale
        d_value = xp.matmul(xp.matrix_transpose(mixed), g)
        return (d_query, d_key, d_value, d_scores)[:count]

    operands = (query, key, value) + (() if bias is None else (bias,))
    count = len(operands)
    watched = [] if mask is None or bias is not None else [(mask, None)]
    return record("scaled_dot_product_attention", xp.matmul(mixed, v), (operands, vjp), *watched)


def _looks(scores: Any, allowed: Any) -> Any:
    """Where an additive mask lets a query look at all: minus infinity means that it may not."""
    finite = scores != -math.inf
    return finite if allowed is None else xp.logical_and(finite, allowed)


def _check_shapes(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor]) -> None:
    if min(query.ndim, key.ndim, value.ndim) < 2 or query.shape[-1] != key.shape[-1] \
            or key.shape[-2] != value.shape[-2]:
        raise ValueError(f"attention: query {query.shape}, key {key.shape} and value {value.shape} "
                         "do not fit: query and key need one width (the last length), key and "
                         "value one number of positions (the last but one)")
    for other in (key, value):
        check_broadcast("attention, all axes but the last two", query.shape[:-2], other.shape[:-2])
    if mask is not None:
        check_broadcast("attention, scores and mask",
                        query.shape[:-1] + (key.shape[-2],), mask.shape)
