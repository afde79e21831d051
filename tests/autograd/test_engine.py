"""Every promise of the engine holds, and the test of it fails where the engine is broken."""

from __future__ import annotations

import sys
from contextvars import copy_context

import engine_properties as properties
import pytest

from tinyformer.arrays import set_default_dtype, xp
from tinyformer.autograd import Tensor, engine

tensors = sys.modules["tinyformer.autograd.tensor"]
PROPERTIES = [value for name, value in vars(properties).items()
              if getattr(value, "__module__", "") == properties.__name__
              and name not in ("leaf", "refused", "counted")]
REFERENCE_COUNTED = ("graph_dies_by_reference_count", "memory_stays_flat",
                     "finished_gradients_are_dropped")


@pytest.fixture(autouse=True)
def double():
    with set_default_dtype("float64"):
        yield


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda each: each.__name__)
def test_the_engine_keeps_its_promise(backend, holds):
    skip_without_counts(holds.__name__)
    holds()


def skip_without_counts(name):
    if name in REFERENCE_COUNTED and not properties.COUNTS:
        pytest.skip("this Python does not count references: its collector frees when it likes")


def contributions(edges, g):
    return zip(edges.targets, edges.vjp(g) if edges.joint else [edges.vjp(g)])


# Broken engines: each takes pytest's monkeypatch and spoils one thing.

def recursive_walk(patch):
    """The textbook's recursive topological sort."""
    def nodes_below(root):
        order, seen = [], set()

        def visit(node):
            if type(node) is engine.Node and node not in seen:
                seen.add(node)
                for edges in engine.checked_edges(node):
                    for below in edges.targets:
                        visit(below)
                order.append(node)
        visit(root)
        return order
    patch.setattr(engine, "nodes_below", nodes_below)


def recursive_helper_in_a_cycle(patch):
    """A backward whose inner function refers to itself, and so pins what it was given."""
    sound = engine.backpropagate

    def backpropagate(root, gradient, retain_graph):
        def visit():
            return visit, root
        visit()
        return sound(root, gradient, retain_graph)
    patch.setattr(tensors, "backpropagate", backpropagate)


def every_path(patch):
    """A walk that follows every path, so that shared nodes are walked again and again."""
    def backpropagate(root, gradient, retain_graph):
        leaves = engine.Table()
        stack = [(root, gradient)]
        while stack:
            target, g = stack.pop()
            if type(target) is not engine.Node:
                leaves.add(target, g)
                continue
            for edges in target.edges:
                for below, part in contributions(edges, g):
                    if below is not None:
                        stack.append((below, engine.fitted(part, below, target)))
        return leaves.rest()
    patch.setattr(tensors, "backpropagate", backpropagate)


def last_path_wins(patch):
    """A gradient that overwrites instead of adding."""
    patch.setattr(engine.Table, "add", lambda table, target, g: table.sums.update({target: g}))


def value_as_identity(patch):
    """A table of gradients in which equal values are one leaf."""
    sound = engine.Table.add

    def add(table, target, g):
        same = [each for each in table.sums if type(each) is Tensor is type(target)
                and each.tolist() == target.tolist()]
        sound(table, same[0] if same else target, g)
    patch.setattr(engine.Table, "add", add)


def interior_gradients_persist(patch):
    """Intermediates that keep their sums from one backward to the next."""
    kept, sound = {}, engine.Table.pop

    def pop(table, node):
        g = sound(table, node)
        kept[node] = kept[node] + g if node in kept else g
        return kept[node]
    patch.setattr(engine.Table, "pop", pop)


def release_unnoticed(patch):
    """A released node is a dead end, silently."""
    sound = engine.checked_edges
    patch.setattr(engine, "checked_edges",
                  lambda node: [] if node.edges is None else sound(node))


