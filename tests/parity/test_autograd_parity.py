"""Values and gradients against a living PyTorch, in float64 and float32, on fresh numbers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tinyformer.arrays import set_default_dtype
from tinyformer.autograd import Tensor

torch = pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with")

script = Path(__file__).parents[1] / "golden" / "make_autograd.py"
specification = importlib.util.spec_from_file_location("make_autograd", script)
make = importlib.util.module_from_spec(specification)
specification.loader.exec_module(make)


def numbers(nested):
    return [number for each in nested for number in numbers(each)] \
        if isinstance(nested, list) else [nested]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", make.cases())
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-11), ("float32", 2e-5)])
def test_it_is_as_pytorch_computes_it(backend, name, seed, dtype, tolerance):
    if dtype == "float32" and backend == "python":
        pytest.skip("the pure backend computes in float64 only")
    operation, tensors, options = make.cases(seed)[name]
    expected = make.measure(operation, tensors, options)
    with set_default_dtype(dtype):
        leaves = [Tensor(make.floats(each), requires_grad=True) for each in tensors]
        value = make.by_tinyformer(operation, leaves, options)
        value.backward(expected["cotangent"])
    found = numbers([value.tolist()] + [leaf.grad.tolist() for leaf in leaves])
    wanted = numbers([expected["value"]] + expected["gradients"])
    scale = max(1.0, *map(abs, wanted))
    assert len(found) == len(wanted)
    assert all(abs(one - two) <= tolerance * scale for one, two in zip(found, wanted))
