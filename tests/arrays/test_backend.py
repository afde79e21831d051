"""The choice of the backend and of the float dtype; arrays of two backends in one expression."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Optional

import pytest

import tinyformer
from tinyformer.arrays import backend_name, set_default_dtype, use_backend, xp
from tinyformer.arrays.backend import NAMES, Namespace

needs_numpy = pytest.mark.skipif(not importlib.util.find_spec("numpy"), reason="needs NumPy")
ROOT = str(Path(tinyformer.__file__).parent.parent)


def run(code: str, *options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A fresh interpreter that runs `code` beside the package."""
    kept: Dict[str, str] = {**os.environ, "PYTHONPATH": ROOT}
    kept.pop("TINYFORMER_BACKEND", None)
    return subprocess.run([sys.executable, *options, "-c", code], env={**kept, **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)


def test_xp_is_one_object_that_follows_the_choice() -> None:
    with use_backend("python"):
        assert backend_name() == xp.name == "python" and repr(xp) == "<xp: python>"
        assert xp.asarray([1.0]).dtype == xp.default_float == "float"
        with pytest.raises(AttributeError, match="the python backend has no function 'expp'"):
            xp.expp
        assert not hasattr(xp, "__wrapped__")


@needs_numpy
def test_choices_nest_and_are_undone() -> None:
    with use_backend("numpy"):
        with use_backend("python"):
            with use_backend("numpy"):
                assert backend_name() == "numpy" and hasattr(xp, "float32")
            assert backend_name() == "python"
            assert not hasattr(xp, "float32") and hasattr(xp, "exact")
        assert backend_name() == "numpy" and not hasattr(xp, "exact")
        with pytest.raises(ZeroDivisionError):
            with use_backend("python"):
                1 / 0
        assert backend_name() == "numpy"
        use_backend("python")
        assert backend_name() == "python"


def test_an_unknown_backend_changes_nothing() -> None:
    with use_backend("python"):
        with pytest.raises(ValueError, match="no backend 'torch': choose 'python' or 'numpy'"):
            use_backend("torch")
        assert backend_name() == "python"


def test_numpy_asked_for_and_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    with use_backend("python"), monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec",
                      lambda name: None if name == "numpy" else found(name))
        with pytest.raises(ImportError, match="pip install 'numpy>=2.0'"):
            use_backend("numpy")
        assert backend_name() == "python"
        patch.setattr("tinyformer.arrays.backend.xp", Namespace())
        patch.delenv("TINYFORMER_BACKEND", raising=False)
        assert backend_name() == "python"


@needs_numpy
def test_the_default_dtype_is_a_choice_too() -> None:
    with use_backend("numpy"):
        assert xp.asarray([1.0]).dtype == xp.zeros(2).dtype == xp.float32
        with set_default_dtype("float64"):
            assert xp.asarray([1.0]).dtype == xp.ones(2).dtype == xp.float64
            assert xp.full(1, 0.5).dtype == xp.float64
            with set_default_dtype("float32"):
                assert xp.asarray(1.0).dtype == xp.float32
            with use_backend("python"):
                assert xp.default_float == "float"
            assert xp.asarray([1.0]).dtype == xp.float64
        with set_default_dtype(None):
            assert xp.asarray([1.0]).dtype == xp.float32
        assert xp.asarray([1, 2]).dtype == xp.int64 and xp.asarray([True]).dtype == xp.bool
        assert xp.where(xp.asarray([True]), 0.5, 1.0).dtype == xp.float32


def test_the_pure_backend_has_no_float32() -> None:
    with use_backend("python"):
        with pytest.raises(ValueError, match="float64 only, float32 was asked for"):
            set_default_dtype("float32")
        assert xp.asarray([1.0]).dtype == "float"
        with set_default_dtype("float64"):
            assert xp.asarray([1.0]).dtype == "float"
        with pytest.raises(ValueError, match="no float dtype 'float16'"):
            set_default_dtype("float16")


@needs_numpy
def test_float32_chosen_first_keeps_the_pure_backend_out() -> None:
    with use_backend("numpy"), set_default_dtype("float32"):
        with pytest.raises(ValueError, match="float64 only, float32 was asked for"):
            use_backend("python")
        assert backend_name() == "numpy"


SHOWN = "from tinyformer.arrays import backend_name; print(backend_name())"


