"""Wrong operations, made by rule from the right ones: the tests must notice every one of them.

A mutant changes the gradients that an operation returns (through `record`, which every operation
calls), or what the operations rely on: sums over repeated places, over stretched axes, over paths.
Each says whether it was reached, that is whether it had a chance to change anything.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any, Callable, Dict, List, Sequence, Set

from operation_table import Case
from pytest import MonkeyPatch

from tinyformer.arrays import xp
from tinyformer.arrays.backend import MODULES as BACKENDS
from tinyformer.autograd import engine, operations
from tinyformer.autograd import record as true_record

MODULES = [module for module in (import_module(f"{operations.__name__}.{each.name}")
                                 for each in pkgutil.iter_modules(operations.__path__))
           if hasattr(module, "record")]
Gradients = List[Any]
REACHED: Set[bool] = set()


def joined(change: Callable[[Any, Callable[[Any], Gradients]], Gradients]) -> Callable[..., Any]:
    """A `record` whose vjps are one function of g, `change(g, all_gradients)`."""
    def record(name: str, data: Any, *edges: Any, **options: Any) -> Any:
        operands: List[Any] = []
        ways = []
        for group, vjp in edges:
            if vjp is not None:
                operands.extend(group if type(group) is tuple else (group,))
                ways.append((type(group) is tuple, vjp))

        def gradients(g: Any) -> Gradients:
            found: Gradients = []
            for joint, vjp in ways:
                found.extend(vjp(g) if joint else (vjp(g),))
            return [xp.asarray(each) for each in found]

        watched = [(group, vjp) for group, vjp in edges if vjp is None]
        way = (tuple(operands), lambda g: change(g, gradients))
        return true_record(name, data, way, *watched, **options)
    return record


def on_one(index: int, change: Callable[[Any], Any]) -> Callable[..., Any]:
    """A `record` that changes the gradient of one operand, if there are so many."""
    def changed(g: Any, gradients: Callable[[Any], Gradients]) -> Gradients:
        found = gradients(g)
        if index < len(found):
            found[index] = change(found[index])
            REACHED.add(True)
        return found
    return joined(changed)


def swapped(one: int, two: int) -> Callable[..., Any]:
    """A `record` that gives two operands each other's gradient."""
    def changed(g: Any, gradients: Callable[[Any], Gradients]) -> Gradients:
        found = gradients(g)
        if two < len(found):
            found[one], found[two] = found[two], found[one]
            REACHED.add(True)
        return found
    return joined(changed)


def transposed(index: int) -> Callable[..., Any]:
    """A `record` that transposes the gradient of one operand where that keeps its shape."""
    def changed(g: Any, gradients: Callable[[Any], Gradients]) -> Gradients:
        found = gradients(g)
        shape = found[index].shape if index < len(found) else ()
        if len(shape) > 1 and shape[-1] == shape[-2] > 1:
            found[index] = xp.matrix_transpose(found[index])
            REACHED.add(True)
        return found
    return joined(changed)


def ones_only(g: Any, gradients: Callable[[Any], Gradients]) -> Gradients:
    """A vjp that takes every cotangent for ones."""
    REACHED.add(True)
    return gradients(xp.ones_like(xp.asarray(g)))


def last_row_wins(n_rows: int, ids: Any, rows: Any) -> Any:
    """scatter_add_rows without its sum."""
    ids = xp.asarray(ids)
    return last_wins((n_rows,) + tuple(rows.shape[len(ids.shape):]), ids, rows)


def last_wins(shape: Any, key: Any, values: Any) -> Any:
    """scatter_add without its sum."""
    REACHED.add(True)
    values = xp.asarray(values)
    return xp.with_item(xp.zeros(tuple(shape), values.dtype), key, values)


def first_slice(g: Any, shape: Any) -> Any:
    """An un-broadcast that takes one of the copies instead of their sum."""
    REACHED.add(True)
    while len(g.shape) > len(shape):
        g = g[0] if g.shape[0] else xp.sum(g, axis=0)
    for axis, length in enumerate(shape):
        if length == 1 != g.shape[axis] and g.shape[axis]:
            g = g[(slice(None),) * axis + (slice(0, 1),)]
    return xp.reshape(xp.asarray(g), shape) if g.size else engine_unbroadcast(g, shape)


def averaged(g: Any, shape: Any) -> Any:
    """An un-broadcast that takes the mean of the copies."""
    REACHED.add(True)
    whole = engine_unbroadcast(g, shape)
    return whole * (whole.size / g.size) if g.size and whole.shape == tuple(shape) else whole


def last_path(table: Any, target: Any, g: Any) -> None:
    """A sum over paths that keeps the last."""
    if target in table.sums:
        REACHED.add(True)
    table.sums[target] = g


def forgotten(g: Any, shape: Any) -> Any:
    """An un-broadcast that does nothing."""
    REACHED.add(True)
    return g


engine_unbroadcast = engine.unbroadcast
ELEMENTARY = {"negated": lambda x: -x, "zeroed": lambda x: xp.zeros_like(x),
              "doubled": lambda x: x * 2}


def operands_of(case: Case) -> Set[int]:
    """The places of the operands that require a gradient, over all operations of a case."""
    places: Set[int] = set()

    def record(name: str, data: Any, *edges: Any, **options: Any) -> Any:
        operands = [operand for group, vjp in edges if vjp is not None
                    for operand in (group if type(group) is tuple else (group,))]
        places.update(place for place, operand in enumerate(operands) if operand.requires_grad)
        return true_record(name, data, *edges, **options)

    with MonkeyPatch.context() as patch:
        for module in MODULES:
            patch.setattr(module, "record", record)
        case.function(*case.tensors())
    return places


def mutants(cases: List[Case]) -> Dict[str, Callable[[Any], None]]:
    """Name -> what makes the mutant, given pytest's monkeypatch."""
    def replaced(owners: Sequence[Any], **names: Any) -> Callable[[Any], None]:
        def make(monkeypatch: Any) -> None:
            for owner in owners:
                for name, value in names.items():
                    monkeypatch.setattr(owner, name, value)
        return make

    def patched(record: Any) -> Callable[[Any], None]:
        return replaced(MODULES, record=record)

    places = set().union(*map(operands_of, cases))
    made = {f"operand {index} {name}": patched(on_one(index, change))
            for index in places for name, change in ELEMENTARY.items()}
    made.update({f"operands {one} and {two} swapped": patched(swapped(one, two))
                 for two in places for one in places if one < two})
    made.update({f"operand {index} transposed": patched(transposed(index)) for index in places})
    made["cotangent ignored"] = patched(joined(ones_only))
    backend = import_module(BACKENDS[xp.name])          # xp is filled from it again and again
    made["last write instead of a sum"] = replaced(
        [backend, xp], scatter_add=last_wins, scatter_add_rows=last_row_wins)
    made["un-broadcast forgotten"] = replaced([engine], unbroadcast=forgotten)
    made["un-broadcast takes the first"] = replaced([engine], unbroadcast=first_slice)
    made["un-broadcast averages"] = replaced([engine], unbroadcast=averaged)
    made["last path instead of a sum"] = replaced([engine.Table], add=last_path)
    return made
