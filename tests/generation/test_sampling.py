"""Choosing the next token, and writing on from a prompt."""

from __future__ import annotations

import importlib.util
import math

import pytest

from tinyformer import functional as F
from tinyformer import manual_seed, set_default_dtype, tensor, use_backend
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.generation import choose, generate
from tinyformer.models import DecoderConfig, DecoderModel
from tinyformer.nn import Module

BACKENDS = ["python"] + (["numpy"] if importlib.util.find_spec("numpy") else [])
SCORES = [math.log(p) for p in (0.1, 0.4, 0.2, 0.3)]            # likeliest first: 1, 3, 2, 0


def model(seed=0, spread=0.5, **changed):
    """A small model with large enough weights to have opinions."""
    manual_seed(seed)
    sizes = {"vocab_size": 9, "max_len": 6, "d_model": 8, "n_layers": 1, "n_heads": 2,
             "dropout": 0.2}
    net = DecoderModel(DecoderConfig(**{**sizes, **changed}))
    for parameter in net.parameters():
        noise = xp.astype(stream.normal(parameter.shape) * spread, parameter.data.dtype)
        parameter.data = parameter.data + noise
    return net


def drawn(n=300, **settings):
    """What `n` choices from SCORES give, as a set."""
    manual_seed(0)
    return {choose(SCORES, **settings) for _ in range(n)}


class Scripted(Module):
    """A "model" that scores by a rule: the next id is the last one plus 1."""

    def __init__(self, max_len=None, vocab_size=10):
        self.positions = self
        self.max_len = max_len
        self.vocab_size = vocab_size
        self.seen = []

    def forward(self, ids):
        """(1, T) -> (1, T, V)."""
        self.seen.append(list(ids[0]))
        return tensor([[[float(token == (last + 1) % self.vocab_size)
                         for token in range(self.vocab_size)] for last in ids[0]]])


def test_temperature_0_is_the_first_of_the_largest_and_draws_nothing(backend):
    before = stream.state()
    assert choose([1.0, 3.0, 2.0, 3.0], temperature=0) == 1
    assert choose([1.0, 3.0, 2.0], temperature=0, top_k=1, top_p=0.1) == 1
    assert stream.state() == before


def test_one_draw_for_each_choice(backend):
    for settings in ({}, {"top_k": 2}, {"top_p": 0.5}, {"temperature": 3.0}):
        manual_seed(1)
        choose(SCORES, **settings)
        once = stream.state()
        manual_seed(1)
        stream.uniforms_list(1)
        assert stream.state() == once, settings


def test_frequencies_follow_the_probabilities(backend):
    manual_seed(0)
    counts = [0] * 4
    for _ in range(4000):
        counts[choose(SCORES)] += 1
    assert [count / 4000 for count in counts] == pytest.approx([0.1, 0.4, 0.2, 0.3], abs=0.03)


def test_temperature_sharpens_and_flattens(backend):
    for temperature, probability in ((0.5, 0.16 / 0.30), (2.0, None), (1e9, 0.25)):
        manual_seed(0)
        found = sum(choose(SCORES, temperature) == 1 for _ in range(3000)) / 3000
        if probability is None:
            roots = [math.sqrt(p) for p in (0.1, 0.4, 0.2, 0.3)]
            probability = roots[1] / sum(roots)
        assert found == pytest.approx(probability, abs=0.03), temperature
    assert drawn(temperature=1e-320) == {1}


@pytest.mark.parametrize("top_k, kept", [(1, {1}), (2, {1, 3}), (3, {1, 2, 3}), (4, {0, 1, 2, 3}),
                                         (0, {0, 1, 2, 3}), (1000, {0, 1, 2, 3})])
def test_top_k_keeps_k_and_0_is_off(backend, top_k, kept):
    assert drawn(top_k=top_k) == kept


def test_top_k_of_all_or_more_is_as_if_off(backend):
    for top_k in (4, 5, 10 ** 9):
        for seed in range(20):
            manual_seed(seed)
            off = choose(SCORES)
            manual_seed(seed)
            assert choose(SCORES, top_k=top_k) == off


