"""A training step of a decoder: NumPy backend, PyTorch eager, and the matrix products alone.

Forward, backward and AdamW in float32, one thread each, in one process and in turn. The C library
is told to keep freed memory there, which serves PyTorch as well.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Sequence

import tinyformer as tf
from tests.bench import products, trained
from tests.bench.measure import (Asked, Figure, Figures, Worker, alternate, distance, figure,
                                 in_turn, number)
from tinyformer.arrays.backend import unfused

ROUNDS = {"tiny": 2, "a": 60, "b": 25, "c": 17}


def measure(asked: Asked, sizes: Sequence[str] = "abc") -> Figures:
    """The rows of the part "decoder", and the losses."""
    tf.use_backend("numpy")
    for size in sizes:
        yield from compare(size, asked)
    for size in (size for size in sizes if size != "c"):
        yield fused_over_plain(size, 8 if asked.quick else 20)


def compare(size: str, asked: Asked, rounds: int = 0) -> List[Figure]:
    """All ways at one size."""
    ways, model = engines(size, "torch" in asked.peers and not asked.quick)
    ways["the products"] = alone(size, ways["tinyformer"])
    if "PyTorch" in ways:
        ways["PyTorch"]()                           # as many steps as tinyformer, which was watched
    rounds = rounds or ({"a": 40, "b": 8, "c": 3} if asked.quick else ROUNDS)[size]
    timed = alternate(ways, rounds, warm_up=1 if asked.quick else 3)
    found = [figure(f"products {size}", timed.ratio("tinyformer", "the products"), timed.words())]
    if "PyTorch" in ways:
        found.insert(0, figure(f"decoder {size}", timed.ratio("tinyformer", "PyTorch"),
                               timed.words()))
        found.append(figure(f"products of torch {size}", timed.ratio("the products", "PyTorch")))
        found.append(distance(f"losses {size}", timed.results, "tinyformer", "PyTorch"))
    return found


def engines(size: str, with_torch: bool) -> Any:
    """A step of each engine from the same weights, and tinyformer's model."""
    model, loss = trained.decoder(trained.SIZES[size])
    ways: Dict[str, Callable[[], Any]] = {}
    if with_torch:
        from tests.bench import torch_decoder
        ways["PyTorch"] = torch_decoder.step(trained.SIZES[size], model.state_dict())
    return {"tinyformer": trained.training(model, loss), **ways}, model


def alone(size: str, step: Callable[[], Any]) -> Callable[[], None]:
    """The matrix products of one step of a decoder; the formula says how many there must be."""
    calls = products.recorded(step)
    counted = products.multiply_adds(calls)
    expected = trained.multiply_adds(trained.SIZES[size])
    assert counted == expected, f"{counted:,} multiply-adds were seen, the model has {expected:,}"
    return products.again(calls)


def fused_over_plain(size: str, rounds: int) -> Figure:
    """What the backend's own bodies of operations gain; never less than nothing."""
    steps = [trained.training(*trained.decoder(trained.SIZES[size])) for _ in range(2)]

    def plain() -> Any:
        with unfused():
            return steps[1]()

    timed = alternate({"fused": steps[0], "plain": plain}, rounds)
    return figure(f"plain {size}", timed.ratio("fused", "plain"), timed.words())


def threads(asked: Asked, sizes: Sequence[str] = "abc") -> Figures:
    """The same with two threads, by the wall clock, one process each."""
    for size in sizes:
        ways = {"tinyformer": functools.partial(Worker, "tests.bench.trained:step",
                                                {"model": "decoder", "size": size}, threads=2),
                "PyTorch": functools.partial(Worker, "tests.bench.torch_decoder:random_step",
                                             {"size": size, "threads": 2}, threads=2)}
        calls = dict.fromkeys(ways, {"a": 30, "b": 4}.get(size, 2))
        with ways["tinyformer"]() as ours, ways["PyTorch"]() as theirs:
            timed = in_turn({"tinyformer": ours, "PyTorch": theirs}, 7, calls, "wall")
        yield figure(f"threads {size}", timed.ratio("tinyformer", "PyTorch"), timed.words())


def gradients(asked: Asked, sizes: Sequence[str] = "abc") -> Figures:
    """Gradients in float32 from those of PyTorch in float64, for every parameter.

    The distance is relative to the parameter's gradient. That of a key's bias is 0 (it moves all
    scores of a row alike), and what rounding leaves of it is held against the whole gradient.
    """
    from tests.bench import torch_decoder
    tf.use_backend("numpy")
    for size in sizes:
        model, loss = trained.decoder(trained.SIZES[size])
        state = model.state_dict()
        loss().backward()
        exact = torch_decoder.gradients(trained.SIZES[size], state, "float64")
        single = torch_decoder.gradients(trained.SIZES[size], state, "float32")
        whole = sum(float(each.norm()) ** 2 for each in exact.values()) ** 0.5
        ours, theirs = [], []
        for name, right in exact.items():
            length = float(right.norm())
            length = whole if length < 1e-12 * whole else length
            found = right.new_tensor(state[name].grad.data)
            ours.append(float((found - right).norm()) / length)
            theirs.append(float((single[name] - right).norm()) / length)
        yield Figure(f"gradients {size}", max(ours), min(ours), max(ours), len(ours),
                     detail=f"the worst parameter; PyTorch's own float32: {number(max(theirs))}")
