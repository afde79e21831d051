"""The line of progress: in place on a terminal, ten lines anywhere else, the right numbers in
both."""
import io

import pytest

from tinyformer.training import progress as progress_module
from tinyformer.training.floors import Floor
from tinyformer.training.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def run(out, steps=100, first=0, seconds=0.5, **options):
    clock = Clock()
    progress = Progress(steps, out=out, clock=clock, **options)
    progress.begin(first)
    for step in range(first + 1, steps + 1):
        clock.now += seconds
        progress.update(step, 200.0 - step, 0.001, 1.5, 64)
    progress.close()
    return out.getvalue()


@pytest.mark.parametrize("steps", [10, 100, 101, 997])
def test_off_a_terminal_ten_lines_the_last_at_the_end(steps):
    lines = run(io.StringIO(), steps).splitlines()
    assert len(lines) == 10
    assert lines[-1].startswith(f"step {steps}/{steps}  loss")
    assert "\r" not in "".join(lines)


def test_a_short_run_shows_every_step():
    assert len(run(io.StringIO(), 3).splitlines()) == 3


def test_the_numbers_are_right():
    line = run(io.StringIO(), floor=Floor("bigram", 3.216, 0.1)).splitlines()[4]
    # step 50 after 25 s: the mean of the losses 199 ... 150, 64 tokens each half second, 25 s left
    assert line == ("step  50/100  loss 174.500 (bigram 3.22)  0:25 left  rate 1.00e-03  "
                    "norm 1.50  128 tokens/s")


def test_the_loss_is_the_mean_of_the_last_fifty():
    assert "loss 124.500" in run(io.StringIO()).splitlines()[-1]       # 149 ... 100


def test_a_resumed_run_counts_time_and_tokens_from_where_it_goes_on():
    line = run(io.StringIO(), first=80).splitlines()[0]
    assert line.startswith("step  90/100") and "128 tokens/s" in line and "0:05 left" in line


def test_the_held_out_loss_stays_until_there_is_a_newer_one():
    out = io.StringIO()
    progress = Progress(10, out=out, clock=Clock())
    for step in range(1, 11):
        progress.update(step, 1.0, 0.1, 1.0, 1, {3: 9.5, 7: 8.25}.get(step))
    lines = out.getvalue().splitlines()
    assert ["held out" in line for line in lines] == [False] * 2 + [True] * 8
    assert "held out 9.500" in lines[5] and "held out 8.250" in lines[6]


def test_on_a_terminal_one_line_stays_in_place(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    written = run(Terminal())
    assert written.count("\n") == 1 and written.endswith("\n")
    frames = written.rstrip("\n").split("\r")[1:]
    assert len(frames) == 100
    assert frames[-1].startswith("step 100/100")


def test_a_shorter_line_wipes_out_the_longer_one_before(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    frames = run(Terminal(), seconds=400.0).rstrip("\n").split("\r")[1:]
    for before, after in zip(frames, frames[1:]):
        assert len(after) >= len(before.rstrip())


def test_a_narrow_terminal_cuts_the_line_off(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    frames = run(Terminal()).rstrip("\n").split("\r")[1:]
    assert {len(frame) for frame in frames} == {29}


def test_fast_steps_rewrite_the_line_ten_times_a_second_and_always_at_the_end(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    frames = run(Terminal(), seconds=0.001, steps=1000).rstrip("\n").split("\r")[1:]
    assert 9 <= len(frames) <= 12
    assert frames[-1].startswith("step 1000/1000")


def test_a_note_stands_on_its_own_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    out = Terminal()
    progress = Progress(10, out=out, clock=Clock())
    progress.update(1, 1.0, 0.1, 1.0, 1)
    progress.note("hello")
    progress.close()
    assert out.getvalue().endswith("tokens/s\nhello\n")


@pytest.mark.parametrize("seconds, text", [(0.2, "0:00"), (59.6, "1:00"), (3600, "1:00:00"),
                                           (86461, "24:01:01")])
def test_times(seconds, text):
    assert progress_module.clock_text(seconds) == text
