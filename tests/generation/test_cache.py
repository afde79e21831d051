"""The cache against its oracle, which computes every text by itself and from its beginning."""

from __future__ import annotations

import pytest

from tinyformer import manual_seed, no_grad, set_default_dtype
from tinyformer.arrays import backend_name
from tinyformer.generation import generate, scoring
from tinyformer.generation.scoring import Cached, Plain, scorer
from tinyformer.models import POSITIONS
from tinyformer.nn import Cache

TEXTS = [[1, 2, 3, 4], [5], [6, 0, 6]]
SOURCES = [[1, 2], [3, 4, 5, 6, 1], [2]]


@pytest.fixture(params=["float32", "float64"])
def tolerance(request, backend):
    """What equal means in the dtype in use."""
    if request.param == "float32" and backend_name() == "python":
        pytest.skip("pure Python computes in float64")
    with set_default_dtype(request.param):
        yield {"float32": 1e-5, "float64": 1e-10}[request.param]


def apart(one, other):
    """The largest difference of two tables, relative to the largest number."""
    size = max(abs(x) for row in one for x in row)
    return max(abs(x - y) for p, q in zip(one, other) for x, y in zip(p, q)) / max(size, 1.0)


def grown(texts, step):
    """The texts, each with another token behind it."""
    return [text + [(3 * row + step) % 7] for row, text in enumerate(texts)]


def check(model, sources, tolerance, steps=4):
    """Both ways over growing texts, of which some go, some stay twice and all change places."""
    texts = TEXTS
    model.eval()
    with no_grad():
        both = Plain(model, sources), Cached(model, sources)
        for step in range(steps):
            plain, cached = (scores(texts) for scores in both)
            assert apart(plain, cached) < tolerance
            assert both[1].cache is not None
            if step == 1:
                for scores in both:
                    scores.select([2, 0, 2, 1])
                texts = [texts[row] for row in (2, 0, 2, 1)]
            if step == 2:
                for scores in both:
                    scores.select([3, 1])
                texts = [texts[row] for row in (3, 1)]
            texts = grown(texts, step)


@pytest.mark.parametrize("positions", POSITIONS)
def test_decoder(positions, decoder, tolerance):
    check(decoder(positions, n_layers=2), None, tolerance)


@pytest.mark.parametrize("positions", POSITIONS)
def test_encoder_decoder(positions, translator, tolerance):
    check(translator(positions, n_decoder_layers=2), SOURCES, tolerance)


@pytest.mark.parametrize("options", [{"norm": "post"}, {"norm": "post", "order": "lecture"},
                                     {"norm_kind": "lecture"}, {"d_k": 3, "d_v": 5}])
def test_options_of_the_block(options, decoder, tolerance):
    check(decoder(**options), None, tolerance)


@pytest.mark.parametrize("positions", [each for each in POSITIONS if each != "learned"])
def test_beyond_the_configured_length_where_the_scheme_has_no_limit(positions, decoder, backend):
    with set_default_dtype("float64"):
        net = decoder(positions, max_len=4)
        net.eval()
        text = [step % 7 for step in range(21)]
        with no_grad():
            plain, cached = Plain(net), Cached(net)
            for length in (1, 3, 4, 5, 6, 17, 21):
                assert apart(plain([text[:length]]), cached([text[:length]])) < 1e-10


def test_several_new_tokens_at_once_and_rows_that_grow_unequally(decoder, backend):
    with set_default_dtype("float64"):
        net = decoder("rotary").eval()
        with no_grad():
            plain, cached = Plain(net), Cached(net)
            for texts in ([[1], [2, 3, 4]], [[1, 5, 6], [2, 3, 4, 5]],
                          [[1, 5, 6, 0], [2, 3, 4, 5, 1, 2, 3]]):
                assert apart(plain(texts), cached(texts)) < 1e-10


@pytest.mark.parametrize("positions", POSITIONS)
def test_learned_positions_end_alike_on_both_ways_and_others_do_not(positions, decoder, backend):
    net, text = decoder(positions).eval(), [1] * 17             # max_len is 16
    for make in (Plain, Cached):
        with no_grad():
            scores = make(net)
            scores([text[:16]])
            if positions == "learned":
                with pytest.raises(ValueError, match="17 positions are asked for, but .*=16: "):
                    scores([text])
            else:
                assert len(scores([text])[0]) == 7


