"""Tensors among other things: numbers, lists, NumPy arrays, dicts, copies, files, and a reader."""

from __future__ import annotations

import copy
import operator
import pickle
from fractions import Fraction

import pytest

import tinyformer.functional as F
from tinyformer.arrays import set_default_dtype, use_backend, xp
from tinyformer.autograd import Tensor, gradcheck, no_grad, tensor

HERE = __file__


@pytest.fixture(autouse=True)
def double():
    with set_default_dtype("float64"):
        yield


@pytest.fixture
def numpy():
    with use_backend("numpy") if pytest.importorskip("numpy") else None:
        with set_default_dtype("float64"):
            yield pytest.importorskip("numpy")


# Numbers and arrays beside a tensor

def test_python_numbers_on_either_side(backend):
    t = tensor([1.0, 2.0], requires_grad=True)
    for result, expected in ((3 + t, [4, 5]), (3 - t, [2, 1]), (3 / t, [3, 1.5]), (3 ** t, [3, 9]),
                             (t ** 3, [1, 8]), (2 * t, [2, 4]), (t / 2, [0.5, 1]),
                             (sum([t, t]), [2, 4]), (-t, [-1, -2])):
        assert isinstance(result, Tensor) and result.requires_grad and result.tolist() == expected


@pytest.mark.parametrize("left", ["np.float64(3)", "np.float32(3)", "np.int64(3)", "np.array(3.0)",
                                  "np.array([3.0, 3.0])", "np.array([3, 3])"])
def test_numpy_scalars_and_arrays_on_the_left(numpy, left):
    t = tensor([1.0, 2.0], requires_grad=True)
    number = eval(left, {"np": numpy})
    for result, expected in ((number + t, [4, 5]), (number - t, [2, 1]), (number * t, [3, 6]),
                             (number / t, [3, 1.5]), (number ** t, [3, 9])):
        assert isinstance(result, Tensor) and result.requires_grad and result.tolist() == expected
    assert (number == t).tolist() == [False, False] and isinstance(number >= t, Tensor)
    rows = numpy.ones((3, 2)) @ t
    assert isinstance(rows, Tensor) and rows.tolist() == [3, 3, 3]


def test_a_numpy_float64_scalar_does_not_widen_float32(numpy):
    with set_default_dtype("float32"):
        t = tensor([1.0, 2.0])
        assert (numpy.float64(2) * t).dtype == (t * 2.0).dtype == (t + 1).dtype == "float32"
        with pytest.raises(TypeError, match="multiply: float32 and float64 never mix"):
            t * tensor([1.0, 2.0], dtype="float64")


def test_integers_meet_floats_as_floats(backend):
    ids, t = tensor([1, 2]), tensor([0.5, 0.5], requires_grad=True)
    assert (ids * t).tolist() == [0.5, 1.0] and (ids + 1).dtype == "int64"
    assert (ids / 2).tolist() == [0.5, 1.0] and (ids * 0.5).dtype == "float64"
    assert (tensor([True, False]) + 1).tolist() == [2, 1] and (ids == t).tolist() == [False, False]
    assert F.softmax(tensor([1, 1])).dtype == "float64"


def test_exact_numbers_have_exact_gradients():
    with use_backend("python"):
        x = tensor([[Fraction(1, 3), Fraction(2)]], requires_grad=True)
        (x @ x.mT).sum().backward()
        assert x.dtype == "exact" and x.grad.tolist() == [[Fraction(2, 3), Fraction(4)]]
        mean = tensor([Fraction(1), Fraction(2), Fraction(4)], requires_grad=True)
        (mean.mean() * Fraction(1, 7)).backward()
        assert mean.grad.tolist() == [Fraction(1, 21)] * 3


# Identity, truth and order

def test_tensors_are_keys(backend):
    one, two = tensor([1.0]), tensor([1.0])
    assert {one: "a", two: "b"}[one] == "a" and len({one, two, one}) == 2
    assert one in [two, one] and (one == two).tolist() == [True]
    assert one != None and not (one == "a")       # noqa: E711


