"""Beam search against the greedy choice at one end and the best of all texts at the other."""

from __future__ import annotations

import itertools
import math

import pytest

from tinyformer import functional as F
from tinyformer import no_grad, set_default_dtype, tensor
from tinyformer.generation import beam_search, generate
from tinyformer.nn import Module

END = 2
PROMPTS = [[1, 2, 3], [5], [4, 0]]
SOURCES = [[1, 0, 1], [1], [0, 0, 1, 2]]
PENALTIES = [0.0, 0.6, 1.0, 3.0, -1.0]


class Table(Module):
    """A "model" whose probabilities are written down: what follows each text, and the others."""

    def __init__(self, following, others=(1 / 3, 1 / 3, 1 / 3)):
        self.positions, self.max_len = self, None
        self.following, self.others = following, others

    def forward(self, ids):
        """(1, T) -> (1, T, V)."""
        rows = [[self.following.get(tuple(row[1:end]), self.others)
                 for end in range(1, len(row) + 1)] for row in ids]
        return tensor([[[math.log(p) if p else -math.inf for p in each] for each in row]
                       for row in rows])


def every_text(vocabulary, end_id, longest):
    """All that can be written: up to `longest` tokens and the end token."""
    others = [token for token in range(vocabulary) if token != end_id]
    for length in range(longest + 1):
        for text in itertools.product(others, repeat=length):
            yield list(text) + [end_id]


def exhaustive(net, prompt, end_id, longest, penalty, source=None):
    """All texts with their score, by teacher forcing, the best first."""
    net.eval()
    found = []
    with no_grad():
        for text in every_text(net.config.vocab_size, end_id, longest):
            ids = prompt + text[:-1]
            logits = net([ids]) if source is None else net([source], [ids])
            logs = F.log_softmax(logits).tolist()[0][len(prompt) - 1:]
            total = math.fsum(row[token] for row, token in zip(logs, text))
            found.append((total / ((5 + len(text)) / 6) ** penalty, total, text))
    return sorted(found, key=lambda each: -each[0])


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_beam_as_wide_as_all_texts_equals_exhaustive_search(penalty, decoder, backend):
    with set_default_dtype("float64"):
        for seed in range(2):
            net = decoder(seed=seed, vocab_size=3, spread=1.0, max_len=6)
            found = beam_search(net, [1, 0], 3, end_id=END, width=27, length_penalty=penalty)
            right = exhaustive(net, [1, 0], END, 3, penalty)
            assert len(found) == len(right) == 15
            for hypothesis, (score, total, text) in zip(found, right):
                assert hypothesis.score == pytest.approx(score, abs=1e-10)
                assert hypothesis.log_probability == pytest.approx(total, abs=1e-10)
                assert hypothesis.ids == text
            if penalty == 0:
                assert math.fsum(math.exp(each.log_probability) for each in found) < 1


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_exhaustive_for_the_encoder_decoder(penalty, translator, backend):
    with set_default_dtype("float64"):
        net = translator(vocab_size=3, spread=1.0)
        found = beam_search(net, [1], 2, end_id=END, width=9, length_penalty=penalty,
                            source=SOURCES)
        for source, hypotheses in zip(SOURCES, found):
            right = exhaustive(net, [1], END, 2, penalty, source)
            assert [each.ids for each in hypotheses] == [text for _, _, text in right]
            assert [each.score for each in hypotheses] == pytest.approx(
                [score for score, _, _ in right], abs=1e-10)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_no_narrower_beam_scores_higher_than_the_exhaustive_one(penalty, decoder, backend):
    with set_default_dtype("float64"):
        means = [0.0] * 4
        for seed in range(4):
            net = decoder(seed=seed, vocab_size=3, spread=1.5)
            best = [beam_search(net, [1], 3, end_id=END, width=width,
                                length_penalty=penalty)[0].score for width in (1, 2, 4, 27)]
            assert all(score <= best[-1] + 1e-12 for score in best)
            means = [mean + score for mean, score in zip(means, best)]
        assert all(one <= other + 1e-12 for one, other in zip(means, means[1:])), "on average"


@pytest.mark.parametrize("penalty", PENALTIES)
def test_wider_never_scores_lower_where_one_choice_is_pruned(penalty, decoder, backend):
    """With one token before the end, what a narrow beam keeps is part of what a wider one keeps."""
    with set_default_dtype("float64"):
        for seed in range(4):
            net = decoder(seed=seed, spread=1.5)
            best = [beam_search(net, [1], 1, end_id=END, width=width,
                                length_penalty=penalty)[0].score for width in range(1, 8)]
            assert all(one <= other + 1e-12 for one, other in zip(best, best[1:]))