def test_the_environment_chooses() -> None:
    assert run(SHOWN, TINYFORMER_BACKEND="python").stdout == "python\n"
    if importlib.util.find_spec("numpy"):
        assert run(SHOWN, TINYFORMER_BACKEND="numpy").stdout == run(SHOWN).stdout == "numpy\n"
    wrong = run(SHOWN, TINYFORMER_BACKEND="torch")
    assert wrong.returncode and "TINYFORMER_BACKEND is 'torch'" in wrong.stderr


def test_importing_imports_no_numpy() -> None:
    code = "import sys, tinyformer.arrays, tinyformer.arrays.stream; print('numpy' in sys.modules)"
    assert run(code).stdout == "False\n"
    code = code.replace("print", "tinyformer.arrays.xp.exp(1.0); print")
    assert run(code, TINYFORMER_BACKEND="python").stdout == "False\n"


THREADS = """
import threading
from tinyformer.arrays import use_backend, xp
use_backend("numpy")
def work():
    found.append([str(xp.mean(xp.zeros((0,)))), str(xp.var(xp.zeros(3), correction=3))])
found = []
work()
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(found[0] == found[1] == ["nan", "nan"])
"""


@needs_numpy
def test_nothing_warns_in_any_thread() -> None:
    found = run(THREADS, "-W", "error")
    assert (found.stdout, found.stderr) == ("True\n", "")


def made_in(backend: str, numbers: Any) -> Any:
    """An array of one backend."""
    with use_backend(backend):
        return xp.asarray(numbers)


MIXTURES = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y,
    "/": lambda x, y: x / y, "**": lambda x, y: x ** y, "@": lambda x, y: x @ y,
    "==": lambda x, y: x == y, "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y, ">=": lambda x, y: x >= y, "&": lambda x, y: x & y,
    "add": lambda x, y: xp.add(x, y), "maximum": lambda x, y: xp.maximum(x, y),
    "pow": lambda x, y: xp.pow(x, y),
    "matmul": lambda x, y: xp.matmul(x, y), "concat": lambda x, y: xp.concat([x, y]),
    "stack": lambda x, y: xp.stack([x, y]),
    "where": lambda x, y: xp.where(xp.asarray([True, False]), x, y),
    "take": lambda x, y: xp.take(x, y, axis=0), "take_rows": lambda x, y: xp.take_rows(x, y),
    "asarray": lambda x, y: [xp.asarray(x), xp.asarray(y)],
    "sum": lambda x, y: [xp.sum(x), xp.sum(y)],
    "reshape": lambda x, y: [xp.reshape(x, (2, 1)), xp.reshape(y, (2, 1))],
    "exp": lambda x, y: [xp.exp(x), xp.exp(y)], "with_item": lambda x, y: xp.with_item(x, 0, y),
    "scatter_add": lambda x, y: [xp.scatter_add((2,), ..., x), xp.scatter_add((2,), ..., y)],
    "[]": lambda x, y: x[y],
}


@needs_numpy
@pytest.mark.parametrize("backend", ["python", "numpy"])
@pytest.mark.parametrize("name", MIXTURES)
def test_arrays_of_two_backends_never_mix(name: str, backend: str) -> None:
    refuses(backend, MIXTURES[name], made_in("python", [0, 1]), made_in("numpy", [0, 1]))


def refuses(backend: str, function: Any, one: Any, two: Any) -> None:
    """Two arrays in either order give a TypeError that names both backends."""
    with use_backend(backend):
        for operands in ((one, two), (two, one)):
            with pytest.raises(TypeError) as error:
                function(*operands)
            assert "python" in str(error.value) and "numpy" in str(error.value)


@needs_numpy
@pytest.mark.parametrize("backend", ["python", "numpy"])
@pytest.mark.parametrize("name", ["+", "-", "*", "/", "**", "==", "!=", "<", ">=", "add", "pow"])
def test_the_scalars_of_numpy_count_as_arrays(name: str, backend: str) -> None:
    """A sum over all axes is a np.float64, which is a Python float by inheritance."""
    refuses(backend, MIXTURES[name], made_in("python", 1.0), made_in("numpy", [1.0]).sum())
    refuses(backend, MIXTURES[name], made_in("python", [1, 2]), made_in("numpy", [1]).sum())


