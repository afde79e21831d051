"""One calculation in both backends: how its inputs are drawn, how it is run, and what must agree.

A `Case` is a function of the namespace and of some arguments. Arrays among the arguments are
`Numbers`, which belong to no backend; each run makes them anew. `outcome` brings the result of a
run, or the error, into a form that `difference` compares.
"""

from __future__ import annotations

import math
import random
import warnings
from dataclasses import dataclass
from typing import Any, Callable, List, Sequence, Tuple

from tinyformer.arrays import xp

Shape = Tuple[int, ...]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, 1.0, -1.0, 2.0, 0.5,
           710.0]
NATIVE = {"bool": bool, "int": int, "float": float}
NUMPY_KINDS = {"bool": "bool", "int64": "int", "float64": "float"}


@dataclass(frozen=True)
class Numbers:
    """An array that belongs to no backend: its elements in order, its shape and its kind."""

    values: Sequence[Any]
    shape: Shape
    kind: str

    def array(self) -> Any:
        """The same array in the backend in use; floats in its default dtype."""
        dtype = {"bool": xp.bool, "int": xp.int64, "float": xp.default_float}[self.kind]
        return xp.reshape(xp.asarray(list(self.values), dtype), self.shape)


@dataclass
class Case:
    """`function(xp, *arguments)` and how closely its results must agree.

    `ulps` allows for another rounding of the mathematics library, `close` for another order of
    summation (relative to 1 or to the result, whichever is larger). `signed` compares the signs of
    zeros. `keeps` is false where float32 inputs are to become something else.
    """

    function: Callable[..., Any]
    arguments: Tuple[Any, ...]
    ulps: int = 0
    close: float = 0.0
    signed: bool = True
    keeps: bool = True
    note: str = ""

    def run(self) -> Any:
        """The result in the backend in use."""
        return self.function(xp, *[materialised(argument) for argument in self.arguments])

    def __str__(self) -> str:
        return f"{self.note} {self.arguments}"

    def keeps_float32(self) -> bool:
        """Whether float32 inputs must give float32: there are float arrays, and no int arrays."""
        kinds = {part.kind for part in flattened(self.arguments) if isinstance(part, Numbers)}
        return self.keeps and "float" in kinds and "int" not in kinds


def materialised(argument: Any) -> Any:
    """The argument with every `Numbers` in it made an array of the backend in use."""
    if isinstance(argument, Numbers):
        return argument.array()
    if isinstance(argument, (list, tuple)):
        return type(argument)(materialised(part) for part in argument)
    return argument


def flattened(argument: Any) -> List[Any]:
    """The parts of nested lists and tuples."""
    if isinstance(argument, (list, tuple)):
        return [part for each in argument for part in flattened(each)]
    return [argument]


class Draw(random.Random):
    """Random shapes and numbers, the awkward ones often enough."""

    def shape(self, most: int = 4, least: int = 0, zero: float = 0.1) -> Shape:
        """A shape of `least` to `most` axes; each length is 0 with probability `zero`."""
        return tuple(0 if self.random() < zero else self.randint(1, 4)
                     for _ in range(self.randint(least, most)))

    def number(self, kind: str, special: float = 0.0) -> Any:
        """A Python number; a float is one of the special ones with probability `special`."""
        if kind == "bool":
            return self.random() < 0.5
        if kind == "int":
            return self.randint(-5, 5)
        return self.choice(SPECIAL) if self.random() < special else self.uniform(-4, 4)

    def numbers(self, shape: Shape, kind: str = "float", special: float = 0.0) -> Numbers:
        """An array of `shape`, with repeated elements now and then."""
        values = [self.number(kind, special) for _ in range(math.prod(shape))]
        if values and self.random() < 0.3:
            values = [self.choice(values) for _ in values]
        return Numbers(values, shape, kind)

    def stretched(self, shape: Shape) -> Shape:
        """A shape that broadcasts against `shape`: axes of length 1, or missing at the front."""
        other = tuple(1 if self.random() < 0.4 else length for length in shape)
        return other[self.randint(0, len(other)):] if self.random() < 0.5 else other

    def pair(self, kinds: Sequence[str], special: float = 0.2) -> Tuple[Numbers, Numbers]:
        """Two arrays that broadcast, each of one of the kinds."""
        shape = self.shape(3)
        shapes = [shape, self.stretched(shape)]
        self.shuffle(shapes)
        first, second = (self.numbers(each, self.choice(kinds), special) for each in shapes)
        return first, second

    def axis(self, ndim: int) -> int:
        """A valid axis, counted from either end."""
        return self.randint(-ndim, ndim - 1)

    def axes(self, ndim: int) -> Any:
        """None, one axis, or a tuple of some axes in any order."""
        if not ndim or self.random() < 0.2:
            return None
        if self.random() < 0.5:
            return self.axis(ndim)
        chosen = self.sample(range(ndim), self.randint(0, ndim))
        return tuple(axis - ndim if self.random() < 0.5 else axis for axis in chosen)


