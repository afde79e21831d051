"""How figures are taken: ways that are compared take turns, so that ratios hold where times do not.

Within a process `alternate` calls one way after the other; between processes `Worker` does: each
has a process of its own, which sleeps while the others have their turn.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

FAILED = "failed: "                             # begins the reason of a figure that went wrong
STEPS = 20                                      # of which the losses are compared
LONGEST = 60.0                                  # seconds of one comparison between processes
ROOT = Path(__file__).resolve().parents[2]
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
UNWANTED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE",    # these slow a current NumPy down
            "PYTHONDONTWRITEBYTECODE", "TINYFORMER_BACKEND", "TINYFORMER_KEEP_MEMORY")


class Asked(NamedTuple):
    """What a run is to do: the short form or not, with which peers, on which interpreters."""

    quick: bool = False
    peers: Sequence[str] = ()
    pythons: Sequence[str] = (sys.executable,)


class Figure(NamedTuple):
    """One figure of the row `row`: its median, least and largest value of so many rounds.

    `where` is the interpreter where there are several, `detail` the times behind a ratio. A figure
    that could not be had has the reason in `missing`, and no numbers.
    """

    row: str
    median: Optional[float] = None
    least: Optional[float] = None
    largest: Optional[float] = None
    rounds: int = 0
    where: str = ""
    detail: str = ""
    missing: str = ""


Figures = Iterator[Figure]


def figure(row: str, values: Sequence[float], detail: str = "", where: str = "") -> Figure:
    """The figure that several measured values give."""
    return Figure(row, statistics.median(values), min(values), max(values), len(values), where,
                  detail)


def distance(row: str, results: Dict[str, List[float]], one: str, other: str) -> Figure:
    """How far the losses of two engines are apart in the first steps, at most, relative to them."""
    losses = [results[name][:STEPS] for name in (one, other)]
    apart = [abs(p - q) / abs(q) for p, q in zip(*losses)]
    words = f"{len(apart)} steps, from {losses[0][0]:.4f} to {losses[0][-1]:.4f}"
    return Figure(row, max(apart), min(apart), max(apart), len(apart), detail=words)


def number(value: float) -> str:
    """Three digits, without powers of ten where they can be done without."""
    if value and not 1e-4 <= abs(value) < 1000:
        return f"{value:,.0f}" if abs(value) >= 1 else f"{value:.0e}"
    return f"{value:.3g}"


class Timed(NamedTuple):
    """CPU milliseconds of every call of every way, and what the calls returned, from the first."""

    times: Dict[str, List[float]]
    results: Dict[str, List[Any]]

    def ratio(self, one: str, other: str) -> List[float]:
        """one / other, turn by turn."""
        return ratios(self.times[one], self.times[other])

    def words(self) -> str:
        """The median time of every way."""
        return medians(self.times)


def alternate(ways: Dict[str, Callable[[], Any]], rounds: int, warm_up: int = 3) -> Timed:
    """Call the ways in turn, A B A B ...; times of the first `warm_up` turns are left out."""
    timed = Timed({name: [] for name in ways}, {name: [] for name in ways})
    for turn in range(warm_up + rounds):
        for name, way in ways.items():
            start = time.process_time()
            timed.results[name].append(way())
            if turn >= warm_up:
                timed.times[name].append((time.process_time() - start) * 1000)
    return timed


def ratios(these: Sequence[float], those: Sequence[float]) -> List[float]:
    """The ratios pair by pair."""
    return [p / q for p, q in zip(these, those)]


def medians(times: Dict[str, List[float]], unit: str = "ms") -> str:
    """The median of every way in words."""
    return ", ".join(f"{name} {number(statistics.median(each))} {unit}"
                     for name, each in times.items())


class WorkerFailed(Exception):
    """A process ended before it had answered."""


class Worker:
    """A process of its own in which a function of this folder has made a step; see worker.py.

    `call` is "module:function", `arguments` are its arguments by name. With `warm`, a step made of
    these other arguments is run first, so that what an engine loads at its first step is not taken
    for the step's memory. `python` is an interpreter and its options.
    """

    def __init__(self, call: str, arguments: Dict[str, Any], *, threads: int = 1,
                 python: Sequence[str] = (sys.executable,), backend: str = "",
                 collector: bool = True, warm: Optional[Dict[str, Any]] = None) -> None:
        options = {"call": call, "arguments": arguments, "collector": collector, "warm": warm}
        self.call = call
        self.process = subprocess.Popen(
            [*python, "-m", "tests.bench.worker", json.dumps(options)], cwd=ROOT,
            env=environment(threads, backend), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *error: object) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process.wait()

    def run(self, count: int) -> Dict[str, Any]:
        """Run so many steps: lists of "cpu", "wall" (ms), "faults" and "results", one entry a step;
        and the numbers "memory" and "peak", MB before the step was made and at most since."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(f"{count}\n".encode("ascii"))
            self.process.stdin.flush()
        except OSError:                         # it has ended: there is no answer to read either
            pass
        line = self.process.stdout.readline()
        if not line:
            raise WorkerFailed(f"{self.call} ended with status {self.process.wait()}")
        answer: Dict[str, Any] = json.loads(line.decode("utf-8"))
        return answer


def in_turn(workers: Dict[str, Worker], rounds: int, calls: Dict[str, int], clock: str = "cpu",
            warm_up: int = 1, middle: Callable[[List[float]], float] = statistics.median) -> Timed:
    """Let the workers take turns of so many calls each; a time is the `middle` of one turn.

    A pause before each turn lets the threads of the worker before it go to sleep. After `LONGEST`
    seconds three turns are enough.
    """
    timed = Timed({name: [] for name in workers}, {name: [] for name in workers})
    begun = time.monotonic()
    for turn in range(warm_up + rounds):
        if turn >= warm_up + 3 and time.monotonic() - begun > LONGEST:
            break
        for name, worker in workers.items():
            time.sleep(0.05)
            answer = worker.run(calls[name])
            timed.results[name] += answer["results"]
            if turn >= warm_up:
                timed.times[name].append(middle(answer[clock]))
    return timed


def environment(threads: int = 1, backend: str = "") -> Dict[str, str]:
    """The environment of a process that is measured, with so many threads for matrix products."""
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    kept.update({name: str(threads) for name in THREADS}, PYTHONPATH=str(ROOT))
    return {**kept, "TINYFORMER_BACKEND": backend} if backend else kept
