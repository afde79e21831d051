"""What the engine promises, each promise a function that fails where it is broken.

`test_engine.py` runs each against the engine, and against an engine that was broken on purpose: a
property that cannot fail protects nothing.
"""

from __future__ import annotations

import gc
import platform
import threading
import weakref
from typing import Any, Callable, List

from tinyformer.arrays import xp
from tinyformer.autograd import Tensor, is_grad_enabled, no_grad, record

HERE = __file__
COUNTS = platform.python_implementation() == "CPython"      # references, that is


def leaf(*numbers: float) -> Tensor:
    """A leaf that requires a gradient."""
    return Tensor(list(numbers), requires_grad=True)


def refused(action: Callable[[], Any], *words: str, error: type = RuntimeError) -> str:
    """The message of the error that an action gives; it must hold every one of the words."""
    try:
        action()
    except error as caught:
        message = str(caught)
        assert all(word in message for word in words), message
        return message
    raise AssertionError(f"no {error.__name__} was raised")


def counted(calls: List[str]) -> Callable[[Tensor], Tensor]:
    """A doubling that notes every call of its vjp, and gives up when there are far too many."""
    def double(x: Tensor) -> Tensor:
        def vjp(g: Any) -> Any:
            calls.append("vjp")
            assert len(calls) < 1000, "the walk takes every path, not every node"
            return g + g
        return record("double", x.data + x.data, (x, vjp))
    return double


def long_chain() -> None:
    """10,000 operations in a row need no recursion, neither to walk nor to be freed."""
    x = leaf(1.0)
    y = x
    for _ in range(10_000):
        y = y + 1.0
    y.backward(retain_graph=True)
    assert x.grad.tolist() == [1.0]
    node = weakref.ref(y._node)
    del y
    assert node() is None or not COUNTS


def every_path_counts() -> None:
    """An operand or intermediate that is used twice receives both gradients."""
    x = leaf(2.0)
    (x + x).backward()
    assert x.grad.tolist() == [2.0]
    x = leaf(2.0)
    square = x * x
    (square * square).backward()
    assert x.grad.tolist() == [32.0]
    a = leaf(1.0)
    b = a + a
    (b + b).backward()
    assert a.grad.tolist() == [4.0]
    x = leaf(1.0)
    three = x * 3.0
    (three * 2.0 + three * 5.0).backward()
    assert x.grad.tolist() == [21.0]


def equal_leaves_are_two() -> None:
    """Identity decides what a leaf is, not its value."""
    one, two = leaf(2.0), leaf(2.0)
    (one + two).backward()
    assert all(each.grad is not None and each.grad.tolist() == [1.0] for each in (one, two))


def shared_graph_is_walked_once() -> None:
    """24 doublings have 2^24 paths and 24 nodes."""
    calls: List[str] = []
    double = counted(calls)
    x = leaf(1.0)
    y = x
    for _ in range(24):
        y = double(y) + y
    y.backward()
    assert calls == ["vjp"] * 24 and x.grad.tolist() == [3.0 ** 24]


def second_backward_accumulates() -> None:
    """Twice through a kept graph is twice the gradient, never three times."""
    x = leaf(3.0)
    y = (x * 2.0) * 1.0
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    assert x.grad.tolist() == [4.0]


def two_losses_share_an_intermediate() -> None:
    """Both count where the graph is kept."""
    x = leaf(1.0)
    h = x * 2.0
    (h * 3.0).backward(retain_graph=True)
    (h * 4.0).backward()
    assert x.grad.tolist() == [14.0]


def released_graph_is_noticed_in_time() -> None:
    """The second loss is refused before it has changed the gradient of what only it used."""
    x, w = leaf(1.0), leaf(5.0)
    h = x * 2.0
    (h * 3.0).backward()
    second = (w * 1.0) + h
    message = refused(second.backward, "multiply", "released", "retain_graph=True", HERE)
    assert "No gradient was changed" in message
    assert x.grad.tolist() == [6.0] and w.grad is None
    refused((h * 4.0).backward, "released")


