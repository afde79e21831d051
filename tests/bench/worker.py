"""The other end of `measure.Worker`: makes a step, and runs it as often as each line read says.

    python -m tests.bench.worker '{"call": "module:function", "arguments": {...}, ...}'

Needs nothing but the standard library, so that any interpreter can be measured.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import time
from typing import Any, Callable, Dict

try:
    import resource
except ImportError:                 # Windows
    resource = None                 # type: ignore[assignment]


def main() -> None:
    """Make the step, then serve until the input ends."""
    options = json.loads(sys.argv[1])
    module, _, function = options["call"].partition(":")
    make = getattr(importlib.import_module(module), function)
    if options["warm"] is not None:
        make(**options["warm"])()
        gc.collect()
    memory = memory_now()
    step = make(**options["arguments"])
    if not options["collector"]:
        gc.disable()
    for line in sys.stdin:
        print(json.dumps({**measured(step, int(line)), "memory": memory, "peak": peak()}),
              flush=True)


def measured(step: Callable[[], Any], count: int) -> Dict[str, Any]:
    """Times, page faults and results of so many steps."""
    found: Dict[str, Any] = {"cpu": [], "wall": [], "faults": [], "results": []}
    for _ in range(count):
        faults, wall, cpu = page_faults(), time.perf_counter(), time.process_time()
        result = step()
        found["cpu"].append((time.process_time() - cpu) * 1000)
        found["wall"].append((time.perf_counter() - wall) * 1000)
        found["faults"].append(page_faults() - faults)
        found["results"].append(result)
    return found


def page_faults() -> int:
    """The pages that this process has had to be given without reading a file."""
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def memory_now() -> float:
    """MB that are held now; on Linux, what `peak` is counted from as well."""
    try:
        with open("/proc/self/clear_refs", "wb") as file:
            file.write(b"5")                    # forgets the peak, see proc(5)
    except OSError:
        pass
    return _status("VmRSS") or peak()


def peak() -> float:
    """The most MB that were held at once.

    `ru_maxrss` serves where there is no /proc: on Linux it begins with what the parent held.
    """
    if resource is None:
        return 0.0
    unit = 2 ** 20 if sys.platform == "darwin" else 2 ** 10
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _status(name: str) -> float:
    """A number of /proc/self/status in MB, 0 where it has none."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return next((int(line.split()[1]) / 1024 for line in file
                         if line.startswith(name + ":")), 0.0)
    except OSError:
        return 0.0


if __name__ == "__main__":
    main()