def errors_after_the_fact(patch):
    """Checks during the walk, when the first gradients were handed out already."""
    def backpropagate(root, gradient, retain_graph):
        with pytest.MonkeyPatch.context() as unchecked:
            unchecked.setattr(engine, "checked_edges", lambda node: node.edges or [])
            order = engine.nodes_below(root)
        table = engine.Table()
        table.add(root, gradient)
        for node in reversed(order):
            g = table.pop(node)
            if node.retains:
                node.grad = g
            for edges in engine.checked_edges(node):
                for target, part in contributions(edges, g):
                    if type(target) is engine.Node:
                        table.add(target, engine.fitted(part, target, node))
                    elif target is not None:
                        target._grad = Tensor(engine.fitted(part, target, node))
            if not retain_graph:
                node.edges = None
        return []
    patch.setattr(tensors, "backpropagate", backpropagate)


def versions_forgotten(patch):
    """Data that is replaced without a count."""
    patch.setattr(Tensor, "touch", lambda tensor: None)


def views_counted_apart(patch):
    """A view with a counter of its own."""
    sound = tensors.wrap
    patch.setattr(tensors, "wrap", lambda data, version=None: sound(data))


def sums_in_borrowed_arrays(patch):
    """`+=` on whatever array came first."""
    def add(table, target, g):
        if target in table.sums:
            table.sums[target] += g
        else:
            table.sums[target] = g
    patch.setattr(engine.Table, "add", add)


def borrowed_gradients(patch):
    """Leaves that are given the arrays of the walk themselves."""
    patch.setattr(engine.Table, "rest", lambda table: list(table.sums.items()))


def cycle(patch):
    """A node that refers to itself, as where a closure hangs on the result that it uses."""
    sound = engine.Node.__init__

    def init(node, *arguments):
        sound(node, *arguments)
        node.where += (node, arguments)
    patch.setattr(engine.Node, "__init__", init)


def everything_is_kept(patch):
    """A walk that releases only at its end."""
    sound = engine.backpropagate

    def backpropagate(root, gradient, retain_graph):
        nodes = engine.nodes_below(root)
        found = sound(root, gradient, True)
        for node in nodes:
            node.edges = node.edges if retain_graph else None
        return found
    patch.setattr(tensors, "backpropagate", backpropagate)


def never_released(patch):
    """A list of all nodes somewhere in the framework."""
    sound, nodes = engine.Node.__init__, []

    def init(node, *arguments):
        sound(node, *arguments)
        nodes.append((node, arguments))
    patch.setattr(engine.Node, "__init__", init)


def one_switch_for_all_threads(patch):
    """`no_grad` as a global variable."""
    class Switch:
        value = True

        def get(self):
            return Switch.value

        def set(self, value):
            former, Switch.value = Switch.value, value
            return former

        def reset(self, former):
            Switch.value = former
    patch.setattr(engine, "_enabled", Switch())


def one_token(patch):
    """`no_grad` that remembers only the last former state."""
    def enter(self):
        self.token = engine._enabled.set(False)
        return self
    patch.setattr(engine.no_grad, "__enter__", enter)
    patch.setattr(engine.no_grad, "__exit__",
                  lambda self, *error: engine._enabled.reset(self.token))


def integers_accepted(patch):
    """`requires_grad` on anything."""
    patch.setattr(Tensor, "requires_grad", property(
        lambda tensor: tensor._requires_grad,
        lambda tensor, value: setattr(tensor, "_requires_grad", value)))


def silent_sum(patch):
    """A backward that takes the sum of a tensor for its loss."""
    sound = Tensor.backward

    def backward(tensor, gradient=None, retain_graph=False):
        seed = xp.ones_like(tensor.data) if gradient is None else gradient
        sound(tensor, seed, retain_graph)
    patch.setattr(Tensor, "backward", backward)


def unchecked_gradients(patch):
    """Gradients of any shape and dtype."""
    patch.setattr(engine, "fitted", lambda g, target, node: g)


