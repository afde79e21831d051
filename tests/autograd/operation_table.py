"""The one table of operations: every public function and every method of Tensor that makes a
tensor.

A row is a name and cases. A case is a function and the inputs that it is called with: odd and
unequal shapes, broadcasting, no elements, no axes, ties, repeated ids, rows that may look nowhere.
Whatever is true of every operation is tested by walking this table; whoever adds an operation adds
a row.
"""

from __future__ import annotations

import inspect
from random import Random
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import tinyformer.functional as F
from tinyformer.arrays import xp
from tinyformer.autograd import Tensor
from tinyformer.autograd.operations import shaping

_random = Random(2017)


class Given(NamedTuple):
    """An input that either backend can make: flat numbers, a shape and a dtype."""

    values: List[Any]
    shape: Tuple[int, ...]
    dtype: str = "float64"

    def array(self, dtype: str = "float64") -> Any:
        """The array; floats in `dtype`."""
        kind = getattr(xp, dtype if self.dtype == "float64" else self.dtype)
        return xp.reshape(xp.asarray(self.values, kind), self.shape)

    def tensor(self, dtype: str = "float64", requires_grad: bool = True) -> Tensor:
        """The tensor; only floats can require a gradient."""
        return Tensor(self.array(dtype), requires_grad=requires_grad and self.dtype == "float64")


class Case:
    """A function and its inputs."""

    def __init__(self, function: Callable[..., Tensor], *inputs: Given,
                 draws: bool = False) -> None:
        self.function = function
        self.inputs = inputs
        self.draws = draws              # whether it takes random numbers from the stream

    def __call__(self, *tensors: Tensor) -> Tensor:
        return self.function(*tensors)

    def tensors(self, dtype: str = "float64", requires_grad: Sequence[bool] = ()) -> List[Tensor]:
        """The inputs as fresh tensors, each requiring a gradient as said; all floats by default."""
        wanted = requires_grad or [True] * len(self.inputs)
        return [given.tensor(dtype, each) for given, each in zip(self.inputs, wanted)]


class Row(NamedTuple):
    """An operation: its name, its cases, and the mutants that change nothing, with the reason."""

    name: str
    cases: List[Case]
    equivalent: Dict[str, str] = {}


def near(*shape: int, low: float = -2.0, high: float = 2.0) -> Given:
    """Random floats in a shape, rounded so that a failure can be read."""
    count = 1
    for length in shape:
        count *= length
    return Given([round(_random.uniform(low, high), 3) for _ in range(count)], shape)


def positive(*shape: int) -> Given:
    """Random floats in [0.5, 2]."""
    return near(*shape, low=0.5)


def floats(*values: float) -> Given:
    """These floats on one axis."""
    return Given(list(values), (len(values),))


def integers(*values: int, shape: Tuple[int, ...] = (-1,)) -> Given:
    """These integers on one axis, or in `shape`."""
    return Given(list(values), (len(values),) if shape == (-1,) else shape, "int64")


def bools(text: str, *shape: int) -> Given:
    """A mask: 1 is true, 0 is false."""
    return Given([character == "1" for character in text], shape, "bool")


def broadcasting(function: Callable[..., Tensor], make: Callable[..., Given] = near) -> List[Case]:
    """A function of two tensors on the pairs of shapes at which gradients of peers go wrong."""
    shapes: List[Tuple[Tuple[int, ...], Tuple[int, ...]]] = [
        ((2, 3), (2, 3)), ((1,), (3, 2)), ((3, 1), (1, 2)), ((), (3,)), ((2, 1, 2), (3, 1)),
        ((0, 3), (1, 3)), ((), ())]
    return [Case(function, near(*one), make(*two)) for one, two in shapes] + [
        Case(lambda x: function(x, x), make(3))]


def elementwise(function: Callable[[Tensor], Tensor], make: Callable[..., Given] = near,
                *edges: float) -> List[Case]:
    """A function of one tensor on usual shapes and at the edges of its domain."""
    return [Case(function, each) for each in (make(2, 3), make(), make(0, 2), floats(*edges))
            if each.shape != (0,)]


