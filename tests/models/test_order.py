"""What a model makes of order and of place: nothing without positions, each scheme its own."""

from __future__ import annotations

import pytest
from family import LONGEST, apart, model

from tinyformer import no_grad, set_default_dtype
from tinyformer.arrays import xp
from tinyformer.models import POSITIONS, EncoderConfig, EncoderModel, SequenceClassifier
from tinyformer.nn import Cache, Mask

each_scheme = pytest.mark.parametrize("positions", POSITIONS)
UNLIMITED = [name for name in POSITIONS if name != "learned"]
FROM_DISTANCES = ["relative", "rotary", "alibi", "t5", "disentangled", "none"]
WORDS = [1, 2, 3, 4, 2]


@pytest.fixture(autouse=True)
def double():
    with set_default_dtype("float64"):
        yield


@each_scheme
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_only_without_positions_is_a_b_c_the_same_as_c_b_a(backend, positions, norm):
    """Slide 20: read backwards, the outputs come out backwards, and their mean is the same.

    ALiBi alone tells near from far and not left from right: a whole reversal is nothing to it
    either, but another order is."""
    net = model("encoder", positions, norm=norm)
    forwards, swapped = net([WORDS]).hidden[0], net([[2, 1, 3, 4, 2]]).hidden[0]
    backwards = net([WORDS[::-1]]).hidden[0]
    order_is_nothing = positions == "none"
    assert (apart(forwards.tolist(), backwards.tolist()[::-1]) < 1e-12) is (
        order_is_nothing or positions == "alibi")
    assert (apart(forwards.mean(0).tolist(), swapped.mean(0).tolist()) < 1e-12) is order_is_nothing
    rows = [swapped[place].tolist() for place in (1, 0, 2, 3, 4)]
    assert (apart(forwards.tolist(), rows) < 1e-12) is order_is_nothing


@each_scheme
def test_a_phrase_looks_the_same_wherever_it_stands(backend, positions):
    """Slide 26: "inside the phrase the vectors are 0, 1, -1 wherever it stands". Three tokens in
    front of it that nobody may look at move it."""
    net, phrase = model("encoder", positions), [4, 2, 5, 1]
    hidden = Mask(xp.reshape(xp.arange(7) >= 3, (1, 1, 1, 7)))
    here = net([phrase]).hidden[0].tolist()
    there = net([[0, 6, 3] + phrase], mask=hidden).hidden[0, 3:].tolist()
    assert (apart(here, there) < 1e-11) is (positions in FROM_DISTANCES)
    assert positions in FROM_DISTANCES or apart(here, there) > 1e-3


@pytest.mark.parametrize("positions", FROM_DISTANCES)
def test_in_a_causal_model_the_same_by_its_positions(backend, positions):
    """The prefix lies in a cache, is masked, and the phrase stands behind it."""
    net, phrase = model("decoder", positions), [4, 2, 5, 1]
    with no_grad():
        here = net([phrase])[0].tolist()
        cache = Cache()
        net([[0, 6, 3]], cache=cache)
        mask = Mask(xp.reshape(xp.arange(7) >= 3, (1, 1, 1, 7)))
        there = net([phrase], mask, cache=cache)[0].tolist()
    assert apart(here, there) < 1e-11


@each_scheme
def test_the_scheme_alone_sets_the_limit(backend, positions):
    """Potts' rule: judge the scheme, not another cap; only the learned table ends."""
    longer = [[1, 2, 3] * LONGEST]
    calls = {"encoder": lambda net: net(longer).hidden, "decoder": lambda net: net(longer),
             "encoder-decoder": lambda net: net(longer, longer)}
    for kind, call in calls.items():
        if positions == "learned":
            with pytest.raises(ValueError, match="24 positions are asked for, .* max_len=8"):
                call(model(kind, positions))
        else:
            net = model(kind, positions)
            y = call(net)
            assert y.shape[:2] == (1, 24) and bool(xp.all(xp.isfinite(y.data)))