def replaced_data_is_noticed_in_time() -> None:
    """Data of an operand, of a view and of a result; each before any gradient is touched."""
    x, w = leaf(2.0), leaf(3.0)
    y = (x * x) + (w * w)
    x.data = x.data * 10.0
    refused(y.backward, "replaced", "multiply", HERE)
    assert x.grad is None and w.grad is None
    y = x.exp()
    y[0] = 5.0
    refused(y.backward, "the result of exp", "replaced")
    x, constant = leaf(2.0, 3.0), Tensor([1.0, 1.0])
    for view in (constant.reshape(2), constant.detach(), constant[:], Tensor(constant)):
        y = (x * view).sum()
        constant.touch()
        refused(y.backward, "replaced")
    (x * constant).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def sums_own_their_arrays() -> None:
    """What `backward` is given and what one path receives is not changed by the sums of another."""
    a, b, given = leaf(1.0, 1.0), leaf(1.0, 1.0), Tensor([1.0, 1.0])
    s = a + b
    (s + a + a).backward(given)
    assert a.grad.tolist() == [3.0, 3.0] and b.grad.tolist() == [1.0, 1.0]
    assert given.tolist() == [1.0, 1.0]


def leaves_own_their_gradients() -> None:
    """Scaling one gradient in place, as clipping might, changes no other, nor the seed."""
    a, b, given = leaf(1.0, 1.0), leaf(1.0, 1.0), Tensor([1.0, 1.0])
    (a + b).backward(given)
    a.grad.data *= 7.0
    assert b.grad.tolist() == given.tolist() == [1.0, 1.0]


def graph_dies_by_reference_count() -> None:
    """Without the garbage collector: before and after backward, a graph kept, after an error."""
    def spent(ends: Callable[[Tensor], Any]) -> weakref.ref:
        x = leaf(1.0, 2.0)
        y = (x * x).exp().sum()
        ends(y)
        node = y._node
        assert node is not None
        return weakref.ref(node)

    gc.collect()
    gc.disable()
    try:
        for ends in (lambda y: None, lambda y: y.backward(),
                     lambda y: y.backward(retain_graph=True),
                     lambda y: refused(lambda: y.backward([1.0, 2.0]), error=ValueError)):
            assert spent(ends)() is None
    finally:
        gc.enable()


def memory_stays_flat() -> None:
    """A loop of training steps leaves nothing behind, without the garbage collector."""
    import tracemalloc                                  # PyPy has none
    x = Tensor([[0.5] * 20] * 20, requires_grad=True)

    def step() -> None:
        x.grad = None
        y = x
        for _ in range(5):
            y = (y * x).tanh()
        y.sum().backward()

    step()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        step()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(8):
            step()
        assert tracemalloc.get_traced_memory()[0] - before < 30_000, "a step leaves memory behind"
    finally:
        tracemalloc.stop()
        gc.enable()


def finished_gradients_are_dropped() -> None:
    """Halfway through backward, the gradient of a finished node is gone, and so is its way back."""
    alive: List[int] = []
    watched: List[Any] = []

    def watching(x: Tensor) -> Tensor:
        kept = xp.asarray([1.0] * x.size)             # an array that only this way back holds

        def vjp(g: Any) -> Any:
            alive.append(sum(each() is not None for each in watched))
            return g * kept
        watched.append(weakref.ref(vjp))
        return record("watching", x.data * kept, (x, vjp))

    y = leaf(1.0, 2.0)
    for _ in range(6):
        y = watching(y)
    y.backward([1.0, 1.0])
    assert alive == [6, 5, 4, 3, 2, 1]


