"""The n-gram floors against a table written out the slow way, and against values worked by hand."""
import math
import random
import time

import pytest

from tinyformer.training.floors import SMOOTHING, Floor, lowest, ngram_floors


def slow_loss(training, held_out, vocab_size, order, a):
    """-log p of each held-out token from the third on, straight from the formula."""
    losses = []
    for place in range(2, len(held_out)):
        gram = held_out[place - order + 1:place + 1]
        starts = range(len(training) - order + 1)
        both = sum(training[s:s + order] == gram for s in starts)
        history = sum(training[s:s + order - 1] == gram[:-1] for s in starts)
        losses.append(-math.log((both + a) / (history + a * vocab_size)))
    return sum(losses) / len(losses)


def test_every_floor_is_the_best_of_its_grid_by_the_formula():
    draw = random.Random(3)
    training = [draw.choice([0, 1, 1, 2, draw.randrange(6)]) for _ in range(120)]
    held_out = [draw.choice([0, 1, 2, draw.randrange(7)]) for _ in range(40)]
    floors = ngram_floors(training, held_out, 7)
    assert [floor.name for floor in floors] == ["uniform", "unigram", "bigram", "trigram"]
    assert floors[0].nats == math.log(7)
    for order in (1, 2, 3):
        tried = {a: slow_loss(training, held_out, 7, order, a) for a in SMOOTHING}
        assert floors[order].nats == pytest.approx(min(tried.values()), rel=1e-12)
        assert tried[floors[order].smoothing] == min(tried.values())


def test_by_hand():
    """Training 0 1 0 1 0 1; held out 0 1 0: the only token predicted is the 0 after (0, 1)."""
    floors = {floor.name: floor for floor in ngram_floors([0, 1] * 3, [0, 1, 0], 2)}
    a = min(SMOOTHING)
    assert floors["unigram"].nats == pytest.approx(math.log(2))     # 3 of 6, whatever a is
    assert floors["bigram"].nats == pytest.approx(-math.log((2 + a) / (2 + 2 * a)))   # 1 0, twice
    assert floors["trigram"].nats == pytest.approx(-math.log((2 + a) / (2 + 2 * a)))
    assert lowest(list(floors.values())).nats < 1e-4


def test_a_token_never_seen_costs_no_more_than_uniform_allows():
    """With the largest constant of the grid the unseen is finite, and the best is taken."""
    floors = ngram_floors([0] * 50, [1] * 10, 4)
    assert all(math.isfinite(floor.nats) for floor in floors)
    assert floors[3].nats == pytest.approx(math.log(4))      # no history is known: uniform


def test_the_floor_in_words():
    assert str(Floor("bigram", 3.217, 0.1)) == "bigram 3.22"
    assert lowest([Floor("a", 2.0), Floor("b", 1.0), Floor("c", 3.0)]).name == "b"


@pytest.mark.parametrize("training, held_out, words", [
    ([1, 2], [1, 2, 3], "training text has 2 tokens"),
    ([1, 2, 3], [1], "held-out text has 1 tokens"),
    ([1, 2, 9], [1, 2, 3], r"training text has ids from 1 to 9, the vocabulary only 0 to 8"),
    ([1, 2, 3], [-1, 2, 3], r"held-out text has ids from -1 to 3"),
])
def test_bad_input_is_refused(training, held_out, words):
    with pytest.raises(ValueError, match=words):
        ngram_floors(training, held_out, 9)


def test_two_hundred_thousand_tokens_take_seconds_not_minutes():
    draw = random.Random(0)
    ids = [min(8191, int(draw.paretovariate(1))) for _ in range(200_000)]
    start = time.process_time()
    ngram_floors(ids[:180_000], ids[180_000:], 8192)
    assert time.process_time() - start < 10


def test_longer_tables_predict_what_the_longest_can():
    """0 1 2 0 1 3 again and again: two tokens back are not enough, three are."""
    text = [0, 1, 2, 0, 1, 3] * 50
    floors = ngram_floors(text, text[:60], 4, longest=5)
    assert [floor.name for floor in floors] == ["uniform", "unigram", "bigram", "trigram", "4-gram",
                                                "5-gram"]
    assert floors[3].nats > 0.2 and floors[4].nats < 1e-3
    assert ngram_floors(text, text[:60], 4) == ngram_floors(text, text[:60], 4, longest=1)
    with pytest.raises(ValueError, match="held-out text has 4 tokens, a 5-gram needs 5"):
        ngram_floors(text, text[:4], 4, longest=5)
