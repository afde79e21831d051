"""Padding influences nothing: on the right, on the left, in a cache, in every scheme of positions.

Two rows of unequal length are computed together. What stands in the padding may change neither a
real output nor a gradient by a single bit, and each row comes out as it would alone.
"""

from __future__ import annotations

import math

import pytest
from family import apart, flat, model

from tinyformer import functional as F
from tinyformer import no_grad, set_default_dtype, tensor
from tinyformer.arrays import xp
from tinyformer.models import POSITIONS
from tinyformer.nn import Cache

SHORT, LONG = [1, 2, 3], [5, 4, 3, 2, 1]
FILLERS = (0, 6)
each_scheme = pytest.mark.parametrize("positions", POSITIONS)


@pytest.fixture(autouse=True)
def double():
    with set_default_dtype("float64"):
        yield


def padded(side, filler=0):
    """Both rows in one batch, which tokens are real, and where the short row is."""
    fill, real = [filler] * 2, [True] * 3
    if side == "right":
        return [SHORT + fill, LONG], [real + [False] * 2, [True] * 5], slice(0, 3)
    return [fill + SHORT, LONG], [[False] * 2 + real, [True] * 5], slice(2, 5)


def traces(net, outputs):
    """Real outputs and every gradient of their squares."""
    net.zero_grad()
    sum((y * y).sum() for y in outputs).backward()
    return [y.tolist() for y in outputs], [[] if p.grad is None else p.grad.tolist()
                                           for p in net.parameters()]


@each_scheme
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_decoder(backend, positions, side):
    net, found = model("decoder", positions), []
    for filler in FILLERS:
        ids, seen, place = padded(side, filler)
        logits = net(ids, seen=xp.asarray(seen))
        found.append(traces(net, [logits[0, place], logits[1]]))
    assert found[0] == found[1]
    assert apart(found[0][0], [net([row])[0].tolist() for row in (SHORT, LONG)]) < 1e-11


@each_scheme
def test_an_encoder(backend, positions):
    net, found = model("encoder", positions), []
    for filler in FILLERS:
        ids, _, place = padded("right", filler)
        encoded = net(ids, segments=[[0, 1, 1, filler % 2, 0], [0, 0, 1, 1, 1]], lengths=[3, 5])
        found.append(traces(net, [encoded.hidden[0, place], encoded.hidden[1], encoded.pooled]))
    assert found[0] == found[1]
    alone = [net([row], segments=[segments]) for row, segments in (
        (SHORT, [0, 1, 1]), (LONG, [0, 0, 1, 1, 1]))]
    assert apart(found[0][0][:2], [each.hidden[0].tolist() for each in alone]) < 1e-11
    assert apart(found[0][0][2], [each.pooled[0].tolist() for each in alone]) < 1e-11


@each_scheme
def test_an_encoder_decoder_on_both_sides(backend, positions):
    net, found = model("encoder-decoder", positions), []
    for filler in FILLERS:
        source, _, _ = padded("right", filler)
        target = [[2, 1, 4, 3, 5], [3, 3, filler, filler, filler]]
        logits = net(source, target, [3, 5], [5, 2])
        found.append(traces(net, [logits[0], logits[1, :2]]))
    assert found[0] == found[1]
    alone = [net([SHORT], [[2, 1, 4, 3, 5]])[0].tolist(), net([LONG], [[3, 3]])[0].tolist()]
    assert apart(found[0][0], alone) < 1e-11


@pytest.mark.parametrize("positions", ["learned", "relative", "t5"])
def test_a_target_that_is_padded_on_the_left(backend, positions):
    net, found = model("encoder-decoder", positions), []
    for filler in FILLERS:
        ids, seen, place = padded("left", filler)
        logits = net.decode(ids, net.encode([[1, 2], [3, 4]]), seen=xp.asarray(seen))
        found.append(traces(net, [logits[0, place], logits[1]]))
    assert found[0] == found[1]
    alone = [net([[1, 2]], [SHORT])[0].tolist(), net([[3, 4]], [LONG])[0].tolist()]
    assert apart(found[0][0], alone) < 1e-11


@each_scheme
@pytest.mark.parametrize("side, pieces", [("left", [1] * 5), ("left", [3, 2]), ("right", [2, 3])])
def test_a_cache_behind_padding(backend, positions, side, pieces):
    """Prompts of unequal length in one batch: each goes on as it would alone."""
    net = model("decoder", positions)
    ids, seen, place = padded(side)
    with no_grad():
        cache, begin, rows = Cache(), 0, []
        for piece in pieces:
            end = begin + piece
            rows.append(net([row[begin:end] for row in ids], cache=cache,
                            seen=xp.asarray([row[begin:end] for row in seen])))
            begin = end
        logits = F.concat(rows, axis=1)
        more = net([[6], [6]], cache=cache)
        alone = [net([row + [6]])[0] for row in (SHORT, LONG)]
    assert apart(logits[0, place].tolist(), alone[0][:3].tolist()) < 1e-11
    assert apart(logits[1].tolist(), alone[1][:5].tolist()) < 1e-11
    assert apart(more[:, 0].tolist(), [alone[0][3].tolist(), alone[1][5].tolist()]) < 1e-11


