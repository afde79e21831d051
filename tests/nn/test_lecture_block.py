"""The lecture's block to the letter: slides 14 to 18 on "the Rock rules", every number by hand."""

from __future__ import annotations

import math

import pytest
from trials import affine, close, dot, flat, loud, normal

from tinyformer import manual_seed, set_default_dtype, tensor
from tinyformer.arrays import xp
from tinyformer.nn import (Block, Dropout, Embedding, FeedForward, LayerNorm, Learned, LectureNorm,
                           Mask, MultiHeadAttention, Stack)

THE, ROCK, RULES = [1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [2.0, 0.0, 0.0, 0.0]
C_ATTN = [.731059, .268941, .731059, .268941]


@pytest.fixture(autouse=True)
def double():
    with set_default_dtype("float64"):
        yield


def words():
    """a, b and c of slide 14, as one text."""
    return tensor([[THE, ROCK, RULES]])


def earlier():
    """Each looks at the words before it: c at a and b, and not at itself."""
    return Mask([[j < i for j in range(3)] for i in range(3)])


def lecture_block(dropout=0.0, eps=1e-5, d_ff=8):
    """The block of slide 14: no projections, the lecture's order and norm, ReLU."""
    manual_seed(0)
    return loud(Block(4, 1, d_ff, dropout, norm="post", order="lecture", norm_kind="lecture",
                      eps=eps, activation="relu", projections=False))


def noted(block, x):
    """The intermediate values of a pass under the lecture's letters, and the result."""
    block.notes = {}
    y = block(x, earlier())
    return {name: value.tolist()[0] for name, value in block.notes.items()}, y.tolist()[0]


def normed(x, eps):
    """(x - mean) / (std + eps), by the population's deviation."""
    mean = sum(x) / len(x)
    std = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x))
    return [(v - mean) / (std + eps) for v in x]


def test_c_input_is_the_word_vector_plus_the_position_vector(backend):
    """Slide 14: "the" is x47, "Rock" x30, "rules" x34, and c_input = x34 + p3."""
    table, positions = Embedding(48, 4), Learned(3, 4, 1.0)
    c_input = positions.at_input(table([[47, 30, 34]]), xp.arange(3))
    both = zip(table.weight[34].tolist(), positions.table.weight[2].tolist())
    assert c_input[0, 2].tolist() == [x + p for x, p in both]


def test_c_looks_at_a_and_b_and_not_at_itself(backend):
    """Slide 14: scores (1, 0), weights (.731059, .268941)."""
    attention = MultiHeadAttention(4, 1, projections=False)
    assert list(attention.parameters()) == []
    rows = attention(words(), mask=earlier()).tolist()[0]
    assert close(rows[2], C_ATTN, 5e-7)
    assert rows[1] == THE and rows[0] == [0.0] * 4, "b sees a alone, and a nobody"


def test_piecewise_and_matrix_agree_only_where_c_is_left_out_of_its_own_sum(backend):
    """Slide 15: softmax(Q K^T / sqrt d) V lets c look at itself as well."""
    attention = MultiHeadAttention(4, 1, projections=False)
    scores = [dot(RULES, word) / 2 for word in (THE, ROCK)]
    total = sum(map(math.exp, scores))
    piecewise = [sum(math.exp(s) / total * word[i] for s, word in zip(scores, (THE, ROCK)))
                 for i in range(4)]
    assert close(attention(words(), mask=earlier())[0, 2].tolist(), piecewise, 1e-15)
    matrix = attention(words(), mask=Mask.causal(3))[0, 2].tolist()
    assert close(matrix, [1.57521, .090031, .244728, .090031], 5e-6)
    assert not close(matrix, piecewise, 0.1)
    shorter = attention(tensor([[RULES]]), tensor([[THE, ROCK]]))[0, 0].tolist()
    assert close(shorter, piecewise, 1e-15), "keys = inputs[:-1] says the same"


def test_three_norms_are_called_layer_norm(backend):
    """Slide 17: x - mean over std + eps; PyTorch's root of var + eps; the Annotated one's n - 1."""
    x = tensor([2.731059, .268941, .731059, .268941])
    assert close(LectureNorm(4)(x).tolist(), [1.701976, -.718776, -.264423, -.718776], 1e-6)
    lecture = LectureNorm(4, 0.1)(x).tolist()
    assert close(lecture, [1.549632, -.654439, -.240754, -.654439], 1e-6)
    pytorch = LayerNorm(4, 0.1)(x).tolist()
    assert pytorch[0] == pytest.approx(1.625248, abs=1e-6)
    annotated = ((x - x.mean()) / (x.var().sqrt() + 1e-5)).tolist()
    assert annotated[0] == pytest.approx(1.473956, abs=1e-6)
    assert list(LectureNorm(4).parameters()) == []


def test_a_position_without_variance_has_a_gradient(backend):
    """Where dropout on the sum zeroes a whole position, or its numbers are all alike."""
    x = tensor([[0.0, 0.0, 0.0], [5.0, 5.0, 5.0], [1.0, 2.0, 4.0]], requires_grad=True)
    y = LectureNorm(3, 1.0)(x)
    y.backward(tensor([[1.0, 2.0, 3.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0]]))
    assert y.tolist()[:2] == [[0.0] * 3] * 2
    assert close(x.grad.tolist(), [[-1, 0, 1], [-1, 2, -1], [0, 0, 0]])


