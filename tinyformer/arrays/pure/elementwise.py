"""One number at a time: arithmetic, functions and comparisons, with broadcasting.

Floats follow IEEE 754 silently, as NumPy does: where bare Python raises (1/0, log(0), exp(1000)),
turns complex ((-8)**(1/3)) or drops a nan (max), the result here is the inf or the nan of the
standard. Each function runs Python's own operation over the whole row and falls back to a careful
one, element by element, only when that raises. Exact numbers keep Python's behaviour and raise.
"""

from __future__ import annotations

import math
import operator
from itertools import repeat

from tinyformer.arrays.pure.array import (CONVERT, NATIVE, Array, Shape, asarray, common_kind,
                                          convert, give_operator, is_foreign, kind_of,
                                          mixed_backends)
from tinyformer.arrays.pure.layout import broadcast_shapes, expand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Tuple

inf, nan, pi = math.inf, math.nan, math.pi


def aligned(name: str, x: Any, y: Any) -> Tuple[Iterable[Any], Iterable[Any], Shape, str]:
    """The elements of two operands in pairs and in one kind, the shape of the result and that kind.

    A Python number adopts the array's kind, unless its own is higher (an int array plus 0.5 is
    float).
    """
    if type(x) is Array and type(y) is Array:
        a, b, kind = x.values, y.values, x.kind
        if kind != y.kind:
            kind = common_kind(name, x.kind, y.kind)
            a, b = convert(a, kind, x.kind), convert(b, kind, y.kind)
        if x.shape == y.shape:
            return a, b, x.shape, kind
        shape = broadcast_shapes(name, x.shape, y.shape)
        return expand(a, x.shape, shape), expand(b, y.shape, shape), shape, kind
    if type(x) is Array and not isinstance(y, (list, tuple)):
        kind, number = _beside(name, y, x.kind)
        return convert(x.values, kind, x.kind), repeat(number, len(x.values)), x.shape, kind
    if type(y) is Array and not isinstance(x, (list, tuple)):
        kind, number = _beside(name, x, y.kind)
        return repeat(number, len(y.values)), convert(y.values, kind, y.kind), y.shape, kind
    return aligned(name, asarray(x), asarray(y))


def _beside(name: str, number: Any, kind: str) -> Tuple[str, Any]:
    """The kind of an array of `kind` combined with a Python number, and the number in that kind."""
    own = NATIVE.get(type(number))
    if own == kind:
        return kind, number
    if is_foreign(number):                   # np.float64 would pass for a Python float
        raise mixed_backends("numpy", "python")
    common = common_kind(name, kind, own or kind_of(number))
    return common, CONVERT[common](number)


def _arithmetic(name: str, x: Any, y: Any, function: Callable[[Any, Any], Any]) -> Array:
    a, b, shape, kind = aligned(name, x, y)
    values = list(map(function, a, b))
    return Array(convert(values, "bool") if kind == "bool" else values, shape, kind)


def add(x: Any, y: Any) -> Array:
    """x + y; for two bools whether any is true."""
    return _arithmetic("add", x, y, operator.add)


def subtract(x: Any, y: Any) -> Array:
    """x - y; TypeError for two bools, which have no difference."""
    a, b, shape, kind = aligned("subtract", x, y)
    if kind == "bool":
        raise TypeError("subtract: not defined for two bools; convert one with astype first")
    return Array(list(map(operator.sub, a, b)), shape, kind)


def multiply(x: Any, y: Any) -> Array:
    """x * y; for two bools whether both are true."""
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
        a, b, shape, kind = aligned("divide", x, y)
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
    """x ** y; floats as IEEE's pow, ints stay ints and refuse negative exponents.

    The whole powers 2 and 3 of floats are products, as in the NumPy backend. Raises TypeError for
    an exact power that is not exact, such as the square root of 2.
    """
    if type(x) is Array and x.kind == "float" and type(y) in (int, float) and y in (2, 3):
        powers = [value * value for value in x.values]
        if y == 3:
            powers = list(map(operator.mul, powers, x.values))
        return Array(powers, x.shape, "float")
    a, b, shape, kind = aligned("pow", x, y)
    a, b = list(a), list(b)
    if kind == "float":
        try:
            return Array(list(map(math.pow, a, b)), shape, kind)
        except (ValueError, OverflowError):
            return Array(list(map(_power, a, b)), shape, kind)
    if kind != "exact" and any(exponent < 0 for exponent in b):
        raise ValueError("pow: an int to a negative int power is no int; convert to float first")
    values = list(map(operator.pow, a, b))
    if any(isinstance(value, (float, complex)) for value in values):
        raise TypeError("pow: a power of exact numbers came out inexact; convert to float first")
    return Array(values, shape, "int" if kind == "bool" else kind)


def _floats(name: str, x: Any, function: Callable[[float], float],
            beyond: Callable[[float], float] = lambda value: nan) -> Array:
    """Apply a function of one float; `beyond` is its IEEE value where Python's own raises."""
    x = asarray(x)
    if x.kind == "exact":
        return Array([_method(value, name) for value in x.values], x.shape, x.kind)
    try:
        return Array(list(map(function, x.values)), x.shape, "float")
    except (ValueError, OverflowError):
        return Array([_careful(function, beyond, value) for value in x.values], x.shape, "float")


