"""Normalising and splitting: each rule, and the agreement of the two ways through them."""

from __future__ import annotations

import itertools
import random
import unicodedata

import pytest

from tinyformer.text.normalise import PROFILES, Normaliser, decompose, is_punctuation, is_whitespace
from tinyformer.text.words import chunks, is_plain, split_plain, split_spans, split_words

ODD = ("a", "B", "é", "e\u0301", "İ", "Σ", "ς", "Ω\u0345", "\u0300\u0327", "\u302e\u0301", "가", "각",
       "が", "漢", "\U0002b820", "ﬁ", "Å", "\u037e", "≠", " ", "\t", "\n", "\r", "\x0b", "\x1c",
       "\x85", "\xa0", "\u2028", "\u200b", "\u00ad", "\ue000", "\ud800", "\ufffd", "\x00", "\u0378",
       ".", "-", "#", "$", "€", "¿", "_", "5", "²")


def configurations():
    return [
        Normaliser(*options)
        for options in itertools.product((True, False), (None, True, False), (True,
                                                                              False), PROFILES)
    ]


def strings(n, seed=3):
    generator = random.Random(seed)
    for _ in range(n):
        yield "".join(
            generator.choice(ODD) if generator.random() < 0.8 else chr(generator.randrange(0x11000))
            for _ in range(generator.randint(0, 12)))


def test_tables_and_spans_agree():
    for normalise in configurations():
        for text in strings(300):
            spans = normalise.spans(text)
            assert "".join(char for char, _, _ in spans) == normalise(text), text
            assert [word[0] for word in split_spans(spans)] == split_words(normalise(text)), text


def test_plain_text_has_a_shorter_way():
    plain = [chr(code) for code in (9, 10, 13, *range(0x20, 0x7f))]
    generator = random.Random(2)
    for _ in range(300):
        text = "".join(generator.choices(plain, k=generator.randint(0, 9)))
        assert is_plain(text)
        for normalise in configurations():
            source = text.lower() if normalise.lowercase else text
            assert split_plain(source) == split_words(normalise(text)), text
            for word, starts, _ in split_spans(normalise.spans(text)):
                assert source[starts[0]:starts[0] + len(word)] == word
    assert not any(map(is_plain, ("é", "\x0b", "\x7f", "a\x00")))


def test_spans_point_at_the_source():
    for text in strings(300):
        for char, start, end in Normaliser(strip_accents=True).spans(text):
            assert 0 <= start < end == start + 1 <= len(text)
    spans = Normaliser().spans("Ca\u00adfé\u200b 각")
    assert spans == [("c", 0, 1), ("a", 1, 2), ("f", 3, 4), ("e", 4, 5), (" ", 6, 7),
                     ("\u1100", 7, 8), ("\u1161", 7, 8), ("\u11a8", 7, 8)]


def test_marks_keep_their_span_when_they_are_reordered():
    """U+0301 (class 230) sorts after U+0327 (class 202): each still points at where it stood."""
    decomposed = dict(Normaliser(strip_accents=True).steps("e\u0301\u0327"))["decompose"]
    assert decomposed == [("e", 0, 1), ("\u0327", 2, 3), ("\u0301", 1, 2)]


def test_chunks_can_be_handled_by_themselves():
    for normalise in configurations():
        for text in strings(300, seed=4):
            whole = split_words(normalise(text))
            assert [w for chunk in chunks(text, normalise.handle_chinese_chars)
                    for w in split_words(normalise(chunk))] == whole, text


def test_chunks_split_where_cleaning_makes_a_space():
    for code in itertools.chain(range(0x3100), range(0xd7f0, 0xe010), range(0xfe00, 0x10000)):
        char = chr(code)
        assert chunks(f"a{char}b") == (["a", "b"]
                                       if is_whitespace(char) else [f"a{char}b"]), hex(code)


@pytest.mark.parametrize("text, uncased", [
    ("one\nline\ttwo\rthree", "one line two three"),
    ("foo\u2028bar\u2029baz", "foo bar baz"),
    ("a\x0bb\x1cc\x85d", "abcd"),
    ("co\u00adoperate", "cooperate"),
    ("foo\ue000bar", "foobar"),
    ("foo\u0378bar", "foo\u0378bar"),
    ("ok\ud800bad", "okbad"),
    ("\ufeffhello\x00", "hello"),
    ("İI", "ii"),
    ("ΟΔΟΣ", "οδοσ"),
    ("ÄÖß", "aoß"),
    ("ﬁＡ①", "ﬁａ①"),
    ("アリバ", "アリハ"),
    ("日本", " 日  本 "),
    ("のハ", "のハ"),
    ("नि", "नि"),
])
def test_uncased_hf(text, uncased):
    assert Normaliser()(text) == uncased


def test_google_keeps_and_lowers_differently():
    google = Normaliser(profile="google")
    assert google("foo\ue000bar\ud800") == "foo\ue000bar\ud800"
    assert google("ΟΔΟΣ ΣΑΣ") == "οδος σας"
    assert google.spans("ΟΣ")[1] == ("ς", 1, 2)


def test_accents_follow_lowercase_unless_told():
    assert Normaliser(lowercase=False)("É") == "É"
    assert Normaliser(lowercase=False, strip_accents=True)("É") == "E"
    assert Normaliser(strip_accents=False)("É") == "é"
    assert Normaliser(handle_chinese_chars=False)("a日b") == "a日b"


def test_unknown_profile():
    with pytest.raises(ValueError, match="'bert'.*hf, google"):
        Normaliser(profile="bert")


def test_punctuation():
    ascii_signs = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    assert [c for c in map(chr, range(128)) if is_punctuation(c)] == sorted(ascii_signs)
    assert all(map(is_punctuation, "«»¿、。—‐")) and not any(map(is_punctuation, "€£°×©→ aé5"))
    assert split_words("a$b'c  d") == ["a", "$", "b", "'", "c", "d"]


def test_decomposition_is_unicodes():
    generator = random.Random(9)
    for _ in range(300):
        text = "".join(
            chr(
                generator.choice((generator.randrange(0x250), generator.randrange(0x300, 0x360),
                                  generator.randrange(0x3020, 0x3100),
                                  generator.randrange(0xac00, 0xd7a4)))) for _ in range(8))
        spans = decompose([(char, i, i + 1) for i, char in enumerate(text)])
        assert "".join(char for char, _, _ in spans) == unicodedata.normalize("NFD", text)
