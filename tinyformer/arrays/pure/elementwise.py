"""One number at a time: arithmetic, functions and comparisons, with broadcasting.

Floats follow IEEE 754 silently, as NumPy does: where bare Python raises (1/0, log(0), exp(1000)), turns
complex ((-8)**(1/3)) or drops a nan (max), the result here is the inf or the nan of the standard.
Each function runs Python's own operation over the whole row and falls back to a careful one, element
by element, only when that raises. Exact numbers keep Python's behaviour and raise.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, List, Tuple

from tinyformer.arrays.pure.array import CONVERT, RANK, Array, Shape, asarray, kind_of, mixed_backends
from tinyformer.arrays.pure.layout import broadcast_shapes, expand

inf, nan, pi = math.inf, math.nan, math.pi


def aligned(name: str, x: Any, y: Any) -> Tuple[List[Any], List[Any], Shape, str]:
    """The elements of two operands in pairs, the shape of the result and its kind.

    A Python number adopts the array's kind, unless its own is higher (an int array plus 0.5 is float).
    """
    if type(x) is Array and type(y) is Array:
        kind = _common_kind(name, x.kind, y.kind)
        if x.shape == y.shape:
            return x.values, y.values, x.shape, kind
        shape = broadcast_shapes(name, x.shape, y.shape)
        return expand(x.values, x.shape, shape), expand(y.values, y.shape, shape), shape, kind
    if type(x) is Array:
        kind, number = _scalar(name, y, x.kind)
        return x.values, [number] * len(x.values), x.shape, kind
    if type(y) is Array:
        kind, number = _scalar(name, x, y.kind)
        return [number] * len(y.values), y.values, y.shape, kind
    return aligned(name, asarray(x), asarray(y))


def _scalar(name: str, number: Any, kind: str) -> Tuple[str, Any]:
    """The kind of an operation between an array of `kind` and a Python number, and the number in it."""
    if hasattr(number, "__array_interface__"):
        raise mixed_backends("numpy", "python")
    common = _common_kind(name, kind, kind_of(number))
    return common, CONVERT[common](number)


def _common_kind(name: str, first: str, second: str) -> str:
    if first == second:
        return first
    if {first, second} == {"float", "exact"}:
        raise TypeError(f"{name}: floats and exact numbers never mix, the result would be rounded; "
                        "convert one side with astype")
    return first if RANK[first] > RANK[second] else second


def _arithmetic(name: str, x: Any, y: Any, function: Callable[[Any, Any], Any]) -> Array:
    a, b, shape, kind = aligned(name, x, y)
    if kind == "bool":
        raise TypeError(f"{name}: not defined for two bool operands; convert with astype first")
    return Array(list(map(function, a, b)), shape, kind)


def add(x: Any, y: Any) -> Array:
    """x + y."""
    return _arithmetic("add", x, y, operator.add)


def subtract(x: Any, y: Any) -> Array:
    """x - y."""
    return _arithmetic("subtract", x, y, operator.sub)


def multiply(x: Any, y: Any) -> Array:
    """x * y."""
    return _arithmetic("multiply", x, y, operator.mul)


def _divide(a: float, b: float) -> float:
    if b:
        return a / b
    if not a or a != a:
        return nan
    return math.copysign(inf, a) * math.copysign(1.0, b)


def divide(x: Any, y: Any) -> Array:
    """x / y; ints become floats, x / 0 is inf or nan."""
    a, b, shape, kind = aligned("divide", x, y)
    if kind == "exact":
        return Array(list(map(operator.truediv, a, b)), shape, kind)
    try:
        return Array(list(map(operator.truediv, a, b)), shape, "float")
    except ZeroDivisionError:
        return Array(list(map(_divide, a, b)), shape, "float")


def _power(a: float, b: float) -> float:
    """a ** b as C's pow gives it: Python's math.pow raises where C returns inf or nan."""
    try:
        return math.pow(a, b)
    except OverflowError:
        return -inf if a < 0 and b % 2 == 1 else inf
    except ValueError:
        if a:                                      # a negative base and a fractional exponent
            return nan
        return math.copysign(inf, a) if b % 2 == 1 else inf


def pow(x: Any, y: Any) -> Array:
    """x ** y; floats as IEEE's pow, ints stay ints and refuse negative exponents."""
    a, b, shape, kind = aligned("pow", x, y)
    if kind == "float":
        if type(y) is not Array and y == 2:
            return Array(list(map(operator.mul, a, a)), shape, kind)
        try:
            return Array(list(map(math.pow, a, b)), shape, kind)
        except (ValueError, OverflowError):
            return Array(list(map(_power, a, b)), shape, kind)
    if kind != "exact" and any(exponent < 0 for exponent in b):
        raise ValueError("pow: an int to a negative int power is no int; convert to float first")
    return Array(list(map(operator.pow, a, b)), shape, "int" if kind == "bool" else kind)


def _floats(name: str, x: Any, function: Callable[[float], float],
            careful: Callable[[float], float]) -> Array:
    """Apply a function of one float; `careful` is the same function where `function` raises."""
    x = asarray(x)
    if x.kind == "exact":
        return Array([getattr(value, name)() for value in x.values], x.shape, x.kind)
    try:
        return Array(list(map(function, x.values)), x.shape, "float")
    except (ValueError, OverflowError):
        return Array([careful(float(value)) for value in x.values], x.shape, "float")


