"""The loop: a run that was stopped in any way and resumed is the run that never stopped, bit for
bit."""
import functools
import io
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import tinyformer as tf
from tinyformer import functional as F
from tinyformer.arrays.stream import Stream, stream
from tinyformer.models.decoder import DecoderConfig, DecoderModel
from tinyformer.training import checkpoint, loop
from tinyformer.training.batches import RowBatches, TokenBatches, windows
from tinyformer.training.log import read_log
from tinyformer.training.loop import (CHECKPOINT, LOG, RUNNING, Interrupted, NotFinite, Trainer,
                                      claimed, mean_loss, predictions, shares)
from tinyformer.training.objectives import causal_lm
from tinyformer.training.optimisers import AdamW
from tinyformer.training.progress import Progress
from tinyformer.training.schedules import from_state, warmup_cosine

TOKENS = [n * n % 11 for n in range(200)]
ROWS = [[n % 11 for n in range(start, start + 3 + start % 4)] for start in range(9)]


class Crash(Exception):
    """Stands for whatever ends a run from outside."""


def trainer(folder=None, steps=12, rows=False, crash_at=None, spoil=None, **options):
    """A run of a small decoder with dropout; `crash_at` raises inside that step's forward pass."""
    tf.manual_seed(5)
    model = DecoderModel(DecoderConfig(11, 6, d_model=8, n_heads=2, n_layers=1, dropout=0.2))
    run = None

    def loss(ids, targets, lengths=None):
        if run is not None and model.training and run.step + 1 == crash_at:
            raise Crash
        logits = model(ids)
        return F.cross_entropy(logits if spoil is None else spoil(run, logits), targets)

    batches = RowBatches(ROWS, 4) if rows else TokenBatches(TOKENS, 3, 6)
    options = {"evaluate_every": 4, "quiet": True,
               "evaluate": lambda: mean_loss(loss, windows(TOKENS[:40], 4, 6)), **options}
    run = Trainer(model, loss, batches, AdamW(model.named_parameters()), warmup_cosine(0.05, 3, 12),
                  steps, folder=None if folder is None else str(folder), **options)
    return run


def final(run):
    return {name: p.tolist() for name, p in run.model.state_dict().items()}


def test_a_run_logs_every_step_and_learns(backend, tmp_path):
    run = trainer(tmp_path / "new" / "run", steps=40)
    records = run.run()
    assert [record["step"] for record in records] == list(range(1, 41))
    assert read_log(str(tmp_path / "new" / "run" / LOG)) == records
    assert records[0]["loss"] == pytest.approx(math.log(11), rel=0.05)
    assert sum(r["loss"] for r in records[-10:]) < 0.9 * sum(r["loss"] for r in records[:10])
    assert [r["step"] for r in records if "held_out" in r] == list(range(4, 41, 4))
    rate = warmup_cosine(0.05, 3, 12)
    assert [r["rate"] for r in records[:4]] == [rate(step) for step in (1, 2, 3, 4)]
    assert all(set(r) <= {"step", "loss", "rate", "norm", "held_out"} for r in records)


