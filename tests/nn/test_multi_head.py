"""Multi-head attention: by hand, with every mask, and where a row may look nowhere."""

from __future__ import annotations

import math

import pytest

from tinyformer import manual_seed, tensor
from tinyformer.arrays import xp
from tinyformer.nn import Mask, MultiHeadAttention

EYE = [[1.0, 0.0], [0.0, 1.0]]


def plain(n_heads=1, **changed):
    """Attention of width 2 whose four projections leave everything as it is."""
    layer = MultiHeadAttention(2, n_heads)
    state = {f"{name}.{end}": EYE if end == "weight" else [0.0, 0.0]
             for name in ("query", "key", "value", "output") for end in ("weight", "bias")}
    layer.load_state_dict({**state, **changed})
    return layer


def approx(rows):
    """Nested lists, to the precision of float32."""
    return [pytest.approx(row, abs=2e-6) for row in rows]


def test_two_words_by_hand(backend):
    """x = (1,0), (0,1): the scores are 1/sqrt 2 on the diagonal and 0 beside it."""
    near = math.exp(1 / math.sqrt(2)) / (math.exp(1 / math.sqrt(2)) + 1)
    y = plain()(tensor([EYE]))
    assert y.tolist()[0] == approx([[near, 1 - near], [1 - near, near]])


def test_equal_scores_give_the_mean_of_what_may_be_seen(backend):
    """Fig. 9.3 of the textbook: A = [[1,0],[1/2,1/2]], V = [[2,0],[0,4]], O = A V."""
    layer = plain(**{"query.weight": [[0.0, 0.0], [0.0, 0.0]]})
    y = layer(tensor([[[2.0, 0.0], [0.0, 4.0]]]), mask=Mask.causal(2))
    assert y.tolist()[0] == approx([[2.0, 0.0], [1.0, 2.0]])


def test_each_head_has_its_own_slice_of_the_width(backend):
    """Of width 1 each: head 0 looks by the first number only, head 1 by the second."""
    near = math.e / (math.e + 1)
    y = plain(n_heads=2)(tensor([EYE]))
    assert y.tolist()[0] == approx([[near, 0.5], [0.5, near]])


def test_a_mask_per_head_acts_on_its_head_alone(backend):
    zero = [[0.0, 0.0], [0.0, 0.0]]
    mask = Mask([[[[True, False]], [[False, True]]]])
    y = plain(n_heads=2, **{"query.weight": zero})(tensor([[[1.0, 2.0], [3.0, 4.0]]]), mask=mask)
    assert y.tolist()[0] == approx([[1.0, 4.0], [1.0, 4.0]])


def test_it_looks_at_a_memory_of_another_length(backend):
    zero = [[0.0, 0.0], [0.0, 0.0]]
    layer = plain(**{"query.weight": zero})
    memory = tensor([[[3.0, 0.0], [0.0, 3.0], [0.0, 0.0]]])
    assert layer(tensor([EYE]), memory).tolist()[0] == approx([[1.0, 1.0], [1.0, 1.0]])
    shorter = layer(tensor([EYE]), memory, Mask.padding([2], 3))
    assert shorter.tolist()[0] == approx([[1.5, 1.5], [1.5, 1.5]])


def test_a_row_that_may_look_nowhere_gives_zeros_and_no_gradient(backend):
    manual_seed(0)
    layer = MultiHeadAttention(4, 2)
    layer.output.bias.data = xp.asarray([1.0, 2.0, 3.0, 4.0])
    x = tensor([[[1.0, 2.0, 3.0, 4.0]] * 2] * 2, requires_grad=True)
    y = layer(x, mask=Mask.padding([0, 2], 2))
    assert y.tolist()[0] == [[1.0, 2.0, 3.0, 4.0]] * 2, "zeros, and then the last bias"
    y.sum().backward()
    assert x.grad.tolist()[0] == [[0.0] * 4] * 2
    for name, parameter in layer.named_parameters():
        assert all(math.isfinite(g) for g in parameter.grad.reshape(-1).tolist()), name
    layer.zero_grad()
    alone = layer(tensor([[[1.0, 2.0, 3.0, 4.0]] * 2]), mask=Mask.padding([0], 2))
    alone.sum().backward()
    for name, parameter in layer.named_parameters():
        if name != "output.bias":
            assert set(parameter.grad.reshape(-1).tolist()) == {0.0}, name


def test_what_a_mask_hides_may_even_be_enormous(backend):
    layer = plain()
    hidden = tensor([[[1.0, 2.0], [1e18, -1e18]]])
    y = layer(hidden, mask=Mask.padding([1], 2))
    assert y.tolist()[0] == approx([[1.0, 2.0], [1.0, 2.0]])


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_of_the_weights_is_off_at_0_and_in_eval(backend, dropout):
    manual_seed(0)
    layer = MultiHeadAttention(4, 2, dropout, std=1.0)
    x = tensor([[[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 1.0, 0.0]]])
    assert (layer(x).tolist() == layer(x).tolist()) == (dropout == 0.0)
    layer.eval()
    assert layer(x).tolist() == layer(x).tolist()


def test_sizes_and_shapes_that_do_not_fit(backend):
    for n_heads in (0, 4, -1):
        with pytest.raises(ValueError, match=f"d_model=6 cannot be shared by n_heads={n_heads}"):
            MultiHeadAttention(6, n_heads)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\], not 1.5"):
        MultiHeadAttention(6, 2, dropout=1.5)
    layer = MultiHeadAttention(2, 1)
    for shapes in (((3, 2), (3, 2)), ((1, 3, 2), (2, 3, 2)), ((2, 3, 2), (1, 3, 2)),
                   ((1, 3, 2), (3, 2))):
        with pytest.raises(ValueError) as caught:
            layer(*[tensor(xp.zeros(shape)) for shape in shapes])
        assert f"from x (B, T, D) to memory (B, S, D), not from {shapes[0]} to {shapes[1]}" \
            in str(caught.value)
    with pytest.raises(ValueError, match=r"x of shape \(1, 3, 4\) does not fit a weight of shape "
                                         r"\(2, 2\)"):
        layer(tensor(xp.zeros((1, 3, 4))))
