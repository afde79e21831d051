"""Explanations: what they say, and that they say it about what really happens."""

from __future__ import annotations

import random
import re

import pytest

from tinyformer.pictures.html import page
from tinyformer.text import BPE, Unigram, WordPiece
from tinyformer.text.report import as_text, visible

TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "ab", "abc", "##cd",
                       "##xyz", "na", "##ive"])
HUG = ["hug " * 10, "pug " * 5, "pun " * 12, "bun " * 4, "hugs " * 5]


def lines(explanation):
    return [re.sub("  +", " | ", line) for line in str(explanation).split("\n")]


def test_steps_and_deleted_characters():
    text = lines(TOKENIZER.explain("Na\u00efve\u200b\u00ad [SEP]\ud800"))
    assert "clean | Naïve [SEP]" in text and "lower | naive [SEP]" in text  # [SEP] is left alone
    assert "clean | 5 | U+200B ZERO WIDTH SPACE (Cf) | deleted" in text
    assert "clean | 6 | U+00AD SOFT HYPHEN (Cf) | deleted" in text
    assert any(line.startswith("clean | 13 | U+D800") and line.endswith("deleted") for line in text)
    assert any("U+0308 COMBINING DIAERESIS (Mn) | i U+0069" in line for line in text)
    assert "a special token: id 3" in text
    assert "[SEP] | 3 | [SEP]<U+D800> | 8-13 | 1" not in text
    assert "[SEP] | 3 | [SEP] | 8-13 | 1" in text


def test_candidates_hit_and_miss():
    text = lines(TOKENIZER.explain("naive"))
    start = text.index("from | tried")
    assert text[start + 1:start + 6] == ["0 | naive | miss", "0 | naiv | miss", "0 | nai | miss",
                                         "0 | na | hit | id 10", "2 | ##ive | hit | id 11"]


def test_why_unknown():
    text = str(TOKENIZER.explain("abcd"))
    assert "no piece fits from position 3, where 'd' is left; known up to there: 'abc'" in text
    assert "greedy is not optimal: ab ##cd would have worked" in text
    text = str(TOKENIZER.explain("abcxyq"))
    assert "the nearest piece is '##xyz'" in text and "would have worked" not in text
    assert "101 characters are more than 100" in str(TOKENIZER.explain("a" * 101))


def test_candidates_are_what_segment_does():
    generator = random.Random(1)
    for _ in range(300):
        word = "".join(generator.choices("abcdxyz", k=generator.randint(1, 7)))
        pieces, start = [], 0
        while start < len(word):
            tried, end = TOKENIZER.candidates(word, start)
            if end is None:
                pieces = ["[UNK]"]
                break
            pieces.append(tried[-1][0])
            start = end
        assert [TOKENIZER.tokens[i] for i, _, _ in TOKENIZER.segment(word)] == pieces
        other = TOKENIZER.any_segmentation(word)
        assert other is None or "".join(other).replace("##", "") == word
        if pieces != ["[UNK]"]:
            assert other is not None and len(other) <= len(pieces)


def test_merges_of_a_word():
    bpe = BPE.train(HUG, 100, suffix="", min_frequency=1)
    text = lines(bpe.explain("hugs"))
    assert " | h u g s" in text and "0 | u + g | h ug s" in text and "2 | h + ug | hug s" in text
    generator = random.Random(3)
    for _ in range(50):
        word = "".join(generator.choices("hugpnbs", k=generator.randint(1, 6)))
        rows = bpe.explain_word(word)[0][2]
        assert rows[-1][2].split(" ") == bpe.encode(word).tokens


def test_segmentations_of_a_word():
    unigram = Unigram([("<unk>", 0.0), ("h", -2.5), ("u", -1.9), ("g", -2.2), ("ug", -2.4)])
    assert "h ug | -4.900 | 84.6%" in lines(unigram.explain("hug"))


