"""Train a language model, from scratch, on real text.

Without options it learns from the Python language reference, which every Python carries
(pydoc_data.topics), in a size that suits the engine at hand: about a minute. It trains a WordPiece
vocabulary, holds out the last tenth of the text, and leaves runs/NAME/ with checkpoint.safetensors,
vocab.txt, log.jsonl and loss.svg.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import shlex
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from tinyformer import functional as F
from tinyformer.arrays.backend import default_backend, has_numpy
from tinyformer.arrays.stream import manual_seed
from tinyformer.cli import corpus as corpora
from tinyformer.cli import runs
from tinyformer.cli.runs import RunSettings
from tinyformer.generation import generate
from tinyformer.models import DecoderModel
from tinyformer.pictures import Line, line_chart
from tinyformer.text import WordPiece
from tinyformer.training import checkpoint
from tinyformer.training.batches import TokenBatches, windows
from tinyformer.training.floors import Floor, lowest, ngram_floors
from tinyformer.training.log import read_log
from tinyformer.training.loop import LOG, Trainer, mean_loss
from tinyformer.training.optimisers import AdamW
from tinyformer.training.profile import profiled
from tinyformer.training.progress import Progress, clock_text
from tinyformer.training.schedules import warmup_cosine

# Sizes that were measured to end, within a minute or so, below every n-gram floor with NumPy, and
# below the unigram floor without.
SIZES: Dict[str, Dict[str, Any]] = {
    "numpy": dict(dtype="float32", vocab_size=1024, d_model=64, n_layers=2, n_heads=4, max_len=32,
                  batch_size=8, steps=1600, lr=0.003, dropout=0.0),
    "python": dict(dtype="float64", vocab_size=256, d_model=16, n_layers=1, n_heads=4, max_len=16,
                   batch_size=4, steps=400, lr=0.02, dropout=0.0)}
SAMPLE = 60             # tokens of text that are shown at the end

OPTIONS: Dict[str, Tuple[Any, str]] = {
    "backend": (str, "the engine: numpy or python (default: numpy where it is installed)"),
    "dtype": (str, "float32 (numpy only) or float64"),
    "vocab_size": (int, "pieces of the WordPiece vocabulary"),
    "d_model": (int, "width of the vectors"),
    "n_layers": (int, "blocks, one after the other"),
    "n_heads": (int, "attention heads; must divide d_model"),
    "max_len": (int, "tokens of context"),
    "batch_size": (int, "windows of text per step"),
    "steps": (int, "training steps"),
    "lr": (float, "highest learning rate"),
    "dropout": (float, "probability of dropping an element, 0 to below 1"),
    "seed": (int, "of all random numbers (default 0)")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `train`."""
    parser.add_argument("--text",
                        nargs="+",
                        metavar="FILE",
                        help="UTF-8 text to learn from, a document a file")
    parser.add_argument("--name",
                        default="",
                        help="the run is kept in runs/NAME (default: run-1, run-2, ...)")
    parser.add_argument("--force", action="store_true", help="overwrite the run of that name")
    parser.add_argument("--resume",
                        metavar="RUN",
                        help="go on with a run that was stopped or killed")
    parser.add_argument("--profile",
                        action="store_true",
                        help="show at the end where the time went, operation by operation; costs "
                             "about a tenth of it in a model 64 wide, less in a wider one")
    for name, (kind, words) in OPTIONS.items():
        defaults = [f"{size[name]} ({backend})" for backend, size in SIZES.items() if name in size]
        parser.add_argument("--" + name.replace("_", "-"), type=kind, metavar=kind.__name__.upper(),
                            help=words + (f"; default {' or '.join(defaults)}" if defaults else ""))


