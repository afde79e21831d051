"""Schedules: never zero, strictly up through the warm-up, down to the end, and the same again from
their state."""
import json
import math

import pytest

from tinyformer.training.schedules import constant, from_state, noam, warmup_cosine, warmup_linear

ALL = [constant(0.1), warmup_cosine(0.1, 10, 50), warmup_cosine(0.1, 0, 50, 0.01),
       warmup_linear(0.1, 10, 50), warmup_linear(0.1, 0, 50, 0.01), noam(64, 10),
       warmup_cosine(0.1, 1, 1), warmup_linear(0.1, 50, 50)]


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_no_step_of_the_run_has_rate_zero(schedule):
    total = int(schedule.settings.get("total", 50))
    assert all(0 < schedule(step) <= 0.1 for step in range(1, total + 1))


@pytest.mark.parametrize("make", [warmup_cosine, warmup_linear])
def test_warm_up_is_a_straight_line_to_the_peak_and_decay_goes_down_to_the_end(make):
    schedule = make(0.5, 10, 100, 0.1)
    climb = [schedule(step) for step in range(1, 11)]
    assert climb == pytest.approx([0.05 * k for k in range(1, 11)], rel=1e-15)
    rates = [schedule(step) for step in range(10, 101)]
    assert all(a > b for a, b in zip(rates, rates[1:]))
    assert 0.1 < rates[-1] < 0.1 + (0.4 / 91) * 1.01
    assert schedule(101) == schedule(10_000) == pytest.approx(0.1, rel=1e-12)


def test_the_middle_of_the_decay_is_the_middle_of_the_rates():
    for make in (warmup_cosine, warmup_linear):
        assert make(0.5, 10, 109, 0.1)(60) == pytest.approx(0.3, rel=1e-12)
    quarter = (1 + math.cos(math.pi / 4)) / 2
    assert warmup_cosine(1.0, 0, 99)(25) == pytest.approx(quarter, rel=1e-12)
    assert warmup_linear(1.0, 0, 99)(25) == pytest.approx(0.75, rel=1e-12)


def test_noam_by_hand_and_highest_where_its_halves_meet():
    schedule = noam(512, 4000)
    assert schedule(1) == pytest.approx(512 ** -0.5 * 4000 ** -1.5, rel=1e-12)
    assert schedule(4000) == pytest.approx(6.987712429686843e-04, rel=1e-12)      # 2048000 ** -0.5
    assert schedule(16000) == pytest.approx(schedule(4000) / 2, rel=1e-12)
    assert max(range(1, 10_000), key=schedule) == 4000
    assert noam(512, 4000, 2.0)(7) == 2 * schedule(7)


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_a_schedule_comes_back_from_json(schedule):
    again = from_state(json.loads(json.dumps(schedule.state_dict())))
    assert repr(again) == repr(schedule)
    assert [again(step) for step in range(1, 120)] == [schedule(step) for step in range(1, 120)]


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_there_is_no_step_zero(schedule):
    with pytest.raises(ValueError, match="counted from 1, there is no step 0"):
        schedule(0)


@pytest.mark.parametrize("make, words", [
    (lambda: constant(0), "trains nothing"),
    (lambda: constant(-1.0), "lr must be a finite number, 0 or above, not -1.0"),
    (lambda: warmup_cosine(math.nan, 1, 2), "lr must be a finite number"),
    (lambda: warmup_linear(0.1, 30, 20), "warm-up of 30 steps does not fit into a run of 20 steps"),
    (lambda: noam(64, 0), "at least 1, not 64 and 0"),
    (lambda: from_state({"name": "cosine"}), "no schedule 'cosine'; there are constant"),
])
def test_what_makes_no_sense_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