def exp(x: Any) -> Array:
    """e to the power x; inf where that overflows."""
    return _floats("exp", x, math.exp, lambda value: inf if value > 709.0 and _overflows(value)
                   else math.exp(value))


def _overflows(value: float) -> bool:
    try:
        math.exp(value)
    except OverflowError:
        return True
    return False


def log(x: Any) -> Array:
    """The natural logarithm; -inf at 0, nan below."""
    return _floats("log", x, math.log,
                   lambda value: math.log(value) if value > 0 else -inf if value == 0 else nan)


def sqrt(x: Any) -> Array:
    """The square root; nan below 0."""
    return _floats("sqrt", x, math.sqrt, lambda value: nan if value < 0 else math.sqrt(value))


def tanh(x: Any) -> Array:
    """The hyperbolic tangent."""
    return _floats("tanh", x, math.tanh, math.tanh)


def sin(x: Any) -> Array:
    """The sine; nan at the infinities."""
    return _floats("sin", x, math.sin, lambda value: nan if math.isinf(value) else math.sin(value))


def cos(x: Any) -> Array:
    """The cosine; nan at the infinities."""
    return _floats("cos", x, math.cos, lambda value: nan if math.isinf(value) else math.cos(value))


def erf(x: Any) -> Array:
    """The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    return _floats("erf", x, math.erf, math.erf)


def _keep_kind(x: Any, function: Callable[[Any], Any]) -> Array:
    x = asarray(x)
    if x.kind == "bool":
        raise TypeError("arithmetic is not defined for bool arrays; convert with astype first")
    return Array(list(map(function, x.values)), x.shape, x.kind)


def negative(x: Any) -> Array:
    """-x."""
    return _keep_kind(x, operator.neg)


def abs(x: Any) -> Array:
    """The absolute value."""
    return _keep_kind(x, operator.abs)


def square(x: Any) -> Array:
    """x * x."""
    return multiply(x, x)


def maximum(x: Any, y: Any) -> Array:
    """The larger of two numbers; nan if either is nan."""
    a, b, shape, kind = aligned("maximum", x, y)
    return Array([q if q > p or q != q else p for p, q in zip(a, b)], shape, kind)


def minimum(x: Any, y: Any) -> Array:
    """The smaller of two numbers; nan if either is nan."""
    a, b, shape, kind = aligned("minimum", x, y)
    return Array([q if q < p or q != q else p for p, q in zip(a, b)], shape, kind)


def _compare(name: str, x: Any, y: Any, function: Callable[[Any, Any], Any]) -> Array:
    a, b, shape, _ = aligned(name, x, y)
    return Array(list(map(function, a, b)), shape, "bool")


def equal(x: Any, y: Any) -> Array:
    """Where x == y."""
    return _compare("equal", x, y, operator.eq)


def not_equal(x: Any, y: Any) -> Array:
    """Where x != y; true for nan against anything."""
    return _compare("not_equal", x, y, operator.ne)


def less(x: Any, y: Any) -> Array:
    """Where x < y."""
    return _compare("less", x, y, operator.lt)


def less_equal(x: Any, y: Any) -> Array:
    """Where x <= y."""
    return _compare("less_equal", x, y, operator.le)


def greater(x: Any, y: Any) -> Array:
    """Where x > y."""
    return _compare("greater", x, y, operator.gt)


def greater_equal(x: Any, y: Any) -> Array:
    """Where x >= y."""
    return _compare("greater_equal", x, y, operator.ge)


def _logical(name: str, x: Any, y: Any, function: Callable[[Any, Any], Any]) -> Array:
    a, b, shape, _ = aligned(name, x, y)
    return Array([function(bool(p), bool(q)) for p, q in zip(a, b)], shape, "bool")


def logical_and(x: Any, y: Any) -> Array:
    """Where both are true."""
    return _logical("logical_and", x, y, operator.and_)


def logical_or(x: Any, y: Any) -> Array:
    """Where one or both are true."""
    return _logical("logical_or", x, y, operator.or_)


def logical_not(x: Any) -> Array:
    """Where x is false."""
    x = asarray(x)
    return Array(list(map(operator.not_, x.values)), x.shape, "bool")


def isnan(x: Any) -> Array:
    """Where x is not a number."""
    x = asarray(x)
    return Array([value != value for value in x.values], x.shape, "bool")


def isfinite(x: Any) -> Array:
    """Where x is neither nan nor infinite."""
    x = asarray(x)
    return Array(list(map(math.isfinite, x.values)), x.shape, "bool")


def where(condition: Any, x: Any, y: Any) -> Array:
    """x where the condition is true, else y; the three broadcast together."""
    condition = asarray(condition)
    if condition.kind != "bool":
        raise TypeError(f"where: the condition must be bool, not {condition.kind}")
    a, b, shape, kind = aligned("where", x, y)
    whole = broadcast_shapes("where", condition.shape, shape)
    chosen = [p if c else q for c, p, q in zip(expand(condition.values, condition.shape, whole),
                                               expand(a, shape, whole), expand(b, shape, whole))]
    convert = CONVERT[kind]
    return Array(chosen if kind == "exact" else list(map(convert, chosen)), whole, kind)