@pytest.mark.parametrize("top_p, kept", [(1e-9, {1}), (0.39, {1}), (0.41, {1, 3}), (0.69, {1, 3}),
                                         (0.71, {1, 2, 3}), (0.91, {0, 1, 2, 3}),
                                         (1 - 1e-12, {0, 1, 2, 3}), (1.0, {0, 1, 2, 3})])
def test_top_p_keeps_the_fewest_that_reach_p(backend, top_p, kept):
    assert drawn(top_p=top_p) == kept


def test_top_p_that_is_reached_exactly_is_enough(backend):
    manual_seed(0)
    assert {choose([0.0] * 4, top_p=0.5) for _ in range(100)} == {0, 1}


def test_top_p_acts_on_what_top_k_left(backend):
    assert drawn(top_k=2, top_p=0.5) == {1}                     # 0.4 of 0.7 is enough
    assert drawn(top_k=2, top_p=0.6) == {1, 3}


def test_among_equal_scores_the_first_are_kept(backend):
    manual_seed(0)
    assert {choose([1.0, 1.0, 1.0], top_k=2) for _ in range(50)} == {0, 1}


def test_a_score_of_minus_infinity_is_never_chosen(backend):
    manual_seed(0)
    scores = [-math.inf, 0.0, -math.inf]
    for settings in ({}, {"temperature": 0}, {"top_k": 3}, {"top_p": 0.999}):
        assert {choose(scores, **settings) for _ in range(50)} == {1}


@pytest.mark.parametrize("scores, index, score", [
    ([0.0, math.nan, 1.0], 1, "nan"), ([math.nan, 0.0], 0, "nan"), ([0.0, math.inf], 1, "inf"),
    ([-math.inf, -math.inf], 0, "-inf"), ([math.inf, 0.0, math.nan], 2, "nan")])
@pytest.mark.parametrize("temperature", [0, 1.0])
def test_broken_scores_are_refused(backend, scores, index, score, temperature):
    with pytest.raises(ValueError, match=f"the score of token {index} is {score}. The model's"):
        choose(scores, temperature)


@pytest.mark.parametrize("settings, message", [
    ({"temperature": -0.1}, "temperature must be 0 .* or above, not -0.1"),
    ({"temperature": math.nan}, "temperature .* not nan"),
    ({"temperature": math.inf}, "temperature .* not inf"),
    ({"top_k": -1}, r"top_k must be 0 \(off\) or a number of tokens, not -1"),
    ({"top_p": 0}, r"top_p must lie in \(0, 1\], 1 being off, not 0"),
    ({"top_p": 1.1}, "top_p .* not 1.1"), ({"top_p": math.nan}, "top_p .* not nan")])
def test_settings_that_make_no_sense(backend, settings, message):
    for attempt in (lambda: choose([1.0, 2.0], **settings),
                    lambda: generate(Scripted(), [1], 0, **settings)):
        with pytest.raises(ValueError, match=message):
            attempt()


def test_greedy_is_the_argmax_of_the_teacher_forced_logits(backend):
    net = model(seed=3, max_len=12, tie_weights=False, spread=1.0)
    prompt = [3, 1, 4]
    new = generate(net, prompt, 9, temperature=0)
    assert len(new) == 9 and len(set(new)) > 2
    net.eval()
    logits = net([prompt + new]).tolist()[0]
    assert new == [row.index(max(row)) for row in logits[len(prompt) - 1:-1]]


def test_a_seed_decides_the_text_in_both_backends():
    texts = {}
    for name in BACKENDS * 2:
        with use_backend(name), set_default_dtype("float64"):
            net = model(max_len=20)
            for seed in (1, 2):
                manual_seed(seed)
                text = generate(net, [1], 19, top_k=7, top_p=0.95)
                assert texts.setdefault(seed, text) == text
    assert texts[1] != texts[2]


