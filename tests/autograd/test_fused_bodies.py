"""A backend's faster body of a computation gives what the plain one gives, which stays its oracle.

`BODIES` has, for every fusible function, operands of unequal and extreme sizes. Both bodies get
the same numbers, in float64; results are equal to 1e-12 of their largest number.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import pytest

from tinyformer.arrays import set_default_dtype, xp
from tinyformer.arrays.backend import MODULES
from tinyformer.arrays.stream import Stream
from tinyformer.training import optimisers

Operands = List[Any]


def numbers(*shape: int, seed: int = 0) -> Any:
    """Normal numbers."""
    return Stream(seed).normal(shape)


def moments() -> Operands:
    p, g, m = (numbers(7, 5, seed=seed) for seed in range(3))
    return [p, g, m, numbers(7, 5, seed=3) ** 2, 0.9, 0.999, 0.01, 1e-8]


BODIES: Dict[str, List[Any]] = {            # the plain function, and functions that make operands
    "adam_step": [optimisers.adam_step, moments],
}


def flat(result: Any) -> List[List[float]]:
    """The numbers of each array of a result."""
    parts = result if isinstance(result, (tuple, list)) else (result,)
    return [xp.reshape(xp.asarray(part), (-1,)).tolist() for part in parts]


def differs(one: Any, other: Any) -> float:
    """The largest distance, relative to the largest number."""
    worst = 0.0
    for these, those in zip(flat(one), flat(other)):
        assert len(these) == len(those)
        largest = max([abs(number) for number in those if abs(number) < 1e300] + [1.0])
        worst = max([worst] + [abs(p - q) / largest for p, q in zip(these, those) if p != q])
    return worst


def test_every_fused_body_is_tested(backend: str) -> None:
    assert set(xp.fused) <= set(BODIES), MODULES[backend]


@pytest.mark.parametrize("name", BODIES)
def test_a_fused_body_is_the_plain_one(backend: str, name: str) -> None:
    function, *samples = BODIES[name]
    if name not in xp.fused:
        pytest.skip(f"the {backend} backend has no body of its own")
    plain: Callable[..., Any] = function.__wrapped__
    with set_default_dtype("float64"):
        for sample in samples:
            expected = plain(*sample())
            found = xp.fused[name](*sample())
            assert [xp.asarray(each).shape for each in _parts(found)] == [
                xp.asarray(each).shape for each in _parts(expected)]
            assert differs(found, expected) < 1e-12


def test_a_wrong_body_is_found(backend: str) -> None:
    """The comparison can fail: a body that forgets one term is beyond the tolerance."""
    p, g, m, v, *rest = moments()
    right = optimisers.adam_step.__wrapped__(p, g, m, v, *rest)  # type: ignore[attr-defined]
    wrong = optimisers.adam_step.__wrapped__(p, g, m, v * 1.001, *rest)  # type: ignore
    assert differs(wrong, right) > 1e-9


def _parts(result: Any) -> Any:
    return result if isinstance(result, (tuple, list)) else (result,)
