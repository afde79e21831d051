"""Schemes without distances to learn: none, learned, sinusoidal, rotary, ALiBi, in closed form."""

from __future__ import annotations

import cmath
import math

import pytest
from trials import at, close, dot, flat, loud, normal

from tinyformer import manual_seed, set_default_dtype, tensor
from tinyformer.arrays import xp
from tinyformer.models import POSITIONS, DecoderConfig
from tinyformer.nn import (ALiBi, Disentangled, Learned, Mask, MultiHeadAttention, Position,
                           Relative, Rotary, Sinusoidal, T5Bias)
from tinyformer.nn.positions import alibi_slopes, sinusoids


@pytest.fixture(autouse=True)
def double():
    with set_default_dtype("float64"):
        yield


# The sinusoids, slides 22 to 24

def test_the_sinusoid_table_of_width_4(backend):
    assert close(sinusoids(xp.arange(4), 4).tolist(), [
        [0, 1, 0, 1], [.841471, .540302, .010000, .999950], [.909297, -.416147, .019999, .999800],
        [.141120, -.989992, .029996, .999550]], 5e-7)


def test_an_odd_width_leaves_the_last_cosine_away(backend):
    table = sinusoids(xp.arange(3), 5)
    assert tuple(table.shape) == (3, 5)
    assert close(table[1].tolist(), [.841471, .540302, .025116, .999685, .000631], 5e-7)
    assert sinusoids(xp.arange(3), 1).tolist() == [[0.0], [math.sin(1)], [math.sin(2)]]


@pytest.mark.parametrize("width", [1, 2, 5, 8, 63])
def test_the_sinusoids_are_the_formula_of_the_paper(backend, width):
    places = [0, 1, 7, 255, 256, 257, 100_000]
    expected = [[(math.cos if i % 2 else math.sin)(p / 10000 ** ((i - i % 2) / width))
                 for i in range(width)] for p in places]
    assert close(sinusoids(xp.asarray(places), width).tolist(), expected, 1e-10)


def test_the_product_of_two_sinusoids_depends_on_their_distance_alone(backend):
    table = sinusoids(xp.arange(60), 6).tolist()
    for apart in (0, 1, 5):
        products = [dot(table[p], table[p + apart]) for p in range(50)]
        assert products == pytest.approx([products[0]] * 50, abs=1e-12)
    assert dot(table[17], table[17]) == pytest.approx(6 / 2, abs=1e-12)


def test_the_angles_are_computed_in_float64_whatever_the_model_computes_in(backend):
    """In bfloat16, or in float32 at a hundred thousand, neighbours would fall together."""
    with set_default_dtype("float64" if backend == "python" else "float32"):
        x = tensor(xp.zeros((1, 2, 4)))
        here = Sinusoidal().at_input(x, xp.asarray([256, 257])).tolist()[0]
        far = Sinusoidal().at_input(x, xp.asarray([100_000, 100_001])).tolist()[0]
    assert here[0] != here[1] and far[0] != far[1]
    assert close(far[1], [math.sin(100_001), math.cos(100_001), math.sin(1000.01),
                          math.cos(1000.01)], 1e-6)


# What the schemes have in common

def schemes():
    """One of each, for 2 heads of width 4 in a model of width 8."""
    return {"none": Position(), "learned": Learned(600, 8, 1.0), "sinusoidal": Sinusoidal(),
            "relative": Relative(2, 4, 4), "rotary": Rotary(), "alibi": ALiBi(2), "t5": T5Bias(2),
            "disentangled": Disentangled(8, 2, 4)}


def test_there_is_a_scheme_for_every_name():
    assert set(schemes()) == set(POSITIONS)
    kinds = {}
    for name in POSITIONS:
        config = DecoderConfig(5, 600, d_model=8, n_heads=2, positions=name)
        inside = config.attention_positions(causal=True)
        kinds[name] = type(inside() if inside else config.input_positions())
    assert kinds == {name: type(scheme) for name, scheme in schemes().items()}


@pytest.mark.parametrize("name", POSITIONS)
def test_the_rock_at_1_and_at_20(backend, name):
    """Slide 26: the phrase itself looks different where absolute vectors are added to it."""
    scheme, phrase = schemes()[name], normal(1, 2, 8)
    moved = [scheme.at_input(phrase, xp.arange(begin, begin + 2)).tolist() for begin in (0, 19)]
    assert (moved[0] == moved[1]) is (name not in ("learned", "sinusoidal"))
    assert name in ("learned", "sinusoidal") or moved[0] == phrase.tolist()


@pytest.mark.parametrize("name", POSITIONS)
def test_only_learned_positions_come_to_an_end(backend, name):
    scheme, x = schemes()[name], normal(1, 1, 8)
    if name == "learned":
        assert scheme.max_len == 600
        with pytest.raises(ValueError, match="601 positions are asked for"):
            scheme.at_input(x, xp.asarray([[600]]))
    else:
        assert scheme.max_len is None
        assert all(map(math.isfinite, flat(scheme.at_input(x, xp.asarray([[10 ** 6]])))))


def test_the_message_names_every_scheme_without_a_limit(backend):
    with pytest.raises(ValueError) as caught:
        Learned(512, 2).at_input(tensor(xp.zeros((1, 513, 2))), xp.arange(513))
    assert "513" in str(caught.value) and "512" in str(caught.value)
    for name, scheme in schemes().items():
        assert (name in str(caught.value).split("(")[1]) is (scheme.max_len is None), name


