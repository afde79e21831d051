"""What the tests of the table share: running a case, and comparing numbers."""

from __future__ import annotations

from random import Random
from typing import Any, List, Optional, Sequence

from operation_table import Case

from tinyformer.arrays import xp
from tinyformer.arrays.stream import manual_seed
from tinyformer.autograd import Tensor


def close(one: Any, two: Any, tolerance: float = 1e-12) -> bool:
    """Whether nested lists have one structure and nearly equal numbers; nan equals nan."""
    if isinstance(one, list) or isinstance(two, list):
        return (isinstance(one, list) and isinstance(two, list) and len(one) == len(two)
                and all(close(*pair, tolerance) for pair in zip(one, two)))
    if one == two or one != one and two != two:
        return True
    return abs(one - two) <= tolerance * max(abs(one), abs(two), 1)


def forward(case: Case, tensors: Sequence[Tensor]) -> Tensor:
    """The value of a case; what it draws at random is the same every time."""
    if case.draws:
        manual_seed(7)
    return case.function(*tensors)


def cotangent(result: Tensor) -> Any:
    """A random gradient for a result: all ones would not see a wrong softmax."""
    random = Random(5)
    numbers = xp.asarray([random.gauss(0, 1) for _ in range(result.size)], result.data.dtype)
    return xp.reshape(numbers, result.shape)


def gradients(case: Case, tensors: Sequence[Tensor]) -> List[Optional[Tensor]]:
    """The gradient of each input after one backward pass from a random cotangent."""
    result = forward(case, tensors)
    result.backward(cotangent(result))
    return [each.grad for each in tensors]
