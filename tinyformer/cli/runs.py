"""A run on the disk: runs/NAME/ with checkpoint, vocabulary, log and picture."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import sys
from typing import Any, Dict, NamedTuple, Tuple

from tinyformer.arrays import set_default_dtype, use_backend
from tinyformer.models import Config, DecoderConfig, DecoderModel
from tinyformer.nn import described
from tinyformer.text import WordPiece
from tinyformer.training import checkpoint
from tinyformer.training.loop import CHECKPOINT, LOG, RUNNING, claimed, holds_a_run

RUNS = "runs"
VOCABULARY, PICTURE = "vocab.txt", "loss.svg"
FILES = (CHECKPOINT, LOG, VOCABULARY, PICTURE)
LEFT_OVER = (".partial", ".tmp")        # behind the name of a file whose writing was cut short


@dataclasses.dataclass(frozen=True)
class RunSettings(Config):
    """Everything that was chosen for a run; its checkpoint keeps it. `text` is empty for the
    language reference."""

    backend: str
    dtype: str
    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    max_len: int
    batch_size: int
    steps: int
    lr: float
    dropout: float
    seed: int
    text: Tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", tuple(self.text))
        self.whole("vocab_size", "batch_size", "steps")
        if not 0 < self.lr < float("inf"):
            raise ValueError(f"lr must be above 0, not {self.lr}")
        self.model()                    # refuses sizes that make no model

    def model(self) -> DecoderConfig:
        """The configuration of the model; its vocabulary may turn out smaller than was asked
        for."""
        return DecoderConfig(self.vocab_size,
                             self.max_len,
                             self.d_model,
                             self.n_layers,
                             self.n_heads,
                             dropout=self.dropout)


def path_of(run: str) -> str:
    """The folder of a run, given as a path or as the name of one in runs/. Raises ValueError if
    none."""
    for folder in (run, os.path.join(RUNS, run)):
        if os.path.isfile(os.path.join(folder, CHECKPOINT)):
            return folder
    if os.path.isdir(run) or os.path.isdir(os.path.join(RUNS, run)):
        raise ValueError(
            f"{run} has no {CHECKPOINT}: the run stopped before its first step, start it again")
    known = sorted(os.listdir(RUNS)) if os.path.isdir(RUNS) else []
    raise ValueError(f"there is no run {run!r}; " +
                     (f"in {RUNS}/ there are {', '.join(known)}"
                      if known else f"{RUNS}/ has none yet: python3 -m tinyformer train"))


def new_folder(name: str, force: bool) -> str:
    """The folder for a new run: runs/NAME, which is not made yet, or the first free runs/run-N,
    which is made at once, so that two runs never get the same: `drop_if_empty` gives it back.

    Raises ValueError where it holds a run and `force` is not given, or what is none of a run's.
    """
    if not name:
        for number in itertools.count(1):
            folder = os.path.join(RUNS, f"run-{number}")
            with contextlib.suppress(FileExistsError):
                os.makedirs(folder)
                return folder
    if os.path.basename(name) != name or name in (".", ".."):
        raise ValueError(f"--name is the name of a folder in {RUNS}/, not a path: {name!r}")
    folder = os.path.join(RUNS, name)
    if holds_a_run(folder) and not force:
        go_on = (f"Go on with it (--resume {name})" if os.path.exists(
            os.path.join(folder, CHECKPOINT)) else f"Its {CHECKPOINT} is gone, its log is not")
        raise ValueError(f"the run {folder} exists. {go_on}, give the new one another --name, or "
                         "overwrite it with --force")
    foreign = sorted(set(os.listdir(folder)) - set(_names())) if os.path.isdir(folder) else []
    if foreign:
        raise ValueError(
            f"{folder} holds what no run has made ({foreign[0]}): choose another --name")
    return folder


def drop_if_empty(folder: str) -> None:
    """Take away the folder of a run that came to nothing, and runs/ where that was its only one."""
    for each in (folder, RUNS):
        with contextlib.suppress(OSError):      # it is not empty, or not there
            os.rmdir(each)


def _names() -> Tuple[str, ...]:
    """All names that a run may leave in its folder, however it ended; the checkpoint first."""
    return (*FILES, RUNNING, *(name + ending for name in FILES for ending in LEFT_OVER))


def clear(folder: str) -> None:
    """Take away the files of the run that is overwritten, the checkpoint first. Raises
    BlockingIOError while another process trains in the folder."""
    if not os.path.isdir(folder):
        return
    with claimed(folder):
        for name in _names():
            if name != RUNNING:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(os.path.join(folder, name))


def use_one_thread() -> None:
    """Let NumPy multiply in one thread, unless the user has said otherwise.

    The matrices of a toy model are too small to be shared out: two threads that wait for each other
    took ten times as long on a busy machine. NumPy reads this when it is first imported.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def switch_to(settings: RunSettings) -> None:
    """Compute with the backend and the dtype of a run."""
    if settings.d_model < 256:
        use_one_thread()
    use_backend(settings.backend)
    set_default_dtype(settings.dtype)


def checkpoint_file(path: str) -> str:
    """The checkpoint of a run, or the file itself where a file was named."""
    return path if os.path.isfile(path) else os.path.join(path_of(path), CHECKPOINT)


class RunState(NamedTuple):
    """What the command line keeps in a checkpoint beside the state of the trainer."""

    settings: RunSettings
    model: DecoderConfig
    tokenizer: WordPiece


def run_state(state: Dict[str, Any], path: str) -> RunState:
    """What `state`, read from the checkpoint at `path`, says about a run of the command line.

    Raises ValueError for the checkpoint of a Trainer that was used without it.
    """
    extra = state.get("extra") or {}
    for key in ("settings", "model", "tokens", "tokenizer"):
        if key not in extra:
            raise ValueError(f"{path} is a checkpoint, but not of a run of the command line (it "
                             f"has no {key!r}); what made it can read it: training.checkpoint.load")
    return RunState(RunSettings.from_dict(extra["settings"]),
                    DecoderConfig.from_dict(extra["model"]),
                    WordPiece(extra["tokens"], **extra["tokenizer"]))


def load_model(path: str) -> Tuple[DecoderModel, WordPiece, Any]:
    """The model, the tokenizer and the state of a run or of a checkpoint file.

    The backend that trained it is used where it is there, else the pure one, with a word about it.
    """
    file = checkpoint_file(path)

    def prepare(state: Dict[str, Any]) -> None:
        """Switch to the engine of the run before any array is made."""
        settings = run_state(state, file).settings
        try:
            switch_to(settings)
        except ImportError:
            print("this run was trained with NumPy, which is not here: computing in pure Python",
                  file=sys.stderr)
            use_backend("python")

    saved = checkpoint.load(file, prepare)
    run = run_state(saved.state, file)
    with described():
        model = DecoderModel(run.model)
    model.load_state_dict(saved.group("model"))
    model.eval()
    return model, run.tokenizer, saved.state
