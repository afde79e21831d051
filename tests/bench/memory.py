"""Pages and megabytes: what a training step asks of the system once it is warm, and at most.

Each engine has a process of its own for each size. A step of a tiny model is run first; what is
counted is what the steps add to the memory held then.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from tests.bench.measure import Asked, Figure, Figures, Worker, figure, medians, ratios

ENGINES: Dict[str, Any] = {
    "tinyformer": ("tests.bench.trained:step", {"model": "decoder"}),
    "PyTorch": ("tests.bench.torch_decoder:random_step", {})}


def faults(asked: Asked, sizes: Sequence[str] = "abc") -> Figures:
    """Page faults of each step of a warm decoder, NumPy backend; Linux with glibc keeps memory."""
    for size in sizes[:2] if asked.quick else sizes:
        call, arguments = ENGINES["tinyformer"]
        with Worker(call, {**arguments, "size": size}) as worker:
            worker.run(5)
            yield figure(f"faults {size}", worker.run(5 if size == "c" else 20)["faults"])


def peaks(asked: Asked, sizes: Sequence[str] = "abc") -> Figures:
    """The most memory that training steps hold."""
    for size in sizes:
        held: Dict[str, List[float]] = {name: [] for name in ENGINES}
        for _ in range(2 if size == "c" else 3):
            for name in ENGINES:
                held[name].append(most(name, size))
        if not all(map(min, held.values())):
            yield Figure(f"memory {size}", missing="this system does not tell the peak of memory")
            continue
        yield figure(f"memory {size}", ratios(held["tinyformer"], held["PyTorch"]),
                     medians(held, "MB"))


def most(engine: str, size: str) -> float:
    """The MB that steps of an engine hold at most, in a process of their own."""
    call, arguments = ENGINES[engine]
    with Worker(call, {**arguments, "size": size}, warm={**arguments, "size": "tiny"}) as worker:
        answer = worker.run(3)
    return float(answer["peak"] - answer["memory"])
