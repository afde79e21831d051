"""What a run shows while it goes on.

On a terminal one line stays in place and is rewritten a few times a second. Anywhere else (a file,
a pipe, a notebook) a line is printed every tenth of the run. The loss of a single batch is mostly
noise, so the mean of the last 50 is shown, with the n-gram floor to beat beside it.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections import deque
from typing import Any, Callable, Deque, Optional

from tinyformer.training.floors import Floor

MEAN_OVER = 50
REFRESH = 0.1       # seconds between two rewritings of the line


class Progress:
    """Shows the steps of a run of `steps` steps on `out` (standard error by default).

    `floor` is the loss to beat, shown beside the loss. `clock` gives seconds, for the tests.
    """

    def __init__(self, steps: int, floor: Optional[Floor] = None, out: Any = None,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.steps, self.floor, self.clock = steps, floor, clock
        self.out = sys.stderr if out is None else out
        self.in_place = bool(getattr(self.out, "isatty", lambda: False)())
        self.losses: Deque[float] = deque(maxlen=MEAN_OVER)
        self.begin(0)

    def begin(self, step: int) -> None:
        """The run goes on after `step`: the clock starts here."""
        self.first, self.tokens, self.started = step, 0, self.clock()
        self.shown, self.width = -REFRESH, 0
        self.held_out: Optional[float] = None

    def update(self, step: int, loss: float, rate: float, norm: float, tokens: int,
               held_out: Optional[float] = None) -> None:
        """Step `step` is done: its loss, rate and gradient norm, and tokens predicted."""
        self.losses.append(loss)
        self.tokens += tokens
        self.held_out = self.held_out if held_out is None else held_out
        seconds = self.clock() - self.started
        last = step == self.steps
        if self.in_place:
            if last or seconds - self.shown >= REFRESH:
                self.shown = seconds
                self._rewrite(self.line(step, rate, norm, seconds))
        elif last or step * 10 // self.steps > (step - 1) * 10 // self.steps:
            print(self.line(step, rate, norm, seconds), file=self.out, flush=True)

    def line(self, step: int, rate: float, norm: float, seconds: float) -> str:
        """Everything in one line, the most wanted first: a narrow terminal cuts off the end."""
        loss = sum(self.losses) / len(self.losses)
        left = seconds / max(step - self.first, 1) * (self.steps - step)
        parts = [f"step {step:>{len(str(self.steps))}}/{self.steps}", f"loss {loss:.3f}"]
        if self.floor:
            parts[-1] += f" ({self.floor})"
        if self.held_out is not None:
            parts.append(f"held out {self.held_out:.3f}")
        parts += [f"{clock_text(left)} left", f"rate {rate:.2e}", f"norm {norm:.2f}",
                  f"{self.tokens / max(seconds, 1e-9):,.0f} tokens/s"]
        return "  ".join(parts)

    def note(self, words: str) -> None:
        """A line of its own, above the one that stays in place."""
        self.close()
        print(words, file=self.out, flush=True)

    def close(self) -> None:
        """End the line that stays in place."""
        if self.width:
            print(file=self.out, flush=True)
            self.width = 0

    def _rewrite(self, line: str) -> None:
        """Put `line` over the one before, wiped out by blanks: that works on every terminal."""
        line = line[:shutil.get_terminal_size().columns - 1]
        print("\r" + line.ljust(self.width), end="", file=self.out, flush=True)
        self.width = len(line)


def clock_text(seconds: float) -> str:
    """Seconds as a clock: 0:07, 12:05, 1:02:03.

    >>> clock_text(7.4), clock_text(725), clock_text(3723)
    ('0:07', '12:05', '1:02:03')
    """
    minutes, second = divmod(round(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"
