"""Many texts at once: each row is what it would be alone, and ends by itself."""

from __future__ import annotations

import pytest

from tinyformer import manual_seed, set_default_dtype, tensor
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.generation import generate
from tinyformer.generation.scoring import Plain
from tinyformer.models import POSITIONS
from tinyformer.nn import Module

PROMPTS = [[1, 2, 3], [5], [6, 6, 6, 6, 1, 2], [4, 0]]
SOURCES = [[3, 4], [1], [2, 2, 2, 5, 6], [6, 1, 0]]
LETTERS = "abcdefghij"


class Counting(Module):
    """A "model" whose next id is the last one plus 1, of 10."""

    def __init__(self):
        self.positions = self
        self.max_len = None
        self.rows = []

    def forward(self, ids):
        """(B, T) -> (B, T, V)."""
        self.rows.append(len(ids))
        return tensor([[[float(token == (last + 1) % 10) for token in range(10)] for last in row]
                       for row in ids])


def spelt(ids):
    """The text of ids, a letter each."""
    return "".join(LETTERS[i] for i in ids)


@pytest.mark.parametrize("positions", POSITIONS)
def test_greedy_rows_of_unequal_prompts_equal_their_single_runs(positions, decoder, backend):
    with set_default_dtype("float64"):
        net = decoder(positions)
        together = generate(net, PROMPTS, 6, temperature=0)
        assert together == [generate(net, prompt, 6, temperature=0) for prompt in PROMPTS]
        assert together == [generate(net, prompt, 6, temperature=0, use_cache=False)
                            for prompt in PROMPTS]


def test_greedy_rows_in_float32(decoder, backend):
    net = decoder()
    assert generate(net, PROMPTS, 6, temperature=0) == [generate(net, prompt, 6, temperature=0)
                                                        for prompt in PROMPTS]


@pytest.mark.parametrize("settings", [{}, {"top_k": 3, "temperature": 1.5, "top_p": 0.9}])
def test_a_seed_per_row_makes_sampled_rows_equal_their_single_runs(settings, decoder, backend):
    with set_default_dtype("float64"):
        net, seeds = decoder(), [7, 8, 9, 7]
        before = stream.state()
        together = generate(net, PROMPTS, 9, seeds=seeds, **settings)
        assert stream.state() == before, "the package's stream is left alone"
        for prompt, seed, row in zip(PROMPTS, seeds, together):
            assert generate(net, prompt, 9, seeds=[seed], **settings) == row
            manual_seed(seed)
            assert generate(net, prompt, 9, **settings) == row


def test_without_seeds_the_rows_draw_in_turn(decoder, backend):
    net = decoder()
    manual_seed(3)
    first = generate(net, PROMPTS, 5)
    after = stream.state()
    manual_seed(3)
    assert generate(net, PROMPTS, 5) == first
    manual_seed(3)
    stream.uniforms_list(len(PROMPTS) * 5)
    assert stream.state() == after


@pytest.mark.parametrize("positions", ["learned", "relative"])
def test_each_source_gets_what_it_gets_alone(positions, translator, backend):
    with set_default_dtype("float64"):
        net = translator(positions)
        together = generate(net, [1], 6, temperature=0, source=SOURCES)
        for source, row in zip(SOURCES, together):
            assert generate(net, [1], 6, temperature=0, source=source) == row
            assert generate(net, [1], 6, temperature=0, source=source, use_cache=False) == row
        first = [tuple(row) for row in Plain(net.eval(), SOURCES)([[1]] * len(SOURCES))]
        assert len(set(first)) == len(SOURCES), "the source matters"
        prompts = [prompt[:3] for prompt in PROMPTS]
        assert generate(net, prompts, 6, temperature=0, source=SOURCES) == [
            generate(net, prompt, 6, temperature=0, source=source)
            for prompt, source in zip(prompts, SOURCES)]


def test_greedy_translation_is_the_argmax_of_the_teacher_forced_logits(translator, backend):
    net = translator()
    new = generate(net, [1], 8, temperature=0, source=SOURCES[2])
    net.eval()
    logits = net([SOURCES[2]], [[1] + new]).tolist()[0]
    assert new == [row.index(max(row)) for row in logits[:-1]]


def test_each_row_stops_at_its_own_end_and_is_computed_no_longer(backend):
    model = Counting()
    prompts = [[1], [7], [3], [4, 4]]
    assert generate(model, prompts, 5, temperature=0, stop_ids={9, 4}) == [
        [2, 3], [8], [], [5, 6, 7, 8]]
    assert len(model.rows) == 4 + 3 + 2 + 1 + 1, "ended after 3, 2, 1 and 5 tokens"


