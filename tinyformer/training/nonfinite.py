"""Where did the first nan come from?

A loss of nan says nothing: one bad number spoils everything computed from it. So the forward pass
is run again with the random numbers it had, this time looking at the result of every operation, in
the order in which they are done. The first nan is the culprit; an infinity just
before it is often the cause of it (inf - inf, 0 * inf), so it is named too.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

from tinyformer.arrays import xp
from tinyformer.autograd.engine import observed

ENGINE = ("tinyformer.autograd", "tinyformer.training.profile")     # whose lines explain nothing


class Finding(NamedTuple):
    """A tensor that is not finite: the operation that made it, in which module, on which line."""

    what: str           # "nan" or "infinity"
    operation: str
    shape: Any
    module: str
    where: str

    def __str__(self) -> str:
        place = f" in {self.module}" if self.module else ""
        return (f"{self.what} in the result of {self.operation}{place}, shape {tuple(self.shape)} "
                f"({self.where})")


def describe(model: Any, forward: Callable[[], Any]) -> str:
    """In words, what went wrong first when `forward()` computes a loss that is not finite."""
    for name, parameter in model.named_parameters():
        count = parameter.size - _finite_count(parameter.data)
        if count:
            return (f"the parameter {name} already held {count} of {parameter.size} numbers that "
                    "are nan or infinite before this step; the step before broke it")
    names = {id(module): name or type(module).__name__ for name, module in model.named_modules()}
    with watched(names) as findings:
        forward()
    nans = [finding for finding in findings if finding.what == "nan"]
    if nans:
        cause = f", after {findings[0]}" if findings[0] is not nans[0] else ""
        return f"the first tensor that became nan: {nans[0]}{cause}"
    if findings:
        return f"no tensor became nan; the first infinity: {findings[0]}"
    return "no operation gave a number that is not finite; look at what the loss does last"


@contextlib.contextmanager
def watched(names: Dict[int, str]) -> Iterator[List[Finding]]:
    """Inside, each operation whose result is not finite adds to the list: at most the first
    infinity and the first nan. `names` maps the id of each module to its name."""
    findings: List[Finding] = []

    def look(name: str, data: Any) -> None:
        what = _what(data)
        if what and what not in [finding.what for finding in findings]:
            findings.append(Finding(what, name, data.shape, *_place(names)))

    with observed(look):
        yield findings


def _place(names: Dict[int, str]) -> List[str]:
    """The innermost module at work, and the line outside the engine that called the operation."""
    frame: Optional[Any] = sys._getframe(2)
    module, where = "", ""
    while frame is not None and not module:
        owner = frame.f_locals.get("self")
        module = names.get(id(owner), "")
        if not where and not frame.f_globals.get("__name__", "").startswith(ENGINE):
            where = f"{frame.f_code.co_filename}, line {frame.f_lineno}"
        frame = frame.f_back
    return [module, where]


def _what(data: Any) -> str:
    """ "nan", "infinity" or "": the worst that an array holds."""
    if _finite_count(data) == data.size:
        return ""
    return "nan" if bool(xp.any(xp.isnan(data))) else "infinity"


def _finite_count(data: Any) -> int:
    return int(xp.sum(xp.astype(xp.isfinite(data), xp.int64)))
