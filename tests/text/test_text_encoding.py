"""Encodings: cutting to a length, windows, padding, labels, slices; special tokens in text."""

from __future__ import annotations

import copy
import pickle
import random

import pytest

from tinyformer.text import WordPiece, align_labels
from tinyformer.text.encoding import _share, _windows

WORDS = "one two three four five six seven eight nine ten".split()
TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s"])
TEXT = " ".join(WORDS)


def test_shares_of_a_pair():
    """Both conventions, against their definitions, for all small lengths."""
    def one_by_one(first, second, room):  # google-research/bert
        while first + second > room:
            first, second = (first - 1, second) if first > second else (first, second - 1)
        return first, second

    def reference(first, second, room):  # tokenizers
        low, high = min(first, second), max(first, second)
        high = low if low > room else max(low, room - low)
        if low + high > room:
            low, high = room // 2, room // 2 + room % 2
        return (low, high) if first <= second else (high, low)

    for first in range(11):
        for second in range(11):
            for room in range(1, first + second):
                assert _share(first, second, room, True) == one_by_one(first, second, room)
                assert _share(first, second, room, False) == reference(first, second, room)


def test_windows():
    for length in range(1, 25):
        for room in range(1, length):
            for stride in range(room):
                windows = [(w.start, w.stop) for w in _windows(length, room, stride, "right")]
                assert windows[0] == (0, room) and windows[-1][1] == length
                for (a, b), (c, d) in zip(windows, windows[1:]):
                    assert b - c == stride and b - a == room and d > b
                mirrored = [(length - b, length - a) for a, b in windows]
                left = _windows(length, room, stride, "left")
                assert [(w.start, w.stop) for w in left] == mirrored


def test_overflow_is_kept_only_on_request():
    assert TOKENIZER.encode(TEXT, max_length=6).overflow == []
    windows = TOKENIZER.encode(TEXT, max_length=6, stride=1, return_overflow=True)
    assert [w.tokens[1:-1] for w in [windows, *windows.overflow]] == [
        WORDS[:4], WORDS[3:7], WORDS[6:10]]
    assert "2 more in overflow" in repr(windows)


@pytest.mark.parametrize("truncation, side, first, second", [
    ("only_first", "right", WORDS[:4], WORDS[:2]), ("only_first", "left", WORDS[6:], WORDS[:2]),
    ("longest_first", "left", WORDS[6:], WORDS[:2])])
def test_which_end_of_which_text_is_cut(truncation, side, first, second):
    how = dict(max_length=9, truncation=truncation, truncation_side=side)
    assert TOKENIZER.encode(TEXT, "one two", **how).tokens == [
        "[CLS]", *first, "[SEP]", *second, "[SEP]"]
    if "only" in truncation:
        how["truncation"] = "only_second"
    swapped = TOKENIZER.encode("one two", TEXT, **how)
    how["truncation"] = truncation
    assert swapped.tokens == ["[CLS]", *second, "[SEP]", *first, "[SEP]"]
    every = TOKENIZER.encode(TEXT, "one two", return_overflow=True, **how)
    assert [len(window) for window in [every, *every.overflow]] == [9, 9, 7]


def test_the_google_profile_gives_the_odd_token_to_the_first():
    google = WordPiece(TOKENIZER.tokens, profile="google")
    pair = "one two three four five", "six seven eight nine ten"
    assert [TOKENIZER.encode(*pair, max_length=10).sequence_ids.count(i) for i in (0, 1)] == [3, 4]
    assert [google.encode(*pair, max_length=10).sequence_ids.count(i) for i in (0, 1)] == [4, 3]


@pytest.mark.parametrize("options, message", [
    (dict(max_length=10, stride=9), "stride 9 .* max_length 10 - 2 special = 8"),
    (dict(max_length=10, stride=8), "stride 8 .* max_length 10 - 2 special = 8"),
    (dict(max_length=10, stride=-1), "stride -1"), (dict(stride=1), "stride 1 without max_length"),
    (dict(max_length=2), "max_length 2 - 2 special = 0: no room"),
    (dict(max_length=1), "max_length 1 - 2 special = -1: no room"),
    (dict(max_length=3, pair="one"), "max_length 3 - 3 special = 0"),
    (dict(max_length=5, truncation="longest"),
     "'longest': choose one of longest_first, only_first"),
    (dict(max_length=5, truncation_side="top"), "'top': choose left or right"),
    (dict(max_length=8, truncation="only_second"), "needs a second text"),
    (dict(max_length=8, truncation="only_second", pair="one two"),
     "12 tokens are 7 more .* room of 5.* only 2"),
    (dict(max_length=6, stride=2, pair=TEXT), "stride 2 must be below the 1 tokens"),
    (dict(allow_special={"[FOO]"}), r"'\[FOO\]' is not a special token; there are \[PAD\] \[UNK\]"),
])
def test_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TOKENIZER.encode(TEXT, **options)


def test_no_room_is_needed_without_special_tokens():
    encoding = TOKENIZER.encode(TEXT, max_length=1, add_special_tokens=False)
    assert encoding.tokens == ["one"] and encoding.special_tokens_mask == [0]
    pair = TOKENIZER.encode("one two", "three", add_special_tokens=False)
    assert pair.type_ids == [0, 0, 1] and pair.word_ids == [0, 1, 0]


