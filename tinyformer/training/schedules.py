"""How the learning rate changes over a run: warm-up, then decay.

A schedule is called with the number of the step, counted from 1, and gives the rate of that step.
The first steps of Adam go too far, because its second moment is still a guess from a few gradients,
so the rate climbs in a straight line to its peak first. No step is spent at rate 0: step 1 of a
warm-up of w steps has 1/w of the peak, and a decay to 0 would arrive one step after the last.

>>> rate = warmup_linear(0.1, warmup=2, total=6)
>>> [round(rate(step), 3) for step in range(1, 7)]
[0.05, 0.1, 0.08, 0.06, 0.04, 0.02]
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict


class Schedule:
    """A callable step -> rate that knows its settings, so that a checkpoint can hold it."""

    def __init__(self, name: str, settings: Dict[str, float], rate: Callable[[int], float]) -> None:
        self.name, self.settings, self._rate = name, settings, rate

    def __call__(self, step: int) -> float:
        """The rate of step number `step`. Raises ValueError below 1: steps are counted from 1."""
        if step < 1:
            raise ValueError(f"steps are counted from 1, there is no step {step}")
        return self._rate(step)

    def state_dict(self) -> Dict[str, Any]:
        """Name and settings, as JSON can hold them; `from_state` makes the schedule again."""
        return {"name": self.name, **self.settings}

    def __repr__(self) -> str:
        settings = ", ".join(f"{key}={value:g}" for key, value in self.settings.items())
        return f"{self.name}({settings})"


def constant(lr: float) -> Schedule:
    """The same rate at every step."""
    _check(lr=lr)
    return Schedule("constant", {"lr": lr}, lambda step: lr)


def warmup_cosine(lr: float, warmup: int, total: int, end: float = 0.0) -> Schedule:
    """Up to `lr` in `warmup` steps, then down to `end` along half a cosine (Loshchilov and Hutter
    2017, equation 5, without restarts):

        rate(s) = lr s / warmup                                           for s <= warmup
        rate(s) = end + (lr - end) (1 + cos(pi p)) / 2                     after that
        p       = (s - warmup) / (total + 1 - warmup), at most 1
    """
    _check(lr=lr, warmup=warmup, total=total, end=end)

    def rate(step: int) -> float:
        if step <= warmup:
            return lr * step / warmup
        return end + (lr - end) * (1 + math.cos(math.pi * _progress(step, warmup, total))) / 2

    return Schedule("warmup_cosine", {"lr": lr, "warmup": warmup, "total": total, "end": end}, rate)


def warmup_linear(lr: float, warmup: int, total: int, end: float = 0.0) -> Schedule:
    """Up to `lr` in `warmup` steps, then down to `end` in a straight line (BERT, Devlin et al.
    2019, appendix A.2); the progress is counted as in `warmup_cosine`."""
    _check(lr=lr, warmup=warmup, total=total, end=end)

    def rate(step: int) -> float:
        if step <= warmup:
            return lr * step / warmup
        return end + (lr - end) * (1 - _progress(step, warmup, total))

    return Schedule("warmup_linear", {"lr": lr, "warmup": warmup, "total": total, "end": end}, rate)


def noam(d_model: int, warmup: int, scale: float = 1.0) -> Schedule:
    """The schedule of "Attention is all you need" (Vaswani et al. 2017, equation 3):

        rate(s) = scale d_model^-0.5 min(s^-0.5, s warmup^-1.5)

    The two halves meet at s = warmup, where the rate is highest.
    """
    _check(d_model=d_model, warmup=warmup, scale=scale)
    if warmup < 1 or d_model < 1:
        raise ValueError(f"noam needs d_model and warmup of at least 1, not {d_model} and {warmup}")
    peak = scale * d_model ** -0.5
    return Schedule("noam", {"d_model": d_model, "warmup": warmup, "scale": scale},
                    lambda step: peak * min(step ** -0.5, step * warmup ** -1.5))


SCHEDULES: Dict[str, Callable[..., Schedule]] = {
    maker.__name__: maker for maker in (constant, warmup_cosine, warmup_linear, noam)}


def from_state(state: Dict[str, Any]) -> Schedule:
    """The schedule that `Schedule.state_dict` described."""
    settings = dict(state)
    name = settings.pop("name", None)
    if name not in SCHEDULES:
        raise ValueError(f"there is no schedule {name!r}; there are {', '.join(SCHEDULES)}")
    return SCHEDULES[name](**settings)


def _progress(step: int, warmup: int, total: int) -> float:
    """The share of the decay behind us: above 0 after the warm-up, 1 one step after the end."""
    return min((step - warmup) / (total + 1 - warmup), 1.0)


def _check(**settings: float) -> None:
    for name, value in settings.items():
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"{name} must be a finite number, 0 or above, not {value}")
    if settings.get("lr") == 0:
        raise ValueError("a peak rate of 0 trains nothing; give lr above 0")
    if settings.get("warmup", 0) > settings.get("total", math.inf):
        raise ValueError(f"a warm-up of {settings['warmup']} steps does not fit into a run of "
                         f"{settings['total']} steps; shorten it")