@pytest.mark.parametrize("rows", [False, True], ids=["tokens", "rows"])
@pytest.mark.parametrize("save_every, crash_at", [(1, 6), (5, 8), (0, 9)])
def test_a_crashed_run_resumed_is_the_run_that_never_stopped(backend, tmp_path, rows, save_every,
                                                             crash_at):
    whole = trainer(tmp_path / "whole", rows=rows)
    whole.run()
    with pytest.raises(Crash):
        trainer(tmp_path / "cut", rows=rows, save_every=save_every, crash_at=crash_at).run()
    resumed = trainer(tmp_path / "cut", rows=rows, save_every=save_every)
    stream.uniform(3)
    resumed.resume()
    assert resumed.step == ((crash_at - 1) // save_every * save_every if save_every else 0)
    resumed.run()
    assert (tmp_path / "cut" / LOG).read_bytes() == (tmp_path / "whole" / LOG).read_bytes()
    assert final(resumed) == final(whole)
    one, other = (checkpoint.load(tmp_path / name / CHECKPOINT) for name in ("whole", "cut"))
    assert one.state == other.state
    assert one.arrays.keys() == other.arrays.keys()
    assert all(one.arrays[name].tolist() == other.arrays[name].tolist() for name in one.arrays)


def test_how_often_a_run_evaluates_or_saves_does_not_change_it(backend, tmp_path):
    def drawing():
        stream.uniform(7)
        return 1.0

    plain = trainer(evaluate=None).run()
    busy = trainer(tmp_path, evaluate=drawing, evaluate_every=1, save_every=1).run()
    assert [r["loss"] for r in busy] == [r["loss"] for r in plain]
    assert [r["held_out"] for r in busy] == [1.0] * 12


def test_evaluation_has_no_dropout_and_no_gradients(backend):
    seen = []

    def evaluate():
        seen.append((run.model.training, tf.autograd.is_grad_enabled()))
        return 0.0

    run = trainer(evaluate=evaluate)
    run.run()
    assert seen == [(False, False)] * 3 and run.model.training


def test_a_finished_run_may_be_made_longer(backend, tmp_path):
    trainer(tmp_path, steps=5).run()
    longer = trainer(tmp_path, steps=9)
    longer.resume()
    assert [r["step"] for r in longer.run()] == [6, 7, 8, 9]
    losses = [r["loss"] for r in read_log(str(tmp_path / LOG))]
    assert losses == [r["loss"] for r in trainer(steps=9).run()]


def test_a_folder_with_a_run_is_not_overwritten(backend, tmp_path):
    trainer(tmp_path, steps=3).run()
    before = (tmp_path / CHECKPOINT).read_bytes(), (tmp_path / LOG).read_bytes()
    with pytest.raises(FileExistsError, match="already holds a run"):
        trainer(tmp_path, steps=3).run()
    assert ((tmp_path / CHECKPOINT).read_bytes(), (tmp_path / LOG).read_bytes()) == before


def test_the_checkpoint_holds_what_is_needed_to_build_the_model_again(backend, tmp_path):
    extra = {"configuration": {"d_model": 8}, "vocabulary": ["a", "é"]}
    trainer(tmp_path, steps=3, extra=extra).run()
    state = checkpoint.read_state(tmp_path / CHECKPOINT)
    assert state["extra"] == extra
    assert from_state(state["schedule"]).state_dict() == warmup_cosine(0.05, 3, 12).state_dict()
    assert state["step"] == state["steps"] == 3 and state["environment"]["backend"] == backend


def test_steps_without_their_checkpoint_are_not_overwritten_either(tmp_path):
    trainer(tmp_path, steps=3).run()
    (tmp_path / CHECKPOINT).unlink()
    before = (tmp_path / LOG).read_bytes()
    with pytest.raises(FileExistsError, match="already holds a run"):
        trainer(tmp_path, steps=3).run()
    assert (tmp_path / LOG).read_bytes() == before


@pytest.mark.parametrize("damage", ["missing", "shorter", "gap"])
def test_a_log_that_is_not_of_the_checkpoint_is_refused(tmp_path, damage):
    trainer(tmp_path, steps=3).run()
    log = tmp_path / LOG
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:2] if damage == "shorter" else lines[::2]))
    if damage == "missing":
        log.unlink()
    other = trainer(tmp_path)
    with pytest.raises(ValueError, match=f"{LOG} is not the log .* the steps 1 to 3"):
        other.resume()
    assert other.step == 0 and not other.resumed
    other.step, other.resumed = 3, True         # as if the log had been changed after resume()
    with pytest.raises(ValueError, match="is not the log"):
        other.run()


# One process a folder


