"""Batches: every pair is a token and its successor, every row comes once, and the position is
exact."""
import json

import pytest

from tinyformer.arrays import xp
from tinyformer.arrays.stream import Stream
from tinyformer.training.batches import (IGNORED, ExampleBatches, RowBatches, TokenBatches,
                                         windows)

TOKENS = [7 * n % 101 for n in range(101)]      # every token occurs once, so it knows its successor
NEXT = dict(zip(TOKENS, TOKENS[1:]))
ROWS = [list(range(10 * n, 10 * n + 2 + n % 5)) for n in range(1, 12)]


def as_lists(batch):
    return [part if isinstance(part, list) else part.tolist() for part in batch]


def test_token_windows_are_consecutive_and_shifted_by_one(backend):
    batches = TokenBatches(TOKENS, 6, 9, Stream(1))
    for _ in range(20):
        ids, targets = next(batches)
        assert ids.shape == targets.shape == (6, 9) and ids.dtype == targets.dtype == xp.int64
        for row, answers in zip(ids.tolist(), targets.tolist()):
            assert answers == [NEXT[token] for token in row]
            assert row[1:] == answers[:-1]


def test_every_window_is_drawn_the_first_and_the_last_included(backend):
    batches = TokenBatches(TOKENS[:12], 4, 9, Stream(2))
    seen = {row[0] for _ in range(40) for row in next(batches)[0].tolist()}
    assert seen == set(TOKENS[:3])


def test_a_stream_of_exactly_one_context_works_and_one_token_less_is_refused(backend):
    ids, targets = next(TokenBatches(TOKENS[:10], 2, 9, Stream(0)))
    assert ids.tolist() == [TOKENS[:9]] * 2 and targets.tolist() == [TOKENS[1:10]] * 2
    with pytest.raises(ValueError, match="9 tokens, but one context takes .* 10; .* of 8"):
        TokenBatches(TOKENS[:9], 2, 9)
    with pytest.raises(ValueError, match="at least 1, not 0 and 9"):
        TokenBatches(TOKENS, 0, 9)


def test_rows_come_once_an_epoch_padded_behind_and_the_last_batch_is_short(backend):
    batches = RowBatches(ROWS, 4, pad_id=999, stream=Stream(3))
    orders = []
    for epoch in (1, 2, 3):
        rows, sizes = [], []
        for _ in range(3):
            ids, targets, lengths = next(batches)
            assert batches.epoch == epoch and ids.dtype == targets.dtype == xp.int64
            assert ids.shape == targets.shape == (len(lengths), max(lengths))
            sizes.append(ids.shape[0])
            for row, answers, length in zip(ids.tolist(), targets.tolist(), lengths):
                assert row[length:] == [999] * (len(row) - length)
                assert answers[length:] == [IGNORED] * (len(row) - length)
                assert row[1:length] == answers[:length - 1]
                rows.append(row[:length] + answers[length - 1:length])
        assert sizes == [4, 4, 3]
        assert sorted(rows) == ROWS
        orders.append(rows)
    assert orders[0] != orders[1] != orders[2] and orders[0] != ROWS


def test_rows_that_cannot_be_used_are_named(backend):
    with pytest.raises(ValueError, match="row 1 has 1 tokens"):
        RowBatches([[1, 2], [3]], 2)
    with pytest.raises(ValueError, match=r"row 1 has 5 tokens, but max_len \+ 1 = 4"):
        RowBatches([[1, 2, 3, 4], [1, 2, 3, 4, 5]], 2, max_len=3)
    with pytest.raises(ValueError, match="no rows"):
        RowBatches([], 2)


@pytest.mark.parametrize("make", [lambda s: TokenBatches(TOKENS, 3, 8, s),
                                  lambda s: RowBatches(ROWS, 4, stream=s)], ids=["tokens", "rows"])
@pytest.mark.parametrize("used", [0, 1, 2, 3, 7])
def test_a_resumed_run_sees_the_batches_it_would_have_seen(backend, make, used):
    stream = Stream(5)
    batches = make(stream)
    for _ in range(used):
        next(batches)
    saved = json.loads(json.dumps([stream.state(), batches.state_dict()]))
    expected = [as_lists(next(batches)) for _ in range(9)]
    other = Stream(99)
    resumed = make(other)
    next(resumed)
    other.restore(saved[0])
    resumed.load_state_dict(saved[1])
    assert [as_lists(next(resumed)) for _ in range(9)] == expected
    assert resumed.state_dict() == batches.state_dict()


