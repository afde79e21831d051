"""The encoder-only model and its heads: shapes, segments, pooler, gradients, what it refuses."""

from __future__ import annotations

import math

import pytest
from family import VOCABULARY, apart, flat, loud, model

from tinyformer import functional as F
from tinyformer import manual_seed, tensor
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.models import (EncoderConfig, EncoderModel, MaskedLanguageModel,
                               SequenceClassifier, SpanClassifier, TokenClassifier)
from tinyformer.nn import Mask

HEADS = {"masked": (MaskedLanguageModel, ()), "sequence": (SequenceClassifier, (3,)),
         "token": (TokenClassifier, (4,)), "span": (SpanClassifier, ())}
IDS, SEGMENTS = [[1, 2, 3, 4], [5, 6, 0, 0]], [[0, 0, 1, 1], [0, 1, 1, 1]]
each_head = pytest.mark.parametrize("head", HEADS)


def with_head(head, **changed):
    """An encoder under a head."""
    encoder = model("encoder", **changed)
    make, arguments = HEADS[head]
    return loud(make(encoder, *arguments))


@pytest.mark.parametrize("batch, length", [(1, 1), (1, 8), (3, 1), (2, 5)])
def test_n_tokens_become_n_vectors_and_one_of_the_whole(backend, batch, length):
    net = model("encoder")
    encoded = net([[(3 * row + place) % 7 for place in range(length)] for row in range(batch)])
    assert encoded.hidden.shape == (batch, length, 4) and encoded.pooled.shape == (batch, 4)
    assert model("encoder", pooler=False)([[1] * length] * batch).pooled is None


@pytest.mark.parametrize("head, shape", [("masked", (2, 4, 7)), ("sequence", (2, 3)),
                                         ("token", (2, 4, 4)), ("span", (2, 2, 4))])
def test_the_shapes_of_the_heads(backend, head, shape):
    assert with_head(head)(IDS, SEGMENTS, [4, 2]).shape == shape


def test_what_enters_is_the_norm_of_three_vectors(backend):
    """Token, position and segment; then the stack, and the pooler on the first token."""
    net = model("encoder")
    encoded = net(IDS, SEGMENTS)
    rows = [net.tokens.weight[IDS[0][t]] + net.positions.table.weight[t]
            + net.segments.weight[SEGMENTS[0][t]] for t in range(4)]
    hidden = net.stack(net.norm(F.stack(rows)).reshape(1, 4, 4))
    assert apart(encoded.hidden[0].tolist(), hidden[0].tolist()) < 1e-5
    pooled = F.linear(encoded.hidden[:, 0], net.pooler.weight, net.pooler.bias).tanh()
    assert apart(encoded.pooled.tolist(), pooled.tolist()) < 1e-6


def test_segments_are_all_0_unless_given(backend):
    net = model("encoder")
    assert net(IDS).hidden.tolist() == net(IDS, [[0] * 4] * 2).hidden.tolist()
    assert net(IDS).hidden.tolist() != net(IDS, SEGMENTS).hidden.tolist()
    three = model("encoder", n_segments=3)
    assert three.segments.weight.shape == (3, 4)
    assert model("encoder", n_segments=0).segments is None


def test_a_mask_takes_away_what_lengths_leave(backend):
    net = model("encoder")

    def real(**options):
        hidden = net(IDS, **options).hidden.tolist()
        return hidden[0], hidden[1][:2]

    by_mask = real(mask=Mask.padding([4, 2], 4))
    assert real(lengths=[4, 2]) == by_mask
    both = real(lengths=[4, 2], mask=Mask.causal(4))
    assert both == real(mask=Mask.causal(4) & Mask.padding([4, 2], 4)) and both != by_mask


@each_head
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_every_parameter_gets_a_gradient(backend, head, norm):
    net = with_head(head, norm=norm)
    y = net([[1, 2, 3, 4, 5, 6, 0, 1]], [[0, 0, 0, 0, 1, 1, 1, 1]])
    y.backward(tensor(xp.astype(stream.normal(y.shape), xp.default_float)))
    for name, parameter in net.named_parameters():
        if name.startswith("encoder.pooler") and head != "sequence":
            assert parameter.grad is None
        else:
            assert any(flat(parameter.grad)) and all(map(math.isfinite, flat(parameter.grad))), name