def test_truth_needs_one_number(backend):
    assert not tensor(0.0) and tensor([2.0]) and int(tensor(3.7)) == 3 and float(tensor(2)) == 2.0
    with pytest.raises(ValueError, match=r"shape \(2,\) is ambiguous"):
        bool(tensor([0.0, 0.0]))
    with pytest.raises(TypeError):
        tensor([1.0]) < None
    assert [10, 20][tensor(1)] == 20 and f"{tensor(2.0):.1f}" == "2.0"
    with pytest.raises(TypeError, match="float64"):
        operator.index(tensor(1.0))


def test_rows_can_be_walked(backend):
    x = tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    first, second = x
    (first * second).sum().backward()
    assert x.grad.tolist() == [[3.0, 4.0], [1.0, 2.0]] and len(x) == 2
    with pytest.raises(TypeError, match="no length"):
        len(tensor(1.0))


# Numbers that would lose their gradient

def test_a_tensor_put_into_an_array_is_refused(numpy):
    array, t = numpy.zeros(3), tensor([1.0, 2.0, 3.0], requires_grad=True)
    for put in (lambda: array.__setitem__(slice(None), t), lambda: numpy.asarray(t),
                lambda: numpy.array([t, t]), t.numpy):
        with pytest.raises(RuntimeError, match="assigning .* not supported, use stack.*concat"):
            put()
    with pytest.warns(UserWarning, match="assigning .* not supported: use stack.*item"):
        numpy.zeros(3)[0] = t.sum()
    assert t.detach().numpy().tolist() == [1.0, 2.0, 3.0] and array.tolist() == [0.0] * 3


def test_tensors_in_a_list_make_a_tensor_only_without_a_gradient(backend):
    constants = [tensor(1.0), tensor(2.0)]
    assert tensor(constants).tolist() == [1.0, 2.0] and tensor(constants).dtype == "float64"
    assert tensor([[tensor([1, 2])], [tensor([3, 4])]]).tolist() == [[[1, 2]], [[3, 4]]]
    with pytest.raises(RuntimeError, match="use stack"):
        tensor([tensor(1.0, requires_grad=True), tensor(2.0)])


def test_assigning_a_tensor_with_a_gradient_is_refused(backend):
    x, target = tensor([1.0], requires_grad=True), tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match="stack.*concat.*where"):
        target[0] = x[0]
    assert target.tolist() == [1.0, 2.0]
    target[0] = tensor(5.0)
    target[tensor([1])] = 7
    assert target.tolist() == [5.0, 7.0]
    with no_grad():
        target[0] = x[0]
    assert target.tolist() == [1.0, 7.0]


def test_a_tensor_made_of_a_result_is_refused(backend):
    y = tensor([1.0], requires_grad=True) * 2.0
    with pytest.raises(RuntimeError, match="multiply .*test_tensor.py, line .*detach"):
        Tensor(y)
    assert Tensor(y.detach()).tolist() == [2.0]


def test_numpy_arrays_come_out_of_either_backend(backend):
    pytest.importorskip("numpy")
    for numbers, dtype in (([1.5, 2.0], "float64"), ([1, 2], "int64"), ([True], "bool")):
        array = tensor(numbers).numpy()
        assert type(array).__module__ == "numpy" and array.dtype == dtype
        assert array.tolist() == numbers and array.astype("float32").dtype == "float32"
    assert tensor([1.5]).__array__("float32").dtype == "float32"
    if backend == "python":
        assert tensor([Fraction(1, 2)]).numpy().tolist() == [0.5]


def test_tensor_copies_and_Tensor_shares(numpy):
    array = numpy.ones(2)
    copied, shared = tensor(array), Tensor(array)
    array[0] = 5.0
    assert copied.tolist() == [1.0, 1.0] and shared.tolist() == [5.0, 1.0]


# Copies and files

@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))],
                         ids=["deepcopy", "pickle"])