@pytest.mark.parametrize("positions, penalty", [("learned", 0.0), ("relative", 0.6), ("t5", -2.0)])
def test_beam_1_is_greedy(positions, penalty, decoder, backend):
    with set_default_dtype("float64"):
        net = decoder(positions)
        for prompt in PROMPTS:
            for end_id in (3, 6):
                greedy = generate(net, prompt, 6, temperature=0, stop_ids={end_id})
                found = beam_search(net, prompt, 6, end_id=end_id, width=1, length_penalty=penalty)
                assert [each.ids for each in found] == [greedy + [end_id]]


def test_beam_1_is_greedy_for_the_encoder_decoder(translator, backend):
    net = translator()
    for end_id in range(4):
        greedy = generate(net, [1], 5, temperature=0, stop_ids={end_id}, source=SOURCES)
        found = beam_search(net, [1], 5, end_id=end_id, width=1, source=SOURCES)
        assert [beam[0].ids for beam in found] == [text + [end_id] for text in greedy]


@pytest.mark.parametrize("width", [1, 2, 7])
def test_many_prompts_are_as_many_separate_beams(width, decoder, translator, backend):
    with set_default_dtype("float64"):
        net = decoder("relative")
        together = beam_search(net, PROMPTS, 5, end_id=END, width=width)
        assert len({beam[0].score for beam in together}) == len(PROMPTS)
        for prompt, beam in zip(PROMPTS, together):
            same(beam, beam_search(net, prompt, 5, end_id=END, width=width))
        net = translator()
        together = beam_search(net, [1], 5, end_id=END, width=width, source=SOURCES)
        for source, beam in zip(SOURCES, together):
            same(beam, beam_search(net, [1], 5, end_id=END, width=width, source=source))


def same(beam, other):
    """Two lists of hypotheses are equal, their numbers to rounding."""
    assert [each.ids for each in beam] == [each.ids for each in other]
    assert [each.score for each in beam] == pytest.approx([each.score for each in other], abs=1e-9)


@pytest.mark.parametrize("positions", ["learned", "relative", "rotary", "t5", "disentangled"])
def test_the_cache_changes_nothing(positions, decoder, translator, backend):
    with set_default_dtype("float64"):
        for net, options in ((decoder(positions), {}),
                             (translator(positions), {"source": SOURCES})):
            for_all = [beam_search(net, PROMPTS, 4, end_id=END, width=3, use_cache=use_cache,
                                   **options) for use_cache in (True, False)]
            for beam, other in zip(*for_all):
                same(beam, other)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_each_hypothesis_has_exactly_one_end_token_at_its_end(width, decoder, backend):
    for end_id in (0, 3, 6):
        for longest in (0, 1, 3):
            for beam in beam_search(decoder(), PROMPTS, longest, end_id=end_id,
                                    width=width):
                assert 1 <= len(beam) <= width
                for ids, log_probability, score in beam:
                    assert ids[-1] == end_id and ids.count(end_id) == 1 and len(ids) <= longest + 1
                    assert log_probability < 0
                    assert score == pytest.approx(
                        log_probability / ((5 + len(ids)) / 6) ** 0.6, rel=1e-12)
                assert [each.score for each in beam] == sorted((each.score for each in beam),
                                                               reverse=True)
                assert len({tuple(each.ids) for each in beam}) == len(beam)


def test_by_hand_the_greedy_choice_misses_the_likelier_text(backend):
    """0.5 x 0.4 x 0.4 along the greedy way, 0.4 x 0.9 x 0.9 beside it."""
    model = Table({(): [0.5, 0.4, 0.1], (0,): [0.35, 0.25, 0.4], (1,): [0.9, 0.05, 0.05],
                   (1, 0): [0.05, 0.05, 0.9]})
    with set_default_dtype("float64"):
        greedy, = beam_search(model, [0], 5, end_id=END, width=1, length_penalty=0)
        assert greedy.ids == [0, 2] and math.exp(greedy.score) == pytest.approx(0.2)
        best = beam_search(model, [0], 5, end_id=END, width=2, length_penalty=0)
        assert best[0].ids == [1, 0, 2] and math.exp(best[0].score) == pytest.approx(0.324)