@pytest.mark.parametrize("kind", ["encoder", "decoder", "encoder-decoder"])
def test_513_into_512_is_told_with_what_would_help(backend, kind):
    """No IndexError, and every scheme without a limit is named."""
    net = model(kind, max_len=512)
    ids = [[1] * 513]
    with pytest.raises(ValueError) as caught:
        net(ids) if kind != "encoder-decoder" else net([[1]], ids)
    message = str(caught.value)
    assert message.startswith("513 positions are asked for, but learned positions reach only "
                              "max_len=512: give a shorter sequence, make a model with a larger")
    assert all(name in message for name in UNLIMITED)


@each_scheme
@pytest.mark.parametrize("lengths", [(8, 7, 8, 3), (1, 8, 2)])
def test_lengths_come_and_go(backend, positions, lengths):
    """512, then 513, then 511 broke a peer's stored bias."""
    net = model("decoder", positions)
    with no_grad():
        for length in lengths:
            now = net([[1, 2, 3, 4, 5, 6, 0, 1][:length]]).tolist()
            assert now == model("decoder", positions)([[1, 2, 3, 4, 5, 6, 0, 1][:length]]).tolist()


@each_scheme
def test_learned_refuses_alike_on_both_paths_and_the_others_go_on(backend, positions):
    net, ids = model("decoder", positions), [[1, 2, 3, 4, 5, 6, 0, 1, 2, 3]]
    with no_grad():
        cache, told = Cache(), []
        net([ids[0][:8]], cache=cache)
        for call in (lambda: net([ids[0][:9]]), lambda: net([ids[0][8:9]], cache=cache)):
            if positions == "learned":
                with pytest.raises(ValueError, match="9 positions .* max_len=8") as caught:
                    call()
                told.append(str(caught.value))
            else:
                told.append(call()[:, -1].tolist())
    assert told[0] == told[1] if positions == "learned" else apart(told[0], told[1]) < 1e-10


def test_buckets_look_both_ways_in_an_encoder_and_back_in_a_decoder(backend):
    """A decoder has nothing in front of it to spend half of its buckets on."""
    net = model("encoder-decoder", "t5")
    schemes = [stack.blocks[0].attention.position for stack in (net.encoder, net.decoder)]
    assert [[scheme.bucket(apart) for apart in (-20, -3, 3)] for scheme in schemes] == [
        [10, 3, 19], [17, 3, 0]]
    assert model("decoder", "t5").stack.blocks[1].attention.position.bucket(-20) == 17
    assert model("encoder", "t5").stack.blocks[1].attention.position.bucket(-20) == 10
    assert [block.attention.position for block in net.decoder.blocks] == [schemes[1]] * 2


def test_segments_tell_premise_from_hypothesis(backend):
    """Row 50: without order and segments "P then H" and "H then P" are one text."""
    without = SequenceClassifier(model("encoder", "none", n_segments=0), 2).eval()
    told = SequenceClassifier(model("encoder", "none"), 2).eval()
    one, other = [[1, 2, 3, 4]], [[1, 4, 3, 2]]         # [CLS] first, the rest in another order
    assert apart(without(one).tolist(), without(other).tolist()) < 1e-12
    segments = [[0, 0, 0, 1]]
    assert apart(told(one, segments).tolist(), told(other, segments).tolist()) > 1e-6
    with pytest.raises(ValueError, match=r"tells no segments apart \(n_segments=0\)"):
        without(one, segments)


def test_the_ids_are_names_and_no_numbers(backend):
    """Row 1: rename all tokens and carry the rows along, and nothing changes, to the last bit."""
    names = [3, 5, 0, 6, 2, 1, 4]
    net = EncoderModel(EncoderConfig(7, 8, d_model=4, n_heads=2, n_layers=1, dropout=0.0))
    former = net([[1, 2, 6, 0]]).hidden.tolist()
    rows = xp.asarray([names.index(place) for place in range(7)])
    net.tokens.weight.data = xp.take(net.tokens.weight.data, rows, axis=0)
    assert net([[names[i] for i in (1, 2, 6, 0)]]).hidden.tolist() == former
