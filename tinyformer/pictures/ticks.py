"""The round numbers that an axis shows.

A step is round if it is 1, 2 or 5 times a power of ten; of those, an axis takes the smallest that
leaves no more marks than there is room for. A logarithmic axis marks 1, 2 and 5 of every power of
ten, or the powers alone where that is too many.
"""
from __future__ import annotations

import math
from typing import List


def round_step(span: float, most: int) -> float:
    """The smallest round step that divides `span` into at most `most` parts.

    >>> round_step(4000, 8), round_step(0.7, 5)
    (500.0, 0.2)
    """
    raw = span / most
    power = 10.0 ** math.floor(math.log10(raw))
    return next((m * power for m in (1, 2, 5, 10) if m * power >= raw * (1 - 1e-9)), 10 * power)


def linear_ticks(low: float, high: float, most: int = 8) -> List[float]:
    """At most about `most` round numbers from `low` to `high`, both included where they are round.

    >>> linear_ticks(0, 100, 5)
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    """
    step = round_step(high - low, most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int = 8) -> List[float]:
    """1, 2 and 5 times the powers of ten between `low` and `high` (both above 0), thinned out until
    at most `most` remain.

    A range too narrow to hold two of them is marked like a linear one.

    >>> log_ticks(1, 60)
    [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for marks in ((1, 2, 5), (1,)):
        ticks = [m * 10.0 ** p for p in powers for m in marks]
        ticks = [t for t in ticks if low * (1 - 1e-9) <= t <= high * (1 + 1e-9)]
        if len(ticks) <= most:
            break
    if len(ticks) < 2:
        return linear_ticks(low, high, most)
    return ticks[:: math.ceil(len(ticks) / most)]


def label(value: float) -> str:
    """A number as an axis writes it: "0", "0.25", "4,000", "1e+09".

    >>> [label(v) for v in (0.0, 0.25, 4000.0, 1e9, -1.5)]
    ['0', '0.25', '4,000', '1e+09', '-1.5']
    """
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e7:
        return f"{value:,.6f}".rstrip("0").rstrip(".")
    return f"{value:.3g}"