@each_head
def test_parameters_are_as_many_as_the_sizes_say(backend, head):
    d, f, v = 4, 4, VOCABULARY
    layer = 4 * (d * d + d) + (d * f + f) + (f * d + d) + 4 * d
    encoder = (v + 8 + 2) * d + 2 * d + 2 * layer + d * d + d
    heads = {"masked": d * d + d + 2 * d + v, "sequence": 3 * d + 3, "token": 4 * d + 4,
             "span": 2 * d + 2}
    assert with_head(head).n_parameters() == encoder + heads[head], "the token vectors count once"


@each_head
def test_dropout_is_on_in_training_off_in_eval_and_nowhere_at_0(backend, head):
    loose, firm = with_head(head, dropout=0.5), with_head(head)
    assert loose(IDS).tolist() != loose(IDS).tolist()
    drawn = stream.state()
    assert firm(IDS).tolist() == firm(IDS).tolist() and stream.state() == drawn
    assert apart(loose.eval()(IDS).tolist(), firm(IDS).tolist()) < 1e-6
    assert stream.state() == drawn, "in eval nothing is drawn"


@pytest.mark.parametrize("head", ["masked", "token"])
def test_an_untrained_head_is_undecided(backend, head):
    manual_seed(0)
    encoder = EncoderModel(EncoderConfig(50, 8, d_model=8, n_heads=2, n_layers=1))
    net = MaskedLanguageModel(encoder) if head == "masked" else TokenClassifier(encoder, 50)
    logits = net([[1, 2, 3, 4]]).reshape(4, 50)
    assert F.cross_entropy(logits, tensor([7, 8, 9, 10])).item() == pytest.approx(
        math.log(50), rel=0.05)


def test_only_what_was_masked_is_learned_from(backend):
    """The loss of one chosen position among four is its own, and so is every gradient."""
    net, found = with_head("masked"), []
    for loss_of in (lambda y: F.cross_entropy(y[0], tensor([-100, 3, -100, -100])),
                    lambda y: F.cross_entropy(y[0, 1], tensor(3))):
        net.zero_grad()
        loss = loss_of(net([[1, 2, 3, 4]]))
        loss.backward()
        found.append([loss.item()] + [flat(p.grad) for p in net.parameters()
                                      if p.grad is not None])
    assert apart(found[0][1:], found[1][1:]) < 1e-6 and len(found[0]) > 30
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-6)


@pytest.mark.parametrize("segments, error, message", [
    ([[0, 0, 1]], ValueError, r"segments of shape \(1, 3\) do not fit ids of shape \(2, 4\)"),
    ([[0], [1]], ValueError, r"segments of shape \(2, 1\) do not fit ids of shape \(2, 4\)"),
    ([0, 0, 1, 1], ValueError, r"shape \(B, T\)"),
    ([[0, 0, 0, 2]] * 2, IndexError, "id 2 at position .* outside the vocabulary of 2"),
    ([[0, 0, 0, -1]] * 2, IndexError, "id -1 at position"),
    ([[0.0] * 4] * 2, TypeError, "integers")])
def test_segments_that_do_not_fit(backend, segments, error, message):
    with pytest.raises(error, match=message):
        model("encoder")(IDS, segments)


def test_what_else_it_refuses(backend):
    net = model("encoder")
    for ids, error, message in (
            ([1, 2], ValueError, r"shape \(B, T\), one row per sequence"),
            ([[]], ValueError, r"not \(1, 0\)"),
            ([[1, 7]], IndexError, r"id 7 at position \(0, 1\) .* vocabulary of 7"),
            ([[1.5]], TypeError, "ids must be integers"),
            ([[1] * 9], ValueError, "9 positions are asked for, .* max_len=8")):
        with pytest.raises(error, match=message):
            net(ids)
    with pytest.raises(TypeError, match="a mask must be a Mask, not a list"):
        net(IDS, mask=[[True] * 4] * 4)
    with pytest.raises(ValueError, match=r"mask of shape \(3, 3\) does not fit scores of shape "
                                         r"\(B, H, T, S\) = \(2, 2, 4, 4\)"):
        net(IDS, mask=Mask.causal(3))
    with pytest.raises(ValueError, match="needs the pooled vector: .* pooler=True"):
        SequenceClassifier(model("encoder", pooler=False), 2)


def test_the_begin_and_the_end_of_an_answer(backend):
    """Each row of the logits is one place of the classifier, over the positions of the text."""
    net = with_head("span")
    hidden = net.encoder(IDS).hidden
    for row, logits in enumerate(net(IDS).tolist()):
        for kind in range(2):
            scores = F.linear(hidden[row], net.classifier.weight[kind:kind + 1])
            expected = [s + net.classifier.bias.tolist()[kind] for s in flat(scores)]
            assert logits[kind] == pytest.approx(expected, abs=1e-5)
