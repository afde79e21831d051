"""What `import tinyformer` adds to the start of the interpreter, its bytecode cached.

CPU time of whole processes, in turn. With the NumPy backend NumPy's own import is taken off.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Dict, List

from tests.bench.measure import ROOT, Asked, Figures, environment, figure

IMPORT = "import tinyformer"
TENSOR = "import tinyformer; tinyformer.tensor([1.0])"
NUMPY = "import numpy"


def measure(asked: Asked) -> Figures:
    """The rows of the part "start"."""
    ways = {"bare": ("pass", "python"), "import": (IMPORT, "python"), "pure": (TENSOR, "python")}
    if "numpy" in asked.peers:
        ways.update(numpy=(NUMPY, "numpy"), both=(TENSOR, "numpy"))
    times: Dict[str, List[float]] = {name: [] for name in ways}
    for turn in range(10 if asked.quick else 25):
        for name, (code, backend) in ways.items():
            spent = process(code, backend)
            if turn > 1:                        # before, the bytecode may have to be made
                times[name].append(spent)
    yield figure("start", above(times, "import", "bare"))
    yield figure("start pure", above(times, "pure", "bare"))
    if "numpy" in times:
        yield figure("start numpy", above(times, "both", "numpy"))


def above(times: Dict[str, List[float]], one: str, other: str) -> List[float]:
    """What one way takes more than the other, turn by turn."""
    return [p - q for p, q in zip(times[one], times[other])]


def process(code: str, backend: str) -> float:
    """CPU milliseconds of an interpreter that runs `code`; on Windows, wall time."""
    begun, before = time.perf_counter(), children()
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT,
                   env=environment(backend=backend))
    spent = children() - before
    return (spent if os.name == "posix" else time.perf_counter() - begun) * 1000


def children() -> float:
    """The CPU seconds of all processes that were waited for."""
    if os.name != "posix":
        return 0.0
    import resource
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