def test_a_cache_that_is_begun_again_knows_nothing_of_before(decoder, backend):
    with set_default_dtype("float64"):
        net = decoder().eval()
        with no_grad():
            first, again = Cached(net), Cached(net)
            first([[4, 4, 4, 4]])
            cache = Cache()
            net([[4, 4]], cache=cache)
            assert apart(again([[1, 2]]), Plain(net)([[1, 2]])) < 1e-10
            assert len(first.cache) == 4 and len(again.cache) == len(cache) == 2


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("temperature", [0, 1.0])
def test_the_same_text_with_and_without_the_cache(positions, temperature, decoder, backend):
    with set_default_dtype("float64"):
        net, texts = decoder(positions), []
        for use_cache in (True, False):
            manual_seed(4)
            texts.append(generate(net, [3, 1], 8, temperature=temperature, use_cache=use_cache))
    assert texts[0] == texts[1] and len(texts[0]) == 8


def test_the_cache_is_used_and_each_token_is_computed_once(decoder, backend, monkeypatch):
    net, widths = decoder(), []
    sound = type(net).scores

    def watched(self, vectors, mask=None, *, seen=None, cache=None):
        widths.append(vectors.shape[1])
        return sound(self, vectors, mask, seen=seen, cache=cache)

    monkeypatch.setattr(type(net), "scores", watched)
    generate(net, [1, 2, 3], 4)
    assert widths == [3]                        # and then the steps of `stepping`
    del widths[:]
    monkeypatch.setattr(scoring, "knows", lambda model: False)
    generate(net, [1, 2, 3], 4)
    assert widths == [3, 1, 1, 1]
    del widths[:]
    generate(net, [1, 2, 3], 4, use_cache=False)
    assert widths == [3, 4, 5, 6]


def test_the_window_slides_only_when_asked_and_as_without_a_cache(decoder, backend):
    with set_default_dtype("float64"):
        net = decoder(max_len=5)
        with pytest.raises(ValueError, match="need 9 positions, the model has 5"):
            generate(net, [1, 2], 8)
        texts = []
        for use_cache in (True, False):
            texts.append(generate(net, [[1, 2], [3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 1]], 8,
                                  temperature=1.0, seeds=[1, 2, 3], slide=True,
                                  use_cache=use_cache))
    assert texts[0] == texts[1] and [len(text) for text in texts[0]] == [8, 8, 8]


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_length_leaves_nothing_behind_for_the_next(positions, decoder, backend):
    """Longer, then shorter, then longer: no table of biases or masks is kept at a wrong size."""
    with set_default_dtype("float64"):
        net, fresh = decoder(positions).eval(), decoder(positions).eval()
        with no_grad():
            for length in (7, 8, 6, 9):
                ids = [[step % 7 for step in range(length)]]
                assert net(ids).tolist() == decoder(positions).eval()(ids).tolist()
            assert net([[1, 2]]).tolist() == fresh([[1, 2]]).tolist()


def test_a_model_that_takes_no_cache_is_computed_plainly(backend):
    class Model:
        def forward(self, ids):
            raise NotImplementedError

    assert isinstance(scorer(Model()), Plain)


def test_chosen_rows_leave_the_former_room(decoder, backend):
    """Memory that the keys of other rows have grown into is not held on to."""
    with set_default_dtype("float64"), no_grad():
        net = decoder().eval()
        scores = Cached(net)
        for texts in ([[1], [2]], [[1, 3], [2, 4]], [[1, 3, 5], [2, 4, 6]]):
            scores(texts)
        if backend_name() == "numpy":
            cache = scores.cache
            assert len(cache.rooms) == len(net.stack.blocks)
            assert all(array.base is room.array for owner, rooms in cache.rooms.items()
                       for array, room in zip(cache.pairs[owner], rooms)), "keys or values moved"
        scores.select([1, 1])
        assert not scores.cache.rooms
        texts = [[2, 4, 6, 1], [2, 4, 6, 0]]
        assert apart(scores(texts), Plain(net)(texts)) < 1e-10