def no_grad_belongs_to_its_thread() -> None:
    """It nests, survives errors, decorates, and a new thread begins with recording on."""
    x, seen = leaf(1.0), []
    with no_grad():
        with no_grad():
            assert not (x * 2.0).requires_grad
        assert not is_grad_enabled()
        thread = threading.Thread(target=lambda: seen.append((x * 2.0).requires_grad))
        thread.start()
        thread.join()
    assert seen == [True] and is_grad_enabled()
    refused(no_grad()(lambda: 1 // 0), error=ZeroDivisionError)
    assert is_grad_enabled() and not no_grad()(lambda: x * 2.0)().requires_grad
    again = no_grad()
    with again:
        with again:
            assert not is_grad_enabled()
    assert is_grad_enabled()


def integers_have_no_gradient() -> None:
    """Neither at birth nor later; and an integer table is no embedding to be trained."""
    refused(lambda: Tensor([1, 2], requires_grad=True), "int64", "float64", error=TypeError)
    refused(lambda: Tensor([True], requires_grad=True), "bool", error=TypeError)
    ids = Tensor([1])
    refused(lambda: setattr(ids, "requires_grad", True), "int64", error=TypeError)


def many_numbers_need_a_seed() -> None:
    """No sum is taken silently."""
    x = leaf(1.0, 2.0)
    refused((x * 2.0).backward, "single number", "(2,)", ".sum()")
    refused(lambda: (x * 2.0).backward([1.0, 2.0, 3.0]), "(3,)", "(2,)", error=ValueError)
    assert x.grad is None
    (x * 2.0).backward([1.0, 10.0])
    assert x.grad.tolist() == [2.0, 20.0]


def wrong_vjps_are_refused() -> None:
    """A gradient of another shape or dtype than its operand's, or one too few."""
    x, y = leaf(1.0, 2.0), leaf(3.0)
    shape = record("wrong", x.data, (x, lambda g: xp.reshape(g, (2, 1))))
    refused(lambda: shape.backward([1.0, 1.0]), "wrong", "(2, 1)", "(2,)", HERE)
    dtype = record("wrong", x.data, (x, lambda g: xp.astype(g, xp.int64)))
    refused(lambda: dtype.backward([1.0, 1.0]), "wrong", "int", "float")
    joint = record("wrong", x.data, ((x, y), lambda g: (g,)))
    refused(lambda: joint.backward([1.0, 1.0]), "wrong", "1 gradients", "2 operands")
    assert x.grad is None and y.grad is None


def errors_in_a_vjp_touch_nothing() -> None:
    """Where a vjp fails halfway, the gradients that were ready are not handed out."""
    x, w = leaf(1.0), leaf(1.0)

    def fail(g: Any) -> Any:
        raise ArithmeticError("no")
    failing = record("failing", x.data, (x, fail))
    h = w * 2.0                                         # made later, so its turn comes earlier
    h.retain_grad()
    refused((failing + h).backward, "no", error=ArithmeticError)
    assert x.grad is None and w.grad is None and h.grad is None


def stretched_operands_get_sums() -> None:
    """Along every axis on which an operand was stretched, whatever the shapes."""
    for one, two in (((), (3,)), ((1,), (2, 3)), ((2, 1), (1, 3)), ((2, 1, 1), (3, 1))):
        a = Tensor(xp.ones(one), requires_grad=True)
        b = Tensor(xp.ones(two), requires_grad=True)
        y = a + b
        y.backward(xp.ones_like(y.data))
        for each in (a, b):
            assert each.grad.shape == each.shape
            assert xp.reshape(each.grad.data, (-1,)).tolist() == [y.size / each.size] * each.size


def retained_gradients_accumulate() -> None:
    """retain_grad keeps the gradient of an intermediate, over several passes."""
    x = leaf(2.0)
    h = x * 3.0
    h.retain_grad()
    y = h * h
    y.backward(retain_graph=True)
    assert h.grad.tolist() == [12.0]
    y.backward()
    assert h.grad.tolist() == [24.0] and x.grad.tolist() == [72.0]


def nodes_name_the_users_line() -> None:
    """The file and line of the call, not of the framework."""
    x = leaf(1.0)
    line = nodes_name_the_users_line.__code__.co_firstlineno + 4
    y = x * 2.0
    assert str(y._node) == f"multiply ({HERE}, line {line})"