def test_positions_count_what_is_real(backend):
    """Eight real tokens fit into eight positions behind any padding, and nine do not."""
    net = model("decoder")
    ids, seen = [[0] * 5 + [1] * 8], [[False] * 5 + [True] * 8]
    logits = net(ids, seen=xp.asarray(seen))
    assert apart(logits[0, 5:].tolist(), net([[1] * 8])[0].tolist()) < 1e-11
    with pytest.raises(ValueError, match="9 positions are asked for, .* max_len=8"):
        net(ids, seen=xp.asarray([[False] * 4 + [True] * 9]))


@each_scheme
def test_rows_of_nothing_but_padding_have_finite_gradients(backend, positions):
    nothing = xp.asarray([[True, True], [False, False]])
    for kind, call in (
            ("encoder", lambda net: net([[1, 2], [0, 0]], lengths=[2, 0]).hidden),
            ("decoder", lambda net: net([[1, 2], [0, 0]], seen=nothing)),
            ("encoder-decoder", lambda net: net([[1, 2], [0, 0]], [[1, 2], [3, 4]], [2, 0])),
            ("encoder-decoder", lambda net: net([[1, 2], [0, 0]], [[1, 2], [3, 4]], [2, 0],
                                                [2, 0]))):
        net = model(kind, positions)
        y = call(net)
        (y * y).sum().backward()
        assert all(map(math.isfinite, flat(y)))
        for name, parameter in net.named_parameters():
            assert parameter.grad is None or all(map(math.isfinite, flat(parameter.grad))), name


@pytest.mark.parametrize("positions", ["learned", "relative", "t5"])
def test_targets_that_are_all_ignored_give_a_loss_of_0_and_no_gradient(backend, positions):
    for kind, call in (("decoder", lambda net: net([[1, 2, 3]])),
                       ("encoder-decoder", lambda net: net([[1, 2]], [[1, 2, 3]]))):
        net = model(kind, positions)
        loss = F.cross_entropy(call(net).reshape(3, -1), tensor([-100] * 3))
        loss.backward()
        assert loss.item() == 0.0
        assert {g for p in net.parameters() for g in flat(p.grad)} == {0.0}


@pytest.mark.parametrize("seen, message", [
    ([[True, True, False]], r"tokens of shape \(2, 3\), bools of that shape .* of shape \(1, 3\)"),
    ([[True, False], [True, True]], r"bools of that shape .* of shape \(2, 2\)"),
    ([[1, 1, 0], [1, 1, 1]], r"bools of that shape .* not int"),
    ([[0.0, 0.0, -math.inf]] * 2, r"bools of that shape .* not float")])
def test_what_is_no_padding_is_refused(backend, seen, message):
    with pytest.raises(ValueError, match=message):
        model("decoder")([[1, 2, 3], [4, 5, 6]], seen=seen)


def test_lengths_that_do_not_fit_are_refused(backend):
    ids = [[1, 2, 3], [4, 5, 6]]
    for kind, call in (("encoder", lambda net, lengths: net(ids, lengths=lengths)),
                       ("encoder-decoder", lambda net, lengths: net(ids, ids, lengths)),
                       ("encoder-decoder", lambda net, lengths: net(ids, ids, None, lengths))):
        net = model(kind)
        with pytest.raises(ValueError, match=r"one length per row .* of shape \(1, 3\)"):
            call(net, [3])
        for lengths in ([3, 4], [-1, 2]):
            with pytest.raises(ValueError, match="must lie between 0 and the width 3"):
                call(net, lengths)


def test_padding_may_be_told_by_lists(backend):
    ids, seen, _ = padded("left")
    net = model("decoder")
    assert net(ids, seen=seen).tolist() == net(ids, seen=xp.asarray(seen)).tolist()


@pytest.mark.parametrize("positions", ["learned", "relative", "rotary", "none"])
@pytest.mark.parametrize("seen", [None, [[False, False, True, True, True]]])
def test_one_prompt_goes_on_in_three_ways(backend, positions, seen):
    """A cache of one row becomes three, padded or not; then one of them is left."""
    net, prompt = model("decoder", positions), [[0, 0] + SHORT] if seen else [SHORT]
    with no_grad():
        cache = Cache()
        net(prompt, cache=cache, seen=seen)
        cache.select([0, 0, 0])
        now = net([[4], [5], [6]], cache=cache)
        cache.select([2])
        last = net([[1]], cache=cache)
        alone = [net([SHORT + [token, 1]])[0] for token in (4, 5, 6)]
    assert apart(now[:, 0].tolist(), [each[3].tolist() for each in alone]) < 1e-11
    assert apart(last[0, 0].tolist(), alone[2][4].tolist()) < 1e-11


@pytest.mark.parametrize("positions", ["learned", "relative", "rotary", "none"])
def test_padding_that_comes_later_and_in_one_row_alone(backend, positions):
    """The first tokens came without a word on padding; then one row pauses."""
    net = model("decoder", positions)
    with no_grad():
        cache = Cache()
        net([[1, 2], [3, 4]], cache=cache)
        net([[5], [0]], cache=cache, seen=[[True], [False]])
        now = net([[6], [6]], cache=cache)
        alone = [net([row])[0, -1].tolist() for row in ([1, 2, 5, 6], [3, 4, 6])]
    assert apart(now[:, 0].tolist(), alone) < 1e-11