def outcome(case: Case) -> Any:
    """("value", plain form) of the result, or ("error", built-in classes of the exception, text).

    Warnings are errors: silence is part of what is promised.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return "value", plain(case.run())
    except Exception as error:
        names = {each.__name__ for each in type(error).__mro__ if each.__module__ == "builtins"}
        return "error", names - {"object", "BaseException", "Exception"}, str(error)


def plain(result: Any) -> Any:
    """A result without its backend: (kind, shape, list of elements) for arrays."""
    if isinstance(result, (tuple, list)):
        return [plain(part) for part in result]
    if not hasattr(result, "tolist"):
        return result
    dtype = str(result.dtype)
    values = result.tolist()
    for _ in result.shape[1:]:
        values = [each for part in values for each in part]
    values = values if result.shape else [values]
    kind = NUMPY_KINDS.get(dtype, dtype)
    for value in values:
        assert type(value) is NATIVE.get(kind, type(value)), f"{value!r} in an array of {kind}"
    return kind, tuple(result.shape), values


def difference(case: Case, one: Any, two: Any) -> str:
    """What differs between two outcomes; what NumPy calls deprecated is no answer."""
    if two[0] == "error" and "DeprecationWarning" in two[1]:
        return ""
    if one[0] != two[0]:
        return f"{one} but {two}"
    if one[0] == "error":
        return "" if one[1] == two[1] else f"{one[1:]} but {two[1:]}"
    return _difference(case, one[1], two[1])


def _difference(case: Case, one: Any, two: Any) -> str:
    if type(one) is not type(two):
        return f"{one!r} but {two!r}"
    if isinstance(one, list):
        parts = [_difference(case, p, q) for p, q in zip(one, two)]
        return "; ".join(filter(None, parts)) or ("" if len(one) == len(two) else "another length")
    if not isinstance(one, tuple):
        return "" if same(case, one, two) else f"{one!r} but {two!r}"
    if one[:2] != two[:2]:
        return f"kind and shape {one[:2]} but {two[:2]}"
    wrong = [(position, p, q) for position, (p, q) in enumerate(zip(one[2], two[2]))
             if not same(case, p, q)]
    return f"at (position, python, numpy) {wrong[:3]}" if wrong else ""


def same(case: Case, p: Any, q: Any) -> bool:
    """Whether two Python numbers agree as closely as the case asks."""
    if not isinstance(p, float) or not isinstance(q, float):
        return bool(type(p) is type(q) and p == q)
    if p != p or q != q:
        return p != p and q != q
    if p == q:
        return not case.signed or math.copysign(1, p) == math.copysign(1, q)
    if math.isinf(p) or math.isinf(q):
        return False
    size = max(abs(p), abs(q))
    return abs(p - q) <= max(case.ulps * math.ulp(size), case.close * max(1, size))