WITHIN = ["none", "relative", "rotary", "alibi", "t5", "disentangled"]


@pytest.mark.parametrize("name", WITHIN)
def test_within_attention_only_distances_count(backend, name):
    """Wherever a text stands, it looks the same from within; each row has positions of its own."""
    manual_seed(0)
    layer, x = loud(MultiHeadAttention(8, 2, position=schemes()[name])), normal(2, 4, 8)
    mask = Mask.causal(4)
    here = layer(x, mask=mask).tolist()
    for places in ([[0, 1, 2, 3]], [[7, 8, 9, 10]], [[0, 1, 2, 3], [1000, 1001, 1002, 1003]]):
        assert close(layer(x, mask=mask, places=at(places)).tolist(), here, 1e-11)
    gap = layer(x, mask=mask, places=at([[0, 1, 2, 3], [0, 1, 3, 5]])).tolist()
    assert close(gap[0], here[0]) and close(gap[1], here[1], 1e-9) is (name == "none")


@pytest.mark.parametrize("name", WITHIN)
def test_the_last_query_stands_at_the_last_key(backend, name):
    """Without places, and with more keys than queries as in a memory."""
    manual_seed(0)
    layer, x = loud(MultiHeadAttention(8, 2, position=schemes()[name])), normal(1, 3, 8)
    memory = normal(1, 5, 8)
    given = layer(x, memory, places=at([[2, 3, 4]], [[0, 1, 2, 3, 4]]))
    assert layer(x, memory).tolist() == given.tolist()


@pytest.mark.parametrize("name", WITHIN)
def test_no_scheme_touches_what_is_masked(backend, name):
    manual_seed(0)
    layer = loud(MultiHeadAttention(8, 2, position=schemes()[name]))
    x = normal(1, 4, 8, requires_grad=True)
    layer(x, mask=Mask.causal(4))[0, 1].sum().backward()
    assert set(flat(x.grad[0, 2:])) == {0.0} and all(any(row) for row in x.grad[0, :2].tolist())


def test_no_positions_add_nothing_to_values(backend):
    with pytest.raises(NotImplementedError, match="Position adds nothing to the values"):
        Position().value_term(normal(1, 1, 1, 1), xp.zeros((1, 1)), xp.zeros((1, 1)))


# Rotary

def test_rotary_turns_pairs_as_complex_numbers(backend):
    manual_seed(0)
    x, places = normal(2, 3, 2, 6), [[0, 4], [5000, 1]]
    turned, same = Rotary().at_heads(x, x, xp.asarray(places), xp.asarray([[0, 0], [0, 0]]))
    assert close(same.tolist(), x.tolist()), "at 0 nothing turns"
    for b, row in enumerate(x.tolist()):
        for head in range(3):
            for t, vector in enumerate(row[head]):
                for i in range(3):
                    turn = cmath.exp(1j * places[b][t] * 10000 ** (-2 * i / 6))
                    point = complex(vector[i], vector[i + 3]) * turn
                    found = turned.tolist()[b][head][t]
                    assert abs(complex(found[i], found[i + 3]) - point) < 1e-11


@pytest.mark.parametrize("apart", [0, 1, 7])
def test_rotary_products_depend_on_the_distance_alone(backend, apart):
    manual_seed(0)
    query, key = normal(1, 1, 1, 8), normal(1, 1, 1, 8)
    products = []
    for begin in (0, 1, 50, 3000):
        q, k = Rotary().at_heads(query, key, xp.asarray([[begin + apart]]), xp.asarray([[begin]]))
        products.append(dot(flat(q), flat(k)))
        assert dot(flat(q), flat(q)) == pytest.approx(dot(flat(query), flat(query)), abs=1e-12)
    assert products == pytest.approx([products[0]] * 4, abs=1e-10)
    backwards = Rotary().at_heads(query, key, xp.asarray([[0]]), xp.asarray([[7]]))
    assert dot(flat(backwards[0]), flat(backwards[1])) != pytest.approx(products[0], abs=1e-3)


def test_rotary_needs_an_even_width(backend):
    with pytest.raises(ValueError, match="heads of width 3 are odd"):
        MultiHeadAttention(6, 2, position=Rotary())(normal(1, 2, 6))


# ALiBi

@pytest.mark.parametrize("n_heads, slopes", [
    (1, [2 ** -8]), (2, [2 ** -4, 2 ** -8]), (8, [2.0 ** -power for power in range(1, 9)]),
    (16, [2.0 ** (-power / 2) for power in range(1, 17)]), (3, [2 ** -4, 2 ** -8, 2 ** -2]),
    (12, [2.0 ** -power for power in range(1, 9)] + [2 ** -.5, 2 ** -1.5, 2 ** -2.5, 2 ** -3.5])])
def test_the_slopes_of_alibi(n_heads, slopes):
    assert alibi_slopes(n_heads) == pytest.approx(slopes, rel=1e-15)


def test_alibi_takes_away_the_slope_times_the_distance(backend):
    x = normal(1, 2, 3, 1)
    bias = ALiBi(2).score_bias(x, x, xp.asarray([[2, 3, 4]]), xp.asarray([[0, 1, 2, 3, 4]]))
    assert bias.tolist() == [[[[-slope * abs(i - j) for j in range(5)] for i in (2, 3, 4)]
                              for slope in (2 ** -4, 2 ** -8)]]
    assert not bias.requires_grad and list(ALiBi(2).parameters()) == []
