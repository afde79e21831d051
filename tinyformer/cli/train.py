"""Train a language model, from scratch, on real text.

Without options it learns from the Python language reference, which every Python carries
(pydoc_data.topics), in a size that suits the engine at hand: about a minute. It trains a WordPiece
vocabulary, holds out the last tenth of the text, and leaves runs/NAME/ with checkpoint.safetensors,
vocab.txt, log.jsonl and loss.svg.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from tinyformer import functional as F
from tinyformer.arrays.backend import default_backend
from tinyformer.arrays.stream import manual_seed
from tinyformer.cli import corpus as corpora
from tinyformer.cli import runs
from tinyformer.cli.runs import RunSettings
from tinyformer.generation import generate
from tinyformer.models import DecoderConfig, DecoderModel
from tinyformer.pictures import Line, line_chart
from tinyformer.text import WordPiece
from tinyformer.training import checkpoint
from tinyformer.training.batches import TokenBatches, windows
from tinyformer.training.floors import Floor, lowest, ngram_floors
from tinyformer.training.log import read_log
from tinyformer.training.loop import LOG, Trainer, mean_loss
from tinyformer.training.optimisers import AdamW
from tinyformer.training.progress import Progress, clock_text
from tinyformer.training.schedules import warmup_cosine

# Sizes that were measured to end, within a minute or so, below every n-gram floor with NumPy, and below
# the unigram floor without.
SIZES: Dict[str, Dict[str, Any]] = {
    "numpy": dict(dtype="float32", vocab_size=1024, d_model=64, n_layers=2, n_heads=4, max_len=32,
                  batch_size=8, steps=2000, lr=0.003, dropout=0.0),
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
    parser.add_argument("--text", nargs="+", metavar="FILE", help="UTF-8 text to learn from, a document a file")
    parser.add_argument("--name", default="", help="the run is kept in runs/NAME (default: run-1, run-2, ...)")
    parser.add_argument("--force", action="store_true", help="overwrite the run of that name")
    parser.add_argument("--resume", metavar="RUN", help="go on with a run that was stopped or killed")
    for name, (kind, words) in OPTIONS.items():
        defaults = [f"{size[name]} ({backend})" for backend, size in SIZES.items() if name in size]
        parser.add_argument("--" + name.replace("_", "-"), type=kind, metavar=kind.__name__.upper(),
                            help=words + (f"; default {' or '.join(defaults)}" if defaults else ""))


def run(arguments: argparse.Namespace) -> int:
    """Train, report, and show what the model writes."""
    begun = time.monotonic()
    given = {name: getattr(arguments, name) for name in OPTIONS if getattr(arguments, name) is not None}
    if arguments.resume:
        fixed = [name for name in [*given, *("text name force".split())] if getattr(arguments, name)]
        if fixed:
            raise ValueError(f"--resume goes on with what the run was begun with; leave away "
                             f"{', '.join('--' + name.replace('_', '-') for name in fixed)}, or start a new run")
        folder = runs.path_of(arguments.resume)
        saved: Optional[checkpoint.Checkpoint] = None
        settings = RunSettings.from_dict(
            checkpoint.read_state(runs.checkpoint_file(folder))["extra"]["settings"])
        why = "as when the run began"
        runs.switch_to(settings)
        saved = checkpoint.load(runs.checkpoint_file(folder))
    else:
        settings, why = choose(given, arguments.text or [])
        folder = runs.new_folder(arguments.name, arguments.force)
        runs.switch_to(settings)
        saved = None
    print(f"engine       {settings.backend}, {settings.dtype} ({why})")
    job = prepare(settings, folder, saved)
    if arguments.force and saved is None:
        runs.clear(folder)
    try:
        job.trainer.run()
    finally:
        if job.trainer.resumed:
            job.tokenizer.save(os.path.join(folder, runs.VOCABULARY))
            draw(folder, job.floors)
    report(job, settings, folder, time.monotonic() - begun)
    return 0


def choose(given: Dict[str, Any], text: List[str]) -> Tuple[RunSettings, str]:
    """The settings of a new run: what was given, and for the rest what suits the backend; and why."""
    name = given.get("backend") or default_backend()
    if name not in SIZES:
        raise ValueError(f"--backend is numpy or python, not {name!r}")
    numpy_here = importlib.util.find_spec("numpy") is not None
    why = ("as asked for" if given.get("backend") else
           "NumPy is installed; --backend python does without" if name == "numpy" else
           "TINYFORMER_BACKEND asks for it" if numpy_here else
           "NumPy is not installed; with it the model would be larger and the run faster")
    settings = {**SIZES[name], "seed": 0, **given, "backend": name,
                "text": [os.path.abspath(path) for path in text]}
    if name == "python" and settings["dtype"] != "float64":
        raise ValueError(f"--dtype {settings['dtype']} needs --backend numpy: pure Python computes in float64")
    return RunSettings.from_dict(settings), why


class Job(NamedTuple):
    """A run that is ready to go."""

    trainer: Trainer
    model: DecoderModel
    tokenizer: WordPiece
    floors: List[Floor]


def prepare(settings: RunSettings, folder: str, saved: Optional[checkpoint.Checkpoint]) -> Job:
    """Text, vocabulary, floors, model and trainer; from the checkpoint where there is one."""
    corpus = corpora.from_files(settings.text) if settings.text else corpora.language_reference()
    training, held_out = corpus.split()
    print(f"text         {corpus.name}: {corpus.size:,} characters, the last tenth is held out", flush=True)
    if saved is None:
        tokenizer = WordPiece.train(training, settings.vocab_size, lowercase=False)
    else:
        extra = saved.state["extra"]
        tokenizer = WordPiece(extra["tokens"], **extra["tokenizer"])
    ids, rest = corpora.encode(tokenizer, training), corpora.encode(tokenizer, held_out)
    print(f"vocabulary   {tokenizer.vocab_size:,} WordPiece pieces; {len(ids):,} tokens to train on, "
          f"{len(rest):,} held out", flush=True)
    batches = TokenBatches(ids, settings.batch_size, settings.max_len)
    floors = ngram_floors(ids, rest, tokenizer.vocab_size)
    print("floors       " + ", ".join(map(str, floors)) + " nats per token: what counting alone reaches",
          flush=True)
    manual_seed(settings.seed)
    model = DecoderModel(DecoderConfig.from_dict(
        {**settings.model().to_dict(), "vocab_size": tokenizer.vocab_size}))
    print(f"model        {model.n_parameters():,} parameters: width {settings.d_model}, "
          f"{settings.n_layers} {'layer' if settings.n_layers == 1 else 'layers'}, {settings.n_heads} heads, "
          f"{settings.max_len} tokens of context", flush=True)

    def loss(inputs: Any, targets: Any) -> Any:
        return F.cross_entropy(model(inputs), targets)

    trainer = Trainer(
        model, loss, batches, AdamW(model.named_parameters(), settings.lr, weight_decay=0.1),
        warmup_cosine(settings.lr, warmup=max(1, min(100, settings.steps // 10)), total=settings.steps),
        settings.steps, folder=folder, save_every=max(1, settings.steps // 20),
        evaluate=lambda: mean_loss(loss, windows(rest, settings.batch_size, settings.max_len)),
        evaluate_every=settings.steps // 5 if settings.backend == "numpy" else 0,
        progress=Progress(settings.steps, lowest(floors)),
        how_to_resume=f"python3 -m tinyformer train --resume {os.path.basename(folder)}",
        extra={"settings": settings.to_dict(), "model": model.config.to_dict(), "tokens": tokenizer.tokens,
               "tokenizer": tokenizer.settings()})
    if saved is not None:
        trainer.resume(saved)
        print(f"resumed      at step {trainer.step:,} of {settings.steps:,}")
    return Job(trainer, model, tokenizer, floors)


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
    print(f"go on writing:  python3 -m tinyformer generate {os.path.basename(folder)} \"The value of\"")
    sys.stdout.flush()
