"""Operations on one element at a time. Their Jacobians are diagonal: a vjp is a product with f'(x).

Operands of unequal shapes are stretched as in NumPy; the engine sums the gradient of a stretched
operand back to its own shape, so no operation here mentions it.
"""

from __future__ import annotations

import math

from tinyformer.arrays import xp
from tinyformer.arrays.backend import fusible
from tinyformer.autograd.operations.operands import as_tensor, check_broadcast, floats, pair
from tinyformer.autograd.tensor import Tensor, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Tuple


def add(x: Any, y: Any) -> Tensor:
    """x + y. Both gradients are g."""
    x, y = pair("add", x, y)
    return record("add", x.data + y.data, (x, lambda g: g), (y, lambda g: g))


def subtract(x: Any, y: Any) -> Tensor:
    """x - y. The gradients are g and -g."""
    x, y = pair("subtract", x, y)
    return record("subtract", x.data - y.data, (x, lambda g: g), (y, lambda g: -g))


def multiply(x: Any, y: Any) -> Tensor:
    """x * y. Each gradient is g times the other factor."""
    x, y = pair("multiply", x, y)
    a, b = x.data, y.data
    return record("multiply", a * b, (x, lambda g: g * b), (y, lambda g: g * a))


def divide(x: Any, y: Any) -> Tensor:
    """x / y = q. The gradients are g / y and -g q / y."""
    x, y = pair("divide", x, y)
    x, y = floats(x), floats(y)
    b = y.data
    q = x.data / b
    return record("divide", q, (x, lambda g: g / b), (y, lambda g: -g * q / b))


def negative(x: Any) -> Tensor:
    """-x. The gradient is -g."""
    return record("negative", -x.data, (x, lambda g: -g))


def pow(x: Any, y: Any) -> Tensor:
    """x ** y. The gradients are g y x^(y-1) and g x^y ln x.

    Where the formulas would say 0 times infinity, the limits stand: the derivative of x^0 is 0 at 0
    too, and that of 0^y with respect to y is 0 for y >= 0 (as in PyTorch).
    """
    scalar = y if type(y) in (int, float) else None
    x, y = pair("pow", x, y)
    a, b = x.data, y.data
    power = xp.pow(a, b if scalar is None else scalar)

    def base(g: Any) -> Any:
        slope = b * xp.pow(a, b - 1 if scalar is None else scalar - 1)
        return g * xp.where(b == 0, xp.zeros_like(slope), slope)

    def exponent(g: Any) -> Any:
        slope = power * xp.log(a)
        return g * xp.where(xp.logical_and(a == 0, b >= 0), xp.zeros_like(slope), slope)

    return record("pow", power, (x, base), (y, exponent))


def exp(x: Any) -> Tensor:
    """e^x = y. The gradient is g y."""
    x = floats(x)
    y = xp.exp(x.data)
    return record("exp", y, (x, lambda g: g * y))


def log(x: Any) -> Tensor:
    """ln x. The gradient is g / x."""
    x = floats(x)
    a = x.data
    return record("log", xp.log(a), (x, lambda g: g / a))


def sqrt(x: Any) -> Tensor:
    """The square root y of x. The gradient is g / (2 y): infinite at 0."""
    x = floats(x)
    y = xp.sqrt(x.data)
    return record("sqrt", y, (x, lambda g: g / (y * 2)))


def tanh(x: Any) -> Tensor:
    """The hyperbolic tangent y of x. The gradient is g (1 - y^2)."""
    x = floats(x)
    y = xp.tanh(x.data)
    return record("tanh", y, (x, lambda g: g * (1 - y * y)))


def sigmoid(x: Any) -> Tensor:
    """1 / (1 + e^-x) = y, the logistic function. The gradient is g y (1 - y).

    Where e^-x overflows, it is infinite and y is 0: no case needs another formula.
    """
    x = floats(x)
    y = 1 / (1 + xp.exp(-x.data))
    return record("sigmoid", y, (x, lambda g: g * (y * (1 - y))))


def relu(x: Any) -> Tensor:
    """max(x, 0). The gradient is g where x > 0, and 0 at and below the kink."""
    x = floats(x)
    a = x.data
    return record("relu", xp.maximum(a, 0), (x, lambda g: g * (a > 0)))


def gelu(x: Any, approximate: str = "none") -> Tensor:
    """x times the probability that a standard normal number is below x (Hendrycks, Gimpel, 2016).

    approximate="none" is x Phi(x) with Phi(x) = (1 + erf(x / sqrt 2)) / 2, whose derivative is
    Phi(x) + x phi(x), phi the normal density. approximate="tanh" is GPT-2's x (1 + tanh u) / 2 with
    u = sqrt(2/pi) (x + 0.044715 x^3). Raises ValueError for another name.
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    x = floats(x)
    y, slope = (gelu_exact if approximate == "none" else gelu_tanh)(x.data)
    return record("gelu", y, (x, lambda g: g * slope))


@fusible
def gelu_exact(a: Any) -> Tuple[Any, Any]:
    """y = a Phi(a), and its slope Phi(a) + a phi(a): Phi the normal distribution, phi its
    density."""
    below = normal_share(a)
    return a * below, below + a * xp.exp(a * a * -0.5) * (1 / math.sqrt(2 * math.pi))


def normal_share(a: Any) -> Any:
    """Phi(a), the share of normal numbers below a: (1 + erf(a / sqrt 2)) / 2."""
    return (1 + xp.erf(a * math.sqrt(0.5))) * 0.5


TWICE = 2 * math.sqrt(2 / math.pi)      # 2 u = TWICE a + CUBIC a^3
CUBIC = TWICE * 0.044715


@fusible
def gelu_tanh(a: Any) -> Tuple[Any, Any]:
    """y = a p with p = (1 + tanh u) / 2, and its slope: p is the logistic function of 2 u, so that
    the slope is p + a p (1 - p) 2 u' = p + y (1 - p) (TWICE + 3 CUBIC a^2)."""
    p = tanh_share(a)
    y = a * p
    return y, p + y * (1 - p) * (a * a * (3 * CUBIC) + TWICE)


@fusible
def tanh_share(a: Any) -> Any:
    """(1 + tanh u) / 2 = 1 / (1 + exp(-2 u)): exp is cheaper than tanh."""
    return 1 / (1 + xp.exp(a * (a * a * -CUBIC - TWICE)))


def where(condition: Any, x: Any, y: Any) -> Tensor:
    """x where the condition is true, else y. A gradient is g where its operand was chosen, else 0.

    Raises ValueError naming two shapes that do not broadcast.
    """
    condition = as_tensor(condition)
    chosen = condition.data
    x, y = pair("where", x, y)
    for operand in (x, y):
        check_broadcast("where", condition.shape, operand.shape)
    return record("where", xp.where(chosen, x.data, y.data), (condition, None),
                  (x, lambda g: xp.where(chosen, g, xp.zeros_like(g))),
                  (y, lambda g: xp.where(chosen, xp.zeros_like(g), g)))


def compare(function: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """A comparison of each pair of elements, as a tensor of bools; no gradient passes it."""
    if y is None or isinstance(y, (str, bytes)):
        return NotImplemented
    x, y = pair("comparison", x, y)
    return Tensor(function(x.data, y.data))
