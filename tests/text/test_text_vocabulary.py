"""vocab.txt: what is read, what is refused, what is said about it."""

from __future__ import annotations

import warnings

import pytest

from tinyformer.text import WordPiece
from tinyformer.text.vocabulary import read_vocab, write_vocab


@pytest.fixture
def vocab(tmp_path):
    def write(data: bytes):
        path = tmp_path / "vocab.txt"
        path.write_bytes(data)
        return path

    return write


@pytest.mark.parametrize("data, tokens", [
    (b"[PAD]\n[UNK]\na\n##b\n", ["[PAD]", "[UNK]", "a", "##b"]),
    (b"[PAD]\n[UNK]\na", ["[PAD]", "[UNK]", "a"]),
    (b"[PAD]\r\n[UNK]\r\na\r\n", ["[PAD]", "[UNK]", "a"]),
    (b"[UNK]\na\x0bb\na\xc2\x85b\na\rb\n", ["[UNK]", "a\x0bb", "a\x85b", "a\rb"]),
    ("[UNK]\na\u2028b\na\x1c\n".encode(), ["[UNK]", "a\u2028b", "a\x1c"]),
])
def test_lines(vocab, data, tokens):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_vocab(vocab(data)) == tokens


@pytest.mark.parametrize("data, tokens, lines", [
    (b"[PAD]\n\n[UNK]\na\n", ["[PAD]", "", "[UNK]", "a"], "line 2 "),
    (b"[PAD]\n\n\n[UNK]\n", ["[PAD]", "", "", "[UNK]"], "lines 2, 3 "),
    ("[PAD]\n\u2028\n[UNK]\n".encode(), ["[PAD]", "", "[UNK]"], "line 2 "),
])
def test_blank_lines_keep_their_id_and_are_reported(vocab, data, tokens, lines):
    with pytest.warns(UserWarning, match="blank " + lines):
        assert read_vocab(vocab(data)) == tokens


def test_the_last_blank_line_is_the_piece(vocab):
    with pytest.warns(UserWarning):
        tokenizer = WordPiece.from_file(vocab(b"[PAD]\n\n\n[UNK]\n"))
    assert tokenizer.vocab == {"[PAD]": 0, "": 2, "[UNK]": 3} and tokenizer.vocab_size == 4


def test_byte_order_mark_is_removed(vocab):
    with pytest.warns(UserWarning, match="byte order mark"):
        assert read_vocab(vocab(b"\xef\xbb\xbf[PAD]\n[UNK]\n")) == ["[PAD]", "[UNK]"]


@pytest.mark.parametrize("data, message", [
    (b"[UNK]\na\nb\na\n", "line 4 repeats the piece 'a' of line 2"),
    (b"", "is empty"),
    (b"[PAD]\nab\xff\xfe\n", r"not UTF-8: byte 0xff at offset 8 \(line 2\)"),
    (b"[PAD]\na\n", r"no \[UNK\] among its 2 pieces"),
])
def test_refused(vocab, data, message):
    with pytest.raises(ValueError, match=message):
        WordPiece.from_file(vocab(data))


def test_a_directory(tmp_path):
    with pytest.raises(ValueError, match="is a directory"):
        WordPiece.from_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        WordPiece.from_file(tmp_path / "none")


def test_round_trip_and_what_cannot_be_written(tmp_path):
    path = tmp_path / "vocab.txt"
    tokens = ["[UNK]", "é", "##漢", "a\u2028b", "\x1c"]
    write_vocab(path, tokens)
    assert read_vocab(path) == tokens and b"\r" not in path.read_bytes()
    for bad in ("a\nb", "a ", "\u3000"):
        with pytest.raises(ValueError, match="piece 1 is"):
            write_vocab(path, ["x", bad])
    assert read_vocab(path) == tokens  # the old file is intact
    assert [p.name for p in tmp_path.iterdir()] == ["vocab.txt"]


def test_constructor_names_both_places_of_a_repeated_piece():
    with pytest.raises(ValueError, match="piece 3 repeats the piece 'a' of piece 1"):
        WordPiece(["[UNK]", "a", "b", "a"])
