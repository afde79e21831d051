"""Fractions in pure arrays: everything rational is exact, and floats are kept out."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Iterator

import pytest

from tinyformer.arrays import use_backend, xp


@pytest.fixture(autouse=True)
def python_backend() -> Iterator[None]:
    """Only the pure backend holds exact numbers."""
    with use_backend("python"):
        yield


def test_arithmetic_is_exact() -> None:
    x, y = xp.asarray([F(1, 3), F(-1, 2)]), xp.asarray([F(2, 7), F(5)])
    assert x.dtype == xp.exact == "exact"
    assert (x + y).tolist() == [F(13, 21), F(9, 2)]
    assert (x - y).tolist() == [F(1, 21), F(-11, 2)]
    assert (x * y).tolist() == [F(2, 21), F(-5, 2)]
    assert (x / y).tolist() == [F(7, 6), F(-1, 10)]
    assert (x ** 2).tolist() == [F(1, 9), F(1, 4)]
    assert (x ** -1).tolist() == [F(3), F(-2)]
    assert (-x).tolist() == [F(-1, 3), F(1, 2)] and abs(x).tolist() == [F(1, 3), F(1, 2)]
    assert xp.square(x).tolist() == [F(1, 9), F(1, 4)]


def test_ints_beside_exact_numbers_stay_exact() -> None:
    x = xp.asarray([F(1, 3), 2, True])
    for result, expected in [(x + 1, [F(4, 3), 3, 2]), (1 - x, [F(2, 3), -1, 0]),
                             (x / 3, [F(1, 9), F(2, 3), F(1, 3)]),
                             (x * xp.asarray([3, 2, 1]), [1, 4, 1]), (1 / x, [3, F(1, 2), 1])]:
        assert result.dtype == "exact" and result.tolist() == expected
        assert not any(isinstance(value, float) for value in result.tolist())


def test_matmul_is_exact() -> None:
    x = xp.asarray([[F(1, 2), F(1, 3)], [F(1, 5), F(1, 7)]])
    assert xp.matmul(x, x).tolist() == [[F(19, 60), F(3, 14)], [F(9, 70), F(64, 735)]]
    assert (x @ xp.asarray([1, 2])).tolist() == [F(7, 6), F(17, 35)]
    stacked = xp.stack([x, x + 1])
    assert (stacked @ stacked)[0].tolist() == (x @ x).tolist()
    assert (stacked @ stacked)[1].tolist() == ((x + 1) @ (x + 1)).tolist()
    empty = xp.zeros((2, 0), "exact")
    assert xp.matmul(empty, xp.matrix_transpose(empty)).tolist() == [[0, 0], [0, 0]]


def test_reductions_are_exact() -> None:
    x = xp.asarray([[F(1, 2), F(1, 3)], [F(1, 5), F(1, 7)]])
    assert xp.sum(x).item() == F(247, 210)
    assert xp.sum(x, axis=0).tolist() == [F(7, 10), F(10, 21)]
    assert xp.mean(x, axis=1).tolist() == [F(5, 12), F(6, 35)]
    assert xp.mean(x).item() == F(247, 840)
    assert xp.var(x, axis=1).tolist() == [F(1, 144), F(1, 1225)]
    assert xp.var(x, axis=1, correction=1).tolist() == [F(1, 72), F(2, 1225)]
    assert xp.max(x).item() == F(1, 2) and xp.min(x, axis=0).tolist() == [F(1, 5), F(1, 7)]
    assert xp.argmax(x).item() == 0
    assert all(value.__class__ is F for value in xp.mean(x, axis=0).tolist())


def test_comparisons_and_choices() -> None:
    x = xp.asarray([F(1, 3), F(1, 2)])
    assert (x > F(2, 5)).tolist() == [False, True] and (x == F(1, 3)).tolist() == [True, False]
    assert xp.where(x > F(2, 5), x, 0).tolist() == [0, F(1, 2)]
    assert xp.maximum(x, F(2, 5)).tolist() == [F(2, 5), F(1, 2)]
    assert xp.isfinite(x).tolist() == [True, True] and xp.isnan(x).tolist() == [False, False]


def test_layout_and_indexing_carry_exact_numbers() -> None:
    x = xp.reshape(xp.asarray([F(k, 7) for k in range(6)]), (2, 3))
    assert (xp.matrix_transpose(x) * 7).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x[:, 1].tolist() == [F(1, 7), F(4, 7)]
    assert xp.concat([x, xp.ones((1, 3), xp.int64)]).dtype == "exact"
    assert xp.scatter_add_rows(2, [1, 1], x).tolist() == [[0, 0, 0], [F(3, 7), F(5, 7), F(1)]]
    assert xp.scatter_add((2,), [0, 0], xp.asarray([F(1, 2), F(1, 3)])).tolist() == [F(5, 6), 0]
    assert xp.with_item(x, (0, 0), F(9)).tolist()[0][0] == F(9)


def test_floats_and_exact_numbers_never_mix() -> None:
    x = xp.asarray([F(1, 3)])
    for function in (xp.add, xp.multiply, xp.divide, xp.pow, xp.matmul, xp.maximum, xp.less):
        with pytest.raises(TypeError, match="floats and exact numbers never mix"):
            function(x, xp.asarray([0.5]))
    for wrong in (lambda: x + 0.5, lambda: 0.5 * x, lambda: xp.where(x > 0, x, 0.5),
                  lambda: xp.concat([x, xp.asarray([0.5])]),
                  lambda: xp.stack([xp.asarray([0.5]), x])):
        with pytest.raises(TypeError, match="floats and exact numbers never mix"):
            wrong()


def test_conversion_is_explicit() -> None:
    assert xp.astype(xp.asarray([0.5, 0.1]), "exact").tolist() == [F(1, 2), F(0.1)]
    assert xp.asarray([0.5], "exact").tolist() == [F(1, 2)]
    assert xp.astype(xp.asarray([F(1, 3)]), xp.float64).tolist() == [1 / 3]
    assert xp.isdtype("exact", "numeric") and not xp.isdtype("exact", "real floating")


def test_exact_numbers_raise_where_floats_are_silent() -> None:
    x = xp.asarray([F(1, 3)])
    with pytest.raises(ZeroDivisionError):
        x / 0
    with pytest.raises(TypeError, match="came out inexact"):
        x ** F(1, 2)
    with pytest.raises(TypeError, match="without a method exp"):
        xp.exp(x)
    with pytest.raises(TypeError, match="exact numbers are not stored as F32"):
        xp.to_bytes(x, "F32")


class Symbol:
    """A number that knows + - * / and its own exponential."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __add__(self, other: object) -> "Symbol":
        return Symbol(f"({self} + {other})")

    __radd__ = __add__

    def __mul__(self, other: object) -> "Symbol":
        return Symbol(f"{self}*{other}")

    __truediv__ = __mul__

    def exp(self) -> "Symbol":
        return Symbol(f"exp({self})")

    def __str__(self) -> str:
        return self.text


def test_functions_are_methods_of_the_number() -> None:
    x = xp.asarray([Symbol("a"), Symbol("b")])
    assert str(xp.exp(x)[0].item()) == "exp(a)"
    assert str(xp.matmul(x, x).item()) in ("((a*a + 0) + b*b)", "(a*a + b*b)")
