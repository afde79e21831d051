"""The checker of gradients checks: what it must notice, and what it must not complain of."""

from __future__ import annotations

import pytest

import tinyformer.functional as F
from tinyformer.arrays import use_backend, xp
from tinyformer.arrays.stream import manual_seed, stream
from tinyformer.autograd import Tensor, gradcheck, record, tensor


def with_gradient(vjp):
    """The identity of two numbers with a given way back."""
    return lambda x: record("identity", x.data * 1.0, (x, vjp))


def test_the_message_names_operand_element_and_both_values(backend):
    def wrong(x, y):
        place = xp.asarray([[1.0, 1.0], [1.0, 3.0]])
        return record("wrong", x.data * y.data, (x, lambda g: g * y.data),
                      (y, lambda g: xp.astype(g * place, g.dtype)))
    with pytest.raises(AssertionError) as caught:
        gradcheck(wrong, [[[1.0, 1.0]] * 2, [[5.0, 5.0]] * 2])
    for words in ("operand 1, shape (2, 2)", "element (1, 1)", "backward() gives", "value 5"):
        assert words in str(caught.value)


def test_a_softmax_whose_gradient_is_always_zero_is_noticed(backend):
    """With a cotangent of ones it is not: the sum of a softmax never changes."""
    def broken(x):
        return record("softmax", F.softmax(x).data, (x, xp.zeros_like))
    with pytest.raises(AssertionError, match="backward.. gives 0"):
        gradcheck(broken, [[0.1, 0.7, 0.3]])
    x = tensor([0.1, 0.7, 0.3], dtype="float64", requires_grad=True)
    right = F.softmax(x)
    right.backward([1.0, 1.0, 1.0])
    assert all(abs(number) < 1e-15 for number in x.grad.tolist()), "ones see no difference"


def test_every_element_is_checked(backend):
    for place in range(3):
        def one_wrong(g):
            return g * xp.asarray([2.0 if index == place else 1.0 for index in range(3)])
        with pytest.raises(AssertionError, match=rf"element \({place},\)"):
            gradcheck(with_gradient(one_wrong), [[1.0, 2.0, 3.0]])
    assert gradcheck(with_gradient(lambda g: g), [[1.0, 2.0, 3.0]])


def test_a_graph_that_was_cut_is_noticed(backend):
    with pytest.raises(AssertionError, match="backward.. gives 0"):
        gradcheck(lambda x: tensor(x.tolist()) * 2.0, [[1.0]])


def test_it_steps_off_kinks_and_leaves_the_inputs_alone(backend):
    x = tensor([0.0, -1.0, 2.0])
    assert gradcheck(F.relu, [x]) and x.tolist() == [0.0, -1.0, 2.0]
    assert gradcheck(Tensor.max, [[2.0, 2.0, 1.0]])


def test_large_and_small_inputs_are_really_moved(backend):
    assert gradcheck(lambda x: x * 3.0, [[1e12, -1e12, 1e-12]])
    with pytest.raises(AssertionError):
        gradcheck(with_gradient(lambda g: g * 2.0), [[1e12]])


def test_random_draws_are_the_same_in_every_evaluation(backend):
    manual_seed(3)
    before = stream.state()
    assert gradcheck(lambda x: F.dropout(x, 0.5), [[1.0] * 8])
    assert stream.state() == before, "checking a gradient must not move the stream"


def test_only_what_requires_a_gradient_is_checked_if_anything_does(backend):
    def right_for_x(x, y):
        return record("product", x.data * y.data, (x, lambda g: g * y.data), (y, lambda g: g))
    x, y = [2.0], [5.0]
    assert gradcheck(right_for_x, [tensor(x, requires_grad=True), y])
    with pytest.raises(AssertionError, match="operand 1"):
        gradcheck(right_for_x, [x, y])


def test_float32_is_checked_in_float64():
    pytest.importorskip("numpy")
    with use_backend("numpy"):
        x = tensor([0.1, 0.2], dtype="float32")
        assert gradcheck(lambda x: (x * 1.7).exp(), [x]) and x.dtype == "float32"
