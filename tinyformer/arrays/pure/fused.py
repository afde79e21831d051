"""Faster bodies for computations that are made of many elementwise passes.

Every pass over a pure array makes a list. Where a formula of several passes is worth its own loop,
it stands here under the name of the plain one, which stays where it is read and derived; `xp.fused`
maps the names to these bodies, and the tests hold one against the other.
"""

from __future__ import annotations

from functools import wraps
from math import sqrt
from operator import add

from tinyformer.arrays.pure.array import Array
from tinyformer.arrays.pure.layout import rows_of
from tinyformer.arrays.pure.products import paired

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Tuple

fused: Dict[str, Callable[..., Any]] = {}


def of_floats(body: Callable[..., Any]) -> Callable[..., Any]:
    """Enter a body in `fused`. Exact numbers are left to the plain computation, and whatever Python
    raises an error for where IEEE 754 has an inf or a nan."""
    @wraps(body)
    def computed(*operands: Any) -> Any:
        """The body, or NotImplemented for what is left to the plain computation."""
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
    if not shift or not min(v.values, default=0.0) >= 0:    # nan comes out where it comes first
        return NotImplemented               # before anything is written: 0 / 0, or a root, may fail
    c1, c2, first, second = 1 - b1, 1 - b2, m.values, v.values
    for i, slope in enumerate(g.values):
        first[i] = b1 * first[i] + c1 * slope
        second[i] = b2 * second[i] + c2 * (slope * slope)
    numbers = p.values if keep == 1 else [keep * number for number in p.values]
    moved = [number - scale * first[i] / (sqrt(second[i]) + shift)
             for i, number in enumerate(numbers)]
    return Array(moved, p.shape, "float"), m, v


@of_floats
def affine(rows: Array, w: Array, b: Any) -> Array:
    """`operations.products.affine`: the columns of w^T are the rows of w."""
    y = paired(rows, w, rows_of, rows_of)
    if b is not None:
        y.values = list(map(add, y.values, b.values * rows.shape[0]))
    return y
