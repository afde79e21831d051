"""Two ways of doing the same, timed in turn: ratios hold where single times do not."""

from __future__ import annotations

import statistics
import time
from typing import Callable, Dict, List


def alternate(ways: Dict[str, Callable[[], object]], rounds: int, repeat: int = 1,
              warm_up: int = 2) -> Dict[str, List[float]]:
    """CPU milliseconds per call of each way, `rounds` figures each, taken A B A B ..."""
    times: Dict[str, List[float]] = {name: [] for name in ways}
    for number in range(warm_up + rounds):
        for name, way in ways.items():
            start = time.process_time()
            for _ in range(repeat):
                way()
            if number >= warm_up:
                times[name].append((time.process_time() - start) / repeat * 1000)
    return times


def ratio(times: Dict[str, List[float]], one: str, other: str) -> List[float]:
    """The ratios one / other, pair by pair, sorted."""
    return sorted(p / q for p, q in zip(times[one], times[other]))


def spread(figures: List[float]) -> str:
    """Median, least and largest."""
    return f"{statistics.median(figures):.3g}  ({min(figures):.3g} to {max(figures):.3g})"
