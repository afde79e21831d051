"""Counting words from texts and files."""

from __future__ import annotations

import pytest

from tinyformer.text.corpus import blocks, count_words, texts
from tinyformer.text.words import chunks, split_words


def test_texts_and_files_mix(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("b a\n", encoding="utf-8")
    assert count_words(["a a.", path, "c"], chunks, split_words) == {"a": 3, ".": 1, "b": 1, "c": 1}
    assert count_words("a b", chunks, split_words) == {"a": 1, "b": 1}
    assert count_words(path, chunks, split_words) == {"a": 1, "b": 1}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
def test_blocks_cut_no_word_and_lose_nothing(tmp_path, size):
    text = "naïve 漢字 \U0001f600\r\nline two\n\nend of it"
    path = tmp_path / "text.txt"
    path.write_bytes(text.encode("utf-8"))
    parts = list(blocks(path, size))
    assert "".join(parts) == text
    if size >= 8:  # then every block read holds a space or a line end
        assert [word for part in parts for word in part.split()] == text.split()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_the_offset_of_a_wrong_byte(tmp_path, size):
    path = tmp_path / "text.txt"
    path.write_bytes("é€ab".encode("utf-8") + b"\xc3(")
    with pytest.raises(ValueError, match="byte 0xc3 at offset 7"):
        list(blocks(path, size))
    path.write_bytes("é€".encode("utf-8") + b"\xe2\x82")
    with pytest.raises(ValueError, match="byte 0xe2 at offset 5"):
        list(blocks(path, size))


def test_what_is_no_corpus():
    with pytest.raises(TypeError, match="not int: 3"):
        list(texts(["a", 3]))


def test_progress_is_told(tmp_path):
    lines = []
    count_words(["word " * 300_000, "other " * 200_000], chunks, split_words, lines.append)
    assert lines == [
        "1,500,000 characters read, 1 distinct words", "2,700,000 characters read, 2 distinct words"
    ]
