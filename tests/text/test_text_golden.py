"""The same corpus gives the same bytes: on every Python, under every PYTHONHASHSEED.

The digests were computed once (CPython 3.11); all versions must agree with them.
"""

from __future__ import annotations

import hashlib
import random

import pytest

from tinyformer.text import BPE, Unigram, WordPiece


def corpus():
    """Words of two to four syllables, frequent ones first, from a fixed generator."""
    generator = random.Random(2024)
    syllables = ["ka", "to", "mi", "ra", "nel", "os", "tha", "in", "g", "re", "un", "ed"]
    words = ["".join(generator.choice(syllables) for _ in range(2 + int(3 * generator.random())))
             for _ in range(400)]
    return [" ".join(words[int(400 * generator.random() ** 3)] for _ in range(12)) + "."
            for _ in range(500)]


TRAINERS = {
    "count": lambda: WordPiece.train(corpus(), 300).tokens,
    "score": lambda: WordPiece.train(corpus(), 300, criterion="score", min_frequency=5).tokens,
    "likelihood": lambda: WordPiece.train(corpus(), 300, criterion="likelihood").tokens,
    "bpe": lambda: BPE.train(corpus(), 300).tokens,
    "byte-level": lambda: BPE.train(corpus(), 500, byte_level=True).tokens,
    "unigram": lambda: Unigram.train(corpus(), 120).tokens,
}
DIGESTS = {
    "count": "8c5889b1e0166049",
    "score": "339be50f5617e1cf",
    "likelihood": "16fc3e93aadc4645",
    "bpe": "18628bdc4d983be0",
    "byte-level": "597862ce41723392",
    "unigram": "c46cb7dc62089873",
}


@pytest.mark.parametrize("name", sorted(TRAINERS))
def test_same_bytes_everywhere(name):
    tokens = "\n".join(TRAINERS[name]())
    assert hashlib.sha256(tokens.encode("utf-8")).hexdigest()[:16] == DIGESTS[name], tokens


def test_memory_grows_with_words_not_with_the_corpus(tmp_path):
    tracemalloc = pytest.importorskip("tracemalloc")  # PyPy has none
    path = tmp_path / "long.txt"
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(10):
            file.write("the same few words again and again\n" * 6000)
    size = path.stat().st_size
    tracemalloc.start()
    WordPiece.train(path, 60)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 2_100_000 and peak < size, peak  # its words at once would take ten times that


def test_files_and_texts_train_alike(tmp_path):
    (tmp_path / "corpus.txt").write_text("\n".join(corpus()), encoding="utf-8")
    assert WordPiece.train(tmp_path / "corpus.txt", 200).tokens == WordPiece.train(
        corpus(), 200).tokens
    lines = []
    WordPiece.train(corpus(), 200, progress=lines.append)
    assert lines and all("pieces" in line for line in lines)


def test_a_limited_alphabet_leaves_words_out():
    texts = ["aab " * 5, "abc " * 3, "zab"]
    tokens = WordPiece.train(texts, 50, limit_alphabet=2, min_frequency=1).tokens
    assert tokens[5:] == ["a", "b", "##a", "##b", "##ab", "aab"]