def test_finished_hypotheses_are_kept_and_a_better_long_one_is_waited_for(backend):
    """The short texts end first, with higher probability; the penalty prefers the long one."""
    model = Table({(): [0.5, 0.05, 0.45], (0,): [0.55, 0.05, 0.4], (0, 0): [0.9, 0.05, 0.05],
                   (0, 0, 0): [0.05, 0.05, 0.9]})
    with set_default_dtype("float64"):
        short = beam_search(model, [0], 6, end_id=END, width=2, length_penalty=0)
        assert [each.ids for each in short][0] == [2]
        long = beam_search(model, [0], 6, end_id=END, width=2, length_penalty=3.0)
        assert long[0].ids == [0, 0, 0, 2]
        assert long[1].ids == [2], "what ended at once is still there"
        assert math.exp(long[0].log_probability) == pytest.approx(0.5 * 0.55 * 0.9 * 0.9)


def test_a_beginning_is_kept_while_any_length_could_still_lift_it(backend):
    """The next token alone would not make it better than what is finished; eight more do."""
    sure = {(0,) * length: [0.999, 0.0005, 0.0005] for length in range(2, 9)}
    model = Table({(): [0.3, 0.1, 0.6], (0,): [0.45, 0.05, 0.5], **sure,
                   (0,) * 9: [0.0005, 0.0005, 0.999]})
    with set_default_dtype("float64"):
        found = beam_search(model, [0], 20, end_id=END, width=2, length_penalty=0.2)
        assert [each.ids for each in found] == [[2], [0] * 9 + [2]]
        assert found[1].score > math.log(0.15) / (7 / 6) ** 0.2 > math.log(0.135) / (8 / 6) ** 0.2


def test_a_search_ends_when_nothing_can_still_win(backend):
    calls = []

    class Counted(Table):
        def forward(self, ids):
            calls.append(ids)
            return super().forward(ids)

    model = Counted({(): [0.04, 0.06, 0.9]}, (0.3, 0.2, 0.5))
    beam_search(model, [0], 50, end_id=END, width=1, length_penalty=0)
    assert len(calls) == 1
    del calls[:]
    found = beam_search(model, [0], 50, end_id=END, width=2, length_penalty=0)
    assert found[0].ids == [2] and len(calls) < 10
    assert found == beam_search(model, [0], 9, end_id=END, width=2, length_penalty=0)


def test_impossible_tokens_are_never_written(backend):
    model = Table({(): [0, 1, 0], (1,): [0.5, 0, 0.5], (1, 0): [0, 0, 1]})
    found = beam_search(model, [0], 4, end_id=END, width=9)
    assert {tuple(each.ids) for each in found} == {(1, 2), (1, 0, 2)}


@pytest.mark.parametrize("options, message", [
    ({"width": 0}, r"a beam is at least 1 wide \(1 is the greedy choice\), not 0"),
    ({"width": -2}, "not -2"), ({"width": 1.5}, "not 1.5"), ({"width": True}, "not True"),
    ({"length_penalty": math.nan}, "length_penalty must be a finite number, not nan"),
    ({"end_id": 3}, "the end token 3 is outside the 3 tokens that the model scores"),
    ({"end_id": -1}, "the end token -1 is outside"),
    ({"prompt": []}, "the prompt is empty"), ({"prompt": [[1], []]}, "prompt 1 is empty"),
    ({"max_new_tokens": -1}, "max_new_tokens must be 0 or above, not -1")])
def test_what_makes_no_sense_is_refused(options, message, backend):
    sound = {"prompt": [1], "max_new_tokens": 2, "end_id": 2}
    with pytest.raises(ValueError, match=message):
        beam_search(Table({}), **{**sound, **options})


def test_a_prompt_that_leaves_no_room_is_refused_and_the_last_position_is_used(decoder, backend):
    net = decoder(max_len=5)
    assert beam_search(net, [1, 2], 3, end_id=END)
    with pytest.raises(ValueError, match="a prompt of 2 tokens and 4 new ones need 6 positions"):
        beam_search(net, [1, 2], 4, end_id=END)


def test_a_model_full_of_nan_is_refused_and_modes_stay(decoder, backend):
    net = decoder()
    assert net.training
    beam_search(net, [1], 2, end_id=END)
    assert net.training
    net.stack.norm.bias.data = net.stack.norm.bias.data * math.nan
    with pytest.raises(ValueError, match="no next token can be chosen"):
        beam_search(net, [1], 2, end_id=END)