@pytest.mark.parametrize("eps", [1e-5, 0.1])
@pytest.mark.parametrize("d_ff", [3, 8])
def test_the_whole_block_by_hand(backend, eps, d_ff):
    """Slide 14 for c: every letter, with a feed-forward width of its own."""
    block = lecture_block(eps=eps, d_ff=d_ff)
    notes, y = noted(block, words())
    inner, outer = block.feed_forward.inner, block.feed_forward.outer
    attended = [sum(p) for p in zip([.7310585786300049 * v for v in THE],
                                    [.2689414213699951 * v for v in ROCK])]
    c_alayer = [p + q for p, q in zip(attended, RULES)]
    c_anorm = normed(c_alayer, eps)
    c_ff = affine(outer, [max(v, 0.0) for v in affine(inner, c_anorm)])
    c_fflayer = [p + q for p, q in zip(c_anorm, c_ff)]
    for letter, expected in (("c_input", RULES), ("c_attn", attended), ("c_alayer", c_alayer),
                             ("c_anorm", c_anorm), ("c_ff", c_ff), ("c_fflayer", c_fflayer),
                             ("c_out", normed(c_fflayer, eps))):
        assert close(notes[letter][2], expected), letter
    assert notes["c_out"] == y and len(notes) == 7
    assert tuple(inner.weight.shape) == (d_ff, 4) and tuple(outer.weight.shape) == (4, d_ff)


def test_every_position_leaves_the_block_with_mean_0_and_deviation_1(backend):
    _, rows = noted(lecture_block(), normal(1, 3, 4))
    for row in rows:
        assert sum(row) / 4 == pytest.approx(0, abs=1e-12)
        assert math.sqrt(sum(v * v for v in row) / 4) == pytest.approx(1, abs=1e-3)


def test_dropout_falls_on_the_sum_in_the_first_half_and_on_the_branch_in_the_second(backend):
    """Slide 16: c_alayer = Dropout(c_attn + c_input), but c_anorm + Dropout(c_ff)."""
    block = lecture_block(dropout=0.5)
    x = normal(1, 3, 4)
    block.attention.dropout = 0.0
    notes, _ = noted(block, x)
    sums = [[2 * (p + q) for p, q in zip(*rows)] for rows in zip(notes["c_attn"], notes["c_input"])]
    pairs = [pair for rows in zip(notes["c_alayer"], sums) for pair in zip(*rows)]
    assert all(y == 0.0 or y == pytest.approx(s, abs=1e-12) for y, s in pairs)
    assert 0 < sum(y == 0.0 for y, _ in pairs) < len(pairs), "exact zeros, the way around as well"
    branch = [[p - q for p, q in zip(*rows)]
              for rows in zip(notes["c_fflayer"], notes["c_anorm"])]
    pairs = [pair for rows in zip(branch, notes["c_ff"]) for pair in zip(*rows)]
    assert all(abs(b) < 1e-12 or b == pytest.approx(2 * f, abs=1e-12) for b, f in pairs)
    assert 0 < sum(abs(b) < 1e-12 for b, _ in pairs) < len(pairs)
    assert 0.0 not in [v for row in notes["c_fflayer"] for v in row]


def test_the_papers_order_never_drops_the_way_around(backend):
    block = loud(Block(4, 1, 8, 0.5, norm="post", attention_dropout=0.0))
    manual_seed(0)
    notes, _ = noted(block, normal(1, 3, 4))
    kept = [[p - q for p, q in zip(*rows)] for rows in zip(notes["c_alayer"], notes["c_input"])]
    pairs = [pair for rows in zip(kept, notes["c_attn"]) for pair in zip(*rows)]
    assert all(abs(b) < 1e-12 or b == pytest.approx(2 * a, abs=1e-12) for b, a in pairs)
    assert 0 < sum(abs(b) < 1e-12 for b, _ in pairs) < len(pairs)
    assert 0.0 not in [v for row in notes["c_alayer"] for v in row]


def test_in_eval_dropout_is_the_identity(backend):
    block = lecture_block(dropout=0.5).eval()
    notes, _ = noted(block, words())
    assert close(notes["c_alayer"], [[p + q for p, q in zip(*rows)] for rows in
                                     zip(notes["c_attn"], notes["c_input"])])
    assert noted(lecture_block(), words())[1] == noted(block, words())[1]


def others_gradient(part, x):
    """How the part's output at the middle position changes with the two other positions."""
    x = tensor(x.tolist(), requires_grad=True)
    y = part(x)[0, 1]
    y.backward(normal(*y.shape))
    return flat(x.grad[0, 0]) + flat(x.grad[0, 2]), flat(x.grad[0, 1])


@pytest.mark.parametrize("part", [
    lambda: LayerNorm(4), lambda: LectureNorm(4), lambda: FeedForward(4, 8, 1.0, 1.0),
    lambda: Dropout(0.5)])
def test_only_attention_mixes_positions(backend, part):
    manual_seed(1)
    others, own = others_gradient(part(), normal(1, 3, 4))
    assert set(others) == {0.0} and any(own)


def test_attention_mixes_them(backend):
    manual_seed(1)
    for part in (MultiHeadAttention(4, 1, projections=False), lecture_block(),
                 loud(Block(4, 2, 8, 0.0))):
        others, _ = others_gradient(part, normal(1, 3, 4))
        assert 0.0 not in others


def test_a_wrong_width_is_named_with_the_right_one(backend):
    with pytest.raises(ValueError, match=r"x of shape \(1, 3, 6\) does not fit a weight of shape "
                                         r"\(8, 4\)"):
        lecture_block()(normal(1, 3, 6), earlier())


def test_c_out_is_the_next_c_input_n_times(backend):
    """Slide 18."""
    manual_seed(0)
    stack = loud(Stack(2, 4, 1, 8, 0.0, norm="post", order="lecture", norm_kind="lecture",
                       activation="relu", projections=False))
    one, two = stack.blocks
    assert stack(words(), earlier()).tolist() == two(one(words(), earlier()), earlier()).tolist()
    assert stack.norm is None
