"""Whoever observes sees every result, recorded or not, and only inside the block."""

from __future__ import annotations

from typing import Any, List, Tuple

import pytest

from tinyformer.autograd import no_grad, tensor
from tinyformer.autograd.engine import observed


def test_every_result_is_shown_in_order(backend: str) -> None:
    seen: List[Tuple[str, Any]] = []
    x = tensor([1.0, 2.0], requires_grad=True)
    with observed(lambda name, data: seen.append((name, data.tolist()))):
        y = (x * 2).sum()
        with no_grad():
            tensor([3.0]).exp()
    x + x
    assert [name for name, _ in seen] == ["multiply", "sum", "exp"]
    assert seen[0][1] == [2.0, 4.0] and seen[1][1] == y.item()


def test_an_error_inside_ends_the_observation(backend: str) -> None:
    seen: List[str] = []
    with pytest.raises(KeyError):
        with observed(lambda name, data: seen.append(name)):
            raise KeyError
    tensor([1.0]) + 1
    assert seen == []