def partial_retained(patch):
    """Intermediates that receive their gradient during the walk, before it is known to succeed."""
    sound = engine.Table.pop

    def pop(table, node):
        g = sound(table, node)
        if node.retains and g is not None:
            node.grad = g
        return g
    patch.setattr(engine.Table, "pop", pop)


def unsummed(patch):
    """An un-broadcast that takes the first copy."""
    def unbroadcast(g, shape):
        while len(g.shape) > len(shape):
            g = g[0]
        for axis, length in enumerate(shape):
            if length == 1:
                g = g[(slice(None),) * axis + (slice(0, 1),)]
        return g
    patch.setattr(engine, "unbroadcast", unbroadcast)


def last_retained(patch):
    """A retained gradient that the second pass overwrites."""
    sound = engine.backpropagate

    def backpropagate(root, gradient, retain_graph):
        found = sound(root, gradient, retain_graph)
        for target, _ in found:
            if type(target) is engine.Node:
                target.grad = None
        return found
    patch.setattr(tensors, "backpropagate", backpropagate)


def own_line(patch):
    """The innermost line, which is the framework's."""
    def calling_line():
        frame = sys._getframe(2)
        return frame.f_code.co_filename, frame.f_lineno
    patch.setattr(engine, "calling_line", calling_line)


BROKEN = [
    ("long_chain", recursive_walk), ("shared_graph_is_walked_once", every_path),
    ("graph_dies_by_reference_count", recursive_helper_in_a_cycle),
    ("every_path_counts", last_path_wins), ("equal_leaves_are_two", value_as_identity),
    ("second_backward_accumulates", interior_gradients_persist),
    ("two_losses_share_an_intermediate", interior_gradients_persist),
    ("released_graph_is_noticed_in_time", release_unnoticed),
    ("released_graph_is_noticed_in_time", errors_after_the_fact),
    ("replaced_data_is_noticed_in_time", errors_after_the_fact),
    ("replaced_data_is_noticed_in_time", versions_forgotten),
    ("replaced_data_is_noticed_in_time", views_counted_apart),
    ("sums_own_their_arrays", sums_in_borrowed_arrays),
    ("leaves_own_their_gradients", borrowed_gradients),
    ("graph_dies_by_reference_count", cycle), ("memory_stays_flat", cycle),
    ("memory_stays_flat", never_released), ("graph_dies_by_reference_count", never_released),
    ("finished_gradients_are_dropped", everything_is_kept),
    ("no_grad_belongs_to_its_thread", one_switch_for_all_threads),
    ("no_grad_belongs_to_its_thread", one_token),
    ("integers_have_no_gradient", integers_accepted), ("many_numbers_need_a_seed", silent_sum),
    ("wrong_vjps_are_refused", unchecked_gradients),
    ("errors_in_a_vjp_touch_nothing", errors_after_the_fact),
    ("errors_in_a_vjp_touch_nothing", partial_retained),
    ("stretched_operands_get_sums", unsummed), ("stretched_operands_get_sums", unchecked_gradients),
    ("retained_gradients_accumulate", last_retained), ("nodes_name_the_users_line", own_line)]
IN_PLACE = (sums_in_borrowed_arrays, borrowed_gradients)


@pytest.mark.parametrize("name, breakage", BROKEN, ids=lambda each: getattr(each, "__name__", each))
def test_a_broken_engine_is_noticed(backend, name, breakage, monkeypatch):
    if breakage in IN_PLACE and backend == "python":
        return                                  # pure arrays are never changed in place
    skip_without_counts(name)
    breakage(monkeypatch)
    with pytest.raises((AssertionError, RuntimeError, ValueError, TypeError)):
        copy_context().run(getattr(properties, name))   # what it leaves switched off ends with it


def test_every_promise_has_a_broken_engine():
    assert {name for name, _ in BROKEN} == {each.__name__ for each in PROPERTIES}
