"""Reverse-mode differentiation: the graph of what was computed, walked backwards once.

An operation y = f(x) with the Jacobian J passes a gradient g = dL/dy on to its input as J^T g, the
vector-Jacobian product. `Node` remembers those products when the operation is done; `backpropagate`
starts at the result and, in reverse topological order, sums what each node receives before it passes it
on. Whatever is the same for all operations happens here, once: the order, the sums, un-broadcasting,
the checks of shape and dtype, the release of the graph.

A graph holds no reference cycle, so it is freed by reference counts alone: nodes point to the nodes of
their inputs, and to leaf tensors; nothing points from a leaf, or from an array, to a node.
"""

from __future__ import annotations

import os
import sys
from contextlib import ContextDecorator
from contextvars import ContextVar
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from tinyformer.arrays import xp

_enabled: ContextVar[bool] = ContextVar("grad_enabled", default=True)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class no_grad(ContextDecorator):
    """Inside, operations are not recorded: a context manager and a decorator, nesting, per thread."""

    def _recreate_cm(self) -> "no_grad":
        return no_grad()

    def __enter__(self) -> "no_grad":
        self.token = _enabled.set(False)
        return self

    def __exit__(self, *error: object) -> None:
        _enabled.reset(self.token)


def is_grad_enabled() -> bool:
    """Whether operations are recorded here and now."""
    return _enabled.get()


class Edges:
    """The way back from a node to one group of its inputs: `vjp(g)` gives their gradients.

    `targets` holds, per input, its node, or the leaf tensor itself, or None if it needs no gradient;
    `versions` how often its data had been replaced when the operation read it.
    """

    __slots__ = ("targets", "versions", "vjp", "joint")

    def __init__(self, targets: Tuple[Any, ...], versions: Tuple[int, ...], vjp: Callable[[Any], Any],
                 joint: bool) -> None:
        self.targets = targets
        self.versions = versions
        self.vjp = vjp
        self.joint = joint          # vjp returns one gradient per input, not a single one

    def gradients(self, g: Any) -> Any:
        """One gradient per target."""
        return self.vjp(g) if self.joint else (self.vjp(g),)


class Node:
    """One operation that was done: its name, its place in the user's source, the way back."""

    __slots__ = ("name", "shape", "dtype", "where", "edges", "version", "retains", "grad", "__weakref__")

    def __init__(self, name: str, data: Any, edges: List[Edges]) -> None:
        self.name = name
        self.shape = data.shape
        self.dtype = data.dtype
        self.where = calling_line()
        self.edges: Optional[List[Edges]] = edges        # None once the graph is released
        self.version = 0                                 # how often the result's data was replaced
        self.retains = False                             # whether `grad` is kept, see retain_grad
        self.grad: Any = None

    def __str__(self) -> str:
        return f"{self.name} ({self.where[0]}, line {self.where[1]})"


def calling_line() -> Tuple[str, int]:
    """The file and line of the nearest caller outside this package."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def topological_order(root: Any) -> List[Any]:
    """Everything that `root` was computed from, inputs before results.

    Every node and leaf stands once, by a stack of our own: a chain of 10,000 operations needs no
    recursion. The whole graph is checked here, before a single gradient is touched.
    """
    order: List[Any] = []
    seen: Set[int] = set()
    stack: List[Tuple[Any, bool]] = [(root, False)]
    while stack:
        target, finished = stack.pop()
        if finished:
            order.append(target)
        elif id(target) not in seen:
            seen.add(id(target))
            stack.append((target, True))
            if isinstance(target, Node):
                stack.extend((below, False) for below in checked_inputs(target))
    return order


def checked_inputs(node: Node) -> List[Any]:
    """The inputs of a node that need a gradient; RuntimeError if it can no longer be trusted."""
    if node.edges is None:
        raise RuntimeError(
            f"backward() reached {node}, whose graph was released by an earlier backward(): the arrays it "
            "needs are gone. Call the first backward(retain_graph=True), or compute the forward pass "
            "again. No gradient was changed.")
    if node.version:
        raise _replaced(f"the result of {node}")
    inputs = []
    for edges in node.edges:
        for target, version in zip(edges.targets, edges.versions):
            if target is not None:
                if target.version != version:
                    raise _replaced(f"an input of {node}")
                inputs.append(target)
    return inputs


def _replaced(what: str) -> RuntimeError:
    return RuntimeError(
        f"the data of {what} was replaced after the operation had used it, so its gradient would belong "
        "to other numbers. Call backward() before you change data (by .data =, item assignment, an "
        "optimiser or loading), or compute the forward pass again. No gradient was changed.")


def unbroadcast(g: Any, shape: Tuple[int, ...]) -> Any:
    """Sum a gradient over the axes along which its operand was stretched: the transpose of broadcasting.

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
    if type(g) is not xp.Array:                    # NumPy's reductions to no axes give scalars
        g = xp.asarray(g)
    if g.shape != target.shape:
        g = unbroadcast(g, target.shape)
    dtype = target.dtype if isinstance(target, Node) else target.data.dtype
    if g.shape != target.shape or g.dtype != dtype:
        raise RuntimeError(
            f"the gradient of {node} has shape {g.shape} and dtype {g.dtype}, but its operand has shape "
            f"{target.shape} and dtype {dtype}: the vector-Jacobian product of {node.name} is wrong. "
            "No gradient was changed.")
    return g


def backpropagate(root: Any, gradient: Any, retain_graph: bool) -> List[Tuple[Any, Any]]:
    """The gradients of all leaves below `root`, given the gradient of `root`: pairs (leaf, array).

    A gradient is taken out of the table when its turn comes, so that it can be freed; sums are made in
    place only in arrays that were made by such a sum, never in one that an operation may still hold.
    Unless `retain_graph`, each node forgets its way back as soon as it was walked.
    """
    order = topological_order(root)
    gradients: Dict[int, Any] = {id(root): gradient}
    owned: Set[int] = set()
    leaves: List[Tuple[Any, Any]] = []
    while order:
        target = order.pop()
        g = gradients.pop(id(target), None)
        if g is None:                          # every path to it passed a gradient of None
            continue
        if not isinstance(target, Node):
            leaves.append((target, g))
            continue
        if target.retains:
            target.grad = g if target.grad is None else target.grad + g
        for edges in target.edges or ():
            for below, contribution in zip(edges.targets, edges.gradients(g)):
                if below is not None and contribution is not None:
                    _accumulate(gradients, owned, id(below), fitted(contribution, below, target))
        if not retain_graph:
            target.edges = None
    return leaves


def _accumulate(gradients: Dict[int, Any], owned: Set[int], key: int, contribution: Any) -> None:
    """Add a contribution to what a node has received so far."""
    if key not in gradients:
        gradients[key] = contribution
    elif key in owned:
        gradients[key] += contribution
    else:
        gradients[key] = gradients[key] + contribution
        owned.add(key)
