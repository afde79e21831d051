"""Values and gradients equal those of PyTorch in float64, kept in tests/golden/autograd.json."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from checks import close

from tinyformer.arrays import set_default_dtype
from tinyformer.autograd import Tensor

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = json.loads((GOLDEN / "autograd.json").read_text(encoding="utf-8"))["cases"]
specification = importlib.util.spec_from_file_location("make_autograd", GOLDEN / "make_autograd.py")
make = importlib.util.module_from_spec(specification)
specification.loader.exec_module(make)


@pytest.mark.parametrize("name", CASES)
def test_it_is_as_pytorch_computed_it(backend, name):
    case = CASES[name]
    with set_default_dtype("float64"):
        leaves = [Tensor(make.floats(each), requires_grad=True) for each in case["tensors"]]
        value = make.by_tinyformer(case["operation"], leaves, case["options"])
        value.backward(case["cotangent"])
    assert close(value.tolist(), case["value"])
    assert close([leaf.grad.tolist() for leaf in leaves], case["gradients"])


def test_the_file_holds_what_its_script_would_measure():
    operations = {name: [operation, tensors, options]
                  for name, (operation, tensors, options) in make.cases().items()}
    assert {name: [case["operation"], case["tensors"], case["options"]]
            for name, case in CASES.items()} == operations