def test_a_folder_is_trained_in_by_one_process(tmp_path):
    second = trainer(tmp_path, steps=3)

    def loss(*batch):
        assert (tmp_path / RUNNING).read_bytes().split() == [b"%d" % os.getpid()]
        before = (tmp_path / LOG).read_bytes(), (tmp_path / CHECKPOINT).read_bytes()
        with pytest.raises(BlockingIOError, match=f"process {os.getpid()} is training in .*wait"):
            second.run()
        assert ((tmp_path / LOG).read_bytes(), (tmp_path / CHECKPOINT).read_bytes()) == before
        return real(*batch)

    first = trainer(tmp_path, steps=3)
    real, first.loss = first.loss, loss
    first.run()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([CHECKPOINT, LOG])
    with claimed(str(tmp_path)):
        pass


def test_the_claim_of_a_process_that_was_killed_stops_nobody(tmp_path):
    code = ("import os, sys; from tinyformer.training.loop import claimed\n"
            "with claimed(sys.argv[1]):\n    print('claimed', flush=True); sys.stdin.read()")
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, cwd=Path(tf.__file__).parents[1])
    assert other.stdout.readline().strip() == b"claimed"
    with pytest.raises(BlockingIOError, match=f"process {other.pid} is training"):
        trainer(tmp_path, steps=1).run()
    other.kill()
    other.communicate()
    assert (tmp_path / RUNNING).exists()
    (tmp_path / RUNNING).write_bytes(b"%d" % os.getpid())       # the number of one that is alive
    trainer(tmp_path, steps=1).run()
    assert not (tmp_path / RUNNING).exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no open file")
def test_a_claim_on_a_file_that_was_just_taken_away_is_none(tmp_path, monkeypatch):
    real, opened = loop._locked, []

    def late(path):
        opened.append(real(path))
        if len(opened) == 1:
            os.remove(path)
        return opened[-1]

    monkeypatch.setattr(loop, "_locked", late)
    with claimed(str(tmp_path)):
        assert len(opened) == 2 and (tmp_path / RUNNING).exists()
        with pytest.raises(BlockingIOError):
            real(str(tmp_path / RUNNING))


@pytest.mark.parametrize("change", ["model", "optimiser", "data"])
def test_a_checkpoint_of_another_run_is_refused(backend, tmp_path, change):
    trainer(tmp_path, steps=2).run()
    other = trainer(tmp_path)
    if change == "model":
        other.model.extra = tf.nn.Linear(3, 3)
    elif change == "optimiser":
        other.optimiser = AdamW(list(other.model.named_parameters())[:3])
    else:
        other.batches = TokenBatches(TOKENS[:100], 3, 6)
    with pytest.raises(ValueError, match="extra.weight|other parameters|other data"):
        other.resume()


def test_going_on_under_another_backend_is_possible_and_said(tmp_path):
    pytest.importorskip("numpy")
    out = io.StringIO()
    with tf.use_backend("numpy"), tf.set_default_dtype("float64"):
        whole = trainer(evaluate=None).run()
        trainer(tmp_path, steps=5, evaluate=None).run()
    with tf.use_backend("python"):
        resumed = trainer(tmp_path, evaluate=None, quiet=False, progress=Progress(12, out=out))
        resumed.resume()
        resumed.run()
    assert "resumed elsewhere (backend was numpy, is python)" in out.getvalue()
    losses = [r["loss"] for r in read_log(str(tmp_path / LOG))]
    assert losses == pytest.approx([r["loss"] for r in whole], rel=1e-9)


def test_going_on_at_the_same_place_says_nothing(backend, tmp_path):
    out = io.StringIO()
    trainer(tmp_path, steps=2).run()
    trainer(tmp_path, quiet=False, progress=Progress(12, out=out)).resume()
    assert out.getvalue() == ""


