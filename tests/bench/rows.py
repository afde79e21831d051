"""Every figure that is measured and what is asked of it: the one table behind the printed one, the
JSON, the README and the gate of `--quick`.

`target` is required, `stretch` would be welcome. Nothing here needs more than the standard library.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

SIZES = {"a": "d64 h4 L2 T32 B8 V128", "b": "d128 h4 L4 T64 B16 V512",
         "c": "d256 h8 L6 T128 B16 V8000"}
PYTHONS = ("CPython 3.9-3.12", "CPython 3.13", "PyPy")


class Row(NamedTuple):
    """A row of the table: the figure `name`, measured by the part `part` of the benchmark.

    The figure is to be at most `target`, or at least where `at_least` says so. `--quick` measures
    the rows that are `quick` and fails where one is worse than `limit`, twice its target unless
    given. `needs` are the modules without which the figure cannot be had, `where` is the kind of
    interpreter that it is asked of. A row that `must` hold shows that the others compare the same
    work; a full run fails where it does not. Rows without a target stand in JSON and pictures.
    """

    name: str
    part: str
    what: str
    target: Optional[float] = None
    stretch: Optional[float] = None
    unit: str = "x"
    at_least: bool = False
    limit: Optional[float] = None
    quick: bool = False
    needs: Tuple[str, ...] = ("numpy",)
    must: bool = False
    where: str = ""

    def reaches(self, value: float, asked: Optional[float]) -> bool:
        """Whether a figure is as good as is asked."""
        return asked is not None and (value >= asked if self.at_least else value <= asked)

    def fails(self, value: float) -> bool:
        """Whether a figure is so much worse than its target that no noise explains it."""
        if self.target is None:
            return False
        limit = self.limit
        if limit is None:
            limit = self.target / 2 if self.at_least else self.target * 2
        return not self.reaches(value, limit)

    def asks(self, asked: Optional[float]) -> str:
        """A target in words: "<= 0.75"."""
        return "" if asked is None else f"{'>=' if self.at_least else '<='} {asked:g}"


def per_size(name: str, part: str, what: str, targets: Sequence[Optional[float]],
             stretches: Sequence[float] = (), quick: str = "", **rest: Any) -> List[Row]:
    """A row for each size, the targets in the order of the sizes; `quick` names sizes."""
    return [Row(f"{name} {size}", part, f"{what}, size {size}", target,
                stretches[place] if stretches else None, quick=size in quick, **rest)
            for place, (size, target) in enumerate(zip(SIZES, targets))]


def pure_rows() -> List[Row]:
    """The pure backend: what is asked depends on the interpreter."""
    what = "pure backend against a scalar engine"
    rows = []
    for python, on, off in zip(PYTHONS, (40, 32, 35), (18, 18, None)):
        rows.append(Row(f"scalar, {python}", "scalar", f"{what}, 16 wide", on, 50, at_least=True,
                        quick=True, needs=(), where=python))
        rows.append(Row(f"scalar without collector, {python}", "scalar",
                        f"{what}, collector off", off, off and 22, at_least=True,
                        quick=True, needs=(), where=python))
    rows += [Row(name, "scalar", words, unit="ms", quick=True, needs=()) for name, words in (
        ("scalar time", "one node per number"),
        ("scalar time without collector", "one node per number, collector off"),
        ("pure time", "tinyformer"))]
    return rows + [
        Row("wide scalar", "wide", f"{what}, 64 wide, 2 layers, 16 tokens", 60, 100, at_least=True,
            needs=()),
        Row("pure plain", "scalar", "pure backend: step over the same in its plain forms", 1.0,
            quick=True, needs=())] + [
        Row(f"kernel {n}", "kernel", f"pure matrix product over the bare kernel, {n} x {n} x {n}",
            1.3, needs=()) for n in (64, 128)]


BOTH = ("numpy", "torch")
ROWS: List[Row] = [
    *per_size("decoder", "decoder", "decoder step over PyTorch eager, 1 thread",
              (0.75, 0.97, 0.98), (0.65, 0.92, 0.92), needs=BOTH),
    *per_size("threads", "threads", "decoder step over PyTorch eager, 2 threads, wall time",
              (0.80, 1.06, 1.00), (0.78, 1.00, 0.95), needs=BOTH),
    *per_size("faults", "faults", "page faults of a warm decoder step", (0, 0, 0), unit="",
              limit=100, quick="ab"),
    *per_size("products", "decoder", "decoder step over its matrix products alone",
              (2.15, 1.45, 1.25), quick="abc"),      # at a and b: what the first rows come to
    *per_size("products of torch", "decoder", "those matrix products over PyTorch eager",
              (None, None, None), needs=BOTH),
    *per_size("plain", "decoder", "decoder step over the same in its plain forms", (1.0, 1.0),
              quick="ab"),
    *per_size("encoder", "encoders", "encoder step (masked words) over PyTorch's modules",
              (0.80, 0.95), needs=BOTH),
    *per_size("translation", "encoders", "encoder-decoder step over PyTorch's modules",
              (0.80, 0.95), needs=BOTH),
    *pure_rows(),
    Row("generation", "generation", "200 tokens with a cache, tokens/s over PyTorch eager, size b",
        1.5, at_least=True, needs=BOTH),
    *per_size("memory", "memory", "peak memory of decoder steps over PyTorch's", (1, 1, 1),
              needs=BOTH),
    Row("start", "start", "`import tinyformer` above the bare interpreter", 25, unit="ms",
        quick=True, needs=()),
    Row("start pure", "start", "the same with a first tensor, pure backend", 25, unit="ms",
        quick=True, needs=()),
    Row("start numpy", "start", "the same with a first tensor, above NumPy's own import", 25,
        unit="ms", quick=True),
    Row("growth batch", "growth", "time per token, the largest batch over the least", 1.15),
    Row("growth time", "growth", "time per token but for attention, 1,024 tokens over 64", 1.25),
    Row("growth attention", "growth", "time per token: distance from a straight line in T", 0.2,
        unit=""),
    Row("growth memory", "growth", "memory but for attention: distance from a straight line in T",
        0.2, unit=""),
    Row("token time", "growth", "time per token", unit="us"),
    Row("token time without attention", "growth", "time per token without attention", unit="us"),
    Row("step memory", "growth", "memory of steps", unit="MB"),
    Row("step memory without attention", "growth", "memory of steps without attention", unit="MB"),
    *per_size("losses", "decoder", "decoder losses of 20 steps from PyTorch's, relative",
              (1e-5,) * 3, unit="", needs=BOTH, must=True),
    *per_size("encoder losses", "encoders", "encoder losses from PyTorch's, relative",
              (1e-5,) * 2, unit="", needs=BOTH, must=True),
    *per_size("translation losses", "encoders", "encoder-decoder losses from PyTorch's, relative",
              (1e-5,) * 2, unit="", needs=BOTH, must=True),
    Row("pure losses", "scalar", "pure losses from one node per number, relative", 1e-5, unit="",
        needs=(), must=True),
    Row("backend losses", "losses", "pure losses from NumPy's in float64, relative", 1e-5, unit="",
        must=True),
    *per_size("gradients", "gradients", "float32 gradients from PyTorch's in float64, relative",
              (1e-5,) * 3, unit="", needs=BOTH, must=True)]
BY_NAME: Dict[str, Row] = {row.name: row for row in ROWS}


def python_class(implementation: str, version: Tuple[int, int]) -> str:
    """Which of PYTHONS an interpreter is; a later CPython is held to the last one's targets."""
    if implementation != "cpython":
        return "PyPy"
    return PYTHONS[0] if version < (3, 13) else PYTHONS[1]


def this_python() -> str:
    """The name of the running interpreter with its version."""
    name = {"cpython": "CPython", "pypy": "PyPy"}.get(sys.implementation.name,
                                                      sys.implementation.name)
    return f"{name} {sys.version.split()[0]}"
