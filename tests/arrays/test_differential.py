"""The two backends are each other's test: the same calculation gives the same answer in both."""

from __future__ import annotations

import importlib.util
from typing import Any, List

import pytest

from differential import Case, Draw, difference, outcome
from differential_layout_rows import OPERATOR_ROWS, ROWS
from tinyformer.arrays import set_default_dtype, use_backend, xp
from tinyformer.arrays.backend import DTYPES, NAMES

needs_numpy = pytest.mark.skipif(not importlib.util.find_spec("numpy"), reason="needs NumPy")
ALL_ROWS = {**ROWS, **OPERATOR_ROWS}


def outcomes(cases: List[Case], backend: str) -> List[Any]:
    """What every case gives in one backend, in float64."""
    with use_backend(backend), set_default_dtype("float64"):
        return [outcome(case) for case in cases]


def cases_of(name: str) -> List[Case]:
    """The cases of a row, the same in every run."""
    return list(ALL_ROWS[name](name, Draw(name)))


def test_every_name_has_a_row() -> None:
    assert sorted(ROWS) == sorted(NAMES)


@needs_numpy
def test_both_namespaces_have_the_same_names() -> None:
    for backend in ("python", "numpy"):
        with use_backend(backend):
            assert set(vars(xp)) == {*NAMES, *DTYPES[backend], "name", "default_float", "fused"}


@needs_numpy
@pytest.mark.parametrize("name", ALL_ROWS)
def test_both_backends_agree(name: str) -> None:
    cases = cases_of(name)
    found = [difference(*each) for each in zip(
        cases, outcomes(cases, "python"), outcomes(cases, "numpy"))]
    wrong = [f"{case}: {each}" for case, each in zip(cases, found) if each]
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:10])


@needs_numpy
@pytest.mark.parametrize("name", ALL_ROWS)
def test_float32_stays_float32(name: str) -> None:
    for case in cases_of(name):
        if case.keeps_float32():
            with use_backend("numpy"), set_default_dtype("float32"):
                found = outcome(case)
            parts = found[1] if isinstance(found[1], list) else [found[1]]
            assert found[0] == "error" or not any(part[0] == "float" for part in parts
                                                  if isinstance(part, tuple)), f"{case}: {found}"
