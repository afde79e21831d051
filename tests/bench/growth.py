"""How time and memory per token grow with the length of a text and with the batch.

All that a step does to one token by itself costs the same wherever the token stands: per token a
constant. Attention looks from each of T tokens at each of T, so per token its cost is a straight
line in T. "Without attention" is the same model with each mixture of values replaced by the sum of
query, key and value, so that everything around it still happens.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Dict, List, Sequence, Tuple

import tinyformer as tf
from tests.bench import trained
from tests.bench.measure import Asked, Figure, Figures, Timed, Worker, figure, in_turn
from tinyformer import functional as F

LENGTHS, BATCH = (64, 128, 256, 512, 1024), 8
BATCHES, LENGTH = (4, 16, 64), 64
SIZE = dict(vocab_size=512, n_layers=2, n_heads=4)


def step(length: int, batch: int, attention: bool, width: int = 128) -> trained.Step:
    """A training step of a decoder on so many texts of so many tokens."""
    tf.use_backend("numpy")
    size = {**SIZE, "d_model": width, "max_len": length, "batch": batch}
    run = trained.training(*trained.decoder(size))
    if attention:
        return run
    seen: List[bool] = []

    def without() -> float:
        former = F.scaled_dot_product_attention
        setattr(F, "scaled_dot_product_attention", summed)
        try:
            return run()
        finally:
            setattr(F, "scaled_dot_product_attention", former)
            assert seen, "the model did not call F.scaled_dot_product_attention"

    def summed(query: Any, key: Any, value: Any, **options: Any) -> Any:
        seen.append(True)
        return query + key + value

    return without


def measure(asked: Asked, lengths: Sequence[int] = LENGTHS, batches: Sequence[int] = BATCHES,
            rounds: int = 5) -> Figures:
    """The rows of the part "growth"."""
    points = {(length, BATCH, attention): 3 if length < 512 else 1
              for length in lengths for attention in (True, False)}
    points.update({(LENGTH, batch, True): 3 for batch in batches})
    timed, held = points_taken(points, rounds)
    per_token = {name: [1000 * each / (points_of(name)[0] * points_of(name)[1]) for each in times]
                 for name, times in timed.times.items()}
    least, most = (str((LENGTH, batch, True)) for batch in (batches[0], batches[-1]))
    yield figure("growth batch", [q / p for p, q in zip(per_token[least], per_token[most])],
                 f"batches of {batches[0]} and {batches[-1]}, {LENGTH} tokens each")
    short, long = (str((length, BATCH, False)) for length in (lengths[0], lengths[-1]))
    yield figure("growth time", [q / p for p, q in zip(per_token[short], per_token[long])])
    lines = [per_token[str((length, BATCH, True))] for length in lengths]
    yield figure("growth attention", [off_line(lengths, turn) for turn in zip(*lines)])
    held_without = [held[str((length, BATCH, False))] for length in lengths]
    if min(held_without) <= 0:
        yield Figure("growth memory", missing="this system does not tell the peak of memory")
    else:
        yield figure("growth memory", [off_line(lengths, held_without)],
                     f"{held_without[0]:.1f} to {held_without[-1]:.1f} MB")
    for ending, attention in (("", True), (" without attention", False)):
        for length in lengths:
            name, where = str((length, BATCH, attention)), f"{length} tokens"
            yield figure("token time" + ending, per_token[name], where=where)
            yield figure("step memory" + ending, [held[name]], where=where)


def points_taken(points: Dict[Tuple[int, int, bool], int],
                 rounds: int) -> Tuple[Timed, Dict[str, float]]:
    """Times of all points, and the MB that their steps hold at most, the model's included."""
    with ExitStack() as stack:
        workers = {str(point): stack.enter_context(Worker(
            "tests.bench.growth:step", dict(zip(("length", "batch", "attention"), point)),
            warm={"length": 4, "batch": 1, "attention": True, "width": 8})) for point in points}
        timed = in_turn(workers, rounds, {str(point): calls for point, calls in points.items()})
        answers = {name: worker.run(1) for name, worker in workers.items()}
    return timed, {name: answer["peak"] - answer["memory"] for name, answer in answers.items()}


def points_of(name: str) -> Tuple[int, int, bool]:
    """A point from its name."""
    length, batch, attention = name.strip("()").split(", ")
    return int(length), int(batch), attention == "True"


def off_line(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The largest distance of (x, y) from the best straight line, as a part of y.

    The line is the least-squares one of distances relative to y.
    """
    weights = [1 / (y * y) for y in ys]
    total = sum(weights)
    x_mean = sum(w * x for w, x in zip(weights, xs)) / total
    y_mean = sum(w * y for w, y in zip(weights, ys)) / total
    slope = (sum(w * (x - x_mean) * (y - y_mean) for w, x, y in zip(weights, xs, ys))
             / sum(w * (x - x_mean) ** 2 for w, x in zip(weights, xs)))
    return max(abs(y_mean + slope * (x - x_mean) - y) / y for x, y in zip(xs, ys))