@needs_numpy
def test_what_the_array_api_leaves_open() -> None:
    """int64 beside float32 becomes float64, as NumPy has it, and pure ints never overflow."""
    with use_backend("numpy"), set_default_dtype("float32"):
        ints, floats = xp.asarray([1, 2]), xp.asarray([0.5, 1.5])
        assert (ints + floats).dtype == (ints * 0.5).dtype == xp.exp(ints).dtype == xp.float64
        assert (floats + 1).dtype == (floats * 0.5).dtype == xp.float32
        assert (xp.astype(ints, xp.float32) + floats).dtype == xp.float32
    with use_backend("python"):
        assert (xp.asarray([2 ** 62]) * 4).tolist() == [2 ** 64]


class Tensorlike:
    """A type that does the operation itself, as tensors do."""

    __array_ufunc__: Optional[int] = None

    def __radd__(self, other: Any) -> str:
        return "mine"

    __rmul__ = __rpow__ = __gt__ = __eq__ = __radd__          # type: ignore[assignment]


def test_operators_leave_the_operation_to_whoever_asks_for_it(backend: str) -> None:
    x, other = xp.asarray([1.0, 2.0]), Tensorlike()
    assert x + other == x * other == x ** other == "mine"
    assert (x < other) == "mine" and (x == other) == "mine"


def test_arrays_can_be_copied(backend: str) -> None:
    x = xp.asarray([[1.0, 2.0]])
    assert copy.deepcopy(x).tolist() == x.tolist()


def test_no_function_changes_its_operands(backend: str) -> None:
    x = xp.asarray([[3.0, -1.0], [2.0, 0.5]])
    before = x.tolist()
    for name in ("add", "multiply", "maximum", "pow", "matmul"):
        getattr(xp, name)(x, x)
    for name in ("exp", "abs", "sum", "max", "argmax", "mean", "var", "matrix_transpose", "square"):
        getattr(xp, name)(x)
    xp.with_item(x, 0, 9.0)
    xp.concat([x, x])
    assert x.tolist() == before and all(hasattr(xp, name) for name in NAMES)


def test_reductions_of_many_numbers(backend: str) -> None:
    """Above some thousand numbers NumPy's are done in another way: every axis, and nan."""
    shape = (7, 30, 40)
    flat = [((place * 7919) % 8423) / 8423 - 0.5 for place in range(7 * 30 * 40)]
    with set_default_dtype("float64"):
        x = xp.reshape(xp.asarray(flat), shape)
        rows = [flat[start:start + 40] for start in range(0, len(flat), 40)]
        for keepdims, wanted in ((False, (7, 30)), (True, (7, 30, 1))):
            for reduce, builtin in ((xp.max, max), (xp.sum, sum)):
                found = reduce(x, axis=-1, keepdims=keepdims)
                assert tuple(found.shape) == wanted
                assert xp.reshape(found, (-1,)).tolist() == pytest.approx(
                    [builtin(row) for row in rows], abs=1e-12)
        for axis, kept in ((0, (1, 30, 40)), ((0, 1), (1, 1, 40))):
            found = xp.sum(x, axis=axis, keepdims=True)
            assert tuple(found.shape) == kept
            assert xp.reshape(found, (-1,)).tolist() == pytest.approx(
                [sum(flat[start::math.prod(kept)]) for start in range(math.prod(kept))], abs=1e-12)
        assert xp.sum(x, axis=0).tolist() == xp.sum(x, axis=0, keepdims=True).tolist()[0]
        flat[4321] = math.nan
        found = xp.max(xp.reshape(xp.asarray(flat), shape), axis=-1).tolist()
    places = [place for place, each in enumerate(each for row in found for each in row)
              if math.isnan(each)]
    assert places == [4321 // 40]


@pytest.mark.parametrize("wrong", [3, -4])
def test_a_row_that_is_not_there_is_named(backend: str, wrong: int) -> None:
    with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 0 of length 3"):
        xp.scatter_add_rows(3, xp.asarray([0, wrong]), xp.ones((2, 2)))


def test_shared_constants_cannot_be_changed() -> None:
    pytest.importorskip("numpy")
    numpy_backend = importlib.import_module("tinyformer.arrays.numpy_backend")
    for constant in (numpy_backend.unit(3, "float64"), *numpy_backend.scalars("float64", 1, 2.5)):
        with pytest.raises(ValueError):
            constant += 1