def test_leaves_can_be_copied(backend, copied):
    x = tensor([[1.0, 2.0]], requires_grad=True)
    x.sum().backward()
    other = copied(x)
    assert other.tolist() == x.tolist() and other.requires_grad and other.grad.tolist() == [[1, 1]]
    other.data = other.data * 2.0
    (other * other).sum().backward()
    assert x.tolist() == [[1.0, 2.0]] and x.grad.tolist() == [[1.0, 1.0]]
    shared = copied({"a": x, "b": [x, x.detach()]})
    assert shared["a"] is shared["b"][0] and not shared["b"][1].requires_grad
    with pytest.raises(RuntimeError, match="multiply .*line.*cannot be copied.*detach"):
        copied([x * 2.0])
    with no_grad():
        assert copied(x * 2.0).tolist() == [[2.0, 4.0]]


# Errors name the operation, the shapes, the line

@pytest.mark.parametrize("words, wrong", [
    ("add: shapes (2,) and (3,)", lambda: tensor([1.0, 2.0]) + tensor([1.0] * 3)),
    ("where: shapes (2,) and (3,)", lambda: F.where([True, False], [1.0] * 3, 0.0)),
    ("matmul: shapes (2,) and (3, 1)", lambda: tensor([1.0, 2.0]) @ tensor([[1.0]] * 3)),
    ("matmul, all axes but the last two: shapes (2,) and (3,)",
     lambda: tensor([[[1.0]]] * 2) @ tensor([[[1.0]]] * 3)),
    ("linear: x of shape (3,) does not fit a weight of shape (1, 2)",
     lambda: F.linear(tensor([1.0] * 3), tensor([[1.0, 2.0]]))),
    ("bias of shape (2,) does not fit a weight of shape (1, 2)",
     lambda: F.linear(tensor([1.0] * 2), tensor([[1.0, 2.0]]), tensor([1.0, 2.0]))),
    ("layer_norm: x has shape (2,), which does not fit normalized_shape (3,)",
     lambda: F.layer_norm(tensor([1.0, 2.0]), 3)),
    ("layer_norm: weight has shape (3,)",
     lambda: F.layer_norm(tensor([1.0, 2.0]), 2, tensor([1.0] * 3))),
    ("targets of shape (3,) do not fit logits of shape (2, 2)",
     lambda: F.cross_entropy(tensor([[1.0, 2.0]] * 2), tensor([0, 1, 1]))),
    ("label_smoothing must lie in [0, 1], not 2",
     lambda: F.cross_entropy(tensor([[1.0, 2.0]]), [0], label_smoothing=2)),
    ("reduction is 'mean' or 'sum', not 'none'",
     lambda: F.cross_entropy(tensor([[1.0, 2.0]]), [0], reduction="none")),
    ("attention: query (1, 2), key (1, 3) and value (1, 2)",
     lambda: F.scaled_dot_product_attention([[1.0, 2.0]], [[1.0] * 3], [[1.0, 2.0]])),
    ("a mask of shape (3,) does not fit scores of shape (1, 1)",
     lambda: F.scaled_dot_product_attention([[1.0]], [[1.0]], [[1.0]], tensor([True] * 3))),
    ("dropout: the probability must lie in [0, 1], not 1.5", lambda: F.dropout([1.0], 1.5, False)),
    ("approximate is 'none' or 'tanh', not 'fast'", lambda: F.gelu([1.0], "fast")),
    ("data of shape (3,) cannot replace data of shape (1,)",
     lambda: setattr(tensor([1.0]), "data", [1.0] * 3)),
    ("grad must be None or a Tensor of shape (1,)", lambda: setattr(tensor([1.0]), "grad", 3.0)),
    ("item() needs exactly one element; this tensor has 2", tensor([1.0, 2.0]).item),
    ("has no dtype 'float99'", lambda: tensor([1.0], dtype="float99"))])
def test_a_wrong_value_is_quoted(backend, words, wrong):
    with pytest.raises(ValueError) as caught:
        wrong()
    assert words in str(caught.value)


