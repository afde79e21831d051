"""Leakage: no position may see what it must not, or fail to see what it must.

By gradients (`who_sees_whom`) and by bits: every architecture, every scheme of positions, both
orders of the norms, every kind of mask, padding on either side, with and without a cache.
"""

from __future__ import annotations

import pytest
from family import apart, model

from tinyformer import functional as F
from tinyformer import no_grad, tensor
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.models import POSITIONS
from tinyformer.nn import Cache, Mask, masks
from tinyformer.viz import influence, who_sees_whom

IDS = [1, 2, 3, 4]
CAUSAL = "x . . .\nx x . .\nx x x .\nx x x x"
each_scheme = pytest.mark.parametrize("positions", POSITIONS)
each_way = pytest.mark.parametrize("stepwise", [False, True], ids=["whole", "cached"])
BLOCKS = {"pre": {"norm": "pre"}, "post": {"norm": "post"}, "lecture": {
    "norm": "post", "order": "lecture", "norm_kind": "lecture"},
    "free widths": {"d_k": 2, "d_v": 3}}
each_block = pytest.mark.parametrize("options", BLOCKS.values(), ids=BLOCKS)


@each_block
@each_way
def test_in_every_kind_of_block(backend, options, stepwise):
    assert str(who_sees_whom(model("decoder", **options), IDS, stepwise=stepwise)) == CAUSAL
    assert str(who_sees_whom(model("encoder", **options), IDS)) == "\n".join(["x x x x"] * 4)


@each_scheme
@each_way
def test_an_encoder_decoder_sees_the_source_and_the_target_so_far(backend, positions, stepwise):
    net = model("encoder-decoder", positions)
    seen = who_sees_whom(net, [1, 2, 0], [3, 4, 5], source_lengths=[2], stepwise=stepwise)
    assert str(seen) == "x x . | x . .\nx x . | x x .\nx x . | x x x"


@each_scheme
@each_way
def test_padding_in_front_and_behind(backend, positions, stepwise):
    """A padded position has a stream of its own, which nobody else sees."""
    net, seen = model("decoder", positions), [[False, True, True, False]]
    assert str(who_sees_whom(net, IDS, seen=xp.asarray(seen), stepwise=stepwise)) == \
        "x . . .\n. x . .\n. x x .\n. x x x"


@pytest.mark.parametrize("positions", ["none", "relative", "t5"])
def test_a_mask_of_ones_own_by_one_block(backend, positions):
    """One block reaches what its mask allows: per head and per row of the batch, too."""
    table = Mask([[True, False, True], [True, True, False], [False, False, True]])
    net = model("encoder", positions, n_layers=1)
    assert str(who_sees_whom(net, IDS[:3], mask=table)) == str(table)
    heads = Mask([[[[True, False], [False, True]], [[True, True], [False, True]]]])
    assert str(who_sees_whom(net, IDS[:2], mask=heads)) == "x x\n. x", "what either head sees"
    rows = Mask([[[[True, False], [False, True]]], [[[True, True], [True, True]]]])
    assert str(who_sees_whom(net, [[1, 2], [3, 4]], mask=rows)) == \
        "x . . .\n. x . .\n. . x x\n. . x x"
    causal = model("decoder", positions, n_layers=1)
    assert str(who_sees_whom(causal, IDS[:3], mask=table)) == "x . .\nx x .\n. . x"


@each_scheme
@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder"])
def test_a_later_token_changes_no_earlier_logit_by_a_single_bit(backend, positions, kind):
    net, row = model(kind, positions), [1, 2, 3, 4, 5]

    def logits(ids):
        return (net([ids]) if kind == "decoder" else net([[6, 5, 4]], [ids]))[0].tolist()

    former = logits(row)
    for changed in (1, 3):
        now = logits(row[:changed] + [6] + row[changed + 1:])
        assert now[:changed] == former[:changed]
        assert all(now[i] != former[i] for i in range(changed, 5))


@each_scheme
def test_a_shorter_text_and_a_cache_say_the_same_of_its_tokens(backend, positions):
    """What a token is told does not depend on how much is computed with it."""
    net, row = model("decoder", positions), [1, 2, 3, 4, 5]
    with no_grad():
        whole, cache = net([row])[0].tolist(), Cache()
        for end in range(1, 6):
            assert apart(net([row[:end]])[0, -1].tolist(), whole[end - 1]) < 1e-5
            assert apart(net([row[end - 1:end]], cache=cache)[0, 0].tolist(), whole[end - 1]) < 1e-5


def test_one_new_token_sees_the_whole_cache(backend):
    """Row 11: aligned at the top left, a single query would see the first key alone."""
    net = model("decoder")
    assert str(Mask.causal(1, 4)) == "x x x x"
    assert str(who_sees_whom(net, IDS, stepwise=True)).endswith("x x x x")


def test_targets_are_the_tokens_shifted_by_one(backend):
    """Row 16: position i predicts token i + 1, so that its own target is nowhere in its input."""
    net, row = model("decoder"), [1, 2, 3, 4, 5]
    whole = F.log_softmax(net([row[:-1]]))[0]
    for i, target in enumerate(row[1:]):
        alone = F.log_softmax(net([row[:i + 1]]))[0, i, target].item()
        assert whole[i, target].item() == pytest.approx(alone, abs=1e-5)


def seen_by_attention(net):
    """Attention alone, without a way around it on which a position sees itself."""
    attention = net.stack.blocks[0].attention
    x = xp.astype(stream.normal((1, 4, 4)), xp.default_float)
    return str(influence(lambda x: attention(x, mask=Mask.causal(4)), x))


def leaky(queries, keys):
    """A causal mask that is off by one: each sees the next as well."""
    ends = xp.reshape(xp.arange(queries) + (keys - queries) + 1, (queries, 1))
    return xp.arange(keys) <= ends


def strict(queries, keys):
    """A causal mask that hides a position from itself."""
    ends = xp.reshape(xp.arange(queries) + (keys - queries) - 1, (queries, 1))
    return xp.arange(keys) <= ends


@pytest.mark.parametrize("broken", [leaky, strict])
def test_a_wrong_diagonal_would_be_noticed(backend, monkeypatch, broken):
    assert seen_by_attention(model("decoder")) == CAUSAL
    monkeypatch.setattr(masks, "causal_mask", broken)
    assert str(Mask.causal(2)) != "x .\nx x"
    assert seen_by_attention(model("decoder")) != CAUSAL
    assert (str(who_sees_whom(model("decoder"), IDS)) != CAUSAL) is (broken is leaky), \
        "the stream carries each to itself"


def test_a_model_that_copies_its_target_is_not_possible(backend):
    """Row 3: 98 % accuracy from a decoder that saw its own target."""
    net = model("encoder-decoder")
    vectors = tensor(xp.astype(stream.normal((1, 4, 4)), xp.default_float), requires_grad=True)
    memory = net.encode([[1, 2]])
    for i in range(4):
        vectors.grad = None
        net.decoded(vectors, memory)[0, i].backward(
            tensor(xp.astype(stream.normal((7,)), xp.default_float)), retain_graph=True)
        assert [any(row) for row in vectors.grad.tolist()[0]] == [j <= i for j in range(4)]
