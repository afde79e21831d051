"""The random stream: one sequence of numbers, whichever backend draws it."""

from __future__ import annotations

import importlib.util
import json
import math
import random
from typing import Any, List

import pytest

from tinyformer.arrays import use_backend, xp
from tinyformer.arrays.stream import Stream, manual_seed, stream

needs_numpy = pytest.mark.skipif(not importlib.util.find_spec("numpy"), reason="needs NumPy")
SIZES = [3, 0, 1, 2, 5, 0, 7, 1, 625, 1, 0, 3, 1300, 2]


def interleaved(source: Stream) -> List[Any]:
    """Raw draws of odd and even and no length, uniforms and bits in turn."""
    draws = []
    for place, n in enumerate(SIZES):
        draws += [source.uniform(n).tolist(), source.bits16(n + place % 2).tolist()]
    return draws


def test_the_raw_draws_are_those_of_python(backend: str) -> None:
    source, reference = Stream(7), random.Random(7)
    assert source.uniform(5).tolist() == [reference.random() for _ in range(5)]
    words = reference.randbytes(4)
    assert source.bits16(1).tolist() == [int.from_bytes(words[:2], "little")]
    assert source.uniforms_list(2) == [reference.random() for _ in range(2)]
    assert source.uniform(0).shape == (0,) and source.bits16(0).shape == (0,)
    assert source.state() == list(reference.getstate()[1])


def test_the_draws_of_today_are_those_of_tomorrow(backend: str) -> None:
    source = Stream(0)
    assert source.uniforms_list(2) == [0.8444218515250481, 0.7579544029403025]
    assert source.bits16(3).tolist() == [37973, 27562, 12084]


@needs_numpy
def test_both_backends_draw_the_same_bits() -> None:
    found = []
    for name in ("python", "numpy"):
        with use_backend(name):
            source = Stream(2024)
            found.append((interleaved(source), source.state()))
    assert found[0] == found[1]


@needs_numpy
def test_the_backend_may_change_on_the_way() -> None:
    with use_backend("python"):
        straight = interleaved(Stream(5))
    source, draws = Stream(5), []
    for place, n in enumerate(SIZES):
        with use_backend("numpy" if place % 3 else "python"):
            draws.append(source.uniform(n).tolist())
        with use_backend("python" if place % 2 else "numpy"):
            draws.append(source.bits16(n + place % 2).tolist())
    assert draws == straight


@needs_numpy
@pytest.mark.parametrize("first, second", [("python", "numpy"), ("numpy", "python")])
def test_a_state_goes_on_in_the_other_backend(first: str, second: str) -> None:
    with use_backend(first):
        source = Stream(11)
        source.bits16(3)
        source.uniform(5)
        state = json.loads(json.dumps(source.state()))
        expected = interleaved(source)
    with use_backend(second):
        other = Stream(99)
        other.restore(state)
        assert other.state() == state and interleaved(other) == expected


@needs_numpy
def test_derived_draws_agree_to_rounding() -> None:
    found: List[Any] = []
    for name in ("python", "numpy"):
        with use_backend(name):
            source = Stream(3)
            found.append((xp.reshape(source.normal((3, 5)), (-1,)).tolist(), source.permutation(20),
                          source.integers(7, 30), [source.choice([1, 0, 2.5]) for _ in range(20)],
                          source.normal(()).tolist(), source.normal((0, 3)).tolist(),
                          source.state()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-12)
    assert found[0][4] == pytest.approx(found[1][4], rel=1e-12)
    assert found[0][1:4] == found[1][1:4] and found[0][5:] == found[1][5:]


def test_statistics(backend: str) -> None:
    source = Stream(1)
    numbers = source.uniforms_list(20000)
    assert 0 <= min(numbers) and max(numbers) < 1
    assert sum(numbers) / 20000 == pytest.approx(0.5, abs=0.01)
    normal = source.normal((100, 200))
    assert normal.shape == (100, 200)
    assert float(xp.mean(normal)) == pytest.approx(0, abs=0.02)
    assert float(xp.var(normal)) == pytest.approx(1, abs=0.03)
    fourth = float(xp.mean(normal * normal * normal * normal))
    assert fourth == pytest.approx(3, abs=0.2)
    bits = source.bits16(20000).tolist()
    assert 0 <= min(bits) < 100 and 65436 < max(bits) < 65536
    assert sum(bits) / 20000 == pytest.approx(32767.5, abs=600)


def test_derived_draws_keep_their_bounds(backend: str) -> None:
    source = Stream(8)
    order = source.permutation(50)
    assert sorted(order) == list(range(50)) and order != list(range(50))
    assert source.permutation(0) == [] and source.permutation(1) == [0]
    draws = source.integers(3, 3000)
    assert set(draws) == {0, 1, 2} and min(draws.count(k) for k in range(3)) > 850
    choices = [source.choice([0, 1, 3, 0]) for _ in range(2000)]
    assert set(choices) == {1, 2} and choices.count(2) == pytest.approx(1500, abs=100)
    assert all(type(each) is int for each in draws + order + choices)
    for count in (2, 3):
        places = [tuple(Stream(seed).permutation(count)) for seed in range(600)]
        assert len(set(places)) == math.factorial(count)
        assert min(places.count(each) for each in set(places)) > 60


def test_the_global_state_of_random_is_left_alone(backend: str) -> None:
    random.seed(1)
    before = random.getstate()
    first = interleaved(Stream(4))
    assert random.getstate() == before
    random.seed(2)
    assert interleaved(Stream(4)) == first


def test_manual_seed_begins_the_stream_of_the_package_again(backend: str) -> None:
    manual_seed(12)
    first = interleaved(stream)
    manual_seed(12)
    assert interleaved(stream) == first == interleaved(Stream(12))


@pytest.mark.parametrize("seed", [True, 1.0, "1", None])
def test_a_seed_is_an_integer(seed: Any) -> None:
    with pytest.raises(TypeError, match="a seed is an integer"):
        Stream(seed)


def test_a_wrong_state_is_refused_and_changes_nothing(backend: str) -> None:
    source = Stream(1)
    state = source.state()
    for wrong in ([], state[:-1], state + [1], state[:-1] + [625], state[:-1] + [-1],
                  *([word] + state[1:] for word in (-1, 2 ** 32, "a", 1.5, True))):
        with pytest.raises(ValueError, match="a random state is 625 integers"):
            source.restore(wrong)
    assert source.state() == state


def test_impossible_draws_are_refused(backend: str) -> None:
    source = Stream(1)
    for wrong in (lambda: source.uniform(-1), lambda: source.bits16(-1),
                  lambda: source.integers(0, 1)):
        with pytest.raises(ValueError):
            wrong()
    for weights in ([], [0, 0], [-1, 2], [math.inf, 1], [math.nan, 1]):
        with pytest.raises(ValueError, match="choice: weights must be finite"):
            source.choice(weights)
    assert source.state() == Stream(1).state()


def test_a_seed_has_no_sign() -> None:
    with pytest.raises(ValueError, match="-3 would be 3"):
        Stream(-3)
