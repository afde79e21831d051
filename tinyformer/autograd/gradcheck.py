"""Is a gradient right? Compare it with differences of the function itself.

For L = sum(c * f(x)) with random weights c, the derivative along one element of x is close to (L(x
+ h) - L(x - h)) / 2h. The weights must be random: with all ones even a softmax whose gradient is
always zero passes, because the sum of its outputs never changes.
"""

from __future__ import annotations

import math
from random import Random

from tinyformer.arrays import set_default_dtype, xp
from tinyformer.arrays.stream import stream
from tinyformer.autograd.engine import no_grad
from tinyformer.autograd.operations.operands import as_tensor, is_float
from tinyformer.autograd.tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Optional, Sequence, Tuple


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
        if not any(self.checked):
            raise ValueError("gradcheck has nothing to check: no input is a tensor of floats; the "
                             f"inputs are {', '.join(each.dtype for each in self.given) or 'none'}")
        self.values = [flat(each.data) if is_float(each) else [] for each in self.given]
        self.arrays: List[Any] = [None] * len(self.given)
        for operand in range(len(self.given)):
            self.renew(operand)
        self.random = Random(seed)
        self.weights: List[float] = []
        self.state: Optional[List[int]] = stream.state()    # None when the function draws nothing

    def renew(self, operand: int) -> None:
        """Make the array of an operand from its numbers as they now stand, floats in float64."""
        given = self.given[operand]
        self.arrays[operand] = given.data if not is_float(given) else xp.reshape(
            xp.asarray(self.values[operand], xp.float64), given.shape)

    def run(self, requires_grad: bool) -> Tuple[List[Tensor], Tensor]:
        """The inputs and the function's value; what it draws at random is the same every time."""
        if self.state is not None:
            stream.restore(self.state)
        leaves = [Tensor(array, requires_grad=requires_grad and checked)
                  for array, checked in zip(self.arrays, self.checked)]
        result = self.function(*leaves)
        if not isinstance(result, Tensor) or not is_float(result):
            raise TypeError("gradcheck needs a function that returns one float tensor, not "
                            f"{result!r:.60}")
        return leaves, result

    def gradients(self) -> List[List[float]]:
        """What backward() gives for every input; zeros for one that it does not reach."""
        leaves, result = self.run(requires_grad=True)
        if result.requires_grad:
            result.backward(xp.reshape(xp.asarray(self.weights, xp.float64), result.shape))
        return [[0.0] * leaf.size if leaf.grad is None else flat(leaf.grad.data) for leaf in leaves]

    def value(self) -> List[float]:
        """The numbers of the result, in a row."""
        with no_grad():
            return flat(self.run(requires_grad=False)[1].data)

    def slopes(self, operand: int, element: int, step: float) -> List[float]:
        """The differences of the loss to the left and to the right of one element."""
        values, middle = self.values[operand], self.value()
        here = values[element]
        sides = []
        for there in (here - step * max(1.0, abs(here)), here + step * max(1.0, abs(here))):
            values[element] = there
            self.renew(operand)
            sides.append(math.fsum(weight * (new - old) for weight, new, old in zip(
                self.weights, self.value(), middle)) / (there - here))
        values[element] = here
        self.renew(operand)
        return sides


def flat(array: Any) -> List[float]:
    """The elements of an array as Python floats, in a row."""
    return [float(value) for value in xp.reshape(array, (-1,)).tolist()]


def gradcheck(function: Callable[..., Tensor], inputs: Sequence[Any], *, step: float = 1e-6,
              rtol: float = 1e-4, atol: float = 1e-6, seed: int = 0) -> bool:
    """True if backward() through `function` agrees with differences at every element of the inputs.

    The inputs are copied to float64; those that require a gradient are checked, or all floats if
    none does. Where the slopes to the left and to the right differ (relu at 0, equal largest
    elements) the element is moved away from the kink first. Raises GradientError naming the
    operand, the element and both values; ValueError if there is nothing to check.

    >>> gradcheck(lambda x: x * x, [Tensor([1.0, 2.0])])
    True
    """
    with set_default_dtype("float64"):
        problem = _Problem(function, inputs, seed)
        before = stream.state()
        try:
            problem.weights = [problem.random.gauss(0, 1) for _ in problem.value()]
            if stream.state() == before:
                problem.state = None
            expected = _differences(problem, step)
            for operand, gradients in enumerate(problem.gradients()):
                if problem.checked[operand]:
                    _compare(problem, operand, gradients, expected[operand], rtol, atol)
        finally:
            if problem.state is not None:
                stream.restore(before)
    return True


def _differences(problem: _Problem, step: float) -> List[List[float]]:
    """The slope of the loss along every element, after stepping off the kinks."""
    moved = True
    for _ in range(10):
        if not moved:
            break
        moved, slopes = False, []
        for operand, values in enumerate(problem.values):
            slopes.append([0.0] * len(values))
            for element in range(len(values) if problem.checked[operand] else 0):
                left, right = problem.slopes(operand, element, step)
                slopes[operand][element] = (left + right) / 2
                if abs(right - left) > 1e-3 * max(abs(left), abs(right), 1.0):
                    values[element] += 1e-3 * (1 + problem.random.random())
                    problem.renew(operand)
                    moved = True
    return slopes


def _compare(problem: _Problem, operand: int, gradients: List[float], expected: List[float],
             rtol: float, atol: float) -> None:
    for element, (found, slope) in enumerate(zip(gradients, expected)):
        if not abs(found - slope) <= atol + rtol * abs(slope):
            shape = problem.given[operand].shape
            raise GradientError(
                f"the gradient of operand {operand}, shape {shape}, is wrong at element "
                f"{_place(element, shape)}: backward() gives {found:.9g}, differences of the "
                f"function give {slope:.9g} (value {problem.values[operand][element]:.6g}, random "
                "weights on the result)")


def _place(element: int, shape: Sequence[int]) -> Any:
    position = []
    for length in reversed(shape):
        position.append(element % length)
        element //= length
    return tuple(reversed(position))
