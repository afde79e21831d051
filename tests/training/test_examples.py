"""Masked words, labels and pairs: what becomes of examples in a batch."""

from __future__ import annotations

import importlib.util

import pytest

from tinyformer import manual_seed, use_backend
from tinyformer.arrays import xp
from tinyformer.arrays.stream import Stream, stream
from tinyformer.training import Masking, labelled, once, pairs
from tinyformer.training.batches import IGNORED
from tinyformer.training.examples import filled

PAD, MASK, CLS, SEP, V = 0, 1, 2, 3, 50
SPECIAL = (PAD, MASK, CLS, SEP)
ROW = [CLS] + [4 + 7 * n % 46 for n in range(98)] + [SEP]
BACKENDS = ["python"] + (["numpy"] if importlib.util.find_spec("numpy") else [])


def lists(batch):
    return [part if isinstance(part, list) else part.tolist() for part in batch]


def test_15_percent_of_them_80_10_10(backend):
    """100 rows of 98 words: each count within four deviations of its mean."""
    ids, targets = Masking(V, MASK, SPECIAL, stream=Stream(0)).corrupted([ROW] * 100)
    chosen = [(new, old, answer) for row, answers in zip(ids, targets)
              for new, old, answer in zip(row, ROW, answers) if answer != IGNORED]
    assert all(answer == old for _, old, answer in chosen)

    def near(count, n, p):
        return abs(count - n * p) < 4 * (n * p * (1 - p)) ** 0.5

    n = len(chosen)
    assert near(n, 9800, 0.15)
    assert near(sum(new == MASK for new, _, _ in chosen), n, 0.8)
    assert near(sum(new == old for new, old, _ in chosen), n, 0.1 + 0.1 / 46)
    made_up = [new for new, old, _ in chosen if new not in (MASK, old)]
    assert near(len(made_up), n, 0.1 * 45 / 46) and len(set(made_up)) > 30


def test_what_is_not_chosen_stays_and_has_no_target(backend):
    ids, targets = Masking(V, MASK, SPECIAL, stream=Stream(1)).corrupted([ROW] * 20)
    for row, answers in zip(ids, targets):
        assert all(new == old for new, old, answer in zip(row, ROW, answers) if answer == IGNORED)


def test_special_tokens_are_never_chosen_and_never_made_up(backend):
    """10,000 draws, not one hit, though everything is chosen."""
    row = [CLS, 5, MASK, PAD, 6, SEP, PAD]
    ids, targets = Masking(V, MASK, SPECIAL, rate=1.0, stream=Stream(2)).corrupted([row] * 2500)
    for new, answers in zip(ids, targets):
        assert [new[place] for place in (0, 2, 3, 5, 6)] == [CLS, MASK, PAD, SEP, PAD]
        assert [answers[place] for place in (0, 2, 3, 5, 6)] == [IGNORED] * 5
        assert answers[1] == 5 and answers[4] == 6
        assert new[1] == MASK or new[1] not in SPECIAL


def test_masks_are_dynamic_and_the_input_is_never_edited(backend):
    masking, row = Masking(V, MASK, SPECIAL, stream=Stream(3)), list(ROW)
    seen = {tuple(masking.corrupted([row])[0][0]) for _ in range(40)}
    assert len(seen) == 40, "another mask in each of 40 epochs"
    assert row == ROW
    example = (list(ROW), [0] * 100)
    masking([example])
    assert example == (ROW, [0] * 100)


def test_everything_is_drawn_from_the_one_stream_alike_in_both_backends():
    found = []
    for name in BACKENDS * 2:
        with use_backend(name):
            manual_seed(5)
            found.append((lists(Masking(V, MASK, SPECIAL)([ROW, ROW[:7]])), stream.state()))
    assert all(each == found[0] for each in found)
    with use_backend(BACKENDS[-1]):
        before = stream.state()
        Masking(V, MASK, SPECIAL, stream=Stream(0))([ROW])
        assert stream.state() == before


def test_a_masked_batch_is_padded(backend):
    rows = [[CLS, 9, 8, SEP], [CLS, 7, SEP]]
    for examples in (rows, [(row, [0] * len(row)) for row in rows]):
        ids, targets, lengths, *segments = Masking(V, MASK, SPECIAL, rate=0.0)(examples)
        assert ids.tolist() == [[CLS, 9, 8, SEP], [CLS, 7, SEP, PAD]] and lengths == [4, 3]
        assert targets.tolist() == [[IGNORED] * 4] * 2 and ids.dtype == targets.dtype == xp.int64
        assert [each.tolist() for each in segments] == [[[0] * 4] * 2] * (examples is not rows)


@pytest.mark.parametrize("options, message", [
    ({"rate": 1.5}, r"rate of masking must lie in \[0, 1\], not 1.5"), ({"rate": -1}, "not -1"),
    ({"special_ids": range(V)}, "all 50 tokens are special")])
def test_masking_that_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Masking(**{"vocab_size": V, "mask_id": MASK, "special_ids": SPECIAL, **options})


def test_labels_of_rows_and_of_tokens(backend):
    assert lists(labelled([([5, 6], 1), ([7], 0)])) == [[[5, 6], [7, 0]], [1, 0], [2, 1]]
    assert lists(labelled([([5, 6], [1, 2]), ([7], [3])], pad_id=9)) == [
        [[5, 6], [7, 9]], [[1, 2], [3, IGNORED]], [2, 1]]
    assert lists(labelled([([5, 6], 1, [0, 1]), ([7], 0, [1])])) == [
        [[5, 6], [7, 0]], [1, 0], [2, 1], [[0, 1], [1, 0]]]


@pytest.mark.parametrize("example, words", [(([5, 6], [1]), "2 tokens but 1 labels"),
                                            (([5, 6], 1, [0] * 3), "2 tokens but 3 segments")])
def test_one_for_each_token(example, words, backend):
    with pytest.raises(ValueError, match=f"row 0 of a batch has {words}: there must be one for"):
        labelled([example])


def test_pairs_and_reading_them_once(backend):
    examples = [([5, 6, 7], [8, 3]), ([5], [9, 9, 3]), ([6, 6], [3])]
    assert lists(pairs(examples[:2])) == [[[5, 6, 7], [5, 0, 0]], [[8, 3, IGNORED], [9, 9, 3]],
                                          [3, 1]]
    assert [lists(batch)[2] for batch in once(examples, 2, pairs)] == [[3, 1], [2]]
    assert filled([[1], []], 4).tolist() == [[1], [4]]
