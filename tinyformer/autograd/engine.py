"""Reverse-mode differentiation: the graph of what was computed, walked backwards once.

An operation y = f(x) with the Jacobian J passes a gradient g = dL/dy on to its input as J^T g, the
vector-Jacobian product. `Node` remembers those products when the operation is done; `backpropagate`
starts at the result and, in reverse topological order, sums what each node receives before it
passes it on. Whatever is the same for all operations happens here, once: the order, the sums,
un-broadcasting, the checks of shape and dtype, the release of the graph.

A graph holds no reference cycle, so it is freed by reference counts alone: nodes point to the nodes
of their inputs, and to leaf tensors; nothing points from a leaf, or from an array, to a node.
"""

from __future__ import annotations

import os
import sys
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar
from itertools import count
from operator import attrgetter

from tinyformer.arrays import xp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple
    Observer = Callable[[str, Any], None]

_enabled: ContextVar[bool] = ContextVar("grad_enabled", default=True)
_observer: ContextVar[Optional[Observer]] = ContextVar("observer", default=None)
# The file and line that called whatever this package's own layers do here and now. To walk up to it
# from each operation is dear where models are deep: a module of this package walks once, when it is
# called, and keeps the place here. Without one, every operation walks.
place: ContextVar[Optional[Tuple[str, int]]] = ContextVar("place", default=None)
_numbers = count()
_ROOM = os.path.dirname(os.path.abspath(__file__)) + os.sep          # where operations are
_PACKAGE = os.path.dirname(_ROOM[:-1]) + os.sep

Version = list[int]     # one number: how often the data was replaced; shared where memory is shared


class no_grad(ContextDecorator):
    """Inside, operations are not recorded. A context manager and a decorator; nests; per thread."""

    def __init__(self) -> None:
        self.tokens: List[Any] = []

    def _recreate_cm(self) -> no_grad:
        return no_grad()

    def __enter__(self) -> no_grad:
        self.tokens.append(_enabled.set(False))
        return self

    def __exit__(self, *error: object) -> None:
        _enabled.reset(self.tokens.pop())


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Inside, `observer(name, data)` is called with the result of every operation."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def current_observer() -> Optional[Observer]:
    """Who looks at results here and now; None for nobody."""
    return _observer.get()


def is_grad_enabled() -> bool:
    """Whether operations are recorded here and now."""
    return _enabled.get()


class Edges:
    """The way back from a node to one group of its inputs: `vjp(g)` gives their gradients.

    `targets` holds, per input, its node, or the leaf tensor itself, or None if it needs no
    gradient.
    """

    __slots__ = ("targets", "vjp", "joint")

    def __init__(self, targets: List[Any], vjp: Callable[[Any], Any], joint: bool) -> None:
        self.targets = targets
        self.vjp = vjp
        self.joint = joint          # vjp returns one gradient per input, not a single one


class Node:
    """One operation that was done: its name, its place in the user's source, the way back.

    `versions` holds, for every tensor whose numbers the way back may use (the inputs, also those
    that need no gradient, and the result), the counter of its replacements and what that counter
    said.
    """

    __slots__ = ("name", "shape", "dtype", "where", "number", "edges", "versions", "retains",
                 "grad", "__weakref__")

    def __init__(self, name: str, data: Any, edges: List[Edges],
                 versions: List[Tuple[Version, int]]) -> None:
        self.name = name
        self.shape = data.shape
        self.dtype = data.dtype
        self.where = calling_line()
        self.number = next(_numbers)                     # how many nodes were made before this one
        self.edges: Optional[List[Edges]] = edges        # None once the graph is released
        self.versions = versions
        self.retains = False                             # whether `grad` is kept, see retain_grad
        self.grad: Any = None

    def __str__(self) -> str:
        return f"{self.name} ({self.where[0]}, line {self.where[1]})"


def calling_line() -> Tuple[str, int]:
    """The file and line of the nearest caller outside this package."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename.startswith(_ROOM) and frame.f_back is not None:
        frame = frame.f_back
    known = place.get()
    if known is not None and is_own(frame.f_code):
        return known
    while is_own(frame.f_code) and frame.f_back is not None:     # the user's f_back is dear on PyPy
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def is_own(code: Optional[CodeType]) -> bool:
    """Whether code stands in this package; None is code that is not Python's."""
    return code is not None and code.co_filename.startswith(_PACKAGE)


def nodes_below(root: Node) -> List[Node]:
    """`root` and every node that it was computed from, each once, inputs before results.

    A result is made after its inputs, so the order in which the nodes were made is a topological
    one, and finding them needs no recursion: a chain of 10,000 operations works. The whole graph is
    checked here, before a single gradient is touched.
    """
    found = {root}
    stack = [root]
    while stack:
        for edges in checked_edges(stack.pop()):
            for below in edges.targets:
                if type(below) is Node and below not in found:
                    found.add(below)
                    stack.append(below)
    return sorted(found, key=attrgetter("number"))


