"""The table of the differential test: for every name of the namespace, a maker of cases.

A row draws a few dozen inputs for one function, mistakes among them. What is left out is what the
Array API standard leaves undefined and NumPy answers oddly: functions of floats, squares and powers
of bools (NumPy computes in float16 and int8), `reshape` with lengths below -1 (NumPy takes them for
-1), ints beyond 64 bits (the pure ints do not overflow), nan and inf cast to int, comparison with
None, and the powers 0.5 of -0.0 and -inf (NumPy takes the square root, which differs from the
standard's pow).
"""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, Dict, Iterator, List, Tuple

from differential import Case, Draw, Numbers

Row = Callable[[str, Draw], Iterator[Case]]
ROWS: Dict[str, Row] = {}
KINDS = ["bool", "int", "float"]
ARITHMETIC = ["add", "subtract", "multiply", "divide"]
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
MISFITS = [((2, 3), (2,)), ((0,), (2,)), ((2, 1, 3), (4, 2))]


def row(*names: str) -> Callable[[Row], Row]:
    """Register a maker of cases for some names."""
    def register(maker: Row) -> Row:
        ROWS.update(dict.fromkeys(names, maker))
        return maker
    return register


def call(name: str, **options: Any) -> Callable[..., Any]:
    """The function of that name, with keyword arguments."""
    return lambda xp, *arguments: getattr(xp, name)(*arguments, **options)


@row("bool", "int64", "float64")
def dtypes(name: str, draw: Draw) -> Iterator[Case]:
    for kind in KINDS:
        x = draw.numbers((2,), kind)
        yield Case(lambda xp, x: xp.asarray(x, getattr(xp, name)), (x,), keeps=False)
        yield Case(lambda xp, x: [x.dtype == getattr(xp, name), x.dtype != getattr(xp, name)], (x,))


@row("inf", "nan", "pi")
def constants(name: str, draw: Draw) -> Iterator[Case]:
    yield Case(lambda xp: getattr(xp, name), ())


