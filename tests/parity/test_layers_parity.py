"""Layers and the decoder-only model against a living PyTorch, in float64, on fresh numbers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with")


def load(path: str) -> Any:
    """A module of the tests, by its file."""
    specification = importlib.util.spec_from_file_location(
        Path(path).stem, Path(__file__).parents[1] / path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


CASES = {f"{case['name']}, seed {seed}": case
         for seed in (1, 2, 3) for case in load("golden/make_layers.py").cases(seed)}
differences = load("nn/layer_cases.py").differences


@pytest.mark.parametrize("name", CASES)
def test_it_is_as_pytorch_computes_it(backend, name):
    assert differences(CASES[name]) == []
