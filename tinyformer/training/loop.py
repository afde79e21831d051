"""The training loop.

    for step in 1, 2, ..., steps:
        loss = loss of the next batch
        gradients by backward(), clipped together to a length
        the optimiser moves the parameters, at the rate of the schedule

Around these lines stands what makes a run safe to leave alone: each step is one line of a log, a
checkpoint holds everything, Ctrl-C saves, a loss or a gradient of nan stops the run before the step
that it would have spoilt, and no two processes train in one folder. A run that was killed at any
moment and is resumed has the log of a run that never stopped, bit for bit (on the same backend,
interpreter, NumPy and number of threads).
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import signal
import sys
import threading
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence

from tinyformer.arrays import backend_name, xp
from tinyformer.arrays.stream import stream
from tinyformer.autograd import Tensor, no_grad
from tinyformer.training import checkpoint, nonfinite
from tinyformer.training.batches import IGNORED
from tinyformer.training.log import LossLog, lines_up_to
from tinyformer.training.optimisers import clip_grad_norm
from tinyformer.training.progress import Progress

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

CHECKPOINT = "checkpoint.safetensors"
LOG = "log.jsonl"
RUNNING = "running"         # there while a process trains, with its number, and locked


class NotFinite(ArithmeticError):
    """The loss or a gradient became nan or infinite; the message names step and culprit."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed; everything is saved. The message says how to go on."""


