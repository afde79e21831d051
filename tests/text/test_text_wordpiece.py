"""WordPiece: cutting, decoding, saving."""

from __future__ import annotations

import json
import random

import pytest

from tinyformer.text import WordPiece
from tinyformer.text.cache import Cache

LECTURE = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "En", "##code", "me", "!", "S", "##nu", "##ffle",
    "##up", "##agu", "##s", "##ag", "##u"
]


def cut(tokenizer, text):
    return [tokenizer.tokens[i] for i in tokenizer.encode_ids(text)]


def test_the_lecture():
    cased = WordPiece(LECTURE, lowercase=False)
    assert cut(cased, "Encode me!") == ["En", "##code", "me", "!"]
    assert cut(cased, "Snuffleupagus") == ["S", "##nu", "##ffle", "##up", "##agu", "##s"]


@pytest.mark.parametrize(
    "text, pieces",
    [
        ("abc", ["abc"]),
        ("abcd", ["[UNK]"]),  # greedy takes abc, though ab ##cd would have worked
        ("ab", ["ab"]),
        ("aba", ["[UNK]"]),
        ("a ab", ["a", "ab"]),
        ("", []),
        ("  ", []),
        ("##cd", ["[UNK]", "[UNK]", "[UNK]"]),
        ("abc" * 40, ["[UNK]"]),
    ])
def test_greedy(text, pieces):
    assert cut(WordPiece(["[UNK]", "a", "ab", "abc", "##cd"]), text) == pieces


def test_limit_of_a_word():
    tokens = ["[UNK]", "a", "##a"]
    assert len(WordPiece(tokens).encode_ids("a" * 100)) == 100 and cut(
        WordPiece(tokens), "a" * 101) == ["[UNK]"]
    google = WordPiece(tokens, profile="google")
    assert len(google.encode_ids("a" * 200)) == 200 and cut(google, "a" * 201) == ["[UNK]"]


def test_marks_on_continuations():
    """`##` in the text is punctuation, never a continuation; a bare `##` in the vocabulary is not
    an empty piece."""
    assert cut(WordPiece(["[UNK]", "##", "#", "a", "##a"]),
               "##a a##") == ["#", "#", "a", "a", "#", "#"]


def reference_cut(tokenizer, word):
    """The greedy loop of the paper, word for word."""
    pieces, start = [], 0
    while start < len(word):
        end = len(word)
        while end > start and ("##" * (start > 0) + word[start:end]) not in tokenizer.vocab:
            end -= 1
        if end == start:
            return ["[UNK]"]
        pieces.append("##" * (start > 0) + word[start:end])
        start = end
    return pieces


def test_segment_equals_the_plain_greedy_loop():
    generator = random.Random(1)
    for _ in range(200):
        pieces = {
            "##" * generator.randint(0, 1) +
            "".join(generator.choices("abc", k=generator.randint(1, 4)))
            for _ in range(12)
        }
        tokenizer = WordPiece(["[UNK]", *sorted(pieces)])
        for _ in range(20):
            word = "".join(generator.choices("abc", k=generator.randint(1, 10)))
            assert [tokenizer.tokens[i]
                    for i, _, _ in tokenizer.segment(word)] == reference_cut(tokenizer, word)


def test_segment_covers_the_word():
    tokenizer = WordPiece(LECTURE, lowercase=False)
    assert tokenizer.segment("Encodes") == [(5, 0, 2), (6, 2, 6), (14, 6, 7)]
    assert tokenizer.segment("zzz") == [(1, 0, 3)]


def test_decode():
    tokenizer = WordPiece(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "##ing", ",", "world", "!", "##!"])
    assert tokenizer.decode([2, 5, 7, 8, 9, 3, 0]) == "hello, world!"
    assert tokenizer.decode([2, 5, 3], skip_special_tokens=False) == "[CLS] hello [SEP]"
    assert tokenizer.decode([5, 4, 6]) == "helloing" and tokenizer.decode([6, 6]) == "##inging"
    assert tokenizer.decode([]) == ""
    for bad in (11, -1):
        with pytest.raises(ValueError,
                           match=f"id {bad} at position 1 is outside the vocabulary of 11"):
            tokenizer.decode([5, bad])


def test_special_ids():
    tokenizer = WordPiece(LECTURE)
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id,
            tokenizer.mask_id) == (0, 1, 2, 3, 4)
    with pytest.raises(ValueError, match=r"no \[SEP\] among its 2 pieces"):
        WordPiece(["[UNK]", "a"]).sep_id


def test_a_copy_from_tokens_and_settings(tmp_path):
    tokenizer = WordPiece.train(["Übung macht den Meister. " * 3],
                                60,
                                lowercase=False,
                                strip_accents=True,
                                special_tokens=("[UNK]", "[EOS]"))
    settings = json.loads(json.dumps(tokenizer.settings()))
    assert settings == {
        "lowercase": False, "strip_accents": True, "handle_chinese_chars": True, "profile": "hf",
        "special_tokens": ["[UNK]", "[EOS]"]
    }
    tokenizer.save(tmp_path / "vocab.txt")
    for copy in (WordPiece(tokenizer.tokens,
                           **settings), WordPiece.from_file(tmp_path / "vocab.txt", **settings)):
        assert copy.tokens == tokenizer.tokens and copy.settings() == tokenizer.settings()
        assert cut(copy, "Übung") == cut(tokenizer, "Übung") and "[UNK]" not in cut(copy, "Übung")
        assert copy.decode([1, 2]) == copy.tokens[2]


def test_training_and_encoding_agree():
    """Every word of the corpus can be cut into pieces that were learnt, and the common ones are one
    piece."""
    text = "the cat sat on the mat, the cat ran. " * 5 + "a thesaurus"
    tokenizer = WordPiece.train([text], 60)
    assert "[UNK]" not in cut(tokenizer, text)
    assert cut(tokenizer, "The cat") == ["the", "cat"]
    assert tokenizer.decode(tokenizer.encode_ids(text)) == text.replace(" ,", ",").strip()


def test_the_cache_is_bounded_and_right():
    calls = []

    def function(chunk):
        calls.append(chunk)
        return (len(chunk), )

    cache = Cache(function, limit=3, longest=4)
    for chunk in ("a", "bb", "a", "ccc", "dddd", "a", "eeeee", "eeeee"):
        assert cache[chunk] == (len(chunk), )
        assert len(cache) <= 3 and "eeeee" not in cache
    assert calls == ["a", "bb", "ccc", "dddd", "a", "eeeee", "eeeee"]
