"""The profile: every moment on one account, by the right name, and nothing changed by looking."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Iterator

import pytest

import tinyformer as tf
from tinyformer import functional as F
from tinyformer.arrays import set_default_dtype, use_backend, xp
from tinyformer.autograd import Tensor, operations, record
from tinyformer.autograd.engine import observed
from tinyformer.models.decoder import DecoderConfig, DecoderModel
from tinyformer.nn import FeedForward, Linear, Module
from tinyformer.training import profile as profiles
from tinyformer.training.batches import TokenBatches, windows
from tinyformer.training.log import LossLog
from tinyformer.training.loop import NotFinite, Trainer, mean_loss
from tinyformer.training.optimisers import SGD, AdamW
from tinyformer.training.profile import Profile, profiled

TOKENS = [n * n % 11 for n in range(200)]
AFFINE = 6 + 1                  # of a block: query, key, value, output, two feed-forward; the head


class Clock:
    """Seconds that pass when a test says so, and, if it wants, one at every look."""

    def __init__(self, tick: int = 0) -> None:
        self.now, self.tick = 0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now

    def slow(self, function: Any, seconds: int) -> Any:
        """The function, taking that long."""
        def slowly(*arguments: Any, **options: Any) -> Any:
            self.now += seconds
            return function(*arguments, **options)
        return slowly


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    """Whatever happened, the functions are the old ones afterwards."""
    known = [F.linear, operations.linear, operations.add, operations.products.record,
             vars(Module)["__call__"], vars(Tensor)["backward"], vars(Trainer)["save"],
             vars(AdamW.__mro__[2])["step"], vars(TokenBatches)["__next__"]]
    yield
    assert known == [F.linear, operations.linear, operations.add, operations.products.record,
                     vars(Module)["__call__"], vars(Tensor)["backward"], vars(Trainer)["save"],
                     vars(AdamW.__mro__[2])["step"], vars(TokenBatches)["__next__"]]


def decoder(dropout: float = 0.0) -> DecoderModel:
    tf.manual_seed(5)
    return DecoderModel(DecoderConfig(11, 6, d_model=8, n_heads=2, n_layers=1, dropout=dropout))


def trainer(steps: int, folder: Any = None, dropout: float = 0.0, **options: Any) -> Trainer:
    model = decoder(dropout)

    def loss(ids: Any, targets: Any) -> Tensor:
        return F.cross_entropy(model(ids), targets)

    return Trainer(model, loss, TokenBatches(TOKENS, 3, 6), AdamW(model.named_parameters()),
                   lambda step: 0.01, steps, folder=None if folder is None else str(folder),
                   quiet=True, evaluate=lambda: mean_loss(loss, windows(TOKENS[:40], 4, 6)),
                   **options)


# It adds up

def test_the_accounts_are_the_whole_and_nothing_twice(backend, tmp_path):
    clock = Clock(tick=1)
    with profiled(clock) as profile:
        first = clock.now
        trainer(3, tmp_path).run()
    assert profile.total == sum(profile.seconds.values()) == clock.now - first > 500
    rows = {**profile.operations(), **profile.others()}
    assert sum(spent.seconds for spent in rows.values()) == profile.total
    assert min(profile.seconds.values()) >= 0
    for name in ("linear", "the graph", "between operations", "optimiser", "clipping", "batches",
                 "held-out loss", "log, checkpoints, progress", "rest"):
        assert profile[name].seconds > 0, name


def test_the_whole_is_what_a_watch_says(backend):
    with profiled() as profile:
        begun = time.perf_counter()
        trainer(3).run()
        seconds = time.perf_counter() - begun
    assert seconds <= profile.total < seconds * 1.5 + 0.05


def test_the_matrix_products_are_part_of_their_operation(backend):
    clock = Clock(tick=1)
    with profiled(clock) as profile:
        trainer(2).run()
    for name, spent in profile.operations().items():
        assert 0 <= spent.products <= spent.seconds, name
    for name in ("linear", "scaled_dot_product_attention"):
        assert profile[name].products > 0, name
    for name in ("gelu", "add", "embedding", "cross_entropy"):
        assert profile[name].seconds > profile[name].products == 0, name


# Counts and bytes

def test_calls_of_a_model_whose_operations_are_known(backend):
    with profiled() as profile:
        trainer(3).run()
    assert profile.steps == 3
    calls = {name: profile[name].calls / 3 for name in profile.operations()}
    assert calls["linear"] == AFFINE
    assert calls["layer_norm"] == 3 and calls["scaled_dot_product_attention"] == 1
    assert calls["embedding"] == 2 and calls["cross_entropy"] == 1 and calls["gelu"] == 1


def test_bytes_of_known_results(backend):
    each = 8 if backend == "python" else 4
    x, y = tf.tensor([[1.0, 2.0, 3.0]] * 2), tf.tensor([[1.0] * 4] * 3)
    with profiled() as profile:
        product = x @ y
        product.reshape(8)
        product.exp().exp()
    assert profile["matmul"].bytes == 2 * 4 * each
    assert profile["reshape"].bytes == 0, "the same memory under another shape"
    assert profile["exp"].bytes == 2 * 8 * each and profile["exp"].calls == 2


def test_numpy_counts_the_bytes_of_copies_but_not_of_views():
    pytest.importorskip("numpy")
    with use_backend("numpy"), set_default_dtype("float64"):
        x = tf.tensor([[1.0, 2.0, 3.0]] * 2)
        with profiled() as profile:
            x[:1]
            x.permute(1, 0)
        assert profile["getitem"].bytes == 0 and profile["permute"].bytes == 0
        with profiled() as profile:
            x[[0, 1, 1]]
        assert profile["getitem"].bytes == 3 * 3 * 8


# The right name

def test_time_lost_in_an_operation_shows_there(backend, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(xp, "tanh", clock.slow(xp.tanh, 1000))
    x = tf.tensor([0.5, 1.0], requires_grad=True)
    with profiled(clock) as profile:
        (x.tanh() * x).exp().sum().backward()
        clock.now += 7
    assert profile["tanh"].forward == 1000 and profile["tanh"].backward == 0
    assert profile["rest"].seconds == 7 and profile.total == 1007


def test_time_lost_on_the_way_back_shows_there(backend):
    clock = Clock()
    x = tf.tensor([0.5, 1.0], requires_grad=True)

    def slowly(x: Tensor) -> Tensor:
        return record("slowly", x.data * 3, (x, clock.slow(lambda g: g * 3, 50)))

    with profiled(clock) as profile:
        slowly(x).sum().backward()
    assert profile["slowly"].backward == profile.total == 50


def test_time_lost_in_a_product_shows_as_such(backend, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(xp, "matmul", clock.slow(xp.matmul, 10))
    x, w = tf.tensor([[1.0, 2.0]], requires_grad=True), tf.tensor([[3.0, 4.0]], requires_grad=True)
    with profiled(clock) as profile, tf.arrays.backend.unfused():
        F.linear(x, w).sum().backward()
    assert profile["linear"].forward == 10 and profile["linear"].backward == 20
    assert profile["linear"].products == 30 == profile.total


def test_time_lost_with_the_graph_shows_there(backend, monkeypatch):
    clock = Clock()
    tensors = sys.modules["tinyformer.autograd.tensor"]
    walk = tensors.backpropagate
    monkeypatch.setattr(tensors, "backpropagate", clock.slow(walk, 100))
    x = tf.tensor([0.5, 1.0], requires_grad=True)
    with profiled(clock) as profile, observed(clock.slow(lambda name, data: None, 3)):
        (x.tanh() * x).sum().backward()
    assert profile["the graph"][:2] == (9, 100) and profile.total == 109


def test_a_product_within_a_product_counts_once(monkeypatch):
    clock = Clock()
    with use_backend("python"):
        pure = sys.modules["tinyformer.arrays.pure.products"]
        monkeypatch.setattr(pure, "dots", clock.slow(pure.dots, 10))
        x = tf.tensor([[1.0, 2.0]])
        with profiled(clock) as profile:
            x @ x.mT
            pure.dots([[1.0]], [[2.0]])         # as bodies of its own may do
    assert profile["matmul"].products == 10 == profile.total - 10
    assert sum(profile.products.values()) == 20


@pytest.mark.parametrize("owner, function, name", [
    (AdamW.__mro__[2], "step", "optimiser"), (TokenBatches, "__next__", "batches"),
    (Trainer, "_evaluated", "held-out loss"), (Trainer, "save", "log, checkpoints, progress"),
    (LossLog, "append", "log, checkpoints, progress"), (Trainer, "_train_on", "rest")])
def test_time_lost_elsewhere_shows_there(owner, function, name, monkeypatch, tmp_path):
    clock = Clock()
    monkeypatch.setattr(owner, function, clock.slow(vars(owner)[function], 1000))
    with use_backend("python"), profiled(clock) as profile:
        trainer(2, tmp_path).run()
    assert profile[name].seconds == profile.total >= 1000


def test_time_lost_in_a_module_is_between_operations(backend):
    clock = Clock()
    model = decoder()
    model.forward = clock.slow(model.forward, 9)
    with profiled(clock) as profile:
        model([[1, 2, 3]])
    assert profile["between operations"].seconds == 9 == profile.total


def test_the_held_out_loss_is_one_piece(backend):
    with profiled() as profile:
        trainer(2, evaluate_every=1).run()
    assert profile["linear"].calls == 2 * AFFINE
    assert profile["held-out loss"].calls == 2 and profile["held-out loss"].products > 0


def test_an_operation_whose_call_is_not_seen_begins_where_the_one_before_ended(backend):
    clock = Clock()
    layer, kept = FeedForward(4, 8, activation="relu"), operations.exp

    def own(x: Tensor) -> Tensor:
        clock.now += 5
        return record("own", x.data, (x, lambda g: g))

    with profiled(clock) as profile:
        x = F.relu(layer(tf.tensor([[1.0] * 4])))
        own(x)
        clock.now += 3
        kept(x)
    assert profile["own"].seconds == 5 and profile["own"].calls == 1
    assert profile["exp"].seconds == 3 and profile["exp"].calls == 1
    assert profile["relu"].calls == 2 and profile.total == 8


def test_another_thread_is_not_counted(backend):
    x = tf.tensor([1.0])
    with profiled() as profile:
        other = threading.Thread(target=lambda: x.exp() @ x)
        other.start()
        other.join()
    assert profile.operations() == {} == profile.products


# Nothing changes

def test_a_run_is_the_same_bit_for_bit(backend, tmp_path):
    plain, watched = trainer(8, tmp_path / "a", 0.2), trainer(8, tmp_path / "b", 0.2)
    trained = []
    for run in (plain, watched):
        tf.manual_seed(9)
        if run is plain:
            run.run()
        else:
            with profiled():
                run.run()
        trained.append([p.tolist() for p in run.model.parameters()])
    assert plain.history == watched.history and trained[0] == trained[1]
    assert (tmp_path / "a/log.jsonl").read_bytes() == (tmp_path / "b/log.jsonl").read_bytes()


def test_everything_is_put_back_after_an_error(backend):
    with pytest.raises(KeyError), profiled():
        raise KeyError              # and `put_back` looks


def test_a_graph_may_outlive_the_profile(backend):
    x = tf.tensor([2.0], requires_grad=True)
    with profiled() as profile:
        y = x * x
    before = profile.total
    y.backward()
    assert x.grad is not None and x.grad.tolist() == [4.0] and profile.total == before


def test_profiles_may_be_nested(backend):
    x = tf.tensor([2.0], requires_grad=True)
    with profiled() as outer:
        with profiled() as inner:
            (x * x).backward()
        x.exp()
    assert list(inner.operations()) == ["multiply"]
    assert sorted(outer.operations()) == ["exp", "multiply"]
    assert outer.total > inner.total


def test_the_backend_may_change_inside():
    pytest.importorskip("numpy")
    with use_backend("numpy"):
        product = xp.matmul
        with use_backend("python"):
            with profiled() as profile:
                with use_backend("numpy"):
                    tf.tensor([[1.0]]) @ tf.tensor([[2.0]])
                tf.tensor([[1.0]]) @ tf.tensor([[2.0]])
        assert profile["matmul"].calls == 2
        assert xp.matmul is product


def test_the_backend_may_stay_changed():
    numpy = pytest.importorskip("numpy")
    with use_backend("python"):
        product = xp.matmul
        with profiled():
            assert xp.matmul is not product
            use_backend("numpy")
            assert xp.matmul is numpy.matmul
        assert xp.matmul is numpy.matmul
    with use_backend("python"):
        assert xp.matmul is product


def test_numpy_is_left_alone():
    numpy = pytest.importorskip("numpy")
    with use_backend("numpy"):
        product = numpy.matmul
        with profiled():
            assert numpy.matmul is product is not xp.matmul


def test_the_line_of_a_nan_is_still_the_users(backend):
    run = trainer(3)
    run.loss = lambda ids, targets: F.cross_entropy(run.model(ids), targets) * float("nan")
    with pytest.raises(NotFinite, match=r"result of multiply.*test_profile\.py, line"), profiled():
        run.run()


def test_nothing_stays_when_no_profile_is_taken(backend):
    with profiled() as profile:
        pass
    trainer(1).run()
    assert profile.operations() == {}


# What it shows

def test_the_table_per_step(backend):
    clock = Clock(tick=1)
    with profiled(clock) as profile:
        trainer(4, max_norm=None).run()
    lines = str(profile).split("\n")
    assert lines[0] == f"4 steps in {profile.total:.2f} s; a step, times in milliseconds"
    cells = {line[:28].strip(): line[28:].split() for line in lines[1:]}
    assert cells["operation"] == ["calls", "forward", "backward", "both", "share", "products",
                                  "made"]
    linear = profile["linear"]
    assert cells["linear"][:4] == [str(AFFINE)] + [f"{seconds * 250:,.2f}" for seconds in (
        linear.forward, linear.backward, linear.seconds)]
    training = profile.total - profile["held-out loss"].seconds
    assert cells["linear"][4] == f"{linear.seconds / training:.1%}"
    assert cells["linear"][5] == f"{linear.products / linear.seconds:.0%}"
    assert cells["the whole"][0] == f"{profile.total * 250:,.2f}"


def test_the_rows_of_the_table_add_up(backend):
    with profiled() as profile:
        trainer(2).run()
    rows = {row[0]: row for row in profile.rows()[1:]}

    def both(name: str) -> float:
        return float(rows[name][4].replace(",", ""))

    inner = sum(map(both, profile.operations()))
    outer = sum(both(name) for name in profile.others() if name not in profiles.AROUND)
    assert both("all operations") == pytest.approx(inner, abs=0.2)
    assert both("all training") == pytest.approx(inner + outer, abs=0.3)
    assert both("the whole") == pytest.approx(inner + outer + both("held-out loss"), abs=0.3)
    shares = [float(rows[name][5].rstrip("%")) for name in rows
              if rows[name][5] and not name.startswith("all")]
    assert sum(shares) == pytest.approx(100, abs=2)


def test_without_steps_all_of_it_is_shown(backend):
    clock = Clock()
    with profiled(clock) as profile:
        for _ in range(3):
            tf.tensor([1.0]).exp()
            clock.now += 2
    lines = str(profile).split("\n")
    assert lines[0] == "6.00 s in all; times in milliseconds"
    assert lines[2].split()[:2] == ["exp", "3"]
    assert lines[-1].split() == ["all", "training", "6,000.00", "100.0%"] + lines[-1].split()[4:]


def test_nothing_done_is_a_table_too():
    assert "all training" in str(Profile())


def test_a_notebook_draws_it(backend):
    with profiled() as profile:
        Linear(2, 2)(tf.tensor([[1.0, 2.0]])).sum().backward()
    html = profile._repr_html_()
    assert html.startswith("<!DOCTYPE html>") and "<td>linear</td>" in html


def test_a_loop_of_ones_own(backend):
    layer = Linear(3, 1)
    optimiser = SGD(layer.named_parameters(), 0.1)
    with profiled() as profile:
        for _ in range(5):
            optimiser.zero_grad()
            (layer(tf.tensor([[1.0, 2.0, 3.0]])) ** 2).sum().backward()
            optimiser.step()
    assert profile.steps == 5 and profile["linear"].calls == profile["pow"].calls == 5
    assert profile["linear"].backward > 0 and profile["optimiser"].seconds > 0
