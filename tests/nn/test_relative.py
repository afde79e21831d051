"""Schemes that learn distances, loop by loop: Shaw's vectors, T5's buckets, DeBERTa's tables."""

from __future__ import annotations

import math

import pytest
from trials import affine, at, attend_slowly, close, dot, flat, loud, normal, plain

from tinyformer import manual_seed, set_default_dtype
from tinyformer.arrays import xp
from tinyformer.autograd import gradcheck
from tinyformer.nn import Disentangled, Mask, MultiHeadAttention, Relative, T5Bias
from tinyformer.nn.relative import clipped


@pytest.fixture(autouse=True)
def double():
    with set_default_dtype("float64"):
        yield


def clip(distance, low, high):
    """A number brought between two others."""
    return min(max(distance, low), high)


MASKS = {"none": lambda i, j: True, "causal": lambda i, j: j <= i,
         "every second": lambda i, j: (i + j) % 2 == 0}


def mask_of(allowed, length):
    """The Mask of a function of query and key."""
    return Mask([[allowed(i, j) for j in range(length)] for i in range(length)])


# Shaw, slides 25 to 27

def test_the_row_of_the_fourth_of_seven_with_window_2(backend):
    """Slide 26: -2 -2 -1 0 1 2 2, and so 2 window + 1 vectors of each kind."""
    positions = xp.reshape(xp.arange(7), (1, 7))
    assert [index - 2 for index in clipped(positions, positions, 2)[0, 3].tolist()] == [
        -2, -2, -1, 0, 1, 2, 2]
    scheme = Relative(2, 3, 5)
    assert scheme.keys.shape == (5, 3) and scheme.values.shape == (5, 5)


@pytest.mark.parametrize("window", [0, 1, 3, 50])
@pytest.mark.parametrize("mask", MASKS)
def test_the_formula_of_slide_27(backend, window, mask):
    """Against one score at a time, with heads of unequal key and value widths, and a gap."""
    manual_seed(window)
    layer = loud(MultiHeadAttention(4, 2, d_k=3, d_v=2, position=Relative(window, 3, 2)))
    x, places = normal(1, 6, 4), [0, 1, 2, 3, 4, 9]
    a_keys, a_values = layer.position.keys.tolist(), layer.position.values.tolist()

    def moved(table):
        def of(i, j, vector):
            a = table[clip(places[j] - places[i], -window, window) + window]
            return [p + q for p, q in zip(vector, a)]
        return of

    slow = attend_slowly(layer, x[0].tolist(), MASKS[mask], moved(a_keys), moved(a_values),
                         1 / math.sqrt(3))
    fast = layer(x, mask=mask_of(MASKS[mask], 6), places=at([places]))
    assert close(fast[0].tolist(), slow, 1e-12)


def test_the_gradients_of_both_tables(backend):
    manual_seed(0)
    layer, x = loud(MultiHeadAttention(4, 2, position=Relative(1, 2, 2))), normal(1, 4, 4)

    def output(keys, values, vectors):
        vars(layer.position).update(keys=keys, values=values)     # bare tensors, for once
        return layer(vectors, mask=Mask.causal(4))

    assert gradcheck(output, [normal(3, 2, requires_grad=True), normal(3, 2, requires_grad=True),
                              normal(1, 4, 4, requires_grad=True)])
    layer = loud(MultiHeadAttention(4, 2, position=Relative(1, 2, 2)))
    layer(x, mask=Mask.causal(4)).sum().backward()
    for table in (layer.position.keys, layer.position.values):
        assert set(table.grad.tolist()[2]) == {0.0}, "+1 lies in the future"
        assert all(map(any, table.grad.tolist()[:2]))


def test_window_0_is_plain_attention(backend):
    """All distances share one vector: the same for all scores of a row, and one more value."""
    manual_seed(0)
    layer, x = loud(MultiHeadAttention(4, 2, position=Relative(0, 2, 2))), normal(2, 5, 4)
    with_vectors = layer(x)
    value = layer.position.values[0].tolist() * 2
    layer.position = None
    shift = [dot(row, value) for row in layer.output.weight.tolist()]
    expected = [[[y + s for y, s in zip(row, shift)] for row in text] for text in
                layer(x).tolist()]
    assert close(with_vectors.tolist(), expected)


def test_distance_3_and_300_share_a_vector(backend):
    manual_seed(0)
    scheme, query = loud(Relative(3, 2, 2)), normal(1, 1, 1, 2)
    key, weights = normal(1, 1, 4, 2), normal(1, 1, 1, 4)
    here = xp.asarray([[500]])
    near, far = (xp.asarray([[500 - step, 500, 501, 500 + step]]) for step in (3, 300))
    assert scheme.score_bias(query, key, here, near).tolist() == scheme.score_bias(
        query, key, here, far).tolist()
    assert scheme.value_term(weights, here, near).tolist() == scheme.value_term(
        weights, here, far).tolist()
    closer = xp.asarray([[498, 500, 501, 502]])
    assert scheme.score_bias(query, key, here, closer).tolist() != scheme.score_bias(
        query, key, here, far).tolist()
    scheme.score_bias(query, key, here, far).sum().backward()
    assert [any(row) for row in scheme.keys.grad.tolist()] == [
        True, False, False, True, True, False, True]


