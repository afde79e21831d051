"""What is true of every operation, for every row of the table and in both backends."""

from __future__ import annotations

import sys

import pytest
from checks import close, cotangent, forward, gradients
from mutants import REACHED, mutants
from operation_table import ROWS, WITHOUT_GRADIENT, public_names

from tinyformer.arrays import set_default_dtype, use_backend, xp
from tinyformer.autograd import Tensor, gradcheck, no_grad

checker = sys.modules["tinyformer.autograd.gradcheck"]

each_row = pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])


@pytest.fixture(autouse=True)
def double():
    with set_default_dtype("float64"):
        yield


def differentiable(case):
    return any(given.dtype == "float64" for given in case.inputs)


def subsets(case):
    """For every float operand: it alone requires a gradient, it alone does not, and all do."""
    places = [place for place, given in enumerate(case.inputs) if given.dtype == "float64"]
    chosen = {tuple(places)} | {(place,) for place in places}
    chosen |= {tuple(other for other in places if other != place) for place in places}
    return [[place in each for place in range(len(case.inputs))] for each in sorted(chosen) if each]


def test_the_table_has_a_row_for_every_public_name():
    named = [row.name for row in ROWS] + list(WITHOUT_GRADIENT)
    assert sorted(named) == sorted(public_names())


def test_a_new_operation_without_a_row_is_noticed(monkeypatch):
    def cube(self):
        return self * self * self
    monkeypatch.setattr(Tensor, "cube", cube, raising=False)
    assert "Tensor.cube" not in {row.name for row in ROWS} and "Tensor.cube" not in public_names()
    monkeypatch.setattr(Tensor.cube, "__annotations__", {"return": "Tensor"})
    assert "Tensor.cube" in public_names()


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
def test_what_has_no_gradient_asks_for_none(backend, name):
    assert not WITHOUT_GRADIENT[name](Tensor([1.0, 2.0], requires_grad=True)).requires_grad


@each_row
def test_the_gradient_agrees_with_differences(backend, row):
    for case in row.cases:
        assert gradcheck(case.function, case.tensors())


@each_row
def test_the_result_requires_a_gradient_iff_an_input_does(backend, row):
    for case in row.cases:
        for wanted in subsets(case):
            assert forward(case, case.tensors(requires_grad=wanted)).requires_grad
        nothing = [False] * len(case.inputs)
        result = forward(case, case.tensors(requires_grad=nothing))
        assert not result.requires_grad and result.is_leaf


@each_row
def test_no_grad_changes_nothing_but_the_recording(backend, row):
    for case in row.cases:
        recorded = forward(case, case.tensors())
        with no_grad():
            tensors = case.tensors()
            bare = forward(case, tensors)
        assert bare.tolist() == recorded.tolist() and bare.shape == recorded.shape
        assert bare.is_leaf and (not bare.requires_grad or any(bare is each for each in tensors))


@each_row
def test_a_gradient_has_the_shape_and_dtype_of_its_operand(backend, row):
    for dtype in ("float64", "float32") if backend == "numpy" else ("float64",):
        with set_default_dtype(dtype):
            for case in row.cases:
                tensors = case.tensors(dtype)
                result = forward(case, tensors)
                assert type(result.data) is xp.Array and result.dtype == dtype
                result.backward(cotangent(result))
                for tensor in tensors:
                    if tensor.requires_grad:
                        assert type(tensor.grad.data) is xp.Array
                        assert tensor.grad.shape == tensor.shape
                        assert tensor.grad.dtype == tensor.dtype


@each_row
def test_an_operand_that_requires_no_gradient_gets_none_and_disturbs_none(backend, row):
    for case in row.cases:
        whole = gradients(case, case.tensors())
        for wanted in subsets(case):
            found = gradients(case, case.tensors(requires_grad=wanted))
            for one, expected, wants in zip(found, whole, wanted):
                assert one is None if not wants else close(one.tolist(), expected.tolist())


@each_row
def test_gradients_share_no_memory(backend, row):
    """Whoever scales one gradient in place, or the cotangent, must not change another."""
    for case in row.cases:
        tensors = case.tensors()
        result = forward(case, tensors)
        weights = cotangent(result)
        result.backward(weights)
        arrays = [each.grad.data for each in tensors if each.grad is not None] + [weights]
        before = [array.tolist() for array in arrays]
        for place, array in enumerate(arrays):
            array *= 3.0
            if backend == "numpy" and array.size:
                assert [each.tolist() for other, each in enumerate(arrays) if other != place] == \
                    [each for other, each in enumerate(before) if other != place]
                array /= 3.0
                before[place] = array.tolist()