def test_the_prompt_is_left_alone_and_may_be_any_sequence(backend):
    prompt = [7, 8]
    assert generate(Scripted(), prompt, 3, temperature=0) == [9, 0, 1] and prompt == [7, 8]
    assert generate(Scripted(), (7, 8), 0) == []
    assert generate(Scripted(), range(3), 1, temperature=0) == [3]


def test_a_stop_id_ends_the_text_and_is_no_part_of_it(backend):
    assert generate(Scripted(), [1], 8, temperature=0, stop_ids=(5, 3)) == [2]
    assert generate(Scripted(), [1], 8, temperature=0, stop_ids={2}) == []
    assert generate(Scripted(), [3], 2, temperature=0, stop_ids=[3]) == [4, 5], \
        "one in the prompt stops nothing"


def test_an_empty_prompt_and_a_negative_number_are_refused(backend):
    for empty in ([], (), range(0)):
        with pytest.raises(ValueError, match="the prompt is empty: begin with the beginning-of-"):
            generate(Scripted(), empty, 3)
    with pytest.raises(ValueError, match="max_new_tokens must be 0 or above, not -1"):
        generate(Scripted(), [1], -1)


def test_the_last_position_is_used_and_what_is_beyond_is_refused_at_once(backend):
    net = model()                                               # 6 positions
    assert len(generate(net, [1, 2, 3], 4)) == 4
    scripted = Scripted(max_len=6)
    with pytest.raises(ValueError, match=r"a prompt of 3 tokens and 5 new ones need 7 positions, "
                                         r"the model has 6: ask for fewer, or slide the window"):
        generate(scripted, [1, 2, 3], 5)
    assert scripted.seen == [], "nothing was computed"


def test_sliding_forgets_the_oldest(backend):
    scripted = Scripted(max_len=3)
    assert generate(scripted, [1, 2], 4, temperature=0, slide=True) == [3, 4, 5, 6]
    assert scripted.seen == [[1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]
    assert len(generate(model(), [1] * 9, 5, slide=True)) == 5


def test_without_a_limit_of_positions_there_is_always_room(backend):
    scripted = Scripted()
    assert len(generate(scripted, [1], 50, temperature=0)) == 50
    assert len(scripted.seen[-1]) == 50


@pytest.mark.parametrize("training", [True, False])
def test_every_part_is_left_in_its_former_mode_even_on_error(backend, training):
    net = model().train(training)
    net.stack.train(not training)
    former = [module.training for _, module in net.named_modules()]
    before = stream.state()
    generate(net, [1, 2], 3, temperature=0)
    assert stream.state() == before, "no dropout was drawn"
    assert [module.training for _, module in net.named_modules()] == former
    for failing in (lambda: generate(net, [99], 3), lambda: generate(net, [], 3)):
        with pytest.raises((IndexError, ValueError)):
            failing()
        assert [module.training for _, module in net.named_modules()] == former


def test_no_graph_is_kept_and_recording_goes_on_afterwards(backend, monkeypatch):
    net, recorded = model(), []
    forward = DecoderModel.forward

    def watched(self, ids):
        logits = forward(self, ids)
        recorded.append(logits.requires_grad)
        return logits

    monkeypatch.setattr(DecoderModel, "forward", watched)
    generate(net, [1], 3)
    assert recorded == [False] * 3 and net([[1]]).requires_grad


def test_a_model_full_of_nan_is_refused(backend):
    net = model()
    net.stack.norm.bias.data = xp.asarray([math.nan] * 8)
    with pytest.raises(ValueError, match="no next token can be chosen: the score of token 0 is"):
        generate(net, [1], 3)
    assert net.training


def test_what_was_learned_is_written(backend):
    """Trained on one row, greedy writes that row: the shift between input and target is right."""
    from tinyformer.training.optimisers import AdamW
    net, row = model(dropout=0.0, spread=0.0), [1, 2, 3, 1, 4, 5, 6]
    optimiser = AdamW(net.named_parameters(), lr=0.03)
    for _ in range(60):
        optimiser.zero_grad()
        F.cross_entropy(net([row[:-1]])[0], tensor(row[1:])).backward()
        optimiser.step()
    assert generate(net, [1], 6, temperature=0) == row[1:]