def test_stopped_rows_do_not_disturb_those_that_go_on(decoder, backend):
    with set_default_dtype("float64"):
        net = decoder("relative")
        for use_cache in (True, False):
            together = generate(net, PROMPTS, 9, seeds=[1, 2, 3, 4], stop_ids={0, 3},
                                use_cache=use_cache)
            assert together == [generate(net, prompt, 9, seeds=[seed], stop_ids={0, 3})
                                for prompt, seed in zip(PROMPTS, (1, 2, 3, 4))]
        assert len({len(row) for row in together}) > 1, "they end at different places"


@pytest.mark.parametrize("strings, texts", [
    (["e"], ["cd", "fghija", "jabcd"]), (["ef"], ["cd", "fghija", "jabcde"]),
    (["de", "j"], ["c", "fghi", ""]), ("de", ["c", "fghija", "jabc"]),
    (["zz"], ["cdefgh", "fghija", "jabcde"]), ([], ["cdefgh", "fghija", "jabcde"])])
def test_stop_strings_per_row(strings, texts, backend):
    found = generate(Counting(), [[1], [4], [8]], 6, temperature=0, stop_strings=strings,
                     decode=spelt)
    assert [spelt(row) for row in found] == texts


def test_text_after_a_stop_is_never_returned_even_within_a_token(backend):
    pieces = ["", "so ", "it ", "ends.\n\nAnd ", "more", "x", "x", "x", "x", "x"]

    def decode(ids):
        return "".join(pieces[i] for i in ids)

    found = generate(Counting(), [0], 6, temperature=0, stop_strings=["\n\n"], decode=decode)
    assert decode(found) == "so it "
    found = generate(Counting(), [0], 6, temperature=0, stop_strings=["it ends"], decode=decode)
    assert decode(found) == "so ", "the stop string began in the token before"
    found = generate(Counting(), [0], 6, temperature=0, stop_strings=["o it", "so"], decode=decode)
    assert found == []


def test_what_the_prompt_holds_stops_nothing(backend):
    assert generate(Counting(), [4, 5, 6], 2, temperature=0, stop_strings=["fg"],
                    decode=spelt) == [7, 8]


def test_a_prompt_in_a_list_gives_a_list(backend):
    assert generate(Counting(), [3], 2, temperature=0) == [4, 5]
    assert generate(Counting(), [[3]], 2, temperature=0) == [[4, 5]]
    assert generate(Counting(), ((3,), range(3)), 2, temperature=0) == [[4, 5], [3, 4]]
    assert generate(Counting(), [[1, 2], [3]], 0) == [[], []]
    for make in (xp.asarray, tensor):
        assert generate(Counting(), make([[3, 4], [7, 8]]), 2, temperature=0) == [[5, 6], [9, 0]]
        assert generate(Counting(), make([3, 4]), 1, temperature=0) == [5]


@pytest.mark.parametrize("prompt, options, message", [
    ([[1], []], {}, "prompt 1 is empty: begin with the beginning-of-text token"),
    ([[1], [2]], {"seeds": [1]}, "1 seeds were given for 2 prompts"),
    ([1], {"seeds": [1, 2]}, "2 seeds were given for 1 prompts"),
    ([1], {"stop_strings": ["a"]}, "stop strings need decode"),
    ([1], {"stop_strings": ["a", ""], "decode": spelt}, "an empty stop string would end every")])
def test_what_makes_no_sense_is_refused(prompt, options, message, backend):
    with pytest.raises(ValueError, match=message):
        generate(Counting(), prompt, 2, **options)


@pytest.mark.parametrize("prompt, source, message", [
    ([[1], [2]], [[1], [2], [3]], "2 prompts do not go together with 3 sources"),
    ([[1]], [1, 2], "1 prompts do not go together with 1 sources: give one prompt for all"),
    ([1], [[1], []], "source 1 is empty"), ([1], [], "the source is empty"),
    ([], [[1]], "the prompt is empty")])
def test_sources_and_prompts_that_do_not_go_together(prompt, source, message, translator, backend):
    with pytest.raises(ValueError, match=message):
        generate(translator(), prompt, 2, source=source)


def test_the_longest_prompt_must_leave_room(decoder, backend):
    net = decoder(max_len=6)
    assert [len(row) for row in generate(net, [[1], [1, 2, 3]], 4)] == [4, 4]
    with pytest.raises(ValueError, match="a prompt of 4 tokens and 4 new ones need 7 positions"):
        generate(net, [[1], [1, 2, 3, 4]], 4)
