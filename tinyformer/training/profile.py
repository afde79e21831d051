"""Where does the time go? Every moment of a run is on exactly one account.

While a profile is taken a clock runs, and one account is open. Whoever begins a piece of work opens
its account, and the time since the last opening goes to the account that was open until then. So
nothing is counted twice and nothing is left out: the accounts add up to the whole.

    forward     an operation from its call until `record`: its value is computed
    backward    the vector-Jacobian products that it gave to `record`
    the graph   `record` itself; on the way back the order, the checks, the sums of gradients
    between     the Python of the modules around the operations
    ...         the optimiser, the batches and what else is named below
    rest        the loop, and the freeing of what a step leaves behind

The functions with which work begins are replaced, wherever a module has them, by ones that look at
the clock, and put back at the end: nothing of it is there when no profile is taken. An operation
whose call goes another way (an operation of your own, a function that an object has kept) is taken
to begin where the work before it ended.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections import defaultdict
from threading import get_ident
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Tuple

from tinyformer.arrays import xp
from tinyformer.autograd import Tensor, operations, record
from tinyformer.nn import Module
from tinyformer.pictures.html import page
from tinyformer.training import optimisers
from tinyformer.training.batches import ExampleBatches, TokenBatches
from tinyformer.training.log import LossLog
from tinyformer.training.loop import Trainer
from tinyformer.training.progress import Progress

Account = Tuple[str, str]               # what is done, and in which direction
Function = Callable[..., Any]

FORWARD, BACKWARD = "forward", "backward"
GRAPH, BETWEEN, REST = "the graph", "between operations", "rest"
OPTIMISER, HELD_OUT, KEEPING = "optimiser", "held-out loss", "log, checkpoints, progress"

# Where work begins: a module or a class, and its function. What happens inside may have an account
# of its own, or belongs to the whole.
PARTS: List[Tuple[Any, str, str, str]] = [
    *((operations, name, name, FORWARD) for name in operations.__all__),
    (Module, "__call__", BETWEEN, FORWARD), (Tensor, "backward", GRAPH, BACKWARD)]
WHOLES: List[Tuple[Any, str, str, str]] = [
    (owner, function, name, FORWARD) for owner, function, name in (
        (optimisers.Optimiser, "step", OPTIMISER), (optimisers, "clip_grad_norm", "clipping"),
        (TokenBatches, "__next__", "batches"), (ExampleBatches, "__next__", "batches"),
        (Trainer, "_evaluated", HELD_OUT), (Trainer, "save", KEEPING),
        (LossLog, "append", KEEPING), (Progress, "update", KEEPING))]
HEAD = ("operation", "calls", "forward", "backward", "both", "share", "products", "made")
SUM, TRAINING, WHOLE = "all operations", "all training", "the whole"
AROUND = {HELD_OUT, KEEPING}                                      # which is not training
ONE_WAY = {name for _, _, name, _ in WHOLES} | {REST, TRAINING, WHOLE}
OTHERS = {GRAPH, BETWEEN} | ONE_WAY                               # which are no operations


class Spent(NamedTuple):
    """What one kind of work took: seconds forward and backward, those among them that were matrix
    products; how often it was called, and the bytes of its results."""

    forward: float = 0.0
    backward: float = 0.0
    products: float = 0.0
    calls: int = 0
    bytes: int = 0

    @property
    def seconds(self) -> float:
        """Forward and backward together."""
        return self.forward + self.backward

    def __add__(self, other: Any) -> Spent:
        return Spent(*(mine + its for mine, its in zip(self, other)))


class Profile:
    """What was done between `begin` and `end`, in this thread. `clock` gives seconds.

    `print(profile)` shows a table: the milliseconds of each operation forward, backward and both,
    their share in all training, the part of them that was matrix products, and the bytes of the
    results. All of it per step, if an optimiser made steps. Notebooks draw it. `profile["linear"]`
    is what an operation, or another row of the table, took.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.seconds: Dict[Account, float] = defaultdict(float)
        self.products: Dict[Account, float] = defaultdict(float)
        self.calls: Dict[Account, int] = defaultdict(int)
        self.bytes: Dict[str, int] = {}         # of the results of operations that were recorded
        self.account, self.since = (REST, FORWARD), 0.0
        self.thread = 0                         # whose time is measured; 0 before and after
        self.sealed = False                     # inside something that is one piece of work
        self.multiplying = False                # inside a matrix product

    def begin(self) -> None:
        """The clock starts, for this thread."""
        self.thread, self.since = get_ident(), self.clock()

    def end(self) -> None:
        """The clock stops."""
        self.switch((REST, FORWARD))
        self.thread = 0

    def switch(self, account: Account) -> Account:
        """From now on the time goes to `account`; returns the one to which it went until now."""
        now, former = self.clock(), self.account
        self.seconds[former] += now - self.since
        self.since, self.account = now, account
        return former

    def elsewhere(self) -> bool:
        """Whether what happens here and now opens no account of its own."""
        return self.sealed or get_ident() != self.thread

    # The functions that look at the clock

    def timed(self, function: Function, account: Account, whole: bool = False) -> Function:
        """`function` on its account; all that happens inside, too, if it is a `whole`."""

        def on_account(*arguments: Any, **options: Any) -> Any:
            """The call, on the account that is opened for it and closed behind it."""
            if self.elsewhere():
                return function(*arguments, **options)
            self.calls[account] += 1
            former, self.sealed = self.switch(account), whole
            try:
                return function(*arguments, **options)
            finally:
                self.sealed = False
                self.switch(former)

        return on_account

    def recorded(self, record: Function) -> Function:
        """`record`, with which the forward part of an operation ends; its way back is timed."""

        def on_account(name: str, data: Any, *edges: Any, **options: Any) -> Any:
            """The recording on the account of the graph, each way back on that of the operation."""
            if self.elsewhere():
                return record(name, data, *edges, **options)
            account, back, former = (name, FORWARD), (name, BACKWARD), self.account
            if former != account:               # its beginning was not seen
                self.calls[account] += 1
                self.account = account
            edges = tuple((operands, vjp and self.timed(vjp, back)) for operands, vjp in edges)
            self.switch((GRAPH, FORWARD))
            result = record(name, data, *edges, **options)
            self.switch(former)
            self.bytes[name] = self.bytes.get(name, 0) + bytes_of(result, options.get("shares"))
            return result

        return on_account

    def product(self, matmul: Function) -> Function:
        """A matrix product: its time is noted beside the accounts, for the one that is open."""

        def timed(*arguments: Any, **options: Any) -> Any:
            """The product; within another one, or in another thread, it is not counted."""
            if self.multiplying or get_ident() != self.thread:
                return matmul(*arguments, **options)
            self.multiplying, begun = True, self.clock()
            try:
                return matmul(*arguments, **options)
            finally:
                self.products[self.account] += self.clock() - begun
                self.multiplying = False

        return timed

    # What it shows

    @property
    def total(self) -> float:
        """The seconds from `begin` to `end`."""
        return sum(self.seconds.values())

    @property
    def steps(self) -> int:
        """How often an optimiser stepped."""
        return self.calls.get((OPTIMISER, FORWARD), 0)

    def __getitem__(self, name: str) -> Spent:
        """What the work of this name took: nothing if there was none."""
        forward, backward = (name, FORWARD), (name, BACKWARD)
        return Spent(self.seconds.get(forward, 0.0), self.seconds.get(backward, 0.0),
                     self.products.get(forward, 0.0) + self.products.get(backward, 0.0),
                     self.calls.get(forward, 0), self.bytes.get(name, 0))

    def operations(self) -> Dict[str, Spent]:
        """What each operation took, the longest first."""
        return self._sorted(name for name, _ in self.seconds if name not in OTHERS)

    def others(self) -> Dict[str, Spent]:
        """What everything took that is no operation, the longest first."""
        return self._sorted(name for name, _ in self.seconds if name in OTHERS)

    def _sorted(self, names: Iterable[str]) -> Dict[str, Spent]:
        found = {name: self[name] for name in names}
        return dict(sorted(found.items(), key=lambda item: -item[1].seconds))

    def rows(self) -> List[Tuple[str, ...]]:
        """The table, its head first: all numbers per step, or in all if there were no steps."""
        inner, outer = self.operations(), self.others()
        around = [(name, outer.pop(name)) for name in list(outer) if name in AROUND]
        operations = sum(inner.values(), Spent())
        training = sum(outer.values(), operations)
        whole = sum((spent for _, spent in around), training)
        lines = [*inner.items(), (SUM, operations), *outer.items(), (TRAINING, training), *around]
        return [HEAD] + [self._row(name, spent, training.seconds)
                         for name, spent in lines + [(WHOLE, whole)] * bool(around)]

    def _row(self, name: str, spent: Spent, training: float) -> Tuple[str, ...]:
        steps = self.steps or 1
        times = [f"{part * 1000 / steps:,.2f}" if part else ""
                 for part in (*spent[:2], spent.seconds)]
        if name in ONE_WAY:
            times[:2] = ["", ""]
        return (name, "" if name in OTHERS else f"{spent.calls / steps:.4g}", *times,
                "" if name in AROUND | {WHOLE} else f"{share(spent.seconds, training):.1%}",
                f"{share(spent.products, spent.seconds):.0%}" if spent.products else "",
                bytes_text(spent.bytes / steps) if spent.bytes else "")

    def title(self) -> str:
        """What the table is of."""
        if not self.steps:
            return f"{self.total:.2f} s in all; times in milliseconds"
        return f"{self.steps:,} steps in {self.total:.2f} s; a step, times in milliseconds"

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join([row[0].ljust(widths[0]),
                            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))])
                 for row in rows]
        return "\n".join([self.title(), *(line.rstrip() for line in lines)])

    def _repr_html_(self) -> str:
        head, *rows = self.rows()
        return page("Where the time goes", [("text", self.title()), ("table", head, rows)])