def replace(tensor, how):
    """Change the numbers of a tensor in one of the ways in which its data can be replaced."""
    other = None
    if tensor.dtype == "int64":
        other = xp.where(tensor.data == 0, xp.ones_like(tensor.data), xp.zeros_like(tensor.data))
    elif tensor.dtype == "bool":
        other = xp.logical_not(tensor.data)
    if how == "data":
        tensor.data = tensor.data * 1.5 + 0.25 if other is None else other
    elif how == "item":
        tensor[...] = tensor.data * 1.5 + 0.25 if other is None else other
    elif tensor.dtype == "bool":
        tensor.data = tensor.data.__ixor__(True) if xp.name == "numpy" else other
    elif tensor.dtype == "int64":
        tensor.data *= 0
    else:
        tensor.data *= 1.5


@each_row
@pytest.mark.parametrize("how", ["data", "item", "in place"])
def test_replaced_data_gives_the_right_gradient_or_an_error(backend, row, how):
    """Every operand and the result in turn, also operands that require no gradient.

    Pure arrays know no arithmetic in place: there `t.data *= 2` makes a new array.
    """
    for case in row.cases:
        for wanted in subsets(case):
            expected = gradients(case, case.tensors(requires_grad=wanted))
            for place in range(len(case.inputs) + 1):
                tensors = case.tensors(requires_grad=wanted)
                result = forward(case, tensors)
                replace((tensors + [result])[place], how)
                try:
                    result.backward(cotangent(result))
                except RuntimeError as error:
                    assert "was replaced after the operation had used it" in str(error)
                    assert all(each.grad is None for each in tensors)
                else:
                    assert all(one is None if two is None else close(one.tolist(), two.tolist())
                               for one, two in zip([each.grad for each in tensors], expected))


@each_row
def test_the_backends_agree(row):
    pytest.importorskip("numpy", reason="there is one backend without NumPy")
    for case in row.cases:
        found = []
        for name in ("python", "numpy"):
            with use_backend(name):
                tensors = case.tensors()
                value = forward(case, tensors)
                found.append([value.tolist()] + [None if each is None else each.tolist()
                                                 for each in gradients(case, tensors)])
        assert all(one is two or close(one, two) for one, two in zip(*found))


def outcome(case):
    """The gradients of a case as lists, or the error that computing them gave."""
    try:
        return [None if each is None else each.tolist() for each in gradients(case, case.tensors())]
    except RuntimeError as error:
        return error


def passes(case):
    """Whether the gradients of a case, which are known to have changed, agree with differences."""
    try:
        return gradcheck(case, case.tensors())
    except AssertionError as error:
        assert "is wrong at element" in str(error)
        return False


def differences_once(monkeypatch):
    """A mutant changes gradients, never values: the differences of a case serve all its mutants."""
    known, compute = {}, checker._differences

    def differences(problem, step):
        if problem.function not in known:
            slopes = compute(problem, step)
            known[problem.function] = slopes, [list(values) for values in problem.values]
        slopes, values = known[problem.function]
        problem.values = [list(each) for each in values]
        for operand in range(len(values)):
            problem.renew(operand)
        return slopes
    monkeypatch.setattr(checker, "_differences", differences)


def same(one, two):
    return isinstance(two, list) and all(
        p is q or p is not None and q is not None and close(p, q, 1e-9) for p, q in zip(one, two))


@each_row
def test_every_mutant_is_caught(backend, row, monkeypatch):
    """Wherever a mutant changes a gradient, the check of that case must fail."""
    right = [outcome(case) for case in row.cases]
    differences_once(monkeypatch)
    harmless = set()
    for name, make in mutants(row.cases).items():
        changed = False
        REACHED.clear()
        with monkeypatch.context() as patch:
            make(patch)
            for case, expected in zip(row.cases, right):
                found = outcome(case)
                if same(expected, found):
                    continue
                changed = True
                if isinstance(found, list):
                    assert not passes(case), f"{name}: {expected} became {found} unnoticed"
        if REACHED and not changed:
            harmless.add(name)
        assert name not in row.equivalent or not changed, f"{name} is declared to change nothing"
    assert harmless <= set(row.equivalent), "what changes nothing must be declared, with the reason"