def _careful(function: Callable[[float], float], beyond: Callable[[float], float],
             value: float) -> float:
    try:
        return function(value)
    except (ValueError, OverflowError):
        return beyond(value)


def _method(value: Any, name: str) -> Any:
    """The function of an exact number, which is a method of it if it has one."""
    if not hasattr(value, name):
        raise TypeError(f"{name}: {value!r} is an exact number without a method {name}; convert to "
                        "float")
    return getattr(value, name)()


def exp(x: Any) -> Array:
    """e to the power x; inf where that overflows."""
    return _floats("exp", x, math.exp, lambda value: inf)


def log(x: Any) -> Array:
    """The natural logarithm; -inf at 0, nan below."""
    return _floats("log", x, math.log, lambda value: nan if value else -inf)


def sqrt(x: Any) -> Array:
    """The square root; nan below 0."""
    return _floats("sqrt", x, math.sqrt)


def tanh(x: Any) -> Array:
    """The hyperbolic tangent."""
    return _floats("tanh", x, math.tanh)


def sin(x: Any) -> Array:
    """The sine; nan at the infinities."""
    return _floats("sin", x, math.sin)


def cos(x: Any) -> Array:
    """The cosine; nan at the infinities."""
    return _floats("cos", x, math.cos)


def erf(x: Any) -> Array:
    """The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    return _floats("erf", x, math.erf)


def negative(x: Any) -> Array:
    """-x; TypeError for bools."""
    x = asarray(x)
    if x.kind == "bool":
        raise TypeError("negative: not defined for bools; logical_not is, or convert with astype")
    return Array(list(map(operator.neg, x.values)), x.shape, x.kind)


def abs(x: Any) -> Array:
    """The absolute value."""
    x = asarray(x)
    values = x.values if x.kind == "bool" else list(map(operator.abs, x.values))
    return Array(values, x.shape, x.kind)


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


def logical_and(x: Any, y: Any) -> Array:
    """Where both are true."""
    a, b, shape, _ = aligned("logical_and", x, y)
    return Array([bool(p and q) for p, q in zip(a, b)], shape, "bool")


def logical_or(x: Any, y: Any) -> Array:
    """Where one or both are true."""
    a, b, shape, _ = aligned("logical_or", x, y)
    return Array([bool(p or q) for p, q in zip(a, b)], shape, "bool")


def logical_not(x: Any) -> Array:
    """Where x is false."""
    x = asarray(x)
    return Array(list(map(operator.not_, x.values)), x.shape, "bool")


def _bitwise(name: str, x: Any, y: Any, function: Callable[[Any, Any], Any]) -> Array:
    a, b, shape, kind = aligned(name, x, y)
    if kind not in ("bool", "int"):
        raise TypeError(f"{name}: needs bools or ints, not {kind}")
    return Array(list(map(function, a, b)), shape, kind)


def bitwise_and(x: Any, y: Any) -> Array:
    """The operator &: both are true, or the common bits of ints."""
    return _bitwise("bitwise_and", x, y, operator.and_)


def bitwise_or(x: Any, y: Any) -> Array:
    """The operator |: one or both are true, or the bits of either int."""
    return _bitwise("bitwise_or", x, y, operator.or_)


def bitwise_xor(x: Any, y: Any) -> Array:
    """The operator ^: just one is true, or the bits in which two ints differ."""
    return _bitwise("bitwise_xor", x, y, operator.xor)


def bitwise_invert(x: Array) -> Array:
    """The operator ~: not true, or every bit of an int turned over."""
    if x.kind == "bool":
        return logical_not(x)
    if x.kind != "int":
        raise TypeError(f"bitwise_invert: needs bools or ints, not {x.kind}")
    return Array(list(map(operator.invert, x.values)), x.shape, x.kind)


def isnan(x: Any) -> Array:
    """Where x is not a number."""
    x = asarray(x)
    return Array(list(map(operator.ne, x.values, x.values)), x.shape, "bool")


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
    choices = condition.values
    if condition.shape != shape:
        whole = broadcast_shapes("where", condition.shape, shape)
        a, b = expand(list(a), shape, whole), expand(list(b), shape, whole)
        choices, shape = expand(condition.values, condition.shape, whole), whole
    return Array([p if c else q for c, p, q in zip(choices, a, b)], shape, kind)


for _symbol, _function in {
        "add": add, "sub": subtract, "mul": multiply, "truediv": divide, "pow": pow,
        "eq": equal, "ne": not_equal, "lt": less, "le": less_equal, "gt": greater,
        "ge": greater_equal, "and": bitwise_and, "or": bitwise_or, "xor": bitwise_xor}.items():
    give_operator(_symbol, _function)
setattr(Array, "__neg__", negative)
setattr(Array, "__abs__", abs)
setattr(Array, "__invert__", bitwise_invert)