def share(part: float, whole: float) -> float:
    """part / whole, and 0 of nothing."""
    return part / whole if whole else 0.0


def bytes_text(count: float) -> str:
    """Bytes in a unit that can be read.

    >>> bytes_text(512), bytes_text(65536), bytes_text(1.5e6)
    ('512 B', '65.5 kB', '1.5 MB')
    """
    unit = 0
    while count >= 1000 and unit < 3:
        count, unit = count / 1000, unit + 1
    return f"{count:.1f} {'B kB MB GB'.split()[unit]}" if unit else f"{count:.0f} B"


def bytes_of(result: Tensor, shares: Any) -> int:
    """The bytes of a result; 0 if it only shows the memory of the operand that it `shares`.

    A number of the pure engine counts 8, its place in a list.
    """
    data = result.data
    if hasattr(data, "values"):
        shown = shares is not None and data.values is shares.data.values
        return 0 if shown else 8 * data.size
    return 0 if shares is not None and data.base is not None else int(data.nbytes)


@contextlib.contextmanager
def profiled(clock: Callable[[], float] = time.perf_counter) -> Iterator[Profile]:
    """Inside, every moment goes to an account of the profile, to be printed afterwards:

        with profiled() as profile:
            trainer.run()               # or your own loop
        print(profile)

    The numbers that are computed stay the same, bit for bit. Looking at the clock takes time too,
    about a microsecond a look, and makes small operations look slower than they are: a tenth of a
    step in a model 64 wide, a hundredth in one 128 wide.
    """
    profile = Profile(clock)
    by: Dict[int, Function] = {id(record): profile.recorded(record)}
    by.update((id(function), profile.product(function)) for function in kernels())
    for places in (PARTS, WHOLES):
        for owner, function, name, way in places:
            original = vars(owner)[function]
            by[id(original)] = profile.timed(original, (name, way), whole=places is WHOLES)
    with replaced(by):
        profile.begin()
        try:
            yield profile
        finally:
            profile.end()


def kernels() -> List[Function]:
    """The matrix product of the backend in use, and what the pure one calls where it goes without:
    the dot products of rows and columns."""
    pure = sys.modules.get("tinyformer.arrays.pure.products")
    return [xp.matmul] + ([pure.dots] if pure else [])


@contextlib.contextmanager
def replaced(by: Dict[int, Function]) -> Iterator[None]:
    """Inside, the functions of these ids are replaced, where a module, one of the classes above or
    `xp` has them; NumPy is left alone."""
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] != "numpy"]
    owners = {id(owner): owner for owner in [xp, *modules, *(place[0] for place in PARTS + WHOLES)]}
    found = [(owner, name, value) for owner in owners.values()
             for name, value in list(getattr(owner, "__dict__", {}).items()) if id(value) in by]
    for owner, name, value in found:
        setattr(owner, name, functools.update_wrapper(by[id(value)], value))
    try:
        yield
    finally:
        for owner, name, value in found:
            if vars(owner).get(name) is by[id(value)]:      # `xp` may have another backend by now
                setattr(owner, name, value)
