"""One head and several, as the handout has them: free widths, who is seen, what weights mean."""

from __future__ import annotations

import math

import pytest
from trials import attend_slowly, close, flat, loud, normal, plain

from tinyformer import functional as F
from tinyformer import manual_seed, no_grad, set_default_dtype, tensor
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.nn import (ALiBi, Block, Disentangled, Mask, MultiHeadAttention, Relative, Rotary,
                           T5Bias, recorded_attention)


@pytest.fixture(autouse=True)
def double():
    with set_default_dtype("float64"):
        yield


def recorded(layer, *inputs, **options):
    """The output of an attention and the weights that it recorded."""
    with recorded_attention(layer) as records:
        y = layer(*inputs, **options)
    return y, records[""][0]


def identity(n_heads=1, d_model=2):
    """Attention whose four projections leave everything as it is."""
    layer = MultiHeadAttention(d_model, n_heads)
    eye = [[float(i == j) for j in range(d_model)] for i in range(d_model)]
    for part in (layer.query, layer.key, layer.value, layer.output):
        part.weight.data = xp.asarray(eye)
    return layer


def test_d_k_need_not_be_d_v(backend):
    """Handout: T=5, d=8, d_k=3, d_v=6: A is 5 x 5 and O is 5 x 6."""
    layer = MultiHeadAttention(8, 1, d_k=3, d_v=6)
    assert [tuple(part.weight.shape) for part in (layer.query, layer.key, layer.value,
                                                  layer.output)] == [(3, 8), (3, 8), (6, 8), (8, 6)]
    y, weights = recorded(layer, normal(1, 5, 8))
    assert weights.shape == (1, 1, 5, 5) and y.shape == (1, 5, 8)


