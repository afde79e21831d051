"""The decoder-only model: shapes, first loss, gradients everywhere, dropout, what it refuses."""

from __future__ import annotations

import math

import pytest

from tinyformer import functional as F
from tinyformer import manual_seed, no_grad, tensor
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.models import DecoderConfig, DecoderModel
from tinyformer.nn import Mask, described
from tinyformer.training.optimisers import AdamW


def model(seed=0, **changed):
    """A small model from a seed."""
    manual_seed(seed)
    sizes = {"vocab_size": 11, "max_len": 6, "d_model": 8, "n_layers": 2, "n_heads": 2,
             "dropout": 0.0}
    return DecoderModel(DecoderConfig(**{**sizes, **changed}))


def loss_of(net, rows):
    """The mean loss of predicting each next token of some rows."""
    logits = net([row[:-1] for row in rows])
    vocabulary = logits.shape[-1]
    targets = [token for row in rows for token in row[1:]]
    return F.cross_entropy(logits.reshape(-1, vocabulary), tensor(targets))


@pytest.mark.parametrize("batch, length", [(1, 1), (1, 6), (5, 1), (3, 4)])
@pytest.mark.parametrize("tie", [True, False])
def test_odd_batch_shapes(backend, batch, length, tie):
    net = model(tie_weights=tie)
    ids = [[(3 * row + column) % 11 for column in range(length)] for row in range(batch)]
    assert net(ids).shape == (batch, length, 11)
    for other in (tensor(ids), xp.asarray(ids)):
        assert net(other).tolist() == net(ids).tolist()


