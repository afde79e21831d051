"""Is a gradient right? Compare it with differences of the function itself.

For L = sum(c * f(x)) with random weights c, the derivative along one element of x is close to
(L(x + h) - L(x - h)) / 2h. The weights must be random: with all ones even a softmax whose gradient is
always zero passes, because the sum of its outputs never changes.
"""

from __future__ import annotations

import math
from typing import Any, Callable, List, Optional, Sequence

from tinyformer.arrays import set_default_dtype, xp
from tinyformer.arrays.stream import Stream, stream
from tinyformer.autograd.operations.operands import as_tensor, is_float
from tinyformer.autograd.tensor import Tensor


class GradientError(AssertionError):
    """The gradient of an operation differs from the differences of its values."""


class _Problem:
    """A function with its inputs as lists of floats, which can be nudged one element at a time."""

    def __init__(self, function: Callable[..., Tensor], inputs: Sequence[Any], seed: int) -> None:
        self.function = function
        self.given = [as_tensor(each) for each in inputs]
        chosen = [each.requires_grad for each in self.given]
        self.checked = [is_float(each) and (wanted or not any(chosen))
                        for each, wanted in zip(self.given, chosen)]
        self.values: List[List[float]] = [
            [float(value) for value in xp.reshape(each.data, (-1,)).tolist()] if is_float(each) else []
            for each in self.given]
        self.random = Stream(seed)
        self.state = stream.state()
        self.weights: Optional[List[float]] = None

    def leaves(self) -> List[Tensor]:
        """The inputs as they now stand, in float64."""
        return [Tensor(xp.reshape(xp.asarray(values, xp.float64), each.shape), requires_grad=checked)
                if is_float(each) else each
                for each, values, checked in zip(self.given, self.values, self.checked)]

    def run(self, leaves: List[Tensor]) -> Tensor:
        """The function's value; random draws inside it (dropout) are the same every time."""
        stream.restore(self.state)
        result = self.function(*leaves)
        if not isinstance(result, Tensor) or not is_float(result):
            raise TypeError(f"gradcheck needs a function that returns one float tensor, not {result!r:.60}")
        if self.weights is None:
            self.weights = xp.reshape(self.random.normal((result.size,)), (-1,)).tolist()
        return result

    def loss(self) -> float:
        """sum(weights * f(inputs)) as a Python float."""
        values = xp.reshape(self.run(self.leaves()).data, (-1,)).tolist()
        return math.fsum(weight * value for weight, value in zip(self.weights or (), values))

    def gradients(self) -> List[List[float]]:
        """What backward() gives for every input; zeros for one that it does not reach."""
        leaves = self.leaves()
        result = self.run(leaves)
        if result.requires_grad:
            result.backward(xp.reshape(xp.asarray(self.weights, xp.float64), result.shape))
        return [[0.0] * leaf.size if leaf.grad is None else xp.reshape(leaf.grad.data, (-1,)).tolist()
                for leaf in leaves]

    def slopes(self, operand: int, element: int, step: float) -> List[float]:
        """The differences of the loss to the left and to the right of one element."""
        values, middle = self.values[operand], self.loss()
        here = values[element]
        sides = []
        for there in (here - step, here + step):
            values[element] = there
            sides.append((self.loss() - middle) / (there - here))
        values[element] = here
        return sides


def gradcheck(function: Callable[..., Tensor], inputs: Sequence[Any], *, step: float = 1e-6,
              rtol: float = 1e-4, atol: float = 1e-6, seed: int = 0) -> bool:
    """True if backward() through `function` agrees with differences at every element of the inputs.

    The inputs are copied to float64; those that require a gradient are checked, or all floats if none
    does. Where the slopes to the left and to the right differ (relu at 0, equal largest elements) the
    element is moved away from the kink first. Raises GradientError naming the operand, the element and
    both values.

    >>> gradcheck(lambda x: x * x, [Tensor([1.0, 2.0])])
    True
    """
    with set_default_dtype("float64"):
        problem = _Problem(function, inputs, seed)
        try:
            _step_off_kinks(problem, step)
            for operand, gradients in enumerate(problem.gradients()):
                if problem.checked[operand]:
                    _compare(problem, operand, gradients, step, rtol, atol)
        finally:
            stream.restore(problem.state)
    return True


def _step_off_kinks(problem: _Problem, step: float) -> None:
    """Move every element at which the loss has a kink by about a thousandth."""
    for operand, values in enumerate(problem.values):
        for element in range(len(values) if problem.checked[operand] else 0):
            for _ in range(10):
                left, right = problem.slopes(operand, element, step)
                if not abs(right - left) > 1e-3 * max(abs(left), abs(right), 1.0):
                    break
                values[element] += 1e-3 * (1 + problem.random.numbers(1)[0])


def _compare(problem: _Problem, operand: int, gradients: List[float], step: float, rtol: float,
             atol: float) -> None:
    for element, found in enumerate(gradients):
        expected = sum(problem.slopes(operand, element, step)) / 2
        if not abs(found - expected) <= atol + rtol * abs(expected):
            shape = problem.given[operand].shape
            raise GradientError(
                f"the gradient of operand {operand}, shape {shape}, is wrong at element "
                f"{_place(element, shape)}: backward() gives {found:.9g}, differences of the function give "
                f"{expected:.9g} (value {problem.values[operand][element]:.6g}, random weights on the "
                "result)")


def _place(element: int, shape: Sequence[int]) -> Any:
    position = []
    for length in reversed(shape):
        position.append(element % length)
        element //= length
    return tuple(reversed(position))