class Trainer:
    """A run: `run()` goes from where it is to step `steps`.

    model           a Module
    loss            loss(*batch) -> Tensor of one number, for a batch of `batches`
    batches         next(batches) gives a batch; `state_dict` and `load_state_dict` its position
    optimiser       of the model's parameters
    schedule        step -> rate, steps counted from 1
    accumulate      batches per step: their gradients are added up as if they were one batch, every
                    prediction of it counted alike
    max_norm        the gradients are clipped to this length; None only measures them
    evaluate        () -> held-out loss, called every `evaluate_every` steps and after the last,
                    without gradients or dropout; the random numbers it draws do not disturb the run
    folder          where `checkpoint.safetensors` and `log.jsonl` go, made if it is not there; None
                    keeps nothing
    save_every      steps between checkpoints; one is also saved at the beginning and at the end
    extra           what else belongs into the checkpoint, as JSON can hold it: the configuration,
                    the vocabulary, the settings of the tokenizer
    progress        shows the steps; None for the default, `quiet=True` for nothing at all
    how_to_resume   what the message of Ctrl-C tells the user to type
    """

    def __init__(self, model: Any, loss: Callable[..., Tensor], batches: Any, optimiser: Any,
                 schedule: Callable[[int], float], steps: int, *, accumulate: int = 1,
                 max_norm: Optional[float] = 1.0,
                 evaluate: Optional[Callable[[], float]] = None, evaluate_every: int = 0,
                 folder: Optional[str] = None, save_every: int = 0,
                 extra: Optional[Dict[str, Any]] = None, progress: Optional[Progress] = None,
                 quiet: bool = False, how_to_resume: str = "") -> None:
        self.model, self.loss, self.batches, self.optimiser = model, loss, batches, optimiser
        self.schedule, self.steps, self.max_norm = schedule, steps, max_norm
        self.accumulate = accumulate
        if accumulate < 1:
            raise ValueError(f"a step takes at least 1 batch, not accumulate={accumulate}")
        self.evaluate, self.evaluate_every = evaluate, evaluate_every
        self.folder, self.save_every, self.extra = folder, save_every, extra or {}
        self.progress = None if quiet else progress or Progress(steps)
        self.how_to_resume = how_to_resume
        self.step = 0
        self.resumed = False        # whether the checkpoint in the folder is one of this run
        self.history: List[Dict[str, Any]] = []     # the records of this run() and those before it
        self.log: Optional[LossLog] = None

    def run(self) -> List[Dict[str, Any]]:
        """Train until step `steps`; returns the records of the log that were made in this process.

        Raises NotFinite where the loss or a gradient stops being a number (the last checkpoint is
        untouched), Interrupted after Ctrl-C, OSError where the disk fails, FileExistsError where
        the folder holds a run that this one does not resume, BlockingIOError where another process
        trains in it, ValueError where its log is not the one of the checkpoint.
        """
        with contextlib.ExitStack() as stack:
            if self.folder is not None:
                os.makedirs(self.folder, exist_ok=True)
                stack.enter_context(claimed(self.folder))
                self._open_folder(self.folder)
                stack.callback(self._close_log)
            if self.progress:
                self.progress.begin(self.step)
                stack.callback(self.progress.close)
            interrupted = stack.enter_context(postponed_interrupt())
            self.model.train()
            while self.step < self.steps:
                self._advance()
                if interrupted and self.step < self.steps:
                    self._stop()
        return self.history

    def _open_folder(self, folder: str) -> None:
        """Open the log, cut back to this step, and save where a new run begins."""
        if not self.resumed and holds_a_run(folder):
            raise FileExistsError(f"{folder} already holds a run; resume it, or take another")
        self.log = LossLog(os.path.join(folder, LOG), keep=self.step)
        if not self.resumed:
            self.save()
            self.resumed = True

    def _close_log(self) -> None:
        if self.log:
            self.log.close()
            self.log = None

    def _advance(self) -> None:
        """One step with everything around it."""
        batches = [next(self.batches) for _ in range(self.accumulate)]
        record = self._train_on(batches)
        self.step += 1
        if self.evaluate and (self.step == self.steps or
                              self.evaluate_every and self.step % self.evaluate_every == 0):
            record["held_out"] = value = self._evaluated(self.evaluate)
            if not math.isfinite(value):
                raise NotFinite(f"the held-out loss became {value} after step {self.step}")
        self.history.append(record)
        if self.log:
            self.log.append(record)
            if self.step == self.steps or self.save_every and self.step % self.save_every == 0:
                self.save()
        if self.progress:
            self.progress.update(self.step, record["loss"], record["rate"], record["norm"],
                                 sum(map(predictions, batches)), record.get("held_out"))

    def _train_on(self, batches: List[Any]) -> Dict[str, Any]:
        """The step itself: loss, gradients, update. Returns its record for the log."""
        step, value = self.step + 1, 0.0
        self.optimiser.zero_grad()
        for batch, share in zip(batches, shares(batches)):
            value += self._add_gradients(batch, share)
        try:
            norm = clip_grad_norm(self.model.named_parameters(), self.max_norm)
        except FloatingPointError as error:
            raise NotFinite(self._not_finite(str(error))) from None
        rate = self.schedule(step)
        self.optimiser.step(rate)
        return {"step": step, "loss": value, "rate": rate, "norm": norm}

    def _add_gradients(self, batch: Any, share: float) -> float:
        """Add the gradients of a batch that has this share in the step. Returns its part of the
        loss."""
        randomness = stream.state()
        loss = self.loss(*batch) * share
        value = float(loss.item())
        if not math.isfinite(value):
            stream.restore(randomness)
            found = nonfinite.describe(self.model, lambda: self.loss(*batch))
            raise NotFinite(self._not_finite(f"the loss became {value}: {found}"))
        loss.backward()
        return value

    def _not_finite(self, what: str) -> str:
        saved = f". The checkpoint in {self.folder} is untouched" if self.folder is not None else ""
        return (f"step {self.step + 1}: {what}{saved}. Start a new run with "
                "a lower rate or a longer warm-up")

    def _evaluated(self, evaluate: Callable[[], float]) -> float:
        """The held-out loss, without gradients and dropout, and as if nothing random was drawn."""
        randomness = stream.state()
        try:
            with self.model.evaluating(), no_grad():
                return float(evaluate())
        finally:
            stream.restore(randomness)

    def _stop(self) -> None:
        """After Ctrl-C: save, and say how to go on."""
        words = f"stopped after step {self.step} of {self.steps}"
        if self.folder is None:
            raise Interrupted(f"{words}; nothing was saved, the run has no folder")
        self.save()
        hint = f" Go on with: {self.how_to_resume}" if self.how_to_resume else ""
        raise Interrupted(f"{words}; everything is saved in {self.folder}.{hint}")

    # Checkpoints

    def save(self) -> None:
        """Write the checkpoint of this moment; on OSError the former one is intact."""
        if self.folder is None:
            raise ValueError("the run has no folder to save in; give Trainer(folder=...)")
        if self.log:
            self.log.sync()
        memory = self.optimiser.state_dict()
        arrays = {f"model.{name}": each.data for name, each in self.model.state_dict().items()}
        arrays.update((f"optimiser.{key}", array) for key, array in memory.pop("arrays").items())
        describe = getattr(self.schedule, "state_dict", None)
        state = {"step": self.step, "steps": self.steps, "random": stream.state(),
                 "data": self.batches.state_dict(), "optimiser": memory,
                 "schedule": describe() if describe else None, "extra": self.extra,
                 "environment": environment()}
        checkpoint.save(os.path.join(self.folder, CHECKPOINT), state, arrays)

    def resume(self, saved: Optional[checkpoint.Checkpoint] = None) -> None:
        """Go on from the checkpoint in the folder (or from `saved`, if it was loaded already).

        Raises what `checkpoint.load` raises, and ValueError where weights, optimiser, data or log
        are not those of this run. Says so where backend, dtype or interpreter have changed: then
        the losses agree with those of a run that never stopped to rounding only.
        """
        if saved is None:
            if self.folder is None:
                raise ValueError("the run has no folder to resume from; give Trainer(folder=...)")
            saved = checkpoint.load(os.path.join(self.folder, CHECKPOINT))
        if self.folder is not None:
            lines_up_to(saved.state["step"], os.path.join(self.folder, LOG))
        self.batches.load_state_dict(saved.state["data"])
        self.model.load_state_dict(saved.group("model"))
        memory = {**saved.state["optimiser"], "arrays": saved.group("optimiser")}
        self.optimiser.load_state_dict(memory)
        stream.restore(saved.state["random"])
        self.step, self.resumed = saved.state["step"], True
        was, now = saved.state["environment"], environment()
        changed = [f"{key} was {was.get(key)}, is {value}" for key, value in now.items()
                   if was.get(key) != value]
        if changed and self.progress:
            self.progress.note(f"resumed elsewhere ({'; '.join(changed)}): the losses will agree "
                               "with an uninterrupted run to rounding only")


