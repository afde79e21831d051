"""The layers of one position, against values worked by hand."""

from __future__ import annotations

import math

import pytest

from tinyformer import manual_seed, set_default_dtype, tensor
from tinyformer.arrays.stream import stream
from tinyformer.nn import (Block, Dropout, Embedding, FeedForward, LayerNorm, Linear, Parameter,
                           described)


def approx(values):
    """The values, to the precision of float32."""
    return pytest.approx(values, abs=2e-6)


def flat(x):
    """All numbers of a tensor."""
    return x.reshape(-1).tolist()


def test_linear_is_x_times_the_transposed_weight_plus_bias(backend):
    layer = Linear(2, 3)
    layer.load_state_dict({"weight": [[1, 2], [3, 4], [5, 6]], "bias": [0.5, 0.0, -1.0]})
    assert layer(tensor([[1.0, 1.0], [1.0, -1.0]])).tolist() == [[3.5, 7.0, 10.0],
                                                                 [-0.5, -1.0, -2.0]]
    assert layer(tensor([1.0, 0.0])).tolist() == [1.5, 3.0, 4.0]
    assert Linear(2, 3, bias=False).bias is None
    with pytest.raises(ValueError, match=r"linear: x of shape \(1, 3\) does not fit a weight of "
                                         r"shape \(3, 2\)"):
        layer(tensor([[1.0, 2.0, 3.0]]))


def test_first_weights_are_drawn_as_promised(backend):
    manual_seed(0)
    layer = Linear(100, 50)
    bound = 0.1
    for parameter in (layer.weight, layer.bias):
        values = flat(parameter)
        assert -bound <= min(values) < -0.8 * bound and 0.8 * bound < max(values) < bound
    narrow = Linear(100, 50, std=0.02)
    assert set(narrow.bias.tolist()) == {0.0}
    for weight, std in ((narrow.weight, 0.02), (Embedding(100, 50).weight, 1.0),
                        (Embedding(100, 50, std=0.5).weight, 0.5)):
        values = flat(weight)
        assert sum(values) / 5000 == pytest.approx(0, abs=5 * std / math.sqrt(5000))
        assert math.sqrt(sum(v * v for v in values) / 5000) == pytest.approx(std, rel=0.05)


def test_first_weights_are_equal_in_both_backends_and_by_seed():
    import importlib.util

    from tinyformer import use_backend
    names = ["python"] + (["numpy"] if importlib.util.find_spec("numpy") else [])
    drawn = []
    for name in names * 2:
        with use_backend(name), set_default_dtype("float64"):
            manual_seed(7)
            drawn.append(sum((flat(p) for p in Block(4, 2, 8).parameters()), []))
    assert all(values == pytest.approx(drawn[0], abs=1e-15) for values in drawn)
    assert drawn[:len(names)] == drawn[len(names):]


def test_embedding_gives_the_rows_and_gathers_their_gradients(backend):
    table = Embedding(3, 2)
    table.load_state_dict({"weight": [[1, 2], [3, 4], [5, 6]]})
    y = table([2, 0, 2])
    assert y.tolist() == [[5.0, 6.0], [1.0, 2.0], [5.0, 6.0]]
    y.backward(tensor([[1.0, 1.0], [1.0, 2.0], [3.0, 4.0]]))
    assert table.weight.grad.tolist() == [[1.0, 2.0], [0.0, 0.0], [4.0, 5.0]]


@pytest.mark.parametrize("ids, message", [
    ([[0, 3]], r"id 3 at position \(0, 1\) of ids of shape \(1, 2\) is outside the vocabulary of "
               r"3: ids run from 0 to 2"),
    ([-1], r"id -1 at position \(0,\) of ids of shape \(1,\) is outside the vocabulary of 3")])
def test_an_id_outside_the_table_is_named(backend, ids, message):
    with pytest.raises(IndexError, match=message):
        Embedding(3, 2)(ids)


