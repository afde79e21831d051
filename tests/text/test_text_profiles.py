"""Where Hugging Face and google-research/bert differ: one row each, and both profiles on it."""

from __future__ import annotations

import pytest

from tinyformer.text import WordPiece

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "foo", "##bar", "a", "b", "c", "+", "[",
          "]", "sep", "mask", "οδοσ", "οδος", "##a", "\U0002b820", "e", "i", "\u0307", "##\u0307"]
HF, GOOGLE = WordPiece(TOKENS), WordPiece(TOKENS, profile="google")


@pytest.mark.parametrize("text, hf, google", [
    ("foo\ue000bar", "foo ##bar", "[UNK]"),  # private use: deleted, or kept
    ("foo\u0378bar", "[UNK]", "[UNK]"),  # unassigned: kept by both
    ("foo\ud800bar", "foo ##bar", "[UNK]"),  # lone surrogate: deleted, or kept; never a crash
    ("foo\u200bbar\ufffd\x00", "foo ##bar", "foo ##bar"),  # format characters, U+FFFD, NUL
    ("a\U0002b820b", "a \U0002b820 b", "a \U0002b820 b"),  # spaced by both (tokenizers has a typo)
    ("ΟΔΟΣ", "οδοσ", "οδος"),  # sigma at the end: one character at a time, or the whole word
    ("a" * 101, "[UNK]", " ".join(["a"] + ["##a"] * 100)),  # longer than 100, or 200
    ("a" * 201, "[UNK]", "[UNK]"),
    ("a[SEP]b", "a [SEP] b", "a [ sep ] b"),  # special tokens in text
    ("[mask]", "[ mask ]", "[ mask ]"),
    ("é İ", "e i", "e i"),
    ("a\x0bb\x85c", "[UNK]", "[UNK]"),  # controls vanish and join their neighbours
    ("a\u2028b\u3000c", "a b c", "a b c"),
    ("C++", "c + +", "c + +"),
])
def test_profiles(text, hf, google):
    for tokenizer, pieces in ((HF, hf), (GOOGLE, google)):
        encoding = tokenizer.encode(text, add_special_tokens=False)
        assert encoding.tokens == pieces.split(" ")
        assert tokenizer.encode_ids(text) == encoding.ids


def test_google_never_knows_special_tokens_in_text():
    assert GOOGLE.encode("[SEP]", allow_special=True).tokens == HF.encode(
        "[SEP]", allow_special=False).tokens
