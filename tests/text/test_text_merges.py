"""The trainers: the fast one against the exact one, and both against merges worked by hand."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from fractions import Fraction
from itertools import islice

import pytest

from tinyformer.text.merges import (CRITERIA, join_pair, learn, learn_naive, likelihood_gain,
                                    likelihood_ratio)
from tinyformer.text.wordpiece import WordPiece, join, spell

HUG = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}


def pieces(words, criterion, n=20, learner=learn_naive, min_frequency=1):
    return [m.piece for m in islice(learner(words, spell, join, criterion, min_frequency), n)]


def test_count_merges_of_the_hug_corpus():
    """Worked by hand, and what `tokenizers` learns where counts do not tie."""
    merges = list(learn_naive(HUG, spell, join, "count"))
    assert [(m.piece, m.score) for m in merges[:4]] == [("##ug", 20), ("##un", 16), ("hug", 15),
                                                        ("pun", 12)]
    # pug and hugs tie at 5; "hug" + "##s" is the smaller text
    assert [(m.piece, m.score) for m in merges[4:]] == [("hugs", 5), ("pug", 5), ("bun", 4)]


def test_score_merges_of_the_hug_corpus():
    """n(ab) / (n(a) n(b)), worked by hand: ##gs first with 5 / (20 * 5), then p + ##u among six at
    1/36."""
    merges = list(learn_naive(HUG, spell, join, "score"))
    assert [m.piece
            for m in merges] == ["##gs", "pu", "hu", "bu", "hugs", "hug", "bun", "pun", "pug"]
    assert [m.score for m in merges[:2]] == [Fraction(1, 20), Fraction(1, 36)]
    assert (merges[0].pair_count, merges[0].left_count, merges[0].right_count) == (5, 20, 5)
    assert {m.piece: m.score for m in merges}["hugs"] == Fraction(1, 15)


def test_likelihood_merges_of_the_hug_corpus():
    """N = 113 pieces, n(##u) = 36, n(##g) = n(##u ##g) = 20: 36 -> 16, 20 -> 0, 113 -> 93, and 20
    new ones."""
    merges = list(learn_naive(HUG, spell, join, "likelihood"))
    assert [m.piece for m in merges] == ["##ug", "##un", "hug", "pun", "pug", "bun", "hugs"]
    assert merges[0].score == Fraction(16**16 * 20**20 * 113**113, 36**36 * 20**20 * 93**93)
    nats = [m.score for m in learn(HUG, spell, join, "likelihood")]
    assert nats == pytest.approx([28.0178, 42.6973, 26.7232, 11.1664, 16.2541, 13.4982, 5.6549],
                                 abs=1e-4)


@pytest.mark.parametrize("criterion", sorted(CRITERIA))
def test_the_fast_trainer_equals_the_exact_one(criterion):
    generator = random.Random(5)
    for _ in range(60):
        letters = "ab" if generator.random() < 0.4 else "abcd"
        words = {
            "".join(generator.choices(letters, k=generator.randint(1, 8))): generator.randint(1, 9)
            for _ in range(generator.randint(1, 12))
        }
        floor = generator.randint(1, 4)
        exact = [m[:7] for m in learn_naive(words, spell, join, criterion, floor)]
        assert [m[:7] for m in learn(words, spell, join, criterion, floor)] == exact, (words, floor)


@pytest.mark.parametrize("criterion", sorted(CRITERIA))
def test_the_order_of_the_corpus_does_not_matter(criterion):
    words = list(HUG.items()) + [("shrug", 3), ("gun", 4)]
    expected = pieces(dict(words), criterion, learner=learn)
    for seed in range(5):
        random.Random(seed).shuffle(words)
        assert pieces(dict(words), criterion, learner=learn) == expected


def test_ties_go_to_the_smaller_text():
    """Counted with overlaps: c c and d d twice each (after the first character), all others
    once."""
    assert pieces({"bbb": 1, "aaa": 1, "dddd": 1, "cccc": 1}, "count") == [
        "##cc", "##dd", "##aa", "##bb", "##ccc", "##ddd", "aaa", "bbb", "cccc", "dddd"
    ]


def test_gain_is_the_logarithm_of_the_ratio():
    for n, a, b, total, same in [(3, 4, 5, 20, False), (4, 4, 4, 9, False), (2, 5, 5, 8, True),
                                 (3, 4, 4, 9, True)]:
        assert likelihood_gain(n, a, b, total, same) == pytest.approx(math.log(
            likelihood_ratio(n, a, b, total, same)),
                                                                      abs=1e-8)


def test_join_pair_goes_from_the_left():
    assert join_pair(list("aabaaa"), "a", "a", "aa") == ["aa", "b", "aa", "a"]
    assert join_pair(["a"], "a", "a", "aa") == ["a"]


def test_unknown_criterion_lists_the_names():
    with pytest.raises(ValueError, match="count, score, likelihood"):
        list(learn_naive(HUG, spell, join, "best"))


PROGRAM = """
import hashlib
from tinyformer.text import WordPiece
text = open("tinyformer/text/merges.py", encoding="utf-8").read()
for criterion in ("count", "score", "likelihood"):
    tokens = WordPiece.train([text], 300, criterion=criterion).tokens
    print(hashlib.sha256("\\n".join(tokens).encode()).hexdigest())
"""


def test_training_does_not_depend_on_the_hash_seed():
    outputs = {
        subprocess.run([sys.executable, "-c", PROGRAM],
                       check=True,
                       capture_output=True,
                       text=True,
                       env=dict(os.environ, PYTHONHASHSEED=seed)).stdout
        for seed in "012"
    }
    assert len(outputs) == 1


def test_alphabet_and_order_of_a_trained_vocabulary():
    corpus = [" ".join([word] * n) for word, n in HUG.items()]
    tokens = WordPiece.train(corpus, 100, special_tokens=["[UNK]"], min_frequency=1).tokens
    assert tokens == [
        "[UNK]", *"bghnpsu", "##g", "##n", "##s", "##u", "##ug", "##un", "hug", "pun", "hugs",
        "pug", "bun"
    ]
    assert WordPiece.train(corpus, 14, special_tokens=["[UNK]"]).tokens == tokens[:14]
    assert WordPiece.train(corpus, 100, special_tokens=["[UNK]"],
                           min_frequency=10).tokens == tokens[:16]
    assert WordPiece.train(corpus, 12, special_tokens=["[UNK]"]).tokens == tokens[:12]


@pytest.mark.parametrize("size, error, message", [
    (11, ValueError,
     "vocab_size 11 is below the 1 special tokens and 11 characters of the corpus: 12 at least"),
    ("many", TypeError, "whole number, not 'many'"),
    (20.0, TypeError, "whole number"),
    (True, TypeError, "whole"),
])
def test_impossible_sizes(size, error, message):
    with pytest.raises(error, match=message):
        WordPiece.train(list(HUG), size, special_tokens=["[UNK]"])


@pytest.mark.parametrize("corpus", [[], "", ["", " \n\t"], ["\u200b"]])
def test_a_corpus_without_words(corpus):
    with pytest.raises(ValueError, match="no words"):
        WordPiece.train(corpus, 100)