def either_side(function: Callable[[Any, Any], Tensor], number: float) -> List[Case]:
    """A reflected operator: a Python number, a list and no tensor on the left."""
    return [Case(lambda x: function(number, x), positive(2, 3)),
            Case(lambda x: function(2, x), positive()),
            Case(lambda x: function([1.5, 0.5, 2.5], x), positive(2, 3))]


def reductions(function: Callable[..., Tensor]) -> List[Case]:
    """A reduction along all axes, one, two, and none that is longer than 1."""
    return [Case(function, near(2, 3)), Case(lambda x: function(x, axis=0), near(3, 2)),
            Case(lambda x: function(x, axis=-1, keepdims=True), near(2, 3)),
            Case(lambda x: function(x, axis=(0, -1)), near(2, 3, 2)),
            Case(lambda x: function(x, axis=[1], keepdims=True), near(2, 3, 1))]


POWERS = [Case(lambda x, y: x ** y, positive(2, 3), near(2, 3)),
          Case(lambda x, y: x ** y, positive(3, 1), near(1, 2)),
          Case(lambda x, y: x ** y, positive(), near(3)),
          Case(lambda x: x ** 3, near(2, 3)), Case(lambda x: x ** -2.0, positive(3)),
          Case(lambda x: x ** 0.5, positive(3)), Case(lambda x: x ** 1, near(2)),
          Case(lambda x: x ** 0, floats(0.0, -1.5)), Case(lambda x: x ** 1, floats(0.0, -1.5)),
          Case(lambda x: x ** 2, floats(0.0, -1.5)),
          Case(lambda x: x ** Tensor([0.0, 1.0, 2.0, 3.0]), floats(0.0, 0.0, 0.0, -1.5)),
          Case(lambda y: Tensor([0.0, 0.0]) ** y, floats(1.0, 2.5)),
          Case(lambda x: x ** x, positive(2))]
SOFTMAX_INPUTS = [(near(2, 3), -1), (near(3, 2), 0), (near(2, 3, 2), 1),
                  (Given([1000.0, 1001.0, 0.0, 1.0], (2, 2)), -1), (near(2, 1), -1),
                  (near(0, 3), -1)]


def masked(mask: Given, *shapes: Tuple[int, ...], **options: Any) -> Case:
    """Attention under a mask that is the last input."""
    return Case(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, **options),
                *[near(*shape) for shape in shapes], mask)


def unmasked(*shapes: Tuple[int, ...], **options: Any) -> Case:
    """Attention without a mask."""
    return Case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options),
                *[near(*shape) for shape in shapes], draws="dropout_p" in options)


ATTENTION = [
    unmasked((2, 3), (4, 3), (4, 2)), unmasked((2, 1, 2, 3), (2, 3, 3), (3, 2)),
    unmasked((3, 2), (3, 2), (3, 2), is_causal=True),
    unmasked((2, 2), (3, 2), (3, 1), is_causal=True),
    unmasked((3, 2), (2, 2), (2, 3), is_causal=True, scale=0.3),
    unmasked((2, 2), (3, 2), (3, 2), dropout_p=0.5),
    Case(lambda x: F.scaled_dot_product_attention(x, x, x), near(3, 2)),
    masked(bools("110000", 2, 3), (2, 2), (3, 2), (3, 1)),
    masked(bools("101", 1, 3), (2, 2, 2), (2, 3, 2), (2, 3, 2), is_causal=True),
    masked(near(2, 3), (2, 2), (3, 2), (3, 2)), masked(near(3), (2, 2, 2), (3, 2), (3, 2)),
    masked(near(3, 3), (3, 2), (3, 2), (3, 2), is_causal=True)]

SAME = "both operands receive g itself, and the engine un-broadcasts it"

