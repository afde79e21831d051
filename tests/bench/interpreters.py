"""The pure backend on this interpreter and on others, against the engine of scalar.py.

One process for each engine, in turn. The scalar engine makes many thousands of objects a step;
with the cyclic collector off it no longer pays for that, and only for its arithmetic.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from contextlib import ExitStack
from typing import Any, Callable, Dict, List, Tuple

from tests.bench import rows, scalar
from tests.bench.measure import (ROOT, Asked, Figures, Timed, Worker, WorkerFailed, alternate,
                                 distance, environment, figure, in_turn)
from tinyformer.arrays.backend import unfused

Command = Tuple[str, ...]
WHO = ("import sys, json; from tests.bench.rows import this_python; "
       "print(json.dumps([sys.implementation.name, sys.version_info[:2], this_python()]))")
# PyPy's compiler told to begin sooner, for both engines, as README.md advises for training.
JIT = ("--jit", "decay=0,threshold=400,function_threshold=400,trace_eagerness=100")
WIDE: Dict[str, Any] = {"width": 64, "layers": 2, "tokens": 16}


def plain_step() -> Callable[[], float]:
    """The step of `scalar.tensor_step` in the plain forms of all operations."""
    step = scalar.tensor_step()

    def plain() -> float:
        with unfused():
            return step()

    return plain


def each_python(asked: Asked, part: Callable[[Asked, Command, str, str], Figures]) -> Figures:
    """The figures of a part on every interpreter: how to start it, its class and its name."""
    for python in asked.pythons:
        try:
            kind, name = who(python)
            yield from part(asked, (python, *(JIT if kind == "PyPy" else ())), kind, name)
        except (OSError, subprocess.CalledProcessError, WorkerFailed) as error:
            print(f"  {python}: {error}")


def who(python: str) -> Tuple[str, str]:
    """Which of `rows.PYTHONS` an interpreter is, and its name with its version."""
    done = subprocess.run([python, "-c", WHO], check=True, stdout=subprocess.PIPE, cwd=ROOT,
                          env=environment(backend="python"))
    implementation, version, name = json.loads(done.stdout.decode("utf-8"))
    return rows.python_class(implementation, tuple(version)), name


def timed(python: Command, steps: Dict[str, Dict[str, Any]], rounds: int, calls: Dict[str, int],
          warm_up: Dict[str, int]) -> Timed:
    """Workers on one interpreter in turn, after so many steps each to warm up.

    A turn counts by its mean: what collects memory now and then has its part in every step.
    """
    with ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(python=python, backend="python", **options))
                   for name, options in steps.items()}
        early = {name: worker.run(warm_up[name])["results"] for name, worker in workers.items()}
        found = in_turn(workers, rounds, calls, warm_up=0, middle=statistics.fmean)
    return Timed(found.times, {name: early[name] + each for name, each in found.results.items()})


def named(call: str, arguments: Dict[str, Any], **options: Any) -> Dict[str, Any]:
    """The options of a worker."""
    return {"call": call, "arguments": arguments, **options}


def narrow(asked: Asked, python: Command, kind: str, name: str) -> Figures:
    """A step of the smallest GPT in both engines, and in the plain forms."""
    steps = {"scalar": named("tests.bench.scalar:scalar_step", {}),
             "scalar without collector": named("tests.bench.scalar:scalar_step", {},
                                               collector=False),
             "tinyformer": named("tests.bench.scalar:tensor_step", {}),
             "plain": named("tests.bench.interpreters:plain_step", {})}
    warm = dict.fromkeys(steps, 2)
    if kind == "PyPy":                          # steps until its compiler has seen all
        warm = {each: 200 if "scalar" in each else 1500 for each in steps}
    calls = dict.fromkeys(steps, 2 if asked.quick else 8)       # of the same documents
    found = timed(python, steps, 3 if asked.quick else 9, calls, warm)
    words = found.words()
    yield figure(f"scalar, {kind}", found.ratio("scalar", "tinyformer"), words, name)
    yield figure(f"scalar without collector, {kind}",
                 found.ratio("scalar without collector", "tinyformer"), "", name)
    for row, way in (("scalar time", "scalar"), ("pure time", "tinyformer"),
                     ("scalar time without collector", "scalar without collector")):
        yield figure(row, found.times[way], where=name)
    yield figure("pure plain", found.ratio("tinyformer", "plain"), "", name)
    yield distance("pure losses", found.results, "tinyformer", "scalar")._replace(where=name)


def wide(asked: Asked, python: Command, kind: str, name: str) -> Figures:
    """The same at width 64: the scalar engine takes seconds for a step."""
    steps = {"scalar": named("tests.bench.scalar:scalar_step", WIDE),
             "tinyformer": named("tests.bench.scalar:tensor_step", WIDE)}
    warm = {"scalar": 3, "tinyformer": 100} if kind == "PyPy" else {"scalar": 0, "tinyformer": 2}
    found = timed(python, steps, 3, {"scalar": 1, "tinyformer": 5}, warm)
    yield figure("wide scalar", found.ratio("scalar", "tinyformer"), found.words(), name)


def measure(asked: Asked) -> Figures:
    """The rows of the part "scalar"."""
    return each_python(asked, narrow)


def measure_wide(asked: Asked) -> Figures:
    """The rows of the part "wide"."""
    return each_python(asked, wide)


def losses(asked: Asked) -> Figures:
    """The losses of the two backends on a tiny decoder, both in float64."""
    found: Dict[str, List[float]] = {}
    for backend in ("python", "numpy"):
        arguments = {"model": "decoder", "size": "tiny", "backend": backend, "dtype": "float64"}
        with Worker("tests.bench.trained:step", arguments, backend=backend) as worker:
            found[backend] = worker.run(20)["results"]
    yield distance("backend losses", found, "python", "numpy")


def product_ratio(n: int, calls: int) -> Callable[[], float]:
    """A function that computes a product both ways so many times; matmul's time over the kernel's.
    """
    ways = scalar.products(n)

    def step() -> float:
        found = alternate(ways, calls, warm_up=0)
        return sum(found.times["matmul"]) / sum(found.times["kernel"])

    return step


def products(asked: Asked, python: Command, kind: str, name: str) -> Figures:
    """The pure matrix product and the dot products that it consists of, at two sizes."""
    for n, calls in ((64, 8), (128, 2)):
        with Worker("tests.bench.interpreters:product_ratio", {"n": n, "calls": calls},
                    python=python, backend="python") as worker:
            worker.run(20 if kind == "PyPy" else 1)
            yield figure(f"kernel {n}", worker.run(9)["results"], where=name)


def kernel(asked: Asked) -> Figures:
    """The rows of the part "kernel"."""
    return each_python(asked, products)
