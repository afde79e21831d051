"""Axis marks: round, inside the range, and few enough."""
import math
import random

import pytest

from tinyformer.pictures.ticks import label, linear_ticks, log_ticks, round_step


def ranges(count):
    draw = random.Random(5)
    for _ in range(count):
        low = draw.uniform(-1, 1) * 10 ** draw.randint(-6, 6)
        yield low, low + abs(low) * 10 ** draw.uniform(-4, 4), draw.randint(2, 12)


def test_linear_marks_are_round_inside_and_neither_too_many_nor_too_few():
    for low, high, most in ranges(500):
        marks = linear_ticks(low, high, most)
        step = round_step(high - low, most)
        assert len(marks) <= most + 1
        assert len(marks) >= most / 2.5 - 2
        for mark in marks:
            assert low - 1e-9 * step <= mark <= high + 1e-9 * step
            assert math.isclose(mark / step, round(mark / step), abs_tol=1e-6)
        mantissa = step / 10 ** math.floor(math.log10(step) + 1e-9)
        assert min(abs(mantissa - m) for m in (1, 2, 5)) < 1e-6


def test_ends_that_are_round_are_marked():
    assert linear_ticks(0, 4000, 8) == [0, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4000]
    assert linear_ticks(-0.3, 0.3, 6) == [-0.3, -0.2, -0.1, 0, 0.1, 0.2, 0.3]


@pytest.mark.parametrize("low, high, most, marks", [
    (1, 4000, 8, [1, 10, 100, 1000]),
    (1, 60, 8, [1, 2, 5, 10, 20, 50]),
    (0.001, 0.1, 8, [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1]),
    (3, 4, 5, [3, 3.2, 3.4, 3.6, 3.8, 4]),
    (1, 1e9, 5, [1, 100, 1e4, 1e6, 1e8]),
])
def test_logarithmic_marks(low, high, most, marks):
    assert log_ticks(low, high, most) == pytest.approx(marks, rel=1e-12)


@pytest.mark.parametrize("value, words", [
    (0.0, "0"), (4000.0, "4,000"), (0.05, "0.05"), (1e9, "1e+09"), (-2.0, "-2"), (2e-7, "2e-07"),
    (100.0, "100")])
def test_labels(value, words):
    assert label(value) == words