def run(arguments: argparse.Namespace) -> int:
    """Train, report, and show what the model writes."""
    begun = time.monotonic()
    if (arguments.d_model or 0) < 256:
        runs.use_one_thread()
    given = [name for name in OPTIONS if getattr(arguments, name) is not None]
    saved: Optional[checkpoint.Checkpoint] = None
    if arguments.resume:
        settings, folder, saved = reopen(arguments, given)
        why = "as when the run began"
    else:
        if arguments.force and not arguments.name:
            raise ValueError("--force overwrites the run that --name names; without a name every "
                             "run gets a folder of its own")
        settings, why = choose({name: getattr(arguments, name) for name in given}, arguments.text)
        runs.switch_to(settings)
        folder = runs.new_folder(arguments.name, arguments.force)
    say("engine", f"{settings.backend}, {settings.dtype} ({why})")
    try:
        job = prepare(settings, folder, saved)
    except BaseException:
        runs.drop_if_empty(folder)
        raise
    if saved is None and arguments.force:
        runs.clear(folder)
    try:
        train(job.trainer, arguments.profile)
        keep(job, folder)
        report(job, settings, folder, time.monotonic() - begun)
    except BaseException as error:
        with contextlib.suppress(OSError):
            if job.trainer.resumed:
                keep(job, folder)
        if type(error) is KeyboardInterrupt:
            raise KeyboardInterrupt(f"stopped; {folder} keeps the last checkpoint. Go on with: "
                                    f"{job.trainer.how_to_resume}") from None
        raise
    return 0


def train(trainer: Trainer, with_profile: bool) -> None:
    """Run to the end; `with_profile`, show where the time went, also when the run is stopped."""
    if not with_profile:
        trainer.run()
        return
    try:
        with profiled() as profile:
            trainer.run()
    finally:
        if profile.steps:
            print(f"\n{profile}")


def keep(job: "Job", folder: str) -> None:
    """Leave vocabulary and picture beside the checkpoint and the log."""
    job.tokenizer.save(os.path.join(folder, runs.VOCABULARY))
    draw(folder, job.floors)


def reopen(arguments: argparse.Namespace,
           given: List[str]) -> Tuple[RunSettings, str, checkpoint.Checkpoint]:
    """The settings, the folder and the checkpoint of the run that is gone on with.

    Raises ValueError for options that would make it another run.
    """
    fixed = given + [name for name in ("text", "name", "force") if getattr(arguments, name)]
    if fixed:
        options = ", ".join("--" + name.replace("_", "-") for name in fixed)
        raise ValueError("--resume goes on with what the run was begun with; leave away "
                         f"{options}, or start a new run")
    folder = runs.path_of(arguments.resume)
    file = runs.checkpoint_file(folder)
    saved = checkpoint.load(
        file, lambda state: runs.switch_to(runs.run_state(state, file).settings))
    return runs.run_state(saved.state, file).settings, folder, saved


def choose(given: Dict[str, Any], text: Optional[List[str]]) -> Tuple[RunSettings, str]:
    """The settings of a new run: what was given, and for the rest what suits the backend; and
    why."""
    name = given.get("backend") or default_backend()
    if name not in SIZES:
        raise ValueError(f"--backend is numpy or python, not {name!r}")
    why = ("as asked for" if given.get("backend") else
           "NumPy is installed; --backend python does without" if name == "numpy" else
           "TINYFORMER_BACKEND asks for it" if has_numpy() else
           "NumPy is not installed; with it the model would be larger and the run faster")
    settings = {**SIZES[name], "seed": 0, **given, "backend": name,
                "text": [os.path.abspath(path) for path in text or []]}
    if settings["dtype"] not in ("float32", "float64"):
        raise ValueError(f"--dtype is float32 or float64, not {settings['dtype']!r}")
    if name == "python" and settings["dtype"] != "float64":
        raise ValueError(
            f"--dtype {settings['dtype']} needs --backend numpy: pure Python computes in float64")
    return RunSettings.from_dict(settings), why


class Job(NamedTuple):
    """A run that is ready to go."""

    trainer: Trainer
    model: DecoderModel
    tokenizer: WordPiece
    floors: List[Floor]


def say(what: str, words: str) -> None:
    """One line of what a run is made of."""
    print(f"{what:<12} {words}", flush=True)