def test_trace_of_training():
    tokenizer = WordPiece.train(HUG, 100, special_tokens=["[UNK]"], criterion="score", trace=True,
                                min_frequency=1)
    first, second = tokenizer.trace.steps[:2]
    assert first.merge.piece == "##gs" and first.tied == 0 and first.n_changed == 1
    assert first.changed == [(["h", "##u", "##gs"], 5)]
    assert second.merge.piece == "pu" and second.tied == 5
    assert {f"{m.left} {m.right}" for m in second.runners_up} == {
        "##u ##n", "##u ##g", "h ##u", "b ##u", "##u ##gs"}
    text = lines(tokenizer.trace)
    assert text[3].startswith("1 | ##g + ##s = ##gs | 5 | 20 | 5 | 1/20 | 0 | 1: h ##u ##gs")
    assert "9 merges by score" in text
    nats = WordPiece.train(HUG, 100, criterion="likelihood", trace=True)
    assert "+28.018 nats" in str(nats.trace)
    assert WordPiece.train(HUG, 100).trace is None


def test_tracing_changes_nothing():
    for criterion in ("count", "score", "likelihood"):
        plain, traced = [WordPiece.train(HUG + ["shrug gun thug"] * 3, 40, criterion=criterion,
                                         trace=trace).tokens for trace in (False, True)]
        assert plain == traced


def test_ties_and_runners_up_are_counted_right():
    """Against the exact trainer's table of all scores, at every merge."""
    from tinyformer.text.merges import Learner, learn_naive
    from tinyformer.text.wordpiece import join, spell
    generator = random.Random(4)
    for criterion in ("count", "score"):
        words = {"".join(generator.choices("abc", k=generator.randint(2, 6))):
                 generator.randint(1, 4) for _ in range(12)}
        learner = Learner(words, spell, join, criterion, 1)
        for right in learn_naive(words, spell, join, criterion, 1):
            merge = learner.best()
            rivals, tied = learner.rivals(merge, 3)
            everything = [learner._merge(learner._key(pair)) for pair in learner.pairs]
            assert merge[:7] == right[:7]
            assert tied == sum(m.score == merge.score for m in everything) - 1
            ranked = sorted(everything, key=lambda m: (-m.score, -m.pair_count, m.left, m.right))
            assert rivals == ranked[1:4]
            learner.apply(merge)


def test_ancestry_of_a_trained_piece():
    tokenizer = WordPiece.train(HUG, 100, criterion="score", min_frequency=1)
    assert str(tokenizer.ancestry("hugs")) == (
        "hugs\n|-- hu\n|   |-- h\n|   `-- ##u\n`-- ##gs\n    |-- ##g\n    `-- ##s")
    with pytest.raises(ValueError, match="a vocab.txt does not hold them"):
        TOKENIZER.ancestry("abc")


def test_what_does_not_print_is_shown():
    assert visible("a\u0301\n\u2028é") == "a<U+0301><U+000A><U+2028>é"
    table = as_text([("table", ["x", "y"], [["漢字", "1"], ["a", "2"]])])
    assert table == "x     y\n漢字  1\na     2"


def test_the_page_holds_the_same():
    explanation = TOKENIZER.explain("naive <b>")
    text = page("Why <this>?", explanation.blocks())
    assert text.startswith("<!DOCTYPE html>") and "<b>" not in text and "Why &lt;this&gt;?" in text
    assert '<td class="hit">hit</td>' in text and '<td class="miss">miss</td>' in text
    assert '<span class="piece" title="na">na</span>' in text
    assert "http" not in text and "<script" not in text  # self-contained
    tree = page("t", TOKENIZER.train(HUG, 100).ancestry("hug").blocks())
    assert "<li>hug<ul><li>h</li><li>##ug<ul>" in tree
    with pytest.raises(ValueError, match="'sound': there are heading, text, table"):
        page("t", [("sound", "beep")])
