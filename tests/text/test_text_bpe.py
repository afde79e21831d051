"""Byte-pair encoding: replaying merges, bytes, files."""

from __future__ import annotations

import json
import random

import pytest

from tinyformer.text import BPE
from tinyformer.text.bpe import replay
from tinyformer.text.bytelevel import BYTE_OF, BYTES, split_bytes

HUG = ["hug " * 10, "pug " * 5, "pun " * 12, "bun " * 4, "hugs " * 5]


def replay_slowly(symbols, ranks):
    """Sennrich's loop: the first-learnt pair, everywhere, one at a time from the left."""
    symbols = list(symbols)
    while True:
        pairs = [(ranks[pair], i) for i, pair in enumerate(zip(symbols, symbols[1:]))
                 if pair in ranks]
        if not pairs:
            return symbols
        _, i = min(pairs)
        symbols[i:i + 2] = [symbols[i] + symbols[i + 1]]


def test_replay_equals_the_slow_loop():
    generator = random.Random(2)
    for _ in range(300):
        pieces, ranks = ["a", "b", "c"], {}
        for _ in range(generator.randint(0, 12)):
            pair = generator.choice(pieces), generator.choice(pieces)
            ranks.setdefault(pair, len(ranks))
            pieces.append("".join(pair))
        order = list(range(len(ranks)))
        generator.shuffle(order)  # files may hold merges in any order
        ranks = dict(zip(ranks, order))
        word = "".join(generator.choices("abc", k=generator.randint(1, 14)))
        result = replay(word, ranks)
        assert [text for text, _, _ in result] == replay_slowly(word, ranks)
        assert [word[start:end] for _, start, end in result] == [text for text, _, _ in result]
        assert result[0][1] == 0 and result[-1][2] == len(word)


def test_bytes_are_a_one_to_one_spelling():
    assert len(set(BYTES)) == 256 and all(BYTE_OF[char] == byte for byte, char in enumerate(BYTES))
    assert BYTES[ord("A")] == "A" and BYTES[ord(" ")] == "Ġ" and BYTES[ord("\n")] == "Ċ"
    assert all(char.isprintable() for char in BYTES)


@pytest.mark.parametrize("text, words", [
    ("I'll don't we've IT'S", ["I", "'ll", " don", "'t", " we", "'ve", " IT", "'", "S"]),
    ("a\n\n b\t c  ", ["a", "\n\n", " b", "\t", " c", "  "]), ("a   b", ["a", "  ", " b"]),
    ("x1y22", ["x", "1", "y", "22"]), ("naïve café!?", ["naïve", " café", "!?"]),
    ("²½ ⅣⅠ 一1", ["²½", " ⅣⅠ", " 一", "1"]), ("a_b", ["a", "_", "b"]),
    ("e\u0301t", ["e", "\u0301", "t"]), ("\xa0a\u2003b\x85", ["\xa0", "a", "\u2003", "b", "\x85"]),
    ("a\x1cb", ["a", "\x1c", "b"]), ("", []), ("'", ["'"]), ("L's", ["L", "'s"]),
    ("!\x85", ["!", "\x85"]),
    ("日本'll", ["日本", "'ll"]), ("日本'LL", ["日本", "'", "LL"]),
])
def test_words_of_gpt2(text, words):
    """`2½` are numbers (category No), a combining accent is neither letter nor number."""
    assert split_bytes(text) == words


def test_words_cover_the_text():
    generator = random.Random(3)
    for _ in range(300):
        text = "".join(generator.choice("ab1 \n\t'sé漢²\u0301\x85\ud800!_") for _ in range(12))
        assert "".join(split_bytes(text)) == text


@pytest.fixture(scope="module")
def bytelevel():
    return BPE.train(["naïve café — the cat sat on the mat. " * 4], 290, byte_level=True,
                     special_tokens=["<|endoftext|>"])


def test_any_bytes_come_back(bytelevel):
    generator = random.Random(4)
    for n in range(200):
        data = bytes(generator.choices(range(256), k=n % 40))
        assert bytelevel.decode_bytes(bytelevel.encode_bytes(data)) == data
    text = "any text: 漢字 \U0001f600\x00\r\n"
    assert bytelevel.decode(bytelevel.encode_ids(text)) == text


