"""A run on the disk: runs/NAME/ with checkpoint, vocabulary, log and picture."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import Any, Tuple

from tinyformer.arrays import set_default_dtype, use_backend
from tinyformer.models import Config, DecoderConfig, DecoderModel
from tinyformer.nn import described
from tinyformer.text import WordPiece
from tinyformer.training import checkpoint
from tinyformer.training.loop import CHECKPOINT, LOG

RUNS = "runs"
VOCABULARY, PICTURE = "vocab.txt", "loss.svg"


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
    """The folder for a new run: runs/NAME, or the first free runs/run-N. Nothing is made yet.

    Raises ValueError where it holds anything and `force` is not given.
    """
    if not name:
        number = 1
        while os.path.exists(os.path.join(RUNS, f"run-{number}")):
            number += 1
        return os.path.join(RUNS, f"run-{number}")
    if os.path.basename(name) != name or name in (".", ".."):
        raise ValueError(f"--name is the name of a folder in {RUNS}/, not a path: {name!r}")
    folder = os.path.join(RUNS, name)
    if os.path.exists(os.path.join(folder, CHECKPOINT)) and not force:
        raise ValueError(
            f"the run {folder} exists. Go on with it (--resume {name}), give the new one another "
            "--name, or overwrite it with --force")
    foreign = set(os.listdir(folder)) - {LOG, VOCABULARY, PICTURE, CHECKPOINT
                                         } if os.path.isdir(folder) else ()
    if any(CHECKPOINT not in entry for entry in foreign):
        raise ValueError(
            f"{folder} holds what no run has made ({sorted(foreign)[0]}): choose another --name")
    return folder


def clear(folder: str) -> None:
    """Take away the files of the run that is overwritten, the checkpoint first."""
    for entry in (CHECKPOINT, LOG, VOCABULARY, PICTURE):
        path = os.path.join(folder, entry)
        if os.path.exists(path):
            os.remove(path)


def switch_to(settings: RunSettings) -> None:
    """Compute with the backend and the dtype of a run.

    Matrices of a toy model are too small to be shared out: two threads that wait for each other
    took ten times as long on a busy machine. So one thread, unless the user has said otherwise; the
    libraries read this when NumPy is first imported.
    """
    if settings.d_model < 256:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    use_backend(settings.backend)
    set_default_dtype(settings.dtype)


def checkpoint_file(path: str) -> str:
    """The checkpoint of a run, or the file itself where a file was named."""
    return path if os.path.isfile(path) else os.path.join(path_of(path), CHECKPOINT)


def load_model(path: str) -> Tuple[DecoderModel, WordPiece, Any]:
    """The model, the tokenizer and the state of a run or of a checkpoint file.

    The backend that trained it is used where it is there, else the pure one, with a word about it.
    """
    file = checkpoint_file(path)
    state = checkpoint.read_state(file)
    settings = RunSettings.from_dict(state["extra"]["settings"])
    try:
        switch_to(settings)
    except ImportError:
        print("this run was trained with NumPy, which is not here: computing in pure Python",
              file=sys.stderr)
        use_backend("python")
    with described():
        model = DecoderModel(DecoderConfig.from_dict(state["extra"]["model"]))
    model.load_state_dict(checkpoint.load(file).group("model"))
    model.eval()
    tokenizer = WordPiece(state["extra"]["tokens"], **state["extra"]["tokenizer"])
    return model, tokenizer, state
