"""The matrix products of a step alone: no engine that computes the same can be faster.

One step is watched, the operands of every product are kept, and the products are computed again
from the same memory.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from math import prod
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy

from tinyformer.arrays import xp

Call = Tuple[Tuple[Any, ...], Dict[str, Any]]


@contextmanager
def watched(calls: List[Call]) -> Iterator[None]:
    """Inside, the operands of every matrix product are added to `calls`.

    A product is a call of `xp.matmul`, of NumPy's `matmul`, or of that under its name in a module
    of the package.
    """
    real = numpy.matmul

    def matmul(*operands: Any, **options: Any) -> Any:
        calls.append((operands, options))
        return real(*operands, **options)

    places = [vars(xp), vars(numpy)] + [vars(module) for name, module in list(sys.modules.items())
                                        if name.startswith("tinyformer.") and module is not None]
    places = [place for place in places if place.get("matmul") is real]
    for place in places:
        place["matmul"] = matmul
    try:
        yield
    finally:
        for place in places:
            place["matmul"] = real


def recorded(step: Callable[[], Any]) -> List[Call]:
    """The matrix products of one step, without those that only add up lines."""
    calls: List[Call] = []
    with watched(calls):
        step()
    return [call for call in calls if not any(map(constant, call[0][:2]))]


def constant(operand: Any) -> bool:
    """Whether an operand is one number throughout: a product with it is a sum, written otherwise.
    """
    return bool(operand.size and (operand == operand.flat[0]).all())


def again(calls: List[Call]) -> Callable[[], None]:
    """A function that computes the products, into memory of their own where they were given one."""
    prepared = [(operands[:2], {"out": numpy.empty_like(_out(operands, options))}
                 if _out(operands, options) is not None else {}) for operands, options in calls]
    real = numpy.matmul

    def compute() -> None:
        for operands, options in prepared:
            real(*operands, **options)

    return compute


def _out(operands: Tuple[Any, ...], options: Dict[str, Any]) -> Any:
    out = operands[2] if len(operands) > 2 else options.get("out")
    return out[0] if isinstance(out, tuple) else out


def multiply_adds(calls: List[Call]) -> int:
    """The multiplications of all products."""
    total = 0
    for (a, b, *_), _ in calls:
        leading = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        columns = b.shape[-1] if b.ndim > 1 else 1
        total += prod(leading) * (a.shape[-2] if a.ndim > 1 else 1) * a.shape[-1] * columns
    return total