@pytest.mark.parametrize("n_heads, d_k, d_v", [(1, 3, 6), (3, 1, 2), (2, 4, None), (4, None, 1)])
def test_any_widths_against_a_loop(backend, n_heads, d_k, d_v):
    manual_seed(0)
    layer, x = loud(MultiHeadAttention(8, n_heads, d_k=d_k, d_v=d_v)), normal(2, 5, 8)
    y = layer(x, mask=Mask.causal(5))
    for row, fast in zip(x.tolist(), y.tolist()):
        slow = attend_slowly(layer, row, lambda i, j: j <= i, plain, plain,
                             1 / math.sqrt(d_k or 8 // n_heads))
        assert close(fast, slow, 1e-12)


@pytest.mark.parametrize("size", [1.0, 100.0])
def test_rows_of_weights_are_at_least_0_and_sum_to_1(backend, size):
    """At 100 the scores reach ten thousand."""
    manual_seed(0)
    x = normal(2, 5, 4) * size
    _, weights = recorded(identity(2, 4), x)
    if size == 100.0:
        assert (x @ x.mT).max().item() > 1e4
    assert min(flat(weights)) >= 0.0
    assert flat(weights.sum(-1)) == pytest.approx([1.0] * 20, abs=1e-12)


@pytest.mark.parametrize("width, variance, unscaled", [(4, 4.0, .53), (16, 16.0, .75),
                                                       (64, 63.0, .87), (256, 257.0, .93)])
def test_the_root_of_d_k_keeps_scores_at_one_size(backend, width, variance, unscaled):
    """q and k of N(0, 1): the variance of q k is d_k, and its softmax hardens as the width grows;
    divided by the root, the largest of 8 weights stays at .35."""
    manual_seed(0)
    rows = 60 if backend == "python" and width > 64 else 400
    query, keys = normal(rows, 1, width), normal(rows, 8, width)
    with no_grad():
        scores = query @ keys.mT
        assert (scores * scores).mean().item() == pytest.approx(variance, rel=0.2)
        largest = [F.softmax(scores * factor).max(axis=-1).mean().item()
                   for factor in (1.0, 1 / math.sqrt(width))]
    assert largest[0] == pytest.approx(unscaled, abs=0.06)
    assert largest[1] == pytest.approx(.355, abs=0.04)


def test_the_future_weighs_exactly_nothing_and_everyone_sees_himself(backend):
    manual_seed(0)
    layer = loud(MultiHeadAttention(4, 2), 3.0)
    _, weights = recorded(layer, normal(1, 6, 4), mask=Mask.causal(6))
    for table in weights.tolist()[0]:
        assert table[0] == [1.0] + [0.0] * 5
        for i, row in enumerate(table):
            assert row[i + 1:] == [0.0] * (5 - i) and 0.0 not in row[:i + 1]
            assert all(w == w for w in row)


def equal_scores(second=None):
    """Values (2, 0) and (0, 4); all scores 0, or those of the second query as given."""
    x = tensor([[[2.0, 0.0], [0.0, 4.0]]])
    layer = identity()
    layer.query.weight.data = xp.zeros((2, 2))
    if second is not None:                      # query 2 = (0, 4 w): its score of key 2 is 16 w
        layer.query.weight.data = xp.asarray([[0.0, 0.0], [0.0, second * math.sqrt(2) / 16]])
    return layer, x


def test_the_worked_example_of_two_positions(backend):
    """Fig. 9.3: A = [[1, 0], [1/2, 1/2]], O = [[2, 0], [1, 2]]; without the mask (1, 2) twice."""
    layer, x = equal_scores()
    y, weights = recorded(layer, x, mask=Mask.causal(2))
    assert weights.tolist() == [[[[1.0, 0.0], [0.5, 0.5]]]]
    assert y.tolist() == [[[2.0, 0.0], [1.0, 2.0]]]
    y, weights = recorded(layer, x)
    assert weights.tolist() == [[[[0.5, 0.5], [0.5, 0.5]]]]
    assert y.tolist() == [[[1.0, 2.0], [1.0, 2.0]]]


def test_the_mask_decides_who_and_the_scores_decide_how_much(backend):
    """Scores (0, ln 3) in the second row: A (1/4, 3/4), O (1/2, 3)."""
    layer, x = equal_scores(math.log(3))
    y, weights = recorded(layer, x, mask=Mask.causal(2))
    assert close(weights.tolist(), [[[[1.0, 0.0], [0.25, 0.75]]]])
    assert close(y.tolist(), [[[2.0, 0.0], [0.5, 3.0]]])
    louder, _ = equal_scores(math.log(3))
    louder.query.bias.data = xp.asarray([-7.0, 300.0])
    assert louder(x, mask=Mask.causal(2)).tolist()[0][0] == [2.0, 0.0], "masked scores are nothing"


def test_scores_are_as_many_as_pairs(backend):
    sizes = [recorded(MultiHeadAttention(4, 1), normal(1, n, 4))[1].size for n in (3, 6, 12)]
    assert sizes == [9, 36, 144]


# What a single number does not explain

def test_turning_the_space_of_the_values_changes_no_output(backend):
    """An orthogonal R in W_V and its inverse in W_O: other coordinates, the same function."""
    manual_seed(0)
    layer, x = loud(MultiHeadAttention(2, 1)), normal(1, 4, 2)
    former, value = layer(x).tolist(), layer.value(x).tolist()
    turn = xp.asarray([[0.6, -0.8], [0.8, 0.6]])
    layer.value.weight.data = xp.matmul(turn, layer.value.weight.data)
    layer.value.bias.data = xp.matmul(turn, layer.value.bias.data)
    layer.output.weight.data = xp.matmul(layer.output.weight.data, xp.matrix_transpose(turn))
    assert close(layer(x).tolist(), former) and not close(layer.value(x).tolist(), value, 0.1)


def test_two_tables_of_weights_may_give_one_output(backend):
    value = tensor([[[[1.0, 2.0], [1.0, 2.0], [5.0, 5.0]]]])
    outputs = [tensor([[[weights]]]) @ value for weights in ([0.5, 0.3, 0.2], [0.1, 0.7, 0.2])]
    assert close(outputs[0].tolist(), outputs[1].tolist())


# Several heads

def test_one_head_without_projections_is_the_formula(backend):
    manual_seed(0)
    x = normal(2, 4, 6)
    formula = F.softmax(x @ x.mT / math.sqrt(6)) @ x
    for layer in (identity(1, 6), MultiHeadAttention(6, 1, projections=False)):
        assert close(layer(x).tolist(), formula.tolist())


def test_three_heads_are_three_attentions_joined(backend):
    """Slide 18: each head has its own W_Q, W_K, W_V."""
    manual_seed(0)
    layer, x = loud(MultiHeadAttention(6, 3)), normal(2, 4, 6)
    heads = []
    for h in range(3):
        own = slice(2 * h, 2 * h + 2)
        q, k, v = (F.linear(x, part.weight[own], part.bias[own])
                   for part in (layer.query, layer.key, layer.value))
        heads.append(F.scaled_dot_product_attention(q, k, v))
    joined = layer.output(F.concat(heads, axis=-1))
    assert close(layer(x).tolist(), joined.tolist())


def test_the_order_of_the_heads_is_of_no_account(backend):
    manual_seed(0)
    layer, x = loud(MultiHeadAttention(6, 3)), normal(2, 4, 6)
    former = layer(x).tolist()
    rows = xp.asarray([4, 5, 0, 1, 2, 3])
    for part in (layer.query, layer.key, layer.value):
        for parameter in part.parameters():
            parameter.data = xp.take(parameter.data, rows, axis=0)
    assert not close(layer(x).tolist(), former, 0.01)
    layer.output.weight.data = xp.take(layer.output.weight.data, rows, axis=1)
    assert close(layer(x).tolist(), former)


# Recorded weights

@pytest.mark.parametrize("position", [None, lambda: Relative(2, 2, 2)])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_recording_changes_no_bit_of_outputs_or_gradients(backend, position, dropout):
    manual_seed(0)
    layer = loud(MultiHeadAttention(4, 2, dropout, position=position and position()))
    x = normal(2, 5, 4)
    results = []
    for recording in (False, True):
        manual_seed(1)
        layer.zero_grad()
        if recording:
            y, weights = recorded(layer, x, mask=Mask.causal(5))
        else:
            y = layer(x, mask=Mask.causal(5))
        y.sum().backward()
        results.append((y.tolist(), [p.grad.tolist() for p in layer.parameters()], stream.state()))
    assert results[0] == results[1]
    assert not weights.requires_grad
    assert flat(weights.sum(-1)) == pytest.approx([1.0] * 20, abs=1e-12), "before dropout"


@pytest.mark.parametrize("position", [
    lambda: None, Rotary, lambda: ALiBi(1), lambda: T5Bias(1), lambda: Disentangled(4, 1, 4),
    lambda: Relative(2, 4, 4)])
def test_what_is_recorded_is_what_mixed_the_values(backend, position):
    manual_seed(0)
    layer, x = loud(MultiHeadAttention(4, 1, position=position())), normal(1, 5, 4)
    if isinstance(layer.position, Relative):
        layer.position.values.data = xp.zeros_like(layer.position.values.data)
    y, weights = recorded(layer, x, mask=Mask.padding([3], 5))
    assert close(layer.output(weights[:, 0] @ layer.value(x)).tolist(), y.tolist())


def test_every_attention_records_under_its_name_every_time(backend):
    block = Block(4, 2, 8, 0.0, cross_attention=True)
    x, memory = normal(2, 3, 4), normal(2, 5, 4)
    with recorded_attention(block) as records:
        for _ in range(2):
            block(x, memory=memory)
    assert {name: [w.shape for w in each] for name, each in records.items()} == {
        "attention": [(2, 2, 3, 3)] * 2, "cross_attention": [(2, 2, 3, 5)] * 2}
    with pytest.raises(ValueError):
        with recorded_attention(block):
            block(x)
    block(x, memory=memory)
    assert len(records["attention"]) == 2, "it ends with the block of code, an error too"
    assert block.attention.records is None


def test_widths_that_say_nothing_are_refused(backend):
    with pytest.raises(ValueError, match="4 / 2 wide: d_k=3 and d_v=None say nothing"):
        MultiHeadAttention(4, 2, d_k=3, projections=False)
    with pytest.raises(ValueError, match="d_model=8 cannot be shared by n_heads=3"):
        MultiHeadAttention(8, 3, d_k=3)
