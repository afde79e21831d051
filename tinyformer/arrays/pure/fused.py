"""Faster bodies for a few computations that are made of many elementwise passes.

Every pass over a pure array makes a list. Where a formula of several passes is worth its own loop,
it stands here under the name of the plain one, which stays where it is read; `xp.fused` maps the
names to these bodies, and the tests hold one against the other.
"""

from __future__ import annotations

from math import sqrt

from tinyformer.arrays.pure.array import Array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Tuple


def adam_step(p: Array, g: Array, m: Array, v: Array, keep: float, b1: float, b2: float,
              scale: float, shift: float) -> Tuple[Array, Array, Array]:
    """`training.optimisers.adam_step` in three loops."""
    c1, c2 = 1 - b1, 1 - b2
    first = [b1 * a + c1 * b for a, b in zip(m.values, g.values)]
    second = [b2 * a + c2 * (b * b) for a, b in zip(v.values, g.values)]
    moved = [keep * a - scale * b / (sqrt(c) + shift) for a, b, c in zip(p.values, first, second)]
    return (Array(moved, p.shape, "float"), Array(first, p.shape, "float"),
            Array(second, p.shape, "float"))


fused: Dict[str, Callable[..., Any]] = {"adam_step": adam_step}