def prepare(settings: RunSettings, folder: str, saved: Optional[checkpoint.Checkpoint]) -> Job:
    """Text, vocabulary, floors, model and trainer; from the checkpoint where there is one."""
    corpus = corpora.from_files(settings.text) if settings.text else corpora.language_reference()
    training, held_out = corpus.split()
    say("text", f"{corpus.name}: {corpus.size:,} characters, the last tenth is held out")
    if saved is None:
        tokenizer = WordPiece.train(training, settings.vocab_size, lowercase=False)
    else:
        tokenizer = runs.run_state(saved.state, folder).tokenizer
    ids, rest = corpora.encode(tokenizer, training), corpora.encode(tokenizer, held_out)
    say("vocabulary", f"{tokenizer.vocab_size:,} WordPiece pieces; {len(ids):,} tokens to train "
        f"on, {len(rest):,} held out")
    batches = TokenBatches(ids, settings.batch_size, settings.max_len)
    floors = ngram_floors(ids, rest, tokenizer.vocab_size)
    say("floors", ", ".join(map(str, floors)) + " nats per token: what counting alone reaches")
    manual_seed(settings.seed)
    model = DecoderModel(dataclasses.replace(settings.model(), vocab_size=tokenizer.vocab_size))
    say("model", f"{model.n_parameters():,} parameters: width {settings.d_model}, layers "
        f"{settings.n_layers}, heads {settings.n_heads}, context {settings.max_len} tokens")
    trainer = make_trainer(settings, folder, model, tokenizer, batches, rest, lowest(floors))
    if saved is not None:
        trainer.resume(saved)
        say("resumed", f"at step {trainer.step:,} of {settings.steps:,}")
    return Job(trainer, model, tokenizer, floors)


def make_trainer(settings: RunSettings, folder: str, model: DecoderModel, tokenizer: WordPiece,
                 batches: TokenBatches, held_out: List[int], floor: Floor) -> Trainer:
    """The trainer of a run; its checkpoints hold all that `reopen` and `generate` need."""

    def loss(inputs: Any, targets: Any) -> Any:
        return F.cross_entropy(model(inputs), targets)

    def evaluate() -> float:
        return mean_loss(loss, windows(held_out, settings.batch_size, settings.max_len))

    warmup = max(1, min(100, settings.steps // 10))
    return Trainer(
        model, loss, batches, AdamW(model.named_parameters(), settings.lr, weight_decay=0.1),
        warmup_cosine(settings.lr, warmup=warmup, total=settings.steps), settings.steps,
        evaluate=evaluate,
        evaluate_every=settings.steps // 5 if settings.backend == "numpy" else 0,
        folder=folder, save_every=max(1, settings.steps // 20),
        progress=Progress(settings.steps, floor),
        how_to_resume=f"python3 -m tinyformer train --resume {shown(folder)}",
        extra={"settings": settings.to_dict(), "model": model.config.to_dict(),
               "tokens": tokenizer.tokens, "tokenizer": tokenizer.settings()})


def shown(folder: str) -> str:
    """How to name a run on the command line: by its name where it lies in runs/."""
    inside = os.path.dirname(os.path.normpath(folder)) == runs.RUNS
    return shlex.quote(os.path.basename(folder) if inside else folder)


def draw(folder: str, floors: List[Floor]) -> None:
    """Draw the log of a run as runs/NAME/loss.svg, the floors beside it."""
    records = read_log(os.path.join(folder, LOG))
    if not records:
        return
    lines = [Line("training", [(each["step"], each["loss"]) for each in records],
                  mean_over=max(1, len(records) // 50))]
    held_out = [(each["step"], each["held_out"]) for each in records if "held_out" in each]
    if held_out:
        lines.append(Line("held out", held_out))
    line_chart(lines, title="Loss", x_label="step", y_label="nats per token",
               levels=[(floor.name, floor.nats) for floor in floors]
               ).save(os.path.join(folder, runs.PICTURE))


def report(job: Job, settings: RunSettings, folder: str, seconds: float) -> None:
    """The held-out loss among the floors, best first, and a sample."""
    loss = read_log(os.path.join(folder, LOG))[-1]["held_out"]
    rows = sorted([(floor.nats, floor.name) for floor in job.floors] + [(loss, "this model")])
    print(f"\nheld-out loss, nats per token, on {settings.steps:,} steps:")
    for nats, name in rows:
        print(f"  {nats:6.3f}  {name}")
    print("\nthe model writes:")
    ids = generate(job.model, [job.tokenizer.cls_id], SAMPLE, temperature=0.8, top_k=40, slide=True,
                   stop_ids={job.tokenizer.cls_id})
    print(f"  {job.tokenizer.decode(ids)}\n")
    print(f"kept in {folder}: checkpoint.safetensors, vocab.txt, log.jsonl, loss.svg  "
          f"({clock_text(seconds)} in all)")
    print("go on writing:  python3 -m tinyformer generate "
          f"{shown(folder)} \"The value of\"")
    sys.stdout.flush()
