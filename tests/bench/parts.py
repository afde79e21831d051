"""The parts of the benchmark by name: which function measures the rows of each, and what it is."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Dict, Iterator, List, Tuple

from tests.bench.measure import FAILED, Asked, Figure, WorkerFailed
from tests.bench.rows import ROWS, Row

PARTS: Dict[str, Tuple[str, str]] = {
    "decoder": ("decoder:measure", "a decoder in NumPy against PyTorch eager, one thread each, and "
                                   "against its matrix products alone"),
    "threads": ("decoder:threads", "the same with two threads, by the wall clock"),
    "gradients": ("decoder:gradients", "float32 gradients from PyTorch's in float64"),
    "faults": ("memory:faults", "page faults of warm steps"),
    "memory": ("memory:peaks", "the most memory that steps hold, against PyTorch's"),
    "encoders": ("encoders:measure", "an encoder and an encoder-decoder against PyTorch's modules"),
    "generation": ("generation:measure", "tokens a second against PyTorch, both with a cache"),
    "scalar": ("interpreters:measure", "the pure backend against one node per number"),
    "wide": ("interpreters:measure_wide", "the same at width 64"),
    "kernel": ("interpreters:kernel", "the pure matrix product against its bare kernel"),
    "losses": ("interpreters:losses", "the losses of both backends"),
    "start": ("start:measure", "what `import tinyformer` adds to the interpreter's own start"),
    "growth": ("growth:measure", "time and memory per token from 64 to 1,024 tokens")}


def installed(*names: str) -> List[str]:
    """Those of the modules that can be imported."""
    return [name for name in names if importlib.util.find_spec(name)]


def measured(part: str, asked: Asked) -> Iterator[Figure]:
    """The figures of one part; for each of its rows that gave none, one that says why."""
    expected = [row for row in ROWS if row.part == part and (row.quick or not asked.quick)]
    possible = [row for row in expected if not lacking(row, asked)]
    expected_names = {row.name for row in expected}
    had = set()
    if possible:
        module, _, function = PARTS[part][0].partition(":")
        measure = getattr(importlib.import_module(f"tests.bench.{module}"), function)
        try:
            for figure in measure(asked):
                if figure.row in expected_names:
                    had.add(figure.row)
                    yield figure
        except (AssertionError, WorkerFailed) as error:
            yield from (Figure(row.name, missing=f"{FAILED}{error}") for row in possible
                        if row.name not in had)
            return
    for row in expected:
        if row.name not in had:
            yield Figure(row.name, missing=lacking(row, asked) or "see --python")


def lacking(row: Row, asked: Asked) -> str:
    """Why a row cannot be measured here; nothing if it can."""
    absent = [name for name in row.needs if name not in asked.peers]
    return f"{' and '.join(absent)} not installed" if absent else ""
