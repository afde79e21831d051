"""Mask: True means may look, the last query stands at the last key, and nothing else passes."""

from __future__ import annotations

import math

import pytest

from tinyformer import tensor
from tinyformer.arrays import xp
from tinyformer.nn import Mask, MultiHeadAttention
from tinyformer.nn.masks import allowed_by


def test_causal_lets_each_see_itself_and_what_is_before(backend):
    assert Mask.causal(3).allowed.tolist() == [
        [True, False, False], [True, True, False], [True, True, True]]


@pytest.mark.parametrize("queries, keys, drawn", [
    (1, 4, "x x x x"),                                      # one new token sees the whole cache
    (2, 4, "x x x .\nx x x x"),
    (3, 2, ". .\nx .\nx x"),                                # the first query stands before all keys
    (1, 1, "x")])
def test_causal_is_aligned_at_the_bottom_right(backend, queries, keys, drawn):
    assert str(Mask.causal(queries, keys)) == drawn


def test_padding_hides_the_end_of_each_row(backend):
    mask = Mask.padding([2, 0, 3], 3)
    assert mask.shape == (3, 1, 1, 3)
    assert mask.allowed.tolist() == [[[[True, True, False]]], [[[False] * 3]], [[[True] * 3]]]
    for lengths in ([4], [2, -1]):
        with pytest.raises(ValueError, match=r"lengths \[.*\] must lie between 0 and the width 3"):
            Mask.padding(lengths, 3)


def test_and_allows_what_both_allow(backend):
    both = Mask.causal(2) & Mask.padding([1, 2], 2)
    assert both.shape == (2, 1, 2, 2)
    assert both.allowed.tolist() == [[[[True, False], [True, False]]],
                                     [[[True, False], [True, True]]]]
    assert (Mask.padding([1, 2], 2) & Mask.causal(2)).allowed.tolist() == both.allowed.tolist()
    assert Mask.causal(2).allowed.tolist() == [[True, False], [True, True]], "operands stay"


@pytest.mark.parametrize("one, other", [
    ((3, 3), (2, 2)), ((2, 2), (3, 2)), ((2, 1, 1, 4), (3, 1, 1, 4)),
    ((2, 1, 4, 1), (4, 4))])                # padding put on the queries would spread over all keys
def test_and_refuses_shapes_that_do_not_fit(backend, one, other):
    masks = [Mask(xp.ones(shape, xp.bool)) for shape in (one, other)]
    with pytest.raises(ValueError, match=r"masks of shapes \(.*\) and \(.*\) do not fit: the axes "
                                         r"are rows of the batch, heads, queries .* keys"):
        masks[0] & masks[1]


def test_and_refuses_what_is_no_mask(backend):
    for other in ([[True]], xp.ones((1, 1), xp.bool), 1, None):
        with pytest.raises(TypeError, match="a Mask goes together with a Mask, not with a"):
            Mask.causal(1) & other


@pytest.mark.parametrize("bad", [[[1.0, 0.0]], [[0.0, -math.inf]], [[1, 0]], [True], True,
                                 [[[True]]], [[[[[True]]]]]])
def test_floats_ints_and_other_ranks_are_refused(backend, bad):
    with pytest.raises(ValueError, match=r"made of bools, true where a query may look, in the "
                                         r"shape \(T, S\) or \(B, H, T, S\); this has dtype .* and "
                                         r"shape \("):
        Mask(bad)


def test_it_draws_itself_and_says_what_the_signs_mean(backend):
    assert repr(Mask.causal(2)) == "Mask of shape (2, 2), x may look:\nx .\nx x"
    assert str(Mask.padding([1, 2], 2)) == "row 0, head 0:\nx .\nrow 1, head 0:\nx x"
    heads = Mask([[[[True, False]], [[False, True]]]])
    assert str(heads) == "row 0, head 0:\nx .\nrow 0, head 1:\n. x"


SCORES = (2, 3, 4, 5)


@pytest.mark.parametrize("shape", [(4, 5), (1, 5), (2, 1, 1, 5), (2, 3, 4, 5), (1, 3, 4, 5)])
def test_what_fits(backend, shape):
    assert tuple(allowed_by(Mask(xp.ones(shape, xp.bool)), SCORES).shape) == shape
    assert allowed_by(None, SCORES) is None


@pytest.mark.parametrize("shape", [(5, 4), (4, 1), (3, 5), (2, 1, 5, 1), (2, 1, 4, 1), (3, 1, 1, 5),
                                   (1, 2, 4, 5), (2, 3, 4, 6)])
def test_what_does_not_fit(backend, shape):
    layer = MultiHeadAttention(6, 3)
    x, memory = tensor([[[0.0] * 6] * 4] * 2), tensor([[[0.0] * 6] * 5] * 2)
    with pytest.raises(ValueError) as caught:
        layer(x, memory, Mask(xp.ones(shape, xp.bool)))
    assert f"mask of shape {shape} does not fit scores of shape (B, H, T, S) = {SCORES}" \
        in str(caught.value)


def test_a_bare_array_is_no_mask(backend):
    for bare in (xp.ones((1, 1), xp.bool), [[True]], xp.zeros((1, 1))):
        with pytest.raises(TypeError, match="a mask must be a Mask, not a"):
            MultiHeadAttention(2, 1)(tensor([[[1.0, 2.0]]]), mask=bare)


def test_segments_see_themselves_alone(backend):
    mask = Mask.segments([[0, 0, 1], [2, 3, 2]])
    assert mask.shape == (2, 1, 3, 3)
    assert mask.allowed.tolist()[1][0] == [[True, False, True], [False, True, False],
                                           [True, False, True]]
    assert str(Mask.segments([[0, 1]], [[1, 0, 1]])) == ". x .\nx . x"
    x = tensor([[[1.0, -2.0, 0.5, 3.0], [0.0, 1.0, 2.0, -1.0], [2.0, 2.0, -1.0, 0.0],
                 [-1.0, 0.5, 1.0, 1.0]]])
    attention = MultiHeadAttention(4, 2, std=1.0, out_std=1.0)
    joined = attention(x, mask=Mask.segments([[0, 0, 1, 1]]))
    apart = [attention(x[:, :2]), attention(x[:, 2:])]
    for whole, part in zip((joined[:, :2], joined[:, 2:]), apart):
        assert max(abs(v) for row in (whole - part).tolist()[0] for v in row) < 1e-5
    with pytest.raises(ValueError, match=r"\(2,\)"):
        Mask.segments([0, 1])