def test_windows_and_spans_that_do_not_exist_are_refused(backend):
    with pytest.raises(ValueError, match="a window reaches 0 or more positions .* not -1"):
        Relative(-1, 2, 2)
    with pytest.raises(ValueError, match="a span reaches 1 or more positions .* not 0"):
        Disentangled(4, 2, 2, span=0)


# T5

def test_the_buckets_of_near_distances(backend):
    near = [-3, -2, -1, 0, 1, 2, 3]
    assert [T5Bias(1).bucket(d) for d in near] == [3, 2, 1, 0, 17, 18, 19]
    assert [T5Bias(1, bidirectional=False).bucket(d) for d in near] == [3, 2, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("n_buckets, reach, both", [
    (32, 128, True), (32, 128, False), (8, 20, True), (8, 20, False), (4, 2, True), (6, 5, False)])
def test_buckets_grow_with_the_distance_and_all_are_used(backend, n_buckets, reach, both):
    scheme = T5Bias(1, n_buckets, reach, both)
    past = [scheme.bucket(-distance) for distance in range(1000)]
    side = n_buckets // 2 if both else n_buckets
    assert past == sorted(past) and past[0] == 0 and past[-1] == past[reach] == side - 1
    assert set(past) == set(range(side))
    if both:
        assert [scheme.bucket(d) for d in range(1, 1000)] == [b + side for b in past[1:]]


@pytest.mark.parametrize("both", [True, False])
def test_the_bias_is_a_number_per_bucket_and_head(backend, both):
    manual_seed(0)
    layer = loud(MultiHeadAttention(4, 2, position=T5Bias(2, 8, 20, both)))
    x, places = normal(1, 6, 4), [0, 1, 2, 3, 30, 300]
    table = layer.position.weight.tolist()

    def bias(h, i, j, query, key):
        return table[layer.position.bucket(places[j] - places[i])][h] * math.sqrt(2)

    slow = attend_slowly(layer, x[0].tolist(), MASKS["none"], plain, plain, 1 / math.sqrt(2), bias)
    assert close(layer(x, places=at([places]))[0].tolist(), slow, 1e-12)


@pytest.mark.parametrize("n_buckets, reach, both", [(2, 128, True), (1, 128, False), (32, 8, True),
                                                    (32, 16, False), (0, 4, True)])
def test_buckets_that_cannot_grow_are_refused(backend, n_buckets, reach, both):
    with pytest.raises(ValueError, match=f"n_buckets={n_buckets} .* max_distance={reach}"):
        T5Bias(2, n_buckets, reach, both)


# DeBERTa

@pytest.mark.parametrize("span", [1, 2, 16])
def test_equation_4_of_deberta(backend, span):
    manual_seed(span)
    layer = loud(MultiHeadAttention(4, 2, position=Disentangled(4, 2, 2, span)))
    scheme, x, places = layer.position, normal(1, 6, 4), [0, 1, 2, 3, 4, 9]
    keys, queries = ([affine(part, row) for row in scheme.table.tolist()]
                     for part in (scheme.position_key, scheme.position_query))

    def index(here, there):
        return clip(places[here] - places[there], -span, span - 1) + span

    def more(h, i, j, query, key):
        here = slice(2 * h, 2 * h + 2)
        return dot(query, keys[index(i, j)][here]) + dot(key, queries[index(j, i)][here])

    slow = attend_slowly(layer, x[0].tolist(), MASKS["causal"], plain, plain, 1 / math.sqrt(6),
                         more)
    fast = layer(x, mask=Mask.causal(6), places=at([places]))
    assert close(fast[0].tolist(), slow, 1e-12)


def test_without_position_vectors_the_scores_are_plain_ones_over_the_root_of_3(backend):
    manual_seed(0)
    layer, x = loud(MultiHeadAttention(4, 2, position=Disentangled(4, 2, 2))), normal(1, 5, 4)
    for part in (layer.position.position_key, layer.position.position_query):
        for parameter in part.parameters():
            parameter.data = xp.zeros_like(parameter.data)
    apart = layer(x)
    layer.position = None
    for parameter in layer.query.parameters():
        parameter.data = parameter.data / math.sqrt(3)
    assert close(apart.tolist(), layer(x).tolist())


def test_the_content_that_enters_knows_no_position(backend):
    x = normal(1, 3, 4)
    assert Disentangled(4, 2, 2).at_input(x, xp.arange(3)) is x


@pytest.mark.parametrize("scheme", [lambda: Relative(2, 2, 2), lambda: T5Bias(2, 8, 20),
                                    lambda: Disentangled(4, 2, 2, 2)])
def test_every_parameter_of_a_scheme_is_learned(backend, scheme):
    manual_seed(0)
    layer, x = loud(MultiHeadAttention(4, 2, position=scheme())), normal(1, 6, 4)
    layer(x, places=at([[0, 1, 2, 3, 9, 40]])).sum().backward()
    for name, parameter in layer.position.named_parameters():
        assert any(flat(parameter.grad)), name
