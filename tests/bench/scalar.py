"""The pure backend against an engine with one node per number, on the same model and the same loss.

The model is the smallest GPT: 4,192 parameters, 16 wide, 4 heads, 1 layer, a name as a document,
one character a token, RMS norm, ReLU, no biases. `Value` is written for this comparison: a number
that remembers the local derivatives with respect to the numbers that it was made of.
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from operator import mul
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import tinyformer as tf
from tinyformer import functional as F
from tinyformer.arrays import xp
from tinyformer.arrays.stream import Stream
from tinyformer.autograd.operations.shaping import join_heads, split_heads
from tinyformer.autograd.tensor import record
from tinyformer.nn import Parameter

VOCABULARY, LONGEST, HEADS = 27, 16, 4
NAMES = ("emma", "olivia", "ava", "isabella", "sophia", "charlotte", "mia", "amelia")


def sizes(width: int, layers: int) -> Dict[str, Tuple[int, int]]:
    """The shapes (out, in) of all matrices."""
    shapes = {
        "tokens": (VOCABULARY, width),
        "positions": (LONGEST, width),
        "output": (VOCABULARY, width)
    }
    for layer in range(layers):
        shapes.update(
            {f"{layer}.{part}": (width, width)
             for part in ("query", "key", "value", "mix")})
        shapes.update({f"{layer}.inner": (4 * width, width), f"{layer}.outer": (width, 4 * width)})
    return shapes


def weights(width: int, layers: int) -> Dict[str, List[List[float]]]:
    """The same first weights for both engines."""
    stream = Stream(1)
    return {
        name: [[0.16 * (number - 0.5) for number in stream.uniforms_list(columns)]
               for _ in range(rows)]
        for name, (rows, columns) in sizes(width, layers).items()
    }


def documents(tokens: Optional[int] = None) -> List[List[int]]:
    """Names as ids, with 26 at both ends.

    With `tokens`, documents of so many tokens and the one that follows: the names go round.
    """
    names = [[26] + [ord(letter) - ord("a") for letter in name] + [26] for name in NAMES]
    if tokens is None:
        return names
    ids = [each for name in names for each in name[:-1]]
    return [(ids[start:] + ids)[:tokens + 1] for start in range(len(names))]


class Value:
    """A number and, for each number that it was made of, the derivative with respect to it."""

    __slots__ = ("data", "grad", "inputs", "slopes")

    def __init__(self, data: float, inputs: Sequence["Value"] = (),
                 slopes: Sequence[float] = ()) -> None:
        self.data, self.grad, self.inputs, self.slopes = data, 0.0, inputs, slopes

    def __add__(self, other: "Value") -> "Value":
        return Value(self.data + other.data, (self, other), (1.0, 1.0))

    def __mul__(self, other: "Value") -> "Value":
        return Value(self.data * other.data, (self, other), (other.data, self.data))

    def apply(self, data: float, slope: float) -> "Value":
        """A function of this number alone, given its value and its derivative."""
        return Value(data, (self,), (slope,))

    def backward(self) -> None:
        """Add to the gradient of every number that this one was made of."""
        order: List[Value] = []
        seen = set()
        stack = [(self, False)]
        while stack:
            value, finished = stack.pop()
            if finished:
                order.append(value)
            elif value not in seen:
                seen.add(value)
                stack.append((value, True))
                stack.extend((each, False) for each in value.inputs)
        self.grad = 1.0
        for value in reversed(order):
            for each, slope in zip(value.inputs, value.slopes):
                each.grad += slope * value.grad


def total(values: Sequence[Value]) -> Value:
    """The sum, one addition after the other."""
    result = values[0]
    for value in values[1:]:
        result = result + value
    return result


def dot(x: Sequence[Value], y: Sequence[Value]) -> Value:
    """The sum of the products."""
    return total([p * q for p, q in zip(x, y)])


def times(matrix: Sequence[Sequence[Value]], x: Sequence[Value]) -> List[Value]:
    """A matrix times a vector."""
    return [dot(row, x) for row in matrix]


def rms_norm(x: List[Value]) -> List[Value]:
    """x over the root of its mean square."""
    mean = dot(x, x) * Value(1 / len(x)) + Value(1e-5)
    scale = mean.apply(mean.data ** -0.5, -0.5 * mean.data ** -1.5)
    return [value * scale for value in x]


def softmax(scores: List[Value]) -> List[Value]:
    """exp of the scores over their sum."""
    largest = max(score.data for score in scores)
    powers = [
        score.apply(math.exp(score.data - largest), math.exp(score.data - largest))
        for score in scores
    ]
    sum_ = total(powers)
    inverse = sum_.apply(1 / sum_.data, -1 / sum_.data ** 2)
    return [power * inverse for power in powers]


def scalar_loss(p: Dict[str, List[List[Value]]], document: List[int], layers: int) -> Value:
    """The mean loss of one name; the keys and values of earlier letters are kept."""
    keys: List[List[List[Value]]] = [[] for _ in range(layers)]
    values: List[List[List[Value]]] = [[] for _ in range(layers)]
    losses = []
    for place, (token, target) in enumerate(zip(document, document[1:])):
        x = rms_norm([a + b for a, b in zip(p["tokens"][token], p["positions"][place])])
        for layer in range(layers):
            h = rms_norm(x)
            query = times(p[f"{layer}.query"], h)
            keys[layer].append(times(p[f"{layer}.key"], h))
            values[layer].append(times(p[f"{layer}.value"], h))
            mixed = attend(query, keys[layer], values[layer])
            x = [a + b for a, b in zip(x, times(p[f"{layer}.mix"], mixed))]
            inner = [each.apply(max(each.data, 0.0), float(each.data > 0))
                     for each in times(p[f"{layer}.inner"], rms_norm(x))]
            x = [a + b for a, b in zip(x, times(p[f"{layer}.outer"], inner))]
        likely = softmax(times(p["output"], x))[target]
        losses.append(likely.apply(-math.log(likely.data), -1 / likely.data))
    return total(losses) * Value(1 / len(losses))


def attend(query: List[Value], keys: List[List[Value]], values: List[List[Value]]) -> List[Value]:
    """All heads of attention of one position over those before it and itself."""
    width = len(query) // HEADS
    mixed = []
    for start in range(0, len(query), width):
        head = slice(start, start + width)
        looks = softmax([dot(query[head], key[head]) * Value(width ** -0.5) for key in keys])
        mixed += [
            dot(looks, [value[column] for value in values])
            for column in range(start, start + width)
        ]
    return mixed


def rms_norm_of_arrays(x: Any) -> Any:
    """x s with s = 1 / sqrt(mean(x^2) + eps), as one operation.

    ds/dx_j = -s^3 x_j / n, so that with y = x s the gradient is s (g - y mean(g y)).
    """
    scale = xp.pow(xp.mean(x.data * x.data, axis=-1, keepdims=True) + 1e-5, -0.5)
    y = x.data * scale
    return record("rms_norm", y, (
        x, lambda g: (g - y * xp.mean(g * y, axis=-1, keepdims=True)) * scale))


@lru_cache(maxsize=None)
def future(length: int) -> Any:
    """What is added to the scores: minus infinity for what comes later. Made once per length."""
    return tf.tensor([[0.0 if key <= query else -math.inf for key in range(length)]
                      for query in range(length)])


def tensor_loss(p: Dict[str, Any], ids: Any, targets: Any, layers: int) -> Any:
    """The same loss with one operation per array: ids (1, T), targets (1, T)."""
    norm, length = rms_norm_of_arrays, ids.shape[1]
    x = norm(F.embedding(ids, p["tokens"]) + p["positions"][:length])
    for layer in range(layers):
        h = norm(x)
        query, key, value = (split_heads(F.linear(h, p[f"{layer}.{part}"]), HEADS)
                             for part in ("query", "key", "value"))
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=future(length))
        x = x + F.linear(join_heads(mixed), p[f"{layer}.mix"])
        x = x + F.linear(F.relu(F.linear(norm(x), p[f"{layer}.inner"])), p[f"{layer}.outer"])
    return F.cross_entropy(F.linear(x, p["output"]), targets)


def scalar_step(width: int = 16, layers: int = 1,
                tokens: Optional[int] = None) -> Callable[[], float]:
    """A function that trains the scalar engine on the next document, by Adam, and returns the
    loss."""
    p = {name: [[Value(number) for number in row] for row in rows]
         for name, rows in weights(width, layers).items()}
    flat = [value for rows in p.values() for row in rows for value in row]
    first, second, names, steps = [0.0] * len(flat), [0.0] * len(flat), documents(tokens), [0]

    def step() -> float:
        loss = scalar_loss(p, names[steps[0] % len(names)], layers)
        loss.backward()
        steps[0] += 1
        one, two = 1 - 0.9 ** steps[0], 1 - 0.999 ** steps[0]
        for i, value in enumerate(flat):
            first[i] = 0.9 * first[i] + 0.1 * value.grad
            second[i] = 0.999 * second[i] + 0.001 * value.grad ** 2
            value.data -= 0.001 * (first[i] / one) / (math.sqrt(second[i] / two) + 1e-8)
            value.grad = 0.0
        return loss.data

    return step


def tensor_step(width: int = 16, layers: int = 1,
                tokens: Optional[int] = None) -> Callable[[], float]:
    """The same with tinyformer's tensors and Adam."""
    from tinyformer.training.optimisers import Adam
    tf.manual_seed(0)
    p = {name: Parameter(rows) for name, rows in weights(width, layers).items()}
    optimiser, steps = Adam(p.items(), lr=0.001), [0]
    pairs = [(tf.tensor([each[:-1]]), tf.tensor([each[1:]])) for each in documents(tokens)]

    def step() -> float:
        loss = tensor_loss(p, *pairs[steps[0] % len(pairs)], layers)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        steps[0] += 1
        return float(loss.item())

    return step


