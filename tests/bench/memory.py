"""Pages and megabytes: what a training step asks of the system once it is warm, and at most.

Each engine has a process of its own for each size. A step of a tiny model is run first; what is
counted is what the steps add to the memory held then.
"""

from __future__ import annotations

from typing import Any, Dict, Sequence

from tests.bench.measure import Asked, Figure, Figures, Worker, figure, number

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
        held = {}
        for name, (call, arguments) in ENGINES.items():
            with Worker(call, {**arguments, "size": size},
                        warm={**arguments, "size": "tiny"}) as worker:
                answer = worker.run(4)
                held[name] = answer["peak"] - answer["memory"]
        if not all(held.values()):
            yield Figure(f"memory {size}", missing="this system does not tell the peak of memory")
            continue
        words = ", ".join(f"{name} {number(each)} MB" for name, each in held.items())
        yield figure(f"memory {size}", [held["tinyformer"] / held["PyTorch"]], words)
