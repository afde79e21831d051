"""Faster bodies for computations that are made of many elementwise passes.

Every pass over a pure array makes a list. Where a formula of several passes is worth its own loop,
it stands here under the name of the plain one, which stays where it is read and derived; `xp.fused`
maps the names to these bodies, and the tests hold one against the other.
"""

from __future__ import annotations

from functools import wraps
from math import exp, log, sqrt
from operator import add, mul

from tinyformer.arrays.pure.array import Array
from tinyformer.arrays.pure.elementwise import multiply
from tinyformer.arrays.pure.layout import broadcast_to, columns_of, rows_of
from tinyformer.arrays.pure.products import paired

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Tuple

LOWEST = -1e30              # as in `attention_weights`
fused: Dict[str, Callable[..., Any]] = {}


def of_floats(body: Callable[..., Any]) -> Callable[..., Any]:
    """Enter a body in `fused`. Exact numbers are left to the plain computation, and whatever Python
    raises an error for where IEEE 754 has an inf or a nan."""
    @wraps(body)
    def computed(*operands: Any) -> Any:
        for each in operands:
            if type(each) is Array and each.kind == "exact":
                return NotImplemented
        try:
            return body(*operands)
        except (ArithmeticError, ValueError):
            return NotImplemented

    fused[body.__name__] = computed
    return computed


@of_floats
def adam_step(p: Array, g: Array, m: Array, v: Array, keep: float, b1: float, b2: float,
              scale: float, shift: float) -> Tuple[Array, Array, Array]:
    """`training.optimisers.adam_step`, the moments where they stand.

    Two loops, so that the new parameters come to lie side by side in memory: in one loop with the
    moments they would be read more slowly by everything that follows.
    """
    if not shift:
        return NotImplemented               # 0 / 0 may follow
    c1, c2, first, second = 1 - b1, 1 - b2, m.values, v.values
    for i, slope in enumerate(g.values):
        first[i] = b1 * first[i] + c1 * slope
        second[i] = b2 * second[i] + c2 * (slope * slope)
    moved = [keep * number - scale * first[i] / (sqrt(second[i]) + shift)
             for i, number in enumerate(p.values)]
    return Array(moved, p.shape, "float"), m, v


@of_floats
def affine(rows: Array, w: Array, b: Any) -> Array:
    """`operations.products.affine`: the columns of w^T are the rows of w."""
    y = paired(rows, w, rows_of, rows_of)
    if b is not None:
        y.values = list(map(add, y.values, b.values * rows.shape[0]))
    return y


def powers_of(row: List[float]) -> Tuple[List[float], float, float]:
    """exp(s - largest) of each score s, the sum of these powers, and the largest score."""
    largest = max(max(row), LOWEST)
    powers = [exp(score - largest) for score in row]
    return powers, sum(powers), largest


@of_floats
def attend(q: Array, k: Array, v: Array, added: Any, factors: Any) -> Any:
    """`operations.attention.attend`, the softmax row by row."""
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        return NotImplemented
    weights = paired(q, k, rows_of, rows_of)
    if added is not None:
        weights.values = list(map(add, weights.values, broadcast_to(added, weights.shape).values))
    values: List[float] = []
    for row in rows_of(weights.values, k.shape[-2]):
        powers, total, _ = powers_of(row)
        total = max(total, 1.0)
        values += [power / total for power in powers]
    weights.values = values
    return weights, paired(weights if factors is None else multiply(weights, factors), v)


@of_floats
def attend_vjp(g: Array, q: Array, k: Array, v: Array, weights: Array, factors: Any,
               mixture: Array, scores_too: bool) -> Any:
    """`operations.attention.attend_vjp`. The sum of a row of dP P is the product of a row of g and
    one of the mixture: both are the sum of P_s (g v_s) over the keys s."""
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        return NotImplemented
    mixed, keys, width = weights, k.shape[-2], v.shape[-1]
    d = paired(g, v, rows_of, rows_of)
    if factors is not None:
        d, mixed = multiply(d, factors), multiply(weights, factors)
    values: List[float] = []
    for row, line, ours, all_of_it in zip(rows_of(weights.values, keys), rows_of(d.values, keys),
                                          rows_of(g.values, width), rows_of(mixture.values, width)):
        along = sum(map(mul, ours, all_of_it))
        values += [p * (slope - along) for p, slope in zip(row, line)]
    d = Array(values, weights.shape, "float")
    gradients = (paired(d, k), paired(d, q, columns_of), paired(mixed, g, columns_of))
    return (*gradients, d) if scores_too else gradients


@of_floats
def surprise(rows: Array, classes: Array, smoothing: float) -> Tuple[Array, Array]:
    """`operations.probabilities.surprise`, row by row."""
    losses, p, width = [], [], rows.shape[1]
    for row, chosen in zip(rows_of(rows.values, width), classes.values):
        powers, total, largest = powers_of(row)
        loss = log(total) - (1 - smoothing) * (row[chosen] - largest)
        losses.append(loss - smoothing * (sum(row) / width - largest) if smoothing else loss)
        p += [power / total for power in powers]
    return Array(losses, classes.shape, "float"), Array(p, rows.shape, "float")


@of_floats
def surprise_vjp(g: Array, p: Array, classes: Array, smoothing: float) -> Array:
    """`operations.probabilities.surprise_vjp`, row by row."""
    values: List[float] = []
    for row, chosen, scale in zip(rows_of(p.values, p.shape[1]), classes.values, g.values):
        spread = scale * (smoothing / len(row))
        start = len(values) + chosen
        values += [number * scale - spread for number in row]
        values[start] += scale * (smoothing - 1)
    return Array(values, p.shape, "float")
