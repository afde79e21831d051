"""Objectives: what is predicted from what, padding that is nowhere, and means that add up."""

from __future__ import annotations

import functools
import math

import pytest

from tinyformer import functional as F
from tinyformer import manual_seed, no_grad, set_default_dtype, tensor
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.models import (DecoderConfig, DecoderModel, EncoderConfig, EncoderDecoderConfig,
                               EncoderDecoderModel, EncoderModel, MaskedLanguageModel,
                               SequenceClassifier, TokenClassifier)
from tinyformer.nn import Mask
from tinyformer.training import (Masking, causal_lm, classification, labelled, masked_lm, pairs,
                                 seq2seq, shares, shifted_right, tagging)
from tinyformer.training.batches import IGNORED, padded
from tinyformer.training.examples import filled
from tinyformer.training.loop import predictions

V = 9
ROWS = [[2, 5, 6, 7, 3], [2, 4, 3], [2, 8, 8, 5, 4, 6, 3], [2, 7, 5, 3]]
LABELS = [1, 0, 2, 1]
TAGS = [[(token + row) % 3 for token in tokens] for row, tokens in enumerate(ROWS)]
SEGMENTS = [[int(place > 1) for place in range(len(row))] for row in ROWS]
TARGETS = [[5, 3], [6, 6, 4, 8, 3], [3], [7, 4, 3]]
MASKING = Masking(V, mask_id=1, special_ids=(0, 1, 2, 3), rate=0.4)
SIZES = {"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 8, "dropout": 0.0}


def encoder():
    return EncoderModel(EncoderConfig(V, 12, **SIZES))


def task(name):
    """A model, its loss, its examples and what makes a batch of them."""
    manual_seed(1)
    if name == "causal_lm":
        return case(DecoderModel(DecoderConfig(V, 12, **SIZES)), causal_lm, ROWS,
                    lambda rows: padded(rows, 0))
    if name == "masked_lm":
        return case(MaskedLanguageModel(encoder()), masked_lm, list(zip(ROWS, SEGMENTS)), MASKING)
    if name == "tagging":
        return case(TokenClassifier(encoder(), 3), tagging, list(zip(ROWS, TAGS)), labelled)
    if name == "classification":
        return case(SequenceClassifier(encoder(), 3), classification,
                    list(zip(ROWS, LABELS, SEGMENTS)), labelled)
    model = EncoderDecoderModel(EncoderDecoderConfig(V, 12, **SIZES))
    return case(model, functools.partial(seq2seq, begin_id=2), list(zip(ROWS, TARGETS)), pairs)


def case(model, objective, examples, collate):
    """With weights large enough to be heard everywhere."""
    for parameter in model.parameters():
        noise = xp.astype(stream.normal(parameter.shape) * 0.4, parameter.data.dtype)
        parameter.data = parameter.data + noise
    return model, functools.partial(objective, model), examples, collate


NAMES = ["causal_lm", "masked_lm", "seq2seq", "classification", "tagging"]
every_objective = pytest.mark.parametrize("name", NAMES)


def gradients(model, loss):
    """The loss and all gradients as one list of numbers."""
    model.zero_grad()
    loss.backward()
    return [loss.item(), *slopes(model)]


def slopes(model):
    """All gradients there are as one list of numbers; a part that was not asked has none."""
    return [number for parameter in model.parameters() if parameter.grad is not None
            for number in xp.reshape(parameter.grad.data, (-1,)).tolist()]


def wider(batch, by, filling):
    """The batch with more padding behind every row: `filling` in the ids, no targets."""
    parts = []
    for place, part in enumerate(batch):
        if not isinstance(part, list) and len(part.shape) == 2:
            more = [(filling, IGNORED, 0, 0)[place]] * by
            rows = [row + more for row in part.tolist()]
            part = xp.asarray(rows, xp.int64)
        parts.append(part)
    return parts


def refilled(batch, filling):
    """The batch with another id where its rows are padded."""
    ids, targets, lengths, *rest = batch
    rows = [row[:length] + [filling] * (len(row) - length)
            for row, length in zip(ids.tolist(), lengths)]
    return [xp.asarray(rows, xp.int64), targets, lengths, *rest]


@every_objective
def test_padding_leaves_the_loss_and_all_gradients_unchanged(name, backend):
    with set_default_dtype("float64"):
        model, loss, examples, collate = task(name)
        manual_seed(2)
        batch = collate(examples)
        right = gradients(model, loss(*batch))
        assert max(map(abs, right)) > 0.01
        for other in (wider(batch, 1, 0), wider(batch, 3, 5), refilled(batch, 7)):
            assert gradients(model, loss(*other)) == pytest.approx(right, rel=1e-12, abs=1e-14)


@every_objective
def test_the_mean_of_a_batch_is_that_of_its_rows_alone(name, backend):
    """Rows that were never padded, summed, over their number of predictions."""
    with set_default_dtype("float64"):
        model, loss, examples, collate = task(name)
        if name == "masked_lm":
            ids, targets = MASKING.corrupted(ROWS)
            batch = alone(ids, targets, SEGMENTS)
            rows = [alone([one], [two], [three]) for one, two, three in zip(ids, targets, SEGMENTS)]
        else:
            batch, rows = collate(examples), [collate([example]) for example in examples]
        total = sum(predictions(row) for row in rows)
        assert total == predictions(batch)
        with no_grad():
            summed = math.fsum(loss(*row, reduction="sum").item() for row in rows)
            assert loss(*batch).item() == pytest.approx(summed / total, rel=1e-12)
            assert loss(*batch, reduction="sum").item() == pytest.approx(summed, rel=1e-12)


def alone(ids, targets, segments):
    """A batch of rows that are masked already."""
    return (filled(ids), filled(targets, IGNORED), [len(row) for row in ids], filled(segments))


@every_objective
def test_accumulated_unequal_batches_equal_the_one_batch(name, backend):
    with set_default_dtype("float64"):
        model, loss, examples, collate = task(name)
        if name == "masked_lm":
            ids, targets = MASKING.corrupted(ROWS)
            whole = alone(ids, targets, SEGMENTS)
            parts = [alone(ids[:1], targets[:1], SEGMENTS[:1]),
                     alone(ids[1:], targets[1:], SEGMENTS[1:])]
        else:
            whole, parts = collate(examples), [collate(examples[:1]), collate(examples[1:])]
        right = gradients(model, loss(*whole))[1:]
        counts = [predictions(part) for part in parts]
        assert counts[0] != counts[1]
        for way in ("shares", "sum"):
            model.zero_grad()
            value = 0.0
            for part, share in zip(parts, shares(parts)):
                each = (loss(*part) * share if way == "shares" else
                        loss(*part, reduction="sum") / sum(counts))
                each.backward()
                value += each.item()
            found = slopes(model)
            assert value == pytest.approx(loss(*whole).item(), rel=1e-12)
            assert found == pytest.approx(right, rel=1e-12, abs=1e-14)
        model.zero_grad()
        for part in parts:                                   # the mean of means is something else
            (loss(*part) / len(parts)).backward()
        assert slopes(model) != pytest.approx(right, rel=1e-3, abs=1e-6)


@every_objective
def test_nothing_to_predict_costs_nothing_and_moves_nothing(name, backend):
    model, loss, examples, collate = task(name)
    ids, targets, *rest = collate(examples)
    if name == "seq2seq":
        targets = targets[:, :1]
    found = gradients(model, loss(ids, xp.zeros_like(targets) + IGNORED, *rest))
    assert set(found) == {0.0}


@every_objective
def test_batches_are_never_edited(name, backend):
    model, loss, examples, collate = task(name)
    batch = collate(examples)
    before = [part if isinstance(part, list) else part.tolist() for part in batch]
    before = [list(part) for part in before]
    loss(*batch).backward()
    assert [part if isinstance(part, list) else part.tolist() for part in batch] == before
    assert examples == task(name)[2]


@every_objective
def test_every_parameter_takes_part(name, backend):
    model, loss, examples, collate = task(name)
    loss(*collate(examples)).backward()
    silent = [each for each, parameter in model.named_parameters()
              if parameter.grad is None or not xp.any(xp.abs(parameter.grad.data) > 0)]
    # a key's bias adds the same to all scores of a query; the others' poolers are not asked
    assert all(each.endswith("key.bias") or "pooler" in each and name != "classification"
               or "segments" in each for each in silent), silent


def test_a_causal_target_is_the_next_token(backend):
    with set_default_dtype("float64"):
        model, loss, rows, collate = task("causal_lm")
        model.eval()
        with no_grad():
            logs = F.log_softmax(model([ROWS[0]])).tolist()[0]
            right = -math.fsum(logs[t][ROWS[0][t + 1]] for t in range(4)) / 4
            assert loss(*collate([ROWS[0]])).item() == pytest.approx(right, rel=1e-12)


def test_decoder_input_t_predicts_gold_t_plus_1(backend):
    """What is read at t is target t - 1, and target t reaches no earlier loss."""
    with set_default_dtype("float64"):
        assert shifted_right([[7, 8, 3], [9, 3, IGNORED]], 2).tolist() == [[2, 7, 8], [2, 9, 3]]
        model, loss, examples, collate = task("seq2seq")
        source, target = [4, 5, 6], [7, 8, 5, 3]
        with no_grad():
            logs = F.log_softmax(model([source], [[2] + target[:-1]])).tolist()[0]
            right = -math.fsum(row[gold] for row, gold in zip(logs, target)) / 4
            assert loss(*pairs([(source, target)])).item() == pytest.approx(right, rel=1e-12)
            other = F.log_softmax(model([source], [[2, 7, 4, 5]])).tolist()[0]
        assert other[:2] == logs[:2] and other[2] != logs[2]


def test_targets_missing_before_the_end_are_refused(backend):
    with pytest.raises(ValueError, match="row 1 of the targets has -100 before its end"):
        shifted_right([[3, 4], [IGNORED, 3]], 2)


@pytest.mark.parametrize("smoothing", [0.1, 0.5, 1.0])
def test_label_smoothing_is_least_at_the_entropy_of_the_smoothed_target(smoothing, backend):
    """The cross-entropy with q is least where p = q, and there it is the entropy of q."""
    class Fixed:
        def __init__(self, logs):
            self.logs = logs

        def __call__(self, ids):
            return F.stack([F.stack([self.logs] * len(ids[0]))] * len(ids))

    with set_default_dtype("float64"):
        q = [smoothing / 4] * 4
        q[2] += 1 - smoothing
        best = tensor([math.log(p) for p in q], requires_grad=True)
        for targets in ([[2, 2]], [[2, IGNORED]]):                  # with and without padding
            loss = causal_lm(Fixed(best), [[0, 1]], xp.asarray(targets, xp.int64),
                             label_smoothing=smoothing)
            assert loss.item() == pytest.approx(-math.fsum(p * math.log(p) for p in q), rel=1e-12)
            assert loss.item() > 0
            loss.backward()
            assert best.grad.tolist() == pytest.approx([0.0] * 4, abs=1e-12)
            best.grad = None
        worse = tensor([math.log(p) + noise for p, noise in zip(q, (0.1, 0, -0.2, 0))])
        assert causal_lm(Fixed(worse), [[0]], xp.asarray([[2]], xp.int64),
                         label_smoothing=smoothing).item() > loss.item()


@every_objective
def test_label_smoothing_reaches_the_loss_and_pads_pay_nothing(name, backend):
    with set_default_dtype("float64"):
        model, loss, examples, collate = task(name)
        batch = collate(examples)
        smoothed = loss(*batch, label_smoothing=0.2)
        assert math.isfinite(smoothed.item())
        assert abs(smoothed.item() - loss(*batch).item()) > 1e-3
        assert loss(*wider(batch, 2, 0), label_smoothing=0.2).item() == pytest.approx(
            smoothed.item(), rel=1e-12)


def test_only_what_was_chosen_counts_for_a_masked_model(backend):
    with set_default_dtype("float64"):
        model, loss, _, _ = task("masked_lm")
        ids = xp.asarray([[2, 5, 1, 7, 3]], xp.int64)
        targets = [[IGNORED, IGNORED, 6, IGNORED, IGNORED]]
        with no_grad():
            logs = F.log_softmax(model(ids)).tolist()[0]
            assert loss(ids, xp.asarray(targets, xp.int64)).item() == pytest.approx(-logs[2][6])


def test_a_causal_mask_keeps_the_future_from_a_tagger(backend):
    with set_default_dtype("float64"):
        model, loss, _, _ = task("tagging")
        causal = {"mask": Mask.causal(4)}
        labels = xp.asarray([[0, 1, IGNORED, IGNORED]], xp.int64)
        found = [loss(xp.asarray([[4, 5, 6, last]], xp.int64), labels, **options).item()
                 for options in ({}, causal) for last in (7, 8)]
        assert found[0] != found[1] and found[2] == found[3]


def test_both_classes_have_gradients(backend):
    """No class is taken for padding (codertimo/BERT-pytorch ignored class 0)."""
    manual_seed(0)
    model = SequenceClassifier(encoder(), 2)
    for label in (0, 1):
        found = gradients(model, classification(model, *labelled([(ROWS[0], label)])))
        assert found[0] == pytest.approx(math.log(2), rel=0.05) and any(found[1:])


@every_objective
def test_an_untrained_model_is_undecided(name, backend):
    manual_seed(0)
    _, _, examples, collate = task(name)
    model = {"causal_lm": lambda: DecoderModel(DecoderConfig(V, 12, **SIZES)),
             "masked_lm": lambda: MaskedLanguageModel(encoder()),
             "tagging": lambda: TokenClassifier(encoder(), 3),
             "classification": lambda: SequenceClassifier(encoder(), 3),
             "seq2seq": lambda: EncoderDecoderModel(EncoderDecoderConfig(V, 12, **SIZES))}[name]()
    objective = {"causal_lm": causal_lm, "masked_lm": masked_lm, "tagging": tagging,
                 "classification": classification,
                 "seq2seq": functools.partial(seq2seq, begin_id=2)}[name]
    classes = 3 if name in ("tagging", "classification") else V
    assert objective(model, *collate(examples)).item() == pytest.approx(math.log(classes), rel=0.05)