@pytest.mark.parametrize("other, words", [
    (TokenBatches(TOKENS[:50], 3, 8), "tokens was 101, now it is 50"),
    (TokenBatches(TOKENS[::-1], 3, 8), "crc32 was"),
    (TokenBatches(TOKENS, 4, 8), "batch_size was 3, now it is 4"),
    (RowBatches(ROWS, 3), "rows was None"),
])
def test_a_position_in_other_data_is_refused(other, words):
    state = TokenBatches(TOKENS, 3, 8).state_dict()
    with pytest.raises(ValueError, match=words):
        other.load_state_dict(state)


def test_both_backends_draw_the_same_batches():
    from tinyformer.arrays import use_backend
    seen = []
    for name in ("python", "numpy"):
        if name == "numpy":
            pytest.importorskip("numpy")
        with use_backend(name):
            stream = Stream(8)
            tokens, rows = TokenBatches(TOKENS, 3, 8, stream), RowBatches(ROWS, 4, stream=stream)
            seen.append([as_lists(next(b)) for _ in range(5) for b in (tokens, rows)])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("count", [2, 9, 10, 11, 28, 37, 101])
@pytest.mark.parametrize("batch_size", [1, 2, 50])
def test_windows_cover_every_token_once_in_order(backend, count, batch_size):
    pairs = []
    for ids, targets in windows(TOKENS[:count], batch_size, 9):
        assert 1 <= ids.shape[0] <= batch_size and ids.shape[1] >= 1
        for row, answers in zip(ids.tolist(), targets.tolist()):
            pairs += zip(row, answers)
    assert pairs == list(zip(TOKENS[:count], TOKENS[1:count]))


LONG = [list(range(10 * n, 10 * n + 2 + 7 * n % 23)) for n in range(53)]


def padding(batches, steps):
    """The share of padding in so many batches."""
    cells = real = 0
    for _ in range(steps):
        ids, _, lengths = next(batches)
        cells += ids.shape[0] * ids.shape[1]
        real += sum(lengths)
    return 1 - real / cells


def test_buckets_spare_padding_and_still_take_every_row_once_in_new_groups(backend):
    plain, bucketed = (RowBatches(LONG, 5, stream=Stream(1), bucket=each) for each in (0, 11))
    assert padding(bucketed, 11) < 0.2 * padding(plain, 11)
    groups = []
    for _ in range(2):
        rows, firsts = [], []
        for number in range(11):
            ids, targets, lengths = next(bucketed)
            assert len(lengths) == (3 if number == 10 else 5), "the short batch is the last"
            found = [row[:length] + answers[length - 1:length] for row, answers, length in
                     zip(ids.tolist(), targets.tolist(), lengths)]
            rows += found
            firsts.append(tuple(row[0] for row in found))
        assert sorted(rows) == LONG
        widths = [max(len(LONG[first // 10]) for first in group) for group in firsts]
        assert widths != sorted(widths), "the batches do not come by length"
        groups.append(set(firsts))
    assert groups[0] != groups[1]


def test_a_bucket_of_one_batch_only_sorts_within_it_and_negative_is_refused(backend):
    one, plain = (RowBatches(LONG[:50], 5, stream=Stream(4), bucket=each) for each in (1, 0))
    sets = [{frozenset(row[0] for row in next(each)[0].tolist()) for _ in range(10)}
            for each in (one, plain)]
    assert sets[0] == sets[1]
    with pytest.raises(ValueError, match=r"bucket must be 0 \(off\) or a number of batches, not"):
        RowBatches(ROWS, 2, bucket=-1)


def test_a_resumed_run_sees_the_same_buckets(backend):
    stream = Stream(6)
    batches = RowBatches(LONG, 5, stream=stream, bucket=3)
    for _ in range(7):
        next(batches)
    state = json.loads(json.dumps([batches.state_dict(), stream.state()]))
    right = [as_lists(next(batches)) for _ in range(9)]
    other = Stream(99)
    again = RowBatches(LONG, 5, stream=other, bucket=3)
    again.load_state_dict(state[0])
    other.restore(state[1])
    assert [as_lists(next(again)) for _ in range(9)] == right


def test_examples_of_any_kind(backend):
    examples = [([1, 2, 3][:1 + n % 3], n) for n in range(10)]
    batches = ExampleBatches(examples, 4, list, bucket=2, stream=Stream(0))
    assert sorted(each for _ in range(3) for each in next(batches)) == sorted(examples)
    other = ExampleBatches([(row, label + 1) for row, label in examples], 4, list)
    with pytest.raises(ValueError, match="other data: crc32"):
        other.load_state_dict(batches.state_dict())
    with pytest.raises(ValueError, match="no rows"):
        ExampleBatches([], 4, list)