def checked_edges(node: Node) -> List[Edges]:
    """The ways back from a node; RuntimeError if they are gone or lead through replaced numbers."""
    if node.edges is None:
        raise RuntimeError(
            f"backward() reached {node}, whose graph was released by an earlier backward(): the "
            "arrays it needs are gone. Call the first backward(retain_graph=True), or compute the "
            "forward pass again. No gradient was changed.")
    for version, number in node.versions:
        if version[0] != number:
            what = "the result" if version is node.versions[-1][0] else "an input"
            raise RuntimeError(
                f"the data of {what} of {node} was replaced after the operation had used it, so "
                "its gradient would belong to other numbers. Call backward() before you change "
                "data (by .data =, item assignment, an optimiser or loading), or compute the "
                "forward pass again. No gradient was changed.")
    return node.edges


def unbroadcast(g: Any, shape: Tuple[int, ...]) -> Any:
    """The transpose of broadcasting: a gradient summed to the shape of its operand.

    Returns it as it is where the shapes cannot have come from broadcasting; the caller compares.
    """
    extra = len(g.shape) - len(shape)
    if extra < 0 or any(have != want and want != 1 for have, want in zip(g.shape[extra:], shape)):
        return g
    axes = tuple(range(extra)) + tuple(
        extra + axis for axis, length in enumerate(shape) if length == 1 != g.shape[extra + axis])
    return xp.reshape(xp.sum(g, axis=axes, keepdims=True), shape)


def fitted(g: Any, target: Any, node: Node) -> Any:
    """A gradient in the shape and dtype of the operand that it belongs to."""
    like = target if type(target) is Node else target._data
    if type(g) is not xp.Array:                    # NumPy's reductions to no axes give scalars
        g = xp.asarray(g)
    shape = like.shape
    if g.shape != shape:
        g = unbroadcast(g, shape)
    if g.dtype is not like.dtype and g.dtype != like.dtype or g.shape != shape:
        raise RuntimeError(
            f"the gradient of {node} has shape {tuple(g.shape)} and dtype {g.dtype}, but its "
            f"operand has shape {tuple(like.shape)} and dtype {like.dtype}: the vector-Jacobian "
            f"product of {node.name} is wrong. No gradient was changed.")
    return g


def backpropagate(root: Any, gradient: Any, retain_graph: bool) -> List[Tuple[Any, Any]]:
    """The gradients below `root`, given its own: pairs of a target and an array of its own.

    The targets are the leaves, and the nodes that retain their gradient.

    A gradient is taken out of the table when its turn comes, so that it can be freed; sums are made
    in place only in arrays that were made by such a sum, never in one that an operation may still
    hold. Unless `retain_graph`, each node forgets its way back as soon as it was walked.
    """
    order = nodes_below(root) if isinstance(root, Node) else []
    table = Table()
    table.add(root, gradient)
    kept = []
    while order:
        node = order.pop()
        g = table.pop(node)
        if g is None:                          # every path to it passed a gradient of None
            continue
        if node.retains:
            kept.append((node, xp.astype(g, g.dtype)))
        for edges in node.edges or ():
            contributions = edges.vjp(g) if edges.joint else (edges.vjp(g),)
            if len(contributions) != len(edges.targets):
                raise RuntimeError(f"{node} gave {len(contributions)} gradients for "
                                   f"{len(edges.targets)} operands. No gradient was changed.")
            for target, contribution in zip(edges.targets, contributions):
                if target is not None and contribution is not None:
                    table.add(target, fitted(contribution, target, node))
        if not retain_graph:
            node.edges = None
    return kept + table.rest()


class Table:
    """What every node and leaf has received so far."""

    def __init__(self) -> None:
        self.sums: Dict[Any, Any] = {}
        self.owned: Set[Any] = set()       # those whose sum is an array that nobody else can hold

    def add(self, target: Any, g: Any) -> None:
        """Add a contribution to the gradient of a node or leaf."""
        if target not in self.sums:
            self.sums[target] = g
        elif target in self.owned:
            self.sums[target] += g
        else:
            self.sums[target] = xp.asarray(self.sums[target] + g)
            self.owned.add(target)

    def pop(self, node: Node) -> Any:
        """Take out the gradient of a node; None if it received none."""
        if self.owned:
            self.owned.discard(node)
        return self.sums.pop(node, None)

    def rest(self) -> List[Tuple[Any, Any]]:
        """What is left when all nodes were taken out: the leaves, each with an array of its own."""
        return [(leaf, g if leaf in self.owned else xp.astype(g, g.dtype))
                for leaf, g in self.sums.items()]