def test_a_wrong_id_is_quoted(backend):
    table = tensor([[1.0], [2.0]], requires_grad=True)
    with pytest.raises(IndexError, match=r"id 5 at position \(1, 0\).*vocabulary of 2.* 0 to 1"):
        F.embedding([[0, 1], [5, 0]], table)
    with pytest.raises(IndexError, match=r"id -1 at position \(0,\)"):
        F.embedding(tensor([-1]), table)
    with pytest.raises(TypeError, match="ids must be integers, not float64"):
        F.embedding(tensor([0.0]), table)
    with pytest.raises(IndexError, match="target 2 is outside the 2 classes.*ignore_index, -100"):
        F.cross_entropy([[1.0, 2.0]], [2])
    with pytest.raises(IndexError, match="target -1 is outside"):
        F.cross_entropy([[1.0, 2.0], [1.0, 2.0]], [-100, -1])
    with pytest.raises(IndexError):
        tensor([1.0, 2.0])[2]
    with pytest.raises(IndexError, match="transpose: axes 0 and 2"):
        tensor([1.0]).transpose(0, 2)


def test_an_error_in_backward_names_the_users_line(backend):
    x = tensor([1.0, 2.0], requires_grad=True)
    y = F.layer_norm(x, 2)
    line = test_an_error_in_backward_names_the_users_line.__code__.co_firstlineno + 2
    y.sum().backward()
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    assert f"layer_norm ({HERE}, line {line})" in str(caught.value)


def test_backward_on_what_needs_no_gradient_says_why(backend):
    with pytest.raises(RuntimeError, match="requires_grad=True.*no_grad.*detached"):
        tensor([1.0]).backward()
    y = tensor([1.0], requires_grad=True) * 2.0
    with pytest.raises(RuntimeError, match="leaves only; this is the result of multiply"):
        y.requires_grad = False
    with pytest.warns(UserWarning, match="retain_grad"):
        assert y.grad is None


# Edges whose values are decided

def test_equal_largest_elements_share_the_gradient(backend):
    x = tensor([1.0, 1.0, 0.0], requires_grad=True)
    x.max().backward()
    assert x.grad.tolist() == [0.5, 0.5, 0.0]


def test_powers_of_zero(backend):
    for exponent, slope in ((0, 0.0), (1, 1.0), (2, 0.0), (0.0, 0.0), (1.0, 1.0), (3, 0.0)):
        for wrapped in (exponent, tensor([float(exponent)])):
            x = tensor([0.0], requires_grad=True)
            (x ** wrapped).backward()
            assert x.grad.tolist() == [slope]
    for exponent in (0.0, 1.0, 2.0):
        y = tensor([exponent], requires_grad=True)
        (0.0 ** y).backward()
        assert y.grad.tolist() == [0.0]
    negative = tensor([-8.0], requires_grad=True)
    root = negative ** (1 / 3)
    root.backward()
    assert root.item() != root.item() and negative.grad.item() != negative.grad.item()


def test_the_variance_of_one_number_is_nan_both_ways(backend):
    x = tensor([1.0], requires_grad=True)
    y = x.var()
    y.backward()
    assert y.item() != y.item() and x.grad.item() != x.grad.item()
    norm = tensor([0.0, 0.0], requires_grad=True)
    (norm * norm).sum().backward()
    assert norm.grad.tolist() == [0.0, 0.0]


def test_rows_that_may_look_nowhere_give_zeros_both_ways(backend):
    q, k, v = [tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True) for _ in range(3)]
    nowhere = float("-inf")
    for mask in (tensor([[True, True], [False, False]]),
                 tensor([[0.0, 0.0], [nowhere, nowhere]], requires_grad=True)):
        for each in (q, k, v):
            each.grad = None
        out = F.scaled_dot_product_attention(q, k, v, mask)
        out.sum().backward()
        assert out.tolist()[1] == [0.0, 0.0] and q.grad.tolist()[1] == [0.0, 0.0]
        assert all("nan" not in repr(each.grad) for each in (q, k, v))


