"""Leakage: no position may see what it must not, or fail to see what it must."""

from __future__ import annotations

import pytest

from tinyformer import functional as F
from tinyformer import manual_seed, tensor
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.models import DecoderConfig, DecoderModel
from tinyformer.nn import Mask, masks

LENGTH = 5


def model():
    """A model whose weights are large enough to be heard everywhere."""
    manual_seed(0)
    net = DecoderModel(DecoderConfig(7, LENGTH + 1, d_model=8, n_layers=2, n_heads=2, dropout=0.0))
    for parameter in net.parameters():
        noise = xp.astype(stream.normal(parameter.shape) * 0.3, parameter.data.dtype)
        parameter.data = parameter.data + noise
    return net


def seen(net, mask=None):
    """The positions that influence each output, by gradients: a list of sets."""
    found = []
    for position in range(LENGTH):
        vectors = tensor(xp.astype(stream.normal((1, LENGTH, 8)), xp.default_float),
                         requires_grad=True)
        allowed = Mask.causal(LENGTH) if mask is None else Mask.causal(LENGTH) & mask
        x = net.positions.at_input(vectors, xp.arange(LENGTH))
        logits = F.linear(net.stack(x, allowed), net.tokens.weight)
        logits[0, position].backward(tensor(xp.astype(stream.normal((7,)), xp.default_float)))
        found.append({index for index, row in enumerate(vectors.grad.tolist()[0]) if any(row)})
    return found


def seen_by_attention(net):
    """The same for attention alone, without a way around it on which a position sees itself."""
    found = []
    for position in range(LENGTH):
        x = tensor(xp.astype(stream.normal((1, LENGTH, 8)), xp.default_float), requires_grad=True)
        net.stack.blocks[0].attention(x, mask=Mask.causal(LENGTH))[0, position].sum().backward()
        found.append({index for index, row in enumerate(x.grad.tolist()[0]) if any(row)})
    return found


CAUSAL = [set(range(i + 1)) for i in range(LENGTH)]


def test_j_influences_i_exactly_where_j_is_not_after_i(backend):
    assert seen(model()) == CAUSAL
    assert seen_by_attention(model()) == CAUSAL


def test_padding_influences_nothing_by_gradients(backend):
    assert seen(model(), Mask.padding([3], LENGTH)) == [
        {0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 4}], \
        "a padded position still has its own residual stream, and nobody else sees it"


@pytest.mark.parametrize("changed", range(1, LENGTH))
def test_a_later_token_changes_no_earlier_logit_by_a_single_bit(backend, changed):
    net, ids = model(), [[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]]
    former = net(ids).tolist()
    ids[0][changed] = 6
    now = net(ids).tolist()
    assert now[0][:changed] == former[0][:changed] and now[1] == former[1]
    assert all(now[0][i] != former[0][i] for i in range(changed, LENGTH))


def test_padding_tokens_change_no_real_output_and_no_loss(backend):
    net, lengths = model(), [3, 5]
    targets = [[2, 3, 4, -100, -100], [4, 3, 2, 1, 0]]
    results = []
    for filler in (0, 6):
        net.zero_grad()
        ids = [[1, 2, 3, filler, filler], [5, 4, 3, 2, 1]]
        logits = net(ids, mask=Mask.padding(lengths, LENGTH))
        loss = F.cross_entropy(logits.reshape(-1, 7), tensor(targets).reshape(-1),
                               ignore_index=-100)
        loss.backward()
        results.append((logits.tolist()[0][:3], logits.tolist()[1], loss.item(),
                        [parameter.grad.tolist() for parameter in net.parameters()]))
    assert results[0] == results[1]


def test_a_shorter_row_is_as_it_would_be_alone(backend):
    net = model()
    padded = net([[1, 2, 3, 0, 0], [5, 4, 3, 2, 1]], mask=Mask.padding([3, 5], LENGTH)).tolist()
    alone = net([[1, 2, 3]]).tolist()
    for ours, theirs in zip(padded[0][:3], alone[0]):
        assert ours == pytest.approx(theirs, abs=1e-5)


def test_a_row_of_nothing_but_padding_stays_finite(backend):
    net = model()
    logits = net([[1, 2], [0, 0]], mask=Mask.padding([2, 0], 2))
    logits.sum().backward()
    for name, parameter in net.named_parameters():
        assert all(g - g == 0 for g in parameter.grad.reshape(-1).tolist()), name


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
    monkeypatch.setattr(masks, "causal_mask", broken)
    assert str(Mask.causal(2)) != "x .\nx x"
    assert seen_by_attention(model()) != CAUSAL
    assert (seen(model()) != CAUSAL) is (broken is leaky), "the stream carries each to itself"