def test_lone_surrogates(bytelevel):
    encoding = bytelevel.encode("the\ud800 cat")
    assert bytelevel.decode(encoding.ids) == "the cat"
    assert bytelevel.decode_bytes(bytelevel.encode("\udcff").ids) == b"\xff"


def test_offsets_of_bytes(bytelevel):
    encoding = bytelevel.encode("the 漢")
    assert encoding.tokens[0] == "the" and encoding.offsets[0] == (0, 3)
    assert encoding.offsets[1:] == [(3, 4), (4, 5), (4, 5), (4, 5)]
    assert encoding.word_ids == [0, 1, 1, 1, 1]
    assert bytelevel.encode("a<|endoftext|>b").tokens == ["a", "<|endoftext|>", "b"]
    assert "<|endoftext|>" not in bytelevel.encode("a<|endoftext|>b", allow_special=False).tokens
    assert bytelevel.decode([0, *bytelevel.encode_ids("a")], skip_special_tokens=False) == \
        "<|endoftext|>a"


def test_the_suffix_marks_the_ends_of_words():
    bpe = BPE.train(HUG, 30, min_frequency=1)
    assert bpe.encode("hugs bun").tokens == ["hugs</w>", "bun</w>"]
    assert bpe.encode("hugs bun").offsets == [(0, 4), (5, 8)]
    assert bpe.decode(bpe.encode_ids("hugs  bun pug")) == "hugs bun pug"
    assert bpe.encode("hu").tokens == ["h", "u</w>"] if "u</w>" in bpe.vocab else True


def test_unknown_characters():
    bpe = BPE.train(HUG, 30, unk_token="<unk>", suffix="", min_frequency=1)
    assert bpe.encode("hxyug").tokens == ["h", "<unk>", "<unk>", "ug"]
    fused = BPE(bpe.tokens, bpe.pairs, unk_token="<unk>", fuse_unk=True)
    assert fused.encode("hxyug").tokens == ["h", "<unk>", "ug"]
    assert fused.encode("hxyug").offsets == [(0, 1), (1, 3), (3, 5)]


def test_files_and_settings(tmp_path, bytelevel):
    vocab, merges = tmp_path / "vocab.json", tmp_path / "merges.txt"
    bytelevel.save(vocab, merges)
    settings = json.loads(json.dumps(bytelevel.settings()))
    for copy in (BPE.from_files(vocab, merges), BPE(bytelevel.tokens, **settings)):
        assert copy.tokens == bytelevel.tokens and copy.settings() == bytelevel.settings()
        assert copy.encode("the café") == bytelevel.encode("the café")


@pytest.mark.parametrize("vocab, merges, message", [
    ("[1]", "", "one object"), ("{", "", "not JSON"),
    ('{"a": 0, "b": 2}', "", "none with the id 1"),
    ('{"a": 0}', "a\n", "line 1: 'a' is not two pieces"),
    ('{"a": 0}', "#version\na b c\n", "line 2"),
    ('{"a": 0, "b": 1}', "a b\n", "merge 0, 'a' [+] 'b', makes 'ab'"),
])
def test_bad_files(tmp_path, vocab, merges, message):
    (tmp_path / "vocab.json").write_text(vocab, encoding="utf-8")
    (tmp_path / "merges.txt").write_text(merges, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        BPE.from_files(tmp_path / "vocab.json", tmp_path / "merges.txt")


def test_ancestry():
    bpe = BPE.train(HUG, 100, suffix="", min_frequency=1)
    assert str(bpe.ancestry("hugs")) == ("hugs\n|-- hug\n|   |-- h\n|   `-- ug\n|       |-- u\n"
                                         "|       `-- g\n`-- s")
    assert str(bpe.ancestry("h")) == "h"
    with pytest.raises(ValueError, match="'xyz' is not among the 14 pieces"):
        bpe.ancestry("xyz")


def test_a_long_word_takes_no_long_time():
    bpe = BPE(["a", "aa", "aaaa"], [("a", "a"), ("aa", "aa")])
    assert bpe.encode_ids("a" * 100_001) == [2] * 25_000 + [0]