def test_a_full_disk_stops_the_run_and_keeps_the_former_checkpoint(backend, tmp_path, monkeypatch):
    real = checkpoint.safetensors.os.fsync
    run = trainer(tmp_path, save_every=4)

    def fsync(descriptor):
        if run.step == 8:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(checkpoint.safetensors.os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left"):
        run.run()
    monkeypatch.undo()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([CHECKPOINT, LOG])
    resumed = trainer(tmp_path)
    resumed.resume()
    assert resumed.step == 4
    resumed.run()
    assert read_log(str(tmp_path / LOG)) == trainer().run()


# nan


def test_a_loss_of_nan_stops_with_the_step_and_the_first_tensor(backend, tmp_path):
    def spoil(run, logits):
        if run.step + 1 == 5 and run.model.training:
            return (logits * 0.0 - 1.0).log()       # log(-1)
        return logits

    run = trainer(tmp_path, spoil=spoil, save_every=2)
    words = (r"step 5: the loss became nan: the first tensor that became nan: nan in the result of "
             r"log, shape \(3, 6, 11\) \(.*test_loop.py, line \d+\)\. The checkpoint .* untouched"
             r"\. Start a new run with a lower rate")
    with pytest.raises(NotFinite, match=words):
        run.run()
    assert checkpoint.read_state(tmp_path / CHECKPOINT)["step"] == 4
    assert [r["step"] for r in read_log(str(tmp_path / LOG))] == [1, 2, 3, 4]
    assert all(math.isfinite(x) for x in run.model.tokens.weight.tolist()[0])


def test_the_search_for_nan_draws_the_random_numbers_of_the_step(backend):
    drawn = []

    def spoil(run, logits):
        drawn.append(stream.uniform(1).tolist())
        if run.step + 1 == 3 and drawn.index(drawn[-1]) == 2:       # only for that very number
            return (logits * 0.0 - 1.0).log()
        return logits

    with pytest.raises(NotFinite, match="step 3: .*nan in the result of log"):
        trainer(spoil=spoil, evaluate=None).run()
    assert len(drawn) == 4 and drawn[2] == drawn[3]


def test_a_held_out_loss_of_nan_stops_too(backend, tmp_path):
    with pytest.raises(NotFinite, match="the held-out loss became nan after step 4"):
        trainer(tmp_path, evaluate=lambda: math.nan).run()
    assert [r["step"] for r in read_log(str(tmp_path / LOG))] == [1, 2, 3]


def test_the_module_in_which_nan_began_is_named(backend):
    def head(x):
        return (F.linear(x, run.model.tokens.weight) * 0.0 - 1.0).log()

    class Broken(tf.nn.Module):
        def forward(self, x):
            return head(x)

    run = trainer(steps=3)
    run.model.output = Broken()
    with pytest.raises(NotFinite, match=r"nan in the result of log in output, shape \(3, 6, 11\)"):
        run.run()


def test_an_infinity_that_came_first_is_named_too(backend):
    def spoil(run, logits):
        large = logits * math.inf
        return large - large

    words = "that became nan: nan in the result of sub.*, after infinity in the result of mul"
    with pytest.raises(NotFinite, match=words):
        trainer(spoil=spoil).run()


def test_an_infinite_loss_without_nan_names_the_first_infinity(backend):
    run = trainer()
    run.loss = lambda ids, targets: (run.model(ids).sum() * 0.0).log() * -1.0
    words = (r"loss became inf: no tensor became nan; the first infinity: infinity in the result "
             r"of log, shape \(\)")
    with pytest.raises(NotFinite, match=words):
        run.run()


def test_a_parameter_already_spoilt_is_named(backend):
    run = trainer()
    weights = run.model.tokens.weight
    weights[3, 2] = math.nan
    with pytest.raises(NotFinite, match="parameter tokens.weight already held 1 of 88 numbers"):
        run.run()


def test_a_gradient_of_nan_stops_before_any_weight_moves(backend):
    def spoil(run, logits):
        if run.step + 1 < 3:
            return logits
        return logits + (logits * 0.0).sqrt() * 0.0        # finite, but its slope at 0 is not

    run = trainer(spoil=spoil)
    with pytest.raises(NotFinite, match="step 3: the gradient of .* infinite; nothing was updated"):
        run.run()
    assert final(run) == final_after(2)


def final_after(steps):
    run = trainer(steps=steps, evaluate=None)
    run.run()
    return final(run)


def test_the_watch_is_taken_off_again(backend):
    from tinyformer.autograd import engine
    with pytest.raises(NotFinite):
        trainer(spoil=lambda run, logits: (logits * 0.0 - 1.0).log()).run()
    assert type((tf.tensor([1.0], requires_grad=True) * 2.0)._node) is engine.Node


# Ctrl-C


def test_ctrl_c_finishes_the_step_saves_and_says_how_to_go_on(backend, tmp_path):
    def spoil(run, logits):
        if run.step + 1 == 5 and run.model.training:
            signal.raise_signal(signal.SIGINT)
        return logits

    whole = trainer().run()
    run = trainer(tmp_path, spoil=spoil, how_to_resume="tinyformer train --resume X")
    with pytest.raises(Interrupted, match="stopped after step 5 of 12; everything is saved in .*"
                       "Go on with: tinyformer train --resume X"):
        run.run()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    resumed = trainer(tmp_path)
    resumed.resume()
    assert resumed.step == 5
    resumed.run()
    assert read_log(str(tmp_path / LOG)) == whole


def test_a_second_ctrl_c_does_not_wait(backend, tmp_path):
    def spoil(run, logits):
        if run.step + 1 == 5 and run.model.training:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return logits

    with pytest.raises(KeyboardInterrupt) as caught:
        trainer(tmp_path, spoil=spoil, save_every=2).run()
    assert not isinstance(caught.value, Interrupted)
    assert checkpoint.read_state(tmp_path / CHECKPOINT)["step"] == 4


def test_without_a_folder_ctrl_c_says_that_nothing_was_saved(backend):
    def spoil(run, logits):
        signal.raise_signal(signal.SIGINT)
        return logits

    with pytest.raises(Interrupted, match="stopped after step 1 of 12; nothing was saved"):
        trainer(spoil=spoil).run()


def test_a_run_in_another_thread_leaves_signals_alone(backend):
    records = []
    thread = threading.Thread(target=lambda: records.extend(trainer(steps=2).run()))
    thread.start()
    thread.join()
    assert len(records) == 2


# kill -9


SCRIPT = """
import sys
sys.path[:0] = {paths!r}
from tests_training_loop import trainer
from tinyformer.training.loop import CHECKPOINT
import os
run = trainer({folder!r}, steps=60, save_every=3, evaluate_every=20)
if os.path.exists(os.path.join({folder!r}, CHECKPOINT)):
    run.resume()
run.run()
print("done")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no kill -9 here")
def test_killed_at_any_moment_and_resumed_the_log_is_the_same(tmp_path):
    """The script is started again and again and killed at some moment after some step."""
    (tmp_path / "tests_training_loop.py").write_bytes(Path(__file__).read_bytes())
    paths = [str(Path(tf.__file__).parents[1]), str(tmp_path)]
    environment = {**os.environ, "TINYFORMER_BACKEND": "python"}

    def start(folder):
        return subprocess.Popen([sys.executable, "-c", SCRIPT.format(paths=paths, folder=folder)],
                                env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    def lines():
        log = Path(cut, LOG)
        return log.read_bytes().count(b"\n") if log.exists() else 0

    whole, cut = str(tmp_path / "whole"), str(tmp_path / "cut")
    assert start(whole).communicate()[0].strip().endswith("done")
    draw = random.Random(11)
    for target in (0, 5, 16, 30, 46):
        process = start(cut)
        while lines() < target:
            assert process.poll() is None
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.03))
        process.kill()
        process.communicate()
        assert lines() < 60
        if target in (16, 46):          # as if in the middle of a line
            with open(os.path.join(cut, LOG), "ab") as log:
                log.write(b'{"step": 999, "lo')
    assert start(cut).communicate()[0].strip().endswith("done")
    assert Path(cut, LOG).read_bytes() == Path(whole, LOG).read_bytes()
    assert len(read_log(os.path.join(cut, LOG))) == 60


# Losses over batches


def test_the_mean_over_batches_counts_tokens_not_batches(backend):
    run = trainer()
    run.model.eval()
    whole = mean_loss(run.loss, windows(TOKENS[:46], 50, 6))
    parts = mean_loss(run.loss, windows(TOKENS[:46], 2, 6))
    assert parts == pytest.approx(whole, rel=1e-6)
    with pytest.raises(ValueError, match="nothing to predict"):
        mean_loss(run.loss, [])


def test_ignored_targets_are_not_counted(backend):
    batch = next(RowBatches([[1, 2, 3], [1, 2, 3, 4, 5]], 2))
    assert predictions(batch) == 6
    assert json.dumps(predictions(batch)) == "6"


def test_padding_changes_neither_loss_nor_gradients(backend):
    """Adding a longer row's pads to a short one leaves what the short one contributes as it is."""
    with tf.set_default_dtype("float64"):
        run = trainer(rows=True)
        run.model.eval()
        short = next(RowBatches([[1, 2, 3]], 1))
        padded = next(RowBatches([[1, 2, 3], [4, 5, 6, 7, 8]], 2))
        rows = [row for row, length in zip(padded[0].tolist(), padded[2]) if length == 2]
        targets = [row for row, length in zip(padded[1].tolist(), padded[2]) if length == 2]
        results = []
        for ids, answers in ((short[0], short[1]), (tf.tensor(rows).data, tf.tensor(targets).data)):
            run.model.zero_grad()
            loss = run.loss(ids, answers)
            loss.backward()
            gradient = run.model.tokens.weight.grad.tolist()
            results.append([loss.item()] + [x for row in gradient for x in row])
    assert results[1] == pytest.approx(results[0], rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("share", [2, 3])
def test_accumulated_batches_are_one_batch(backend, share):
    """Two runs in float64: steps of one batch of 6 rows, and of several batches of fewer rows."""
    with tf.set_default_dtype("float64"):
        found = []
        for accumulate in (1, share):
            tf.manual_seed(3)
            model = DecoderModel(DecoderConfig(11, 6, d_model=8, n_heads=2, n_layers=1,
                                               dropout=0.0))
            rows = [ROWS[n % 9] for n in range(12)]
            run = Trainer(model, functools.partial(causal_lm, model),
                          RowBatches(rows, 6 // accumulate, stream=Stream(1)),
                          AdamW(model.named_parameters()), warmup_cosine(0.05, 1, 4), 4,
                          accumulate=accumulate, quiet=True)
            found.append(([(each["loss"], each["norm"]) for each in run.run()], final(run)))
    for one, other in zip(found[0][0], found[1][0]):
        assert one == pytest.approx(other, rel=1e-10)
    assert found[0][1]["tokens.weight"][3] == pytest.approx(found[1][1]["tokens.weight"][3],
                                                            rel=1e-9)
    with pytest.raises(ValueError, match="a step takes at least 1 batch, not accumulate=0"):
        trainer(accumulate=0)


def test_an_accumulating_run_that_was_stopped_is_the_run_that_never_stopped(backend, tmp_path):
    whole = trainer(rows=True, accumulate=2)
    whole.run()
    with pytest.raises(Crash):
        trainer(tmp_path, rows=True, accumulate=2, crash_at=8, save_every=3).run()
    again = trainer(tmp_path, rows=True, accumulate=2)
    again.resume()
    again.run()
    assert again.history == whole.history[6:] and final(again) == final(whole)


def test_shares_count_predictions(backend):
    batches = [next(RowBatches(ROWS[:1], 1)), next(RowBatches(ROWS[:4], 4))]
    assert shares(batches) == [2 / 16, 14 / 16] and shares(batches[:1]) == [1.0]