def test_the_last_query_sees_all_keys(backend):
    ones, v = tensor([[0.0], [0.0]]), tensor([[3.0], [6.0], [9.0]])
    out = F.scaled_dot_product_attention(ones, tensor([[0.0]] * 3), v, is_causal=True)
    assert out.tolist() == [[4.5], [6.0]]


def test_ignored_targets(backend):
    logits = tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    loss = F.cross_entropy(logits, [-100, -100])
    loss.backward()
    assert loss.item() == 0.0 and logits.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


# How it looks

def test_repr(backend):
    rows = "tensor([[ 1.0,  2.5],\n        [-3.0,  4.0]])"
    assert repr(tensor([[1.0, 2.5], [-3.0, 4.0]])) == rows
    assert repr(tensor(2.0, requires_grad=True)) == "tensor(2.0, requires_grad=True)"
    assert repr(tensor([1, 2])) == "tensor([1, 2])" and repr(tensor([True])) == "tensor([True])"
    assert repr(tensor([1.0], requires_grad=True) * 2.0) == "tensor([2.0], made by multiply)"
    odd = tensor([1e-9, float("nan"), float("inf"), 0.0])
    assert repr(odd) == "tensor([1e-09,   nan,   inf,   0.0])"
    assert repr(tensor([])) == "tensor([])"
    assert repr(Tensor(xp.zeros((0, 3)))) == "tensor([], shape=(0, 3))"
    long = repr(tensor([[float(n) for n in range(20)]] * 20))
    assert long.count("\n") == 6 and "..." in long and long.endswith("shape=(20, 20))")


def test_gradcheck_refuses_what_it_cannot_check(backend):
    with pytest.raises(ValueError, match="nothing to check.*int64"):
        gradcheck(lambda i: i * 1.0, [tensor([1, 2])])
    with pytest.raises(TypeError, match="one float tensor"):
        gradcheck(lambda x: x > 0.0, [tensor([1.0])])


def test_an_array_made_of_a_tensor_is_its_own(backend: str) -> None:
    numpy = pytest.importorskip("numpy")
    w = tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (w * w).sum()
    array = numpy.array(w.detach())
    array *= 0
    y.backward()
    assert w.tolist() == [1.0, 2.0, 3.0]
    assert w.grad is not None and w.grad.tolist() == [2.0, 4.0, 6.0]
    assert not numpy.shares_memory(numpy.array(w.detach()), numpy.asarray(w.detach()))
    if backend == "python":
        with pytest.raises(ValueError, match="without a copy"):
            numpy.asarray(w.detach(), copy=False)


def test_what_does_not_join_is_named_alike_in_both_backends(backend: str) -> None:
    with pytest.raises(ValueError, match=r"concat: shapes \(3,\) and \(1, 1\) do not fit"):
        F.concat([tensor([1.0, 2.0, 3.0]), tensor([[1.0]])])
    with pytest.raises(ValueError, match=r"concat: shapes \(1, 2\) and \(1, 1\) do not fit"):
        F.concat([tensor([[1.0, 2.0]]), tensor([[1.0]])], axis=0)
    with pytest.raises(ValueError, match=r"stack: shapes \(2,\) and \(1,\) differ"):
        F.stack([tensor([1.0, 2.0]), tensor([1.0])])
    with pytest.raises(ValueError, match="rows of unequal shape"):
        tensor([[1.0, 2.0], [3.0]])
    assert F.concat([tensor([[1.0, 2.0]]), tensor([[3.0]])], axis=1).tolist() == [[1.0, 2.0, 3.0]]


def test_no_rows_have_a_gradient(backend):
    scores = Tensor(xp.zeros((0, 3)), requires_grad=True)
    F.cross_entropy(scores, Tensor(xp.zeros((0,), xp.int64))).backward()
    assert scores.grad.shape == (0, 3)
