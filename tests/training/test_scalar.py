"""The engine with one node per number, which the benchmark runs, and tinyformer train alike."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tinyformer import use_backend

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import scalar  # noqa: E402


@pytest.mark.parametrize("layers, tokens", [(1, None), (2, 5)])
def test_both_engines_have_the_same_losses_over_twenty_steps(layers, tokens):
    with use_backend("python"):
        assert scalar.largest_difference(20, width=8, layers=layers, tokens=tokens) < 1e-12


def test_documents_of_a_given_length_are_that_long_and_differ():
    assert {len(document) for document in scalar.documents(16)} == {17}
    assert len({tuple(document) for document in scalar.documents(16)}) == len(scalar.NAMES)