def test_layer_norm_of_one_hot_is_that_of_the_population_deviation(backend):
    norm = LayerNorm(4, eps=0.0)
    assert norm(tensor([1.0, 0.0, 0.0, 0.0])).tolist() == approx(
        [math.sqrt(3), -1 / math.sqrt(3), -1 / math.sqrt(3), -1 / math.sqrt(3)])
    norm.load_state_dict({"weight": [1, 2, 3, 0], "bias": [0, 0, 1, 5]})
    assert norm(tensor([1.0, -1.0, 1.0, -1.0])).tolist() == [1.0, -2.0, 4.0, 5.0]
    assert LayerNorm(2, eps=3.0)(tensor([1.0, -1.0])).tolist() == [0.5, -0.5]
    assert LayerNorm(3)(tensor([7.0, 7.0, 7.0])).tolist() == [0.0, 0.0, 0.0]


def test_feed_forward_bends_between_two_affine_maps(backend):
    layer = FeedForward(1, 2)
    layer.load_state_dict({"inner.weight": [[1], [0]], "inner.bias": [0, -2],
                           "outer.weight": [[1, 10]], "outer.bias": [0.25]})
    at_1, at_minus_2 = 0.8411919906082768, -0.04540230591222494       # the tanh form of GELU
    assert layer(tensor([[1.0], [0.0]])).tolist() == [
        approx([at_1 + 10 * at_minus_2 + 0.25]), approx([10 * at_minus_2 + 0.25])]


def test_dropout_scales_what_it_keeps_and_is_off_in_eval(backend):
    manual_seed(0)
    layer, x = Dropout(0.25), tensor([[1.0] * 100] * 40)
    kept = flat(layer(x))
    assert sorted(set(kept)) == approx([0.0, 1 / 0.75])
    assert kept.count(0.0) / 4000 == pytest.approx(0.25, abs=0.03)
    assert layer(x).tolist() != layer(x).tolist()
    assert layer.eval()(x).tolist() == x.tolist()
    assert set(flat(Dropout(1)(x))) == {0.0} and Dropout(0)(x).tolist() == x.tolist()
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=f"must lie in \\[0, 1\\], not {bad}"):
            Dropout(bad)


def test_described_layers_have_shapes_but_take_nothing_from_the_stream_and_no_numbers(backend):
    manual_seed(3)
    before = stream.state()
    with described():
        layers = [Linear(2, 3), Linear(2, 3, std=1.0), Embedding(2, 3), Block(4, 2, 8)]
        with pytest.raises(KeyError), described():
            raise KeyError
        layers.append(Linear(2, 3))         # the inner end does not end the outer
    assert stream.state() == before
    shapes = [[p.shape for p in layer.parameters()] for layer in layers]
    real = [Linear(2, 3), Linear(2, 3), Embedding(2, 3), Block(4, 2, 8), Linear(2, 3)]
    assert shapes == [[p.shape for p in layer.parameters()] for layer in real]
    assert str(layers[3]) == str(real[3]) and layers[3].n_parameters() == real[3].n_parameters()
    for layer, x in zip(layers, ([[1.0, 2.0]], [[1.0, 2.0]], [[1]], [[[1.0, 2.0, 3.0, 4.0]]])):
        with pytest.raises(TypeError, match="without numbers .its model was made inside desc"):
            layer(tensor(x))
    for layer, other in zip(layers, real):
        layer.load_state_dict(other.state_dict())
        assert all(p.requires_grad for p in layer.parameters())
        assert list(map(flat, layer.parameters())) == list(map(flat, other.parameters()))


def test_a_parameter_requires_a_gradient_and_never_integers(backend):
    assert Parameter([1.0]).requires_grad
    assert not Parameter([1.0], requires_grad=False).requires_grad
    with pytest.raises(TypeError, match="int64 cannot require a gradient"):
        Parameter([1])
