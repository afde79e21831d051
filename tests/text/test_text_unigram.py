"""The unigram model: every sweep against brute force over all segmentations."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from itertools import combinations

import pytest

from tinyformer.text import Unigram
from tinyformer.text.unigram_training import Model, learn_pieces, log_shares

PIECES = [("<unk>", 0.0), ("h", -2.5), ("u", -1.9), ("g", -2.2), ("n", -2.6), ("p", -2.5),
          ("b", -4.0), ("s", -3.7), ("ug", -2.4), ("un", -2.6), ("hug", -3.1), ("pu", -2.9)]


def segmentations(word, scores):
    """Every way to cut the word into known pieces, with its score; best first."""
    found = []
    for n in range(len(word)):
        for cuts in combinations(range(1, len(word)), n):
            bounds = [0, *cuts, len(word)]
            pieces = [word[a:b] for a, b in zip(bounds, bounds[1:])]
            if all(piece in scores for piece in pieces):
                found.append((sum(scores[piece] for piece in pieces), pieces))
    return sorted(found, reverse=True)


def random_models(n):
    generator = random.Random(6)
    for _ in range(n):
        pieces = set("abc") | {"".join(generator.choices("abc", k=generator.randint(2, 4)))
                               for _ in range(8)}
        scores = {piece: -generator.uniform(0.1, 6) for piece in sorted(pieces)}
        word = "".join(generator.choices("abc", k=generator.randint(1, 9)))
        yield Unigram([("<unk>", 0.0), *scores.items()]), scores, word


def test_viterbi_and_nbest_equal_brute_force():
    for unigram, scores, word in random_models(100):
        every = segmentations(word, scores)
        tokens = unigram.encode(word).tokens
        assert sum(scores[token] for token in tokens) == pytest.approx(every[0][0])
        best = unigram.nbest(word, 5)
        assert [score for score, _ in best] == pytest.approx([score for score, _ in every[:5]])
        assert len({tuple(tokens) for _, tokens in best}) == len(best)  # no two alike
        for score, tokens in best:
            assert sum(scores[token] for token in tokens) == pytest.approx(score)


def test_expectations_equal_brute_force():
    for unigram, scores, word in random_models(60):
        every = segmentations(word, scores)
        whole = sum(math.exp(score) for score, _ in every)
        right = Counter()
        for score, pieces in every:
            for piece in pieces:
                right[piece] += math.exp(score) / whole
        lattice = unigram.lattice(word)
        log_probability, shares = lattice.expected()
        ours = Counter()
        for (_, _, piece), share in zip(lattice.arcs, shares):
            ours[unigram.tokens[piece]] += share
        assert log_probability == pytest.approx(math.log(whole))
        assert {p: n for p, n in ours.items() if n} == pytest.approx(dict(right))


def test_sampling_has_the_right_shares():
    unigram, scores = Unigram(PIECES), dict(PIECES[1:])
    every = segmentations("hugs", scores)
    for theta in (0.0, 0.5, 1.0):
        weights = [math.exp(theta * score) for score, _ in every]
        generator = random.Random(8)
        drawn = Counter(tuple(unigram.sample_ids("hugs", generator, theta)) for _ in range(4000))
        for weight, (_, pieces) in zip(weights, every):
            share = drawn[tuple(unigram.vocab[piece] for piece in pieces)] / 4000
            assert share == pytest.approx(weight / sum(weights), abs=0.03)
        assert sum(drawn.values()) == 4000 and len(drawn) == len(every)


def test_ties_take_the_longest_last_piece():
    """As `tokenizers` and SentencePiece do: n o oo oo."""
    unigram = Unigram([("<unk>", 0.0), ("n", -1.0), ("o", -2.0), ("oo", -2.0)])
    assert unigram.encode("nooooo").tokens == ["n", "o", "oo", "oo"]


def test_unknown_characters():
    unigram = Unigram(PIECES)
    encoding = unigram.encode("hugxxs x")
    assert encoding.tokens == ["hug", "xx", "s", "x"] and encoding.ids == [10, 0, 7, 0]
    assert encoding.offsets == [(0, 3), (3, 5), (5, 6), (7, 8)]
    assert unigram.encode("ok\ud800").tokens == ["ok"]


def corpus():
    generator = random.Random(12)
    stems, ends = ["hug", "walk", "talk", "jump", "read"], ["", "s", "ing", "ed", "er"]
    return Counter(generator.choice(stems) + generator.choice(ends) for _ in range(400))


def test_em_equals_its_definition_and_never_falls():
    words = corpus()
    pieces = sorted({word[a:b] for word in words for a in range(len(word))
                     for b in range(a + 1, len(word) + 1)})
    generator = random.Random(13)
    model = Model(words, pieces, log_shares(pieces, [generator.uniform(1, 9) for _ in pieces]))
    before = -math.inf
    for _ in range(12):
        right, likelihood = Counter(), 0.0
        for word, n in words.items():
            every = segmentations(word, dict(zip(model.pieces, model.scores)))
            whole = sum(math.exp(score) for score, _ in every)
            likelihood += n * math.log(whole)
            for score, cut in every:
                for piece in cut:
                    right[piece] += n * math.exp(score) / whole
        assert model.em_step() == pytest.approx(likelihood)
        assert likelihood >= before - 1e-6
        before = likelihood
        total = sum(right.values())
        for piece, score in zip(model.pieces, model.scores):
            assert math.exp(score) == pytest.approx(right[piece] / total, abs=1e-8)


def test_training_finds_stems_and_endings():
    learnt = learn_pieces(corpus(), 40)
    assert len(learnt) == 40
    names = [piece for piece, _ in learnt]
    assert {"walk", "talk", "jump", "hug"} <= set(names)
    assert set("hugwalktjumpreadisn") <= set(names)
    assert sum(math.exp(score) for _, score in learnt) == pytest.approx(1, abs=1e-6)
    assert [score for _, score in learnt] == sorted((s for _, s in learnt), reverse=True)
    shuffled = list(corpus().items())
    random.Random(1).shuffle(shuffled)
    assert [piece for piece, _ in learn_pieces(dict(shuffled), 40)] == names


def test_words_with_markers():
    text = "the cat sat on the mat the cat ran " * 5
    unigram = Unigram.train(text, 30, special_tokens=["[SEP]"])
    encoding = unigram.encode("the cat[SEP] mat")
    assert unigram.tokens[:2] == ["<unk>", "[SEP]"] and "[SEP]" in encoding.tokens
    assert "".join(encoding.tokens) == "▁the▁cat[SEP]▁mat"
    slices = ["the cat[SEP] mat"[start:end] for start, end in encoding.offsets]
    assert "".join(slices) == "thecat[SEP]mat"
    assert encoding.word_ids[0] == 0 and encoding.word_ids[-1] == 3
    assert unigram.decode(unigram.encode_ids("the  cat ran")) == "the cat ran"


def test_bytes_stand_in_for_unknown_characters():
    pieces = [("<unk>", 0.0), ("a", -1.0)] + [(f"<0x{byte:02X}>", -10.0) for byte in range(256)]
    unigram = Unigram(pieces, byte_fallback=True)
    assert unigram.encode("aé€").offsets == [(0, 1), (1, 2), (1, 2), (2, 3), (2, 3), (2, 3)]
    assert unigram.decode(unigram.encode_ids("aé€")) == "aé€"
    assert unigram.encode("<0x41>").ids[0] != unigram.vocab["<0x41>"]


def test_files_and_settings(tmp_path):
    unigram = Unigram.train("the cat sat on the mat " * 3, 20)
    unigram.save(tmp_path / "pieces.tsv")
    settings = json.loads(json.dumps(unigram.settings()))
    copy = Unigram.from_file(tmp_path / "pieces.tsv", **settings)
    assert copy.tokens == unigram.tokens and copy.scores == unigram.scores
    assert copy.encode("that cat") == unigram.encode("that cat")
    (tmp_path / "bad.tsv").write_text("a\t-1\nb\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 2: 'b' is not a piece, a tab and a number"):
        Unigram.from_file(tmp_path / "bad.tsv")


@pytest.mark.parametrize("size, error, message", [
    (5, ValueError, "4 pieces are below the 6 characters"), ("x", TypeError, "whole number")])
def test_impossible_sizes(size, error, message):
    with pytest.raises(error, match=message):
        Unigram.train("abcde " * 3, size)
    with pytest.raises(ValueError, match="unk_id 3 is outside"):
        Unigram([("a", -1.0)], unk_id=3)