def test_rows_of_a_batch_do_not_know_of_each_other(backend):
    net, rows = model(), [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    together = net(rows).tolist()
    for row, logits in zip(rows, together):
        alone = net([row]).tolist()[0]
        for ours, theirs in zip(alone, logits):
            assert ours == pytest.approx(theirs, abs=1e-6)


def test_parameters_are_as_many_as_the_sizes_say(backend):
    d, f, v, t = 8, 32, 11, 6
    block = 4 * (d * d + d) + (d * f + f) + (f * d + d) + 4 * d
    assert model().n_parameters() == v * d + t * d + 2 * block + 2 * d
    assert model(tie_weights=False).n_parameters() == model().n_parameters() + v * d


@pytest.mark.parametrize("tie", [True, False])
@pytest.mark.parametrize("vocab_size", [11, 300])
def test_an_untrained_model_is_undecided(backend, tie, vocab_size):
    net = model(vocab_size=vocab_size, tie_weights=tie)
    rows = [[(7 * row + 5 * column) % vocab_size for column in range(7)] for row in range(4)]
    assert loss_of(net, rows).item() == pytest.approx(math.log(vocab_size), rel=0.05)


@pytest.mark.parametrize("tie", [True, False])
def test_every_parameter_gets_a_gradient_after_one_step(backend, tie):
    """At the very first step already: no part waits for another to leave 0."""
    net = model(tie_weights=tie)
    rows = [[1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 0, 1, 3, 2]]
    optimiser = AdamW(net.named_parameters(), lr=0.01)
    for _ in range(2):
        optimiser.zero_grad()
        loss_of(net, rows).backward()
        for name, parameter in net.named_parameters():
            values = parameter.grad.reshape(-1).tolist()
            assert any(values) and all(math.isfinite(g) for g in values), name
            assert name.endswith("key.bias") or max(map(abs, values)) > 1e-9, name
        optimiser.step()


def test_every_parameter_moves_the_output(backend):
    """What is in parameters() is used, and nothing else is: two forwards are equal."""
    net, ids = model(tie_weights=False), [[1, 2, 3, 4, 5, 6]]
    manual_seed(1)
    for parameter in net.parameters():              # away from the exact zeros of the start
        noise = xp.astype(stream.normal(parameter.shape) * 0.3, parameter.data.dtype)
        parameter.data = parameter.data + noise
    with no_grad():
        former = net(ids).tolist()
        assert net(ids).tolist() == former
        for name, parameter in net.named_parameters():
            data = parameter.data
            bump = xp.astype(stream.normal(parameter.shape), data.dtype)
            parameter.data = data + bump
            if not name.endswith("key.bias"):       # adds the same to all scores of a row
                assert net(ids).tolist() != former, name
            parameter.data = data
        assert net(ids).tolist() == former


def test_it_learns_a_row_by_heart(backend):
    net, rows = model(n_layers=1), [[1, 2, 3, 4, 1, 5, 6]]
    optimiser = AdamW(net.named_parameters(), lr=0.03, weight_decay=0.0)
    for _ in range(60):
        optimiser.zero_grad()
        loss = loss_of(net, rows)
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.1


@pytest.mark.parametrize("dropout, equal", [(0.0, True), (0.3, False)])
def test_a_dropout_of_0_gives_equal_passes_in_training(backend, dropout, equal):
    net, ids = model(dropout=dropout), [[1, 2, 3, 4, 5, 6]] * 3
    before = stream.state()
    assert (net(ids).tolist() == net(ids).tolist()) is equal
    assert (stream.state() == before) is equal
    before = stream.state()
    net.eval()
    assert net(ids).tolist() == net(ids).tolist()
    assert stream.state() == before, "in eval nothing is drawn"


def test_dropout_falls_on_the_input_the_weights_and_both_halves_of_each_block(backend, monkeypatch):
    net, counts = model(dropout=0.5), []
    bits16 = stream.bits16
    monkeypatch.setattr(stream, "bits16", lambda n: (counts.append(n), bits16(n))[1])
    net([[1, 2, 3], [4, 5, 6]])
    vectors, weights = 2 * 3 * 8, 2 * 2 * 3 * 3                 # B T D, B H T S
    assert counts == [vectors] + 2 * [weights, vectors, vectors]


def test_a_model_to_be_loaded_draws_nothing(backend):
    one = model()
    manual_seed(5)
    before = stream.state()
    with described():
        empty = DecoderModel(one.config)
    assert stream.state() == before
    empty.load_state_dict(one.state_dict())
    assert empty([[1, 2, 3]]).tolist() == one([[1, 2, 3]]).tolist()


@pytest.mark.parametrize("ids, error, message", [
    ([1, 2], ValueError, r"shape \(B, T\), one row per sequence, at least one token each, not "
                         r"\(2,\)"),
    ([[[1]]], ValueError, r"not \(1, 1, 1\)"),
    ([[]], ValueError, r"not \(1, 0\)"),
    ([[1, 11]], IndexError, r"id 11 at position \(0, 1\) .* outside the vocabulary of 11"),
    ([[0], [-1]], IndexError, r"id -1 at position \(1, 0\) .* outside the vocabulary of 11"),
    ([[1] * 7], ValueError, "7 positions are asked for, .* max_len=6"),
    ([[1.0]], TypeError, "ids must be integers, not float"),
    ([[True]], TypeError, "ids must be integers, not bool"),
    ([[1, 2], [3]], ValueError, "shape")])
def test_what_it_refuses(backend, ids, error, message):
    with pytest.raises(error, match=message):
        model()(ids)


def test_masks_that_do_not_fit_are_refused(backend):
    net = model()
    with pytest.raises(TypeError, match="a Mask goes together with a Mask, not with a list"):
        net([[1, 2]], mask=[[True, True]])
    with pytest.raises(ValueError, match=r"masks of shapes \(1, 1, 2, 2\) and \(1, 1, 1, 3\)"):
        net([[1, 2]], mask=Mask.padding([2], 3))
    with pytest.raises(ValueError, match=r"does not fit scores of shape \(B, H, T, S\) = "
                                         r"\(1, 2, 2, 2\)"):
        net([[1, 2]], mask=Mask.padding([2, 1], 2))