def mean_loss(loss: Callable[..., Tensor], batches: Iterable[Any]) -> float:
    """The mean loss per predicted token over `batches`, however unequal: for `evaluate`."""
    total, count = 0.0, 0
    for batch in batches:
        tokens = predictions(batch)
        total += float(loss(*batch).item()) * tokens
        count += tokens
    if not count:
        raise ValueError("there is nothing to predict in the held-out batches; hold out more text")
    return total / count


def predictions(batch: Any) -> int:
    """How many tokens a batch (ids, targets, ...) predicts: its targets without those ignored."""
    return int(xp.sum(xp.astype(xp.not_equal(batch[1], IGNORED), xp.int64)))


def shares(batches: Sequence[Any]) -> List[float]:
    """The share of each batch in what they predict together.

    The mean loss of a batch, times its share, summed over the batches, is the mean loss of all as
    one batch; the mean of their means is not, unless they predict equally much.
    """
    counts = [predictions(batch) for batch in batches] if len(batches) > 1 else [1]
    return [count / max(sum(counts), 1) for count in counts]


def environment() -> Dict[str, str]:
    """What a run must find again to go on bit for bit."""
    found = {"backend": backend_name(), "dtype": str(Tensor([0.0]).dtype),
             "python": f"{platform.python_implementation()} {platform.python_version()}"}
    if found["backend"] == "numpy":
        found["numpy"] = f"NumPy {sys.modules['numpy'].__version__}"
    return found


def holds_a_run(folder: str) -> bool:
    """Whether there is anything that cannot be had back: a checkpoint, or steps in the log."""
    log = os.path.join(folder, LOG)
    return (os.path.exists(os.path.join(folder, CHECKPOINT))
            or os.path.exists(log) and os.path.getsize(log) > 0)


@contextlib.contextmanager
def claimed(folder: str) -> Iterator[None]:
    """Inside, nobody else may claim `folder`: its file `running` is there and locked.

    Whatever ends the process, the system opens the lock; a file that `kill -9` left behind stops
    nobody. Where the file system knows no locks nothing is refused. Raises BlockingIOError, with
    the number of the process that has the folder.
    """
    path = os.path.join(folder, RUNNING)
    descriptor = _locked(path)
    while not _is_at(path, descriptor):     # its owner took it away between opening and locking
        os.close(descriptor)
        descriptor = _locked(path)
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, b"%10d\n" % os.getpid())
        yield
    finally:
        with contextlib.suppress(OSError):
            if sys.platform != "win32":
                os.remove(path)             # while it is ours: a moment later it may be another's
        os.close(descriptor)
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                os.remove(path)             # refused if another has opened it by now


def _locked(path: str) -> int:
    """A descriptor of the file at `path`, made if need be, which nobody else has locked."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, 1 << 20, os.SEEK_SET)      # nobody can read what is locked
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.lseek(descriptor, 0, os.SEEK_SET)
        number = os.read(descriptor, 20).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise BlockingIOError(f"process {number or 'unknown'} is training in "
                              f"{os.path.dirname(path)}: wait until it has ended, or stop it, or "
                              "take another folder") from None
    except OSError:
        pass
    return descriptor


def _is_at(path: str, descriptor: int) -> bool:
    """Whether the open file is the one that now has that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def postponed_interrupt() -> Iterator[List[int]]:
    """Inside, the first Ctrl-C is only noted in the list, so that a step is never left half done;
    the second one interrupts at once. Where Ctrl-C does not mean KeyboardInterrupt (outside the
    main thread, or where somebody else handles it) nothing changes."""
    noted: List[int] = []

    def note(number: int, frame: Any) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    ours = (threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