@row("Array")
def methods(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(40):
        x = draw.numbers(draw.shape(3), draw.choice(KINDS), special=0.2)
        yield Case(lambda xp, x: [isinstance(x, xp.Array), x.ndim, x.size, list(x.shape)], (x,))
        for convert in (len, list, bool, lambda x: x.item()):
            yield Case(lambda xp, convert, x: convert(x), (convert, x))
        yield Case(lambda xp, x: operator.index(x), (x,))
        if x.values and all(map(math.isfinite, x.values)):
            yield Case(lambda xp, x: [float(x), int(x)], (x,))
        yield Case(lambda xp, x: hash(x) is None, (Numbers([1.0], (1,), "float"),))


@row("asarray")
def asarray(name: str, draw: Draw) -> Iterator[Case]:
    nested: List[Any] = [1, 2.5, True, [], [[]], [[], []], [1, 2], [True, 2], [1, 2.0], (1, 2),
                         range(3), [[1, 2], [3.0, 4]], ([1, 2], (3, 4)), [[[1]], [[2]]],
                         [math.nan, -0.0, math.inf]]
    wrong: List[Any] = ["a", None, 1j, ["a"], [None], {}, [[1], 2], [[1], [2, 3]],
                        [[1, 2], [[3], [4]]], object(), {1}]
    for obj in nested + wrong:
        yield Case(call(name), (obj,))
    for obj in nested[:-1]:
        for dtype in ("bool", "int64", "float64"):
            yield Case(lambda xp, obj, dtype: xp.asarray(obj, getattr(xp, dtype)), (obj, dtype))
    for _ in range(20):
        x, y = (draw.numbers(draw.shape(2), draw.choice(KINDS)) for _ in range(2))
        yield Case(call(name), (x,))
        yield Case(call(name), ([x, x],))
        yield Case(lambda xp, x: xp.asarray(x) is x, (x,))
        yield Case(lambda xp, x, dtype: xp.asarray(x, dtype=getattr(xp, dtype)), (
            x, draw.choice(["bool", "int64", "float64"])), keeps=False)
    yield Case(lambda xp: xp.asarray([1.0], "nonsense"), ())


@row("zeros", "ones", "full")
def filled(name: str, draw: Draw) -> Iterator[Case]:
    shapes: List[Any] = [(), 3, 0, (2,), [2, 3], (0, 2), (2, 3, 4), -1, (2, -1), 2.5, (2.0,), "ab",
                         None]
    for shape in shapes:
        for value in ([1, 2.5, True, -0.0, math.nan] if name == "full" else [None]):
            rest = () if value is None else (value,)
            yield Case(call(name), (shape, *rest))
            if value is None or math.isfinite(value):
                for dtype in ("bool", "int64", "float64"):
                    yield Case(lambda xp, dtype, *rest: getattr(xp, name)(
                        *rest, dtype=getattr(xp, dtype)), (dtype, shape, *rest))
    if name == "full":
        yield Case(call(name), ((2,), "a"))


@row("zeros_like", "ones_like")
def like(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(20):
        x = draw.numbers(draw.shape(), draw.choice(KINDS))
        yield Case(call(name), (x,))
        yield Case(lambda xp, x: getattr(xp, name)(x, dtype=xp.int64), (x,))


@row("arange")
def arange(name: str, draw: Draw) -> Iterator[Case]:
    for bounds in [(5,), (0,), (-3,), (2, 7), (7, 2), (7, 2, -2), (0, 10, 3), (0, 10, -1),
                   (1, 5, 0), (2.5,), (0, 1, 0.5), ("a",), (None,)]:
        yield Case(call(name), bounds)
        yield Case(lambda xp, *bounds: xp.arange(*bounds, dtype=xp.float64), bounds)


@row("astype")
def astype(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(60):
        x = draw.numbers(draw.shape(3), draw.choice(KINDS))
        dtype = draw.choice(["bool", "int64", "float64"])
        yield Case(lambda xp, x, dtype: xp.astype(x, getattr(xp, dtype)), (x, dtype), keeps=False)
        yield Case(lambda xp, x: xp.astype(x, x.dtype) is x, (x,))
    hard = Numbers([math.nan, -0.0, 5e-324], (3,), "float")
    yield Case(lambda xp, x: xp.astype(x, xp.bool), (hard,))
    yield Case(lambda xp, x: xp.astype(x, "nonsense"), (x,))


@row("isdtype")
def isdtype(name: str, draw: Draw) -> Iterator[Case]:
    for kind in KINDS:
        x = draw.numbers((1,), kind)
        for asked in ["bool", "integral", "signed integer", "real floating", "numeric", "nonsense",
                      ("bool", "integral"), ("real floating",), ("bool", "nonsense")]:
            yield Case(lambda xp, x, asked: xp.isdtype(x.dtype, asked), (x, asked))
        yield Case(lambda xp, x: [xp.isdtype(x.dtype, each)
                                  for each in (xp.bool, xp.int64, xp.float64)], (x,))


def binary_cases(function: Callable[..., Any], draw: Draw, kinds: List[str],
                 count: int = 60, wrong: Tuple[Any, ...] = ("a", None, {}),
                 **how: Any) -> Iterator[Case]:
    """Broadcast pairs, Python numbers on either side, special values, and what does not fit."""
    for _ in range(count):
        x, y = draw.pair(kinds)
        yield Case(function, (x, y), **how)
        number = draw.number(draw.choice(kinds), special=0.3)
        yield Case(function, (x, number), **how)
        yield Case(function, (number, x), **how)
    for one, two in MISFITS:
        yield Case(function, (draw.numbers(one, kinds[-1]), draw.numbers(two, kinds[-1])))
    for operand in wrong:
        yield Case(function, (draw.numbers((2,), kinds[-1]), operand))


@row(*ARITHMETIC, "maximum", "minimum")
def arithmetic(name: str, draw: Draw) -> Iterator[Case]:
    yield from binary_cases(call(name), draw, KINDS, signed=name in ARITHMETIC)
    yield Case(call(name), ([1.5, 2.5], draw.numbers((2,))), keeps=False)


@row(*COMPARISONS, "logical_and", "logical_or")
def comparisons(name: str, draw: Draw) -> Iterator[Case]:
    yield from binary_cases(call(name), draw, KINDS, wrong=())


@row("pow")
def powers(name: str, draw: Draw, function: Any = None) -> Iterator[Case]:
    function = function or call(name)
    yield from binary_cases(function, draw, ["float"], ulps=2)
    for _ in range(40):
        shape = draw.shape(3)
        base, exponent = draw.numbers(shape, "int"), draw.numbers(draw.stretched(shape), "int")
        yield Case(function, (base, exponent))
        yield Case(function, (base, draw.randint(-1, 3)))
        yield Case(function, (draw.randint(-3, 3), base))
        for number in (2, 3, 2.0, 3.0, 0.5, -1.0, -2, 0):
            special = 0.0 if number == 0.5 else 0.3
            yield Case(function, (draw.numbers(shape, "float", special), number), ulps=2)
            yield Case(function, (base, number), ulps=2)
            yield Case(function, (number, draw.numbers(shape, "float", 0.3)), ulps=2)
    for base in (-8.0, -0.0, 0.0, -math.inf, math.inf, -1.0, 1.0, math.nan, 1e200, -1e200):
        exponents = [-math.inf, -3.0, -2.0, -1 / 3, -0.0, 0.0, 1 / 3, 2.0, 3.0, math.inf, math.nan]
        yield Case(function, (base, Numbers(exponents, (11,), "float")), ulps=2)


@row("negative", "abs", "isnan", "isfinite", "logical_not")
def unary(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(40):
        yield Case(call(name), (draw.numbers(draw.shape(), draw.choice(KINDS), special=0.3),))
    yield Case(call(name), (-1.5,))
    if name != "logical_not":
        yield Case(call(name), ("a",))


@row("square")
def square(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(40):
        kind = draw.choice(["int", "float"])
        yield Case(call(name), (draw.numbers(draw.shape(), kind, special=0.3),))


@row("exp", "log", "sqrt", "tanh", "sin", "cos", "erf")
def of_floats(name: str, draw: Draw) -> Iterator[Case]:
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 709.7, 710.0, -746.0, 1e-300, -1e-9,
               5e-324, 30.0, -30.0]
    yield Case(call(name), (Numbers(special, (len(special),), "float"),), ulps=4)
    for _ in range(40):
        yield Case(call(name), (draw.numbers(draw.shape(), draw.choice(["int", "float"])),), ulps=4)
    yield Case(call(name), (0.5,), ulps=4)
    yield Case(call(name), (Numbers([k / 97 for k in range(-700, 700)], (1400,), "float"),), ulps=4)
    yield Case(call(name), ("a",))


@row("where")
def where(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(80):
        x, y = draw.pair(KINDS)
        condition = draw.numbers(draw.stretched(max(x.shape, y.shape, key=len)), "bool")
        number = draw.number(draw.choice(KINDS), special=0.3)
        yield Case(call(name), (condition, x, y))
        yield Case(call(name), (condition, x, number))
        yield Case(call(name), (condition, number, y))
        yield Case(call(name), (condition, number, draw.number(draw.choice(KINDS))))
        yield Case(call(name), (draw.random() < 0.5, x, y))
    for condition in (draw.numbers((2,), "int"), draw.numbers((2,)), 1, 0.0,
                      draw.numbers((3,), "bool")):
        yield Case(call(name), (condition, draw.numbers((2,)), 1.0))


def reduction_cases(name: str, draw: Draw, kinds: List[str], special: float,
                    **how: Any) -> Iterator[Case]:
    """Every choice of axes, with and without keepdims, and the mistakes that axes allow."""
    for _ in range(120):
        x = draw.numbers(draw.shape(), draw.choice(kinds), special)
        axis, keepdims = draw.axes(len(x.shape)), draw.random() < 0.5
        yield Case(call(name, axis=axis, keepdims=keepdims), (x,), note=f"{axis}", **how)
    for axis in (2, -3, (0, 0), (0, -2), (0, 5), 0.5, "a", (1, 0.5)):
        yield Case(call(name, axis=axis), (draw.numbers((2, 3), kinds[-1]),), note=str(axis))
    for shape in ((0,), (0, 3), (3, 0), (0, 0), (2, 0, 3)):
        for axis in (None, 0, -1, (), tuple(range(len(shape)))):
            yield Case(call(name, axis=axis), (draw.numbers(shape, kinds[-1]),), note=f"{axis}")
    yield Case(call(name), (2.5,), **how)
    yield Case(call(name), ([[1, 2], [3, 4]],), **how)


@row("sum", "mean")
def sums(name: str, draw: Draw) -> Iterator[Case]:
    how: Any = {"close": 1e-14, "signed": False}
    yield from reduction_cases(name, draw, KINDS, 0.0, **how)
    for special in ([math.inf, 1.0], [math.inf, -math.inf], [math.nan, 1.0],
                    [-math.inf, -math.inf]):
        yield Case(call(name), (Numbers(special, (2,), "float"),), **how)


@row("var", "std")
def variances(name: str, draw: Draw) -> Iterator[Case]:
    how: Any = {"close": 1e-14}
    yield from reduction_cases(name, draw, KINDS, 0.0, **how)
    for correction in (0, 1, 1.0, 0.5, 3, 4, 7):
        for axis in (None, 0, 1):
            x = draw.numbers((3, 4), draw.choice(KINDS))
            function, note = call(name, axis=axis, correction=correction), str(correction)
            yield Case(function, (x,), note=note, **how)
            yield Case(function, (Numbers([2.0] * 12, (3, 4), "float"),), note=note)
    for special in ([math.inf, 1.0], [math.nan, 1.0]):
        yield Case(call(name), (Numbers(special, (2,), "float"),))


@row("max", "min")
def extremes(name: str, draw: Draw) -> Iterator[Case]:
    yield from reduction_cases(name, draw, KINDS, 0.2, signed=False)
    for special in ([math.inf, -math.inf], [1.0, math.nan], [math.nan, math.inf],
                    [-math.inf, math.nan, 3.0]):
        yield Case(call(name), (Numbers(special, (len(special),), "float"),))


@row("any", "all")
def truths(name: str, draw: Draw) -> Iterator[Case]:
    yield from reduction_cases(name, draw, KINDS, 0.2)


@row("argmax")
def argmax(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(120):
        x = draw.numbers(draw.shape(zero=0.05), draw.choice(KINDS), special=0.2)
        axis = draw.axis(len(x.shape)) if x.shape and draw.random() < 0.8 else None
        yield Case(call(name, axis=axis, keepdims=draw.random() < 0.5), (x,), note=f"{axis}")
    for axis in (2, -3, (0, 1), 0.5):
        yield Case(call(name, axis=axis), (draw.numbers((2, 3)),), note=str(axis))
    for shape in ((0,), (0, 3), (3, 0), (0, 0)):
        for axis in (None, 0, -1):
            yield Case(call(name, axis=axis), (draw.numbers(shape),))


@row("matmul")
def matmul(name: str, draw: Draw, function: Any = None) -> Iterator[Case]:
    function = function or call(name)
    how: Any = {"close": 1e-14, "signed": False}
    for _ in range(150):
        batch, inner = draw.shape(2), draw.choice([0, 1, 2, 3, 4, 5, 8, 16, 17, 33])
        left = draw.stretched(batch) + (draw.randint(0, 4), inner)
        right = batch + (inner, draw.randint(0, 4))
        left = left[-1:] if draw.random() < 0.15 else left
        right = right[-2:-1] if draw.random() < 0.15 else right
        arrays = (draw.numbers(left, draw.choice(KINDS)), draw.numbers(right, draw.choice(KINDS)))
        yield Case(function, arrays, **how)
    for one, two in [((2, 3), (2, 3)), ((3,), (2,)), ((2, 2, 3), (3, 3, 2)), ((), (2,)),
                     ((2,), ())]:
        yield Case(function, (draw.numbers(one), draw.numbers(two)))
    yield Case(function, (Numbers([math.inf, 1.0, math.nan, 1.0], (2, 2), "float"),
                          Numbers([0.0, 1.0, 1.0, -math.inf], (2, 2), "float")), **how)
    yield Case(function, (draw.numbers((2, 2)), [[1.0, 2.0], [3.0, 4.0]]), keeps=False, **how)
    yield Case(function, (draw.numbers((2, 2)), 2.0))
