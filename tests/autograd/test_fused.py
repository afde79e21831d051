"""Every operation that is one node is the same as what its formula says in simpler operations."""

from __future__ import annotations

import math

import pytest
from checks import close, cotangent
from operation_table import bools, integers, near

import tinyformer.functional as F
from tinyformer.arrays import set_default_dtype, xp
from tinyformer.arrays.stream import manual_seed
from tinyformer.autograd import Tensor
from tinyformer.autograd.operations.dropout import keep_factors


@pytest.fixture(autouse=True)
def double():
    with set_default_dtype("float64"):
        yield


def softmax(x, axis=-1):
    e = (x - x.detach().max(axis=axis, keepdims=True)).exp()
    return e / e.sum(axis=axis, keepdims=True)


def cross_entropy(logits, targets, ignore_index=-100, label_smoothing=0.0):
    width = logits.shape[-1]
    logs = softmax(logits).log()
    one_hot = Tensor([[float(column == target) for column in range(width)]
                      for target in targets.tolist()])
    wanted = one_hot * (1.0 - label_smoothing) + label_smoothing / width
    counted = Tensor([[float(target != ignore_index)] for target in targets.tolist()])
    return -(wanted * logs * counted).sum() / counted.sum()


def layer_norm(x, shape, weight, bias, eps):
    axes = tuple(range(-len(shape), 0))
    centred = x - x.mean(axis=axes, keepdims=True)
    return centred / (x.var(axis=axes, correction=0, keepdims=True) + eps).sqrt() * weight + bias


def gelu_tanh(x):
    return x * 0.5 * (1.0 + (math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)).tanh())


def attention(q, k, v, mask, dropout_p=0.0):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = softmax(F.where(mask, scores, -1e30))
    if dropout_p:
        weights = weights * Tensor(keep_factors(weights.shape, dropout_p, weights.data.dtype))
    return weights @ v


FUSED = {
    "softmax": (F.softmax, softmax, [near(3, 4)]),
    "softmax along axis 0": (lambda x: F.softmax(x, 0), lambda x: softmax(x, 0), [near(3, 4)]),
    "log_softmax": (F.log_softmax, lambda x: softmax(x).log(), [near(3, 4)]),
    "sigmoid": (F.sigmoid, lambda x: 1.0 / (1.0 + (-x).exp()), [near(3, 4)]),
    "relu": (F.relu, lambda x: F.where(x > 0.0, x, 0.0), [near(3, 4)]),
    "gelu, tanh": (lambda x: F.gelu(x, "tanh"), gelu_tanh, [near(3, 4)]),
    "cross_entropy": (
        lambda x, y: F.cross_entropy(x, y, 1, 0.1), lambda x, y: cross_entropy(x, y, 1, 0.1),
        [near(4, 3), integers(0, 1, 2, 2)]),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (2, 3), w, b, 0.01),
        lambda x, w, b: layer_norm(x, (2, 3), w, b, 0.01), [near(2, 2, 3), near(2, 3), near(2, 3)]),
    "linear": (F.linear, lambda x, w, b: x @ w.mT + b, [near(2, 3, 4), near(2, 4), near(2)]),
    "embedding": (F.embedding, lambda i, w: w[i], [integers(1, 0, 1, 1, shape=(2, 2)), near(3, 2)]),
    "attention": (
        F.scaled_dot_product_attention, attention,
        [near(2, 3, 2), near(2, 4, 2), near(2, 4, 3), bools("101111010001", 3, 4)]),
    "attention with dropout": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, 0.3),
        lambda q, k, v, m: attention(q, k, v, m, 0.3),
        [near(3, 2), near(4, 2), near(4, 3), bools("1011", 4)]),
    "causal attention": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, is_causal=True), attention,
        [near(2, 2), near(3, 2), near(3, 2), bools("110111", 2, 3)]),
    "variance": (lambda x: x.var(axis=1),
                 lambda x: ((x - x.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) / 3.0,
                 [near(2, 4)]),
    "stack": (lambda x, y: F.stack([x, y], 1),
              lambda x, y: F.concat([x.reshape(2, 1, 3), y.reshape(2, 1, 3)], 1),
              [near(2, 3), near(2, 3)]),
}


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_operation_is_its_formula(backend, name):
    fused, composed, inputs = FUSED[name]
    found = []
    for function in (fused, composed):
        tensors = [given.tensor() for given in inputs]
        manual_seed(11)
        result = function(*tensors)
        result.backward(cotangent(result))
        found.append([result.tolist()])
        found[-1] += [each.grad.tolist() for each in tensors if each.requires_grad]
    assert close(*found)


def test_the_exact_gelu_is_the_normal_distribution(backend):
    numbers = [-6.0, -1.5, -0.3, 0.0, 0.7, 2.0, 8.0]
    x = Tensor(numbers, requires_grad=True)
    y = F.gelu(x)
    y.backward(xp.ones_like(y.data))
    below = [0.5 * math.erfc(-number / math.sqrt(2)) for number in numbers]
    density = [math.exp(-number * number / 2) / math.sqrt(2 * math.pi) for number in numbers]
    assert close(y.tolist(), [number * p for number, p in zip(numbers, below)])
    assert close(x.grad.tolist(), [p + number * d for number, p, d in zip(numbers, below, density)])