ROWS = [
    Row("functional.concat", [
        Case(lambda x, y, z: F.concat([x, y, z]), near(2, 2), near(0, 2), near(1, 2)),
        Case(lambda x, y: F.concat((x, y), axis=-1), near(2, 1), near(2, 3)),
        Case(lambda x: F.concat([x, x], axis=1), near(2, 2)),
        Case(lambda x: F.concat([x, [1.0, 2.0]]), near(3))]),
    Row("functional.cross_entropy", [
        Case(F.cross_entropy, near(3, 4), integers(0, 3, 1)),
        Case(F.cross_entropy, near(2, 2, 3), integers(0, 2, 1, 1, shape=(2, 2))),
        Case(F.cross_entropy, near(3, 4), integers(-100, 3, -100)),
        Case(F.cross_entropy, near(2, 3), integers(-100, -100)),
        Case(lambda x, y: F.cross_entropy(x, y, ignore_index=1, label_smoothing=0.2), near(3, 3),
             integers(0, 1, 2)),
        Case(lambda x, y: F.cross_entropy(x, y, reduction="sum"), near(3, 2), integers(0, 1, -100)),
        Case(F.cross_entropy, near(3), integers(2, shape=())),
        Case(F.cross_entropy, near(0, 3), integers()),
        Case(F.cross_entropy, Given([1000.0, 0.0, -1000.0, 0.5], (2, 2)), integers(0, 1))],
        {"last write instead of a sum": "every row names one class, so nothing is written twice"}),
    Row("functional.dropout", [
        Case(lambda x: F.dropout(x, 0.4), near(3, 4), draws=True),
        Case(lambda x: F.dropout(x, 0.0), near(2)),
        Case(lambda x: F.dropout(x, 1.0), near(2)),
        Case(lambda x: F.dropout(x, 0.5, training=False), near(2)),
        Case(lambda x: F.dropout(x), near(0, 2))]),
    Row("functional.embedding", [
        Case(lambda i, w: F.embedding(i, w), integers(1, 3, 1, 1), near(4, 2)),
        Case(lambda i, w: F.embedding(i, w), integers(0, 2, 2, 0, shape=(2, 1, 2)), near(3, 2)),
        Case(lambda i, w: F.embedding(i, w), integers(2, shape=()), near(3, 2)),
        Case(lambda i, w: F.embedding(i, w), integers(shape=(2, 0)), near(3, 2)),
        Case(lambda w: F.embedding([[0, 1], [1, 1]], w), near(2, 2))]),
    Row("functional.gelu", elementwise(F.gelu, near, 0.0, -8.0, 9.0, -1000.0, 1000.0)
        + elementwise(lambda x: F.gelu(x, approximate="tanh"), near, 0.0, -8.0, 9.0, -100.0, 1e3)),
    Row("functional.layer_norm", [
        Case(lambda x: F.layer_norm(x, 3), near(2, 3)),
        Case(lambda x, w, b: F.layer_norm(x, (3,), w, b), near(2, 2, 3), near(3), near(3)),
        Case(lambda x, w: F.layer_norm(x, [2, 3], w, eps=0.1), near(2, 2, 3), near(2, 3)),
        Case(lambda x, b: F.layer_norm(x, 2, bias=b), near(2), near(2)),
        Case(lambda x: F.layer_norm(x, 2, eps=0.5), floats(1.0, 1.0)),
        Case(lambda x, w, b: F.layer_norm(x, 3, w, b), near(0, 3), near(3), near(3)),
        Case(lambda x: F.layer_norm(x, 2, x, x), near(2))]),
    Row("functional.linear", [
        Case(F.linear, near(2, 3, 2), near(4, 2), near(4)), Case(F.linear, near(3), near(2, 3)),
        Case(F.linear, near(3), near(3, 3), near(3)),
        Case(F.linear, near(0, 2), near(3, 2), near(3)),
        Case(F.linear, near(2, 2), near(2, 2)), Case(lambda x: F.linear(x, x), near(3, 2))]),
    Row("functional.log_softmax", [Case(lambda x, axis=axis: F.log_softmax(x, axis), given)
                                   for given, axis in SOFTMAX_INPUTS]),
    Row("functional.matmul", [
        Case(F.matmul, near(2, 3), near(3, 2)), Case(F.matmul, near(3), near(3)),
        Case(F.matmul, near(3), near(3, 2)), Case(F.matmul, near(2, 3), near(3)),
        Case(F.matmul, near(2, 1, 2, 3), near(3, 3, 1)), Case(F.matmul, near(2), near(2, 2, 2)),
        Case(F.matmul, near(2, 2, 2), near(2)), Case(F.matmul, near(2, 0), near(0, 3)),
        Case(F.matmul, near(2, 2), near(2, 2)), Case(lambda x: F.matmul(x, x), near(2, 2))]),
    Row("functional.masked_softmax", [
        Case(F.masked_softmax, near(2, 3)), Case(F.masked_softmax, near(2, 2, 1, 3)),
        Case(F.masked_softmax, near(2, 3, 3), bools("100110111", 3, 3)),
        Case(F.masked_softmax, near(2, 1, 2, 2), bools("1001", 2, 1, 1, 2)),
        Case(F.masked_softmax, near(2, 3), bools("000101", 2, 3)),       # one may look nowhere
        Case(F.masked_softmax, near(3), bools("1", 1)), Case(F.masked_softmax, near(0, 3)),
        Case(lambda x: F.masked_softmax(x, [[True, False], [True, True]]), near(2, 2)),
        Case(F.masked_softmax, Given([1000.0, 1001.0, 0.0, 1e30], (2, 2)), bools("1110", 2, 2))]),
    Row("functional.relu", elementwise(F.relu, near, 0.0, -1.0, 1e-7, 1000.0)),
    Row("functional.scaled_dot_product_attention", ATTENTION),
    Row("functional.sigmoid", elementwise(F.sigmoid, near, 0.0, -1000.0, 1000.0)),
    Row("functional.softmax", [Case(lambda x, axis=axis: F.softmax(x, axis), given)
                               for given, axis in SOFTMAX_INPUTS]),
    Row("functional.stack", [
        Case(lambda x, y: F.stack([x, y]), near(2, 2), near(2, 2)),
        Case(lambda x, y, z: F.stack((x, y, z), axis=-1), near(2), near(2), near(2)),
        Case(lambda x, y: F.stack([x, y, x], axis=1), near(2, 2), near(2, 2)),
        Case(lambda x: F.stack([x, 1.5]), near())]),
    Row("functional.where", [
        Case(F.where, bools("101001110", 3, 3), near(3, 3), near(3, 3)),
        Case(F.where, bools("10", 2, 1), near(1, 3), near()),
        Case(lambda c, x: F.where(c, x, 0.5), bools("011", 3), near(2, 3)),
        Case(lambda c, x: F.where(c, x, x), bools("01", 2), near(2)),
        Case(lambda y: F.where([[True], [False]], 1, y), near(2))]),
    Row("Tensor.__add__", broadcasting(lambda x, y: x + y), {"operands 0 and 1 swapped": SAME}),
    Row("Tensor.__radd__", either_side(lambda number, x: number + x, 2.5)),
    Row("Tensor.__sub__", broadcasting(lambda x, y: x - y)),
    Row("Tensor.__rsub__", either_side(lambda number, x: number - x, 2.5)),
    Row("Tensor.__mul__", broadcasting(lambda x, y: x * y)),
    Row("Tensor.__rmul__", either_side(lambda number, x: number * x, 2.5)),
    Row("Tensor.__truediv__", broadcasting(lambda x, y: x / y, positive)),
    Row("Tensor.__rtruediv__", either_side(lambda number, x: number / x, 2.5)),
    Row("Tensor.__pow__", POWERS),
    Row("Tensor.__rpow__", either_side(lambda number, x: number ** x, 2.5)),
    Row("Tensor.pow", [Case(lambda x, y: x.pow(y), positive(2, 2), near(2)),
                       Case(lambda x: x.pow(3), near(2))]),
    Row("Tensor.__neg__", elementwise(lambda x: -x)),
    Row("Tensor.__matmul__", [Case(lambda x, y: x @ y, near(2, 3), near(3, 2))]),
    Row("Tensor.__rmatmul__", [Case(lambda x: [[1.0, 2.0], [0.5, -1.0]] @ x, near(2, 2))]),
    Row("Tensor.exp", elementwise(lambda x: x.exp(), near, -1000.0, 5.0)),
    Row("Tensor.log", elementwise(lambda x: x.log(), positive, 0.01, 1000.0)),
    Row("Tensor.sqrt", elementwise(lambda x: x.sqrt(), positive, 0.01, 1000.0)),
    Row("Tensor.tanh", elementwise(lambda x: x.tanh(), near, 1000.0, -1000.0, 0.0)),
    Row("Tensor.__getitem__", [
        Case(lambda x: x[1], near(2, 3)), Case(lambda x: x[1, -1], near(2, 3)),
        Case(lambda x: x[:, 2:0:-1], near(2, 3)), Case(lambda x: x[..., None, 0], near(2, 2)),
        Case(lambda x: x[[0, 0]], near(2, 2)),
        Case(lambda x, i: x[i], near(3, 2), integers(2, 0, 2, 2)),
        Case(lambda x, i: x[:, i], near(2, 3), integers(1, 1, 0, 1, shape=(2, 2))),
        Case(lambda x, i, j: x[i, j], near(2, 2), integers(0, 0), integers(1, 1)),
        Case(lambda x, m: x[m], near(2, 2), bools("1011", 2, 2)),
        Case(lambda x: x[0:0], near(2, 2)),
        Case(lambda x: x[()], near()), Case(lambda x: x[-1:], near(3))]),
    Row("Tensor.reshape", [
        Case(lambda x: x.reshape(3, 2), near(2, 3)), Case(lambda x: x.reshape((-1,)), near(2, 3)),
        Case(lambda x: x.reshape(()), near(1, 1)), Case(lambda x: x.reshape(2, 0), near(0, 3)),
        Case(lambda x: x.transpose(0, 1).reshape(2, 3), near(2, 3)),
        Case(lambda x: x.reshape([2, 2]), near(2, 2))]),
    Row("Tensor.transpose", [Case(lambda x: x.transpose(0, 1), near(2, 3)),
                             Case(lambda x: x.transpose(-1, 0), near(2, 1, 3)),
                             Case(lambda x: x.transpose(0, 1), near(2, 2))]),
    Row("Tensor.permute", [Case(lambda x: x.permute(2, 0, 1), near(2, 3, 2)),
                           Case(lambda x: x.permute(-1, 0, -2), near(2, 2, 2)),
                           Case(lambda x: x.permute(1, 0), near(0, 2))]),
    Row("shaping.split_heads", [Case(lambda x: shaping.split_heads(x, 2), near(2, 3, 4)),
                                Case(lambda x: shaping.split_heads(x, 1), near(1, 2, 3)),
                                Case(lambda x: shaping.split_heads(x, 3), near(2, 0, 3))]),
    Row("shaping.join_heads", [Case(shaping.join_heads, near(2, 3, 2, 2)),
                               Case(shaping.join_heads, near(1, 1, 3, 2)),
                               Case(shaping.join_heads, near(2, 2, 0, 1))]),
    Row("Tensor.mT", [Case(lambda x: x.mT, near(2, 3)), Case(lambda x: x.mT, near(2, 2, 2))]),
    Row("Tensor.sum", reductions(Tensor.sum) + [
        Case(Tensor.sum, near()), Case(Tensor.sum, near(0, 2)),
        Case(lambda x: x.sum(axis=0), near(0, 2))]),
    Row("Tensor.mean", reductions(Tensor.mean) + [Case(Tensor.mean, near())]),
    Row("Tensor.max", reductions(Tensor.max) + [
        Case(Tensor.max, near()),
        Case(lambda x: x.max(axis=-1), Given([1.0, 1.0, 0.0, 2.0, 2.0, 2.0], (2, 3)))]),
    Row("Tensor.var", reductions(Tensor.var) + [
        Case(lambda x: x.var(correction=0), near(2, 2)),
        Case(lambda x: x.var(axis=0, correction=0), near(1, 2)),
        Case(lambda x: x.var(axis=1, correction=0.5), near(2, 3))]),
]

WITHOUT_GRADIENT = {
    "Tensor.detach": lambda x: x.detach(), "Tensor.argmax": lambda x: x.argmax(),
    "Tensor.__eq__": lambda x: x == 1.0, "Tensor.__ne__": lambda x: x != x,
    "Tensor.__lt__": lambda x: x < 1, "Tensor.__le__": lambda x: x <= x,
    "Tensor.__gt__": lambda x: x > 0.0, "Tensor.__ge__": lambda x: x >= 2}


def public_names() -> List[str]:
    """Every function of functional, those of heads, and whatever of Tensor returns a Tensor."""
    names = [f"functional.{name}" for name in F.__all__]
    names += ["shaping.split_heads", "shaping.join_heads"]
    for name, member in vars(Tensor).items():
        function = member.fget if isinstance(member, property) else member
        if inspect.isfunction(function) and function.__annotations__.get("return") == "Tensor":
            names.append(f"Tensor.{name}")
    return names