def largest_difference(steps: int = 20, width: int = 16, layers: int = 1,
                       tokens: Optional[int] = None) -> float:
    """How far the losses of the two engines are apart at most, in so many steps."""
    ways = scalar_step(width, layers, tokens), tensor_step(width, layers, tokens)
    return max(abs(ways[0]() - ways[1]()) for _ in range(steps))


def bare_product(rows: List[List[float]], columns: List[List[float]]) -> List[float]:
    """The dot products of all rows with all columns by the interpreter's own means."""
    if hasattr(math, "sumprod"):
        sumprod = getattr(math, "sumprod")
        return [sumprod(row, column) for row in rows for column in columns]
    if sys.implementation.name != "pypy":
        return [sum(map(mul, row, column)) for row in rows for column in columns]
    out = []
    for row in rows:
        for column in columns:
            total = 0.0
            for k in range(len(row)):
                total += row[k] * column[k]
            out.append(total)
    return out


def products(n: int = 64) -> Dict[str, Callable[[], Any]]:
    """Two ways to the product of two matrices of n rows and n columns: `matmul` of the pure
    backend, and `kernel`, its dot products alone, of rows and columns that are there."""
    tf.use_backend("python")
    rows, columns = ([Stream(n + k).uniforms_list(n) for _ in range(n)] for k in range(2))
    x, y = xp.asarray(rows), xp.matrix_transpose(xp.asarray(columns))
    ways = {"kernel": lambda: bare_product(rows, columns), "matmul": lambda: xp.matmul(x, y)}
    apart = max(abs(p - q) for p, q in zip(ways["kernel"](), ways["matmul"]().values))
    assert apart < 1e-12 * n, f"the products differ by {apart}"
    return ways