def test_user_text_cannot_forge_a_boundary():
    assert TOKENIZER.encode("one[SEP]two").ids.count(TOKENIZER.sep_id) == 2
    plain = TOKENIZER.encode("one[SEP]two", allow_special=False)
    assert plain.tokens == ["[CLS]", "one", "[UNK]", "[UNK]", "[UNK]", "two", "[SEP]"]
    assert TOKENIZER.encode_ids("one[SEP]two", allow_special=False) == plain.ids[1:-1]
    some = TOKENIZER.encode("[MASK][SEP]", allow_special={"[MASK]"})
    assert some.ids.count(TOKENIZER.mask_id) == 1 and some.ids.count(TOKENIZER.sep_id) == 1
    listed = WordPiece(["[UNK]", "[CLS]", "[SEP]", "sep"])  # "sep" the word is not [SEP]
    assert listed.encode("[SEP]", allow_special=False).tokens[1:-1] == ["[UNK]", "sep", "[UNK]"]


def test_special_tokens_with_letters_only_are_not_plain_words():
    tokenizer = WordPiece(["[UNK]", "eos", "e", "##o", "##s"], special_tokens=["[UNK]", "eos"])
    assert tokenizer.encode_ids("eos") == [1]
    assert tokenizer.encode_ids("eos", allow_special=False) == [2, 3, 4]


def test_the_longer_of_two_special_tokens_wins():
    tokenizer = WordPiece(["[UNK]", "<s>", "<s>x"], special_tokens=["<s>", "<s>x"])
    assert tokenizer.encode_ids("<s>x<s>") == [2, 1]


def test_padding():
    batch = TOKENIZER.encode_batch(["one", ("two", "three four")], padding="longest",
                                   padding_side="left")
    assert [len(e) for e in batch] == [6, 6]
    assert batch[0].tokens[:4] == ["[PAD]"] * 3 + ["[CLS]"]
    assert batch[0].attention_mask == [0] * 3 + [1] * 3
    assert [len(e) for e in TOKENIZER.encode_batch(["one"] * 2)] == [3, 3]
    assert TOKENIZER.encode_batch([], padding="longest") == []
    windows, = TOKENIZER.encode_batch([TEXT], padding=9, max_length=7, return_overflow=True)
    assert [len(w) for w in [windows, *windows.overflow]] == [9, 9]
    for bad in ("max", True, 2.0):
        with pytest.raises(ValueError, match="padding must be 'longest', a number or None"):
            TOKENIZER.encode_batch(["one"], padding=bad)
    with pytest.raises(ValueError, match="'middle': choose left or right"):
        TOKENIZER.encode_batch(["one"], padding=4, padding_side="middle")
    with pytest.raises(ValueError, match="at least 1, not 0"):
        TOKENIZER.encode_batch(["one"], padding=4, pad_to_multiple_of=0)
    with pytest.raises(ValueError, match=r"no \[PAD\]"):
        WordPiece(["[UNK]", "[CLS]", "[SEP]"]).encode_batch(["one"], padding=4)


def test_labels_of_words():
    encoding = TOKENIZER.encode_words(["Ones", "two", "", "threes"])
    assert encoding.tokens[1:-1] == ["one", "##s", "two", "three", "##s"]
    assert TOKENIZER.align_labels(encoding, [7, 8, 9, 6]) == [-100, 7, -100, 8, 6, -100, -100]
    assert align_labels(encoding, [7, 8, 9, 6], ignore=0) == [0, 7, 0, 8, 6, 0, 0]
    pair = TOKENIZER.encode("one", "two")
    assert TOKENIZER.align_labels(pair, [5]) == [-100, 5, -100, -100, -100]
    with pytest.raises(ValueError, match="word 3 has no label: there are only 3"):
        TOKENIZER.align_labels(encoding, [7, 8, 9])
    with pytest.raises(TypeError, match="list of words"):
        TOKENIZER.encode_words("one two")


def test_slices_of_the_source():
    text = "  Ón\u00ade's\tTWO "
    encoding = TOKENIZER.encode(text)
    assert TOKENIZER.detokenize(text, encoding) == ["", "Ón\u00ade", "'", "s", "TWO", ""]


def test_fast_and_full_encoding_agree():
    generator = random.Random(10)
    for _ in range(500):
        text = "".join(generator.choice((*WORDS, "s", " ", "\t", "[SEP]", "[MASK", "é", "漢", "\x0b",
                                         "\u200b", "\ud800", ".", "\u2028")) for _ in range(9))
        assert TOKENIZER.encode_ids(text) == TOKENIZER.encode(text, add_special_tokens=False).ids


def test_long_texts_stay_linear():
    """Each of these takes well under a second; a quadratic way would take minutes."""
    assert TOKENIZER.encode("x" * 100_000).tokens == ["[CLS]", "[UNK]", "[SEP]"]
    assert len(TOKENIZER.encode("one " * 100_000)) == 100_002
    assert len(TOKENIZER.encode_ids("漢" * 100_000)) == 100_000
    assert len(TOKENIZER.encode("é." * 50_000)) == 100_002


def test_copies():
    for twin in (copy.deepcopy(TOKENIZER), pickle.loads(pickle.dumps(TOKENIZER))):
        assert twin.encode(TEXT) == TOKENIZER.encode(TEXT)
        assert twin.settings() == TOKENIZER.settings()
    assert TOKENIZER.encode("one") != TOKENIZER.encode("two")
