"""python3 -m tests.bench.toys: tasks that only a right transformer can do, with their budgets.

    python3 -m tests.bench.toys                         the small tasks, about a minute and a half
    python3 -m tests.bench.toys copy hypotheses         some of them
    python3 -m tests.bench.toys --text FILE characters  a language model of the characters of a text

Each is trained from nothing, on one thread, and measured on what it never saw. A line says the CPU
seconds used and allowed, what was reached, and what chance (or counting words) would reach. A task
that misses its aim or its budget fails. The same tasks in miniature are part of the test suite.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import os
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")           # before NumPy is imported

import tinyformer as tf  # noqa: E402
from tinyformer import functional as F  # noqa: E402
from tinyformer.arrays.stream import Stream  # noqa: E402
from tinyformer.generation import generate  # noqa: E402
from tinyformer.models import (  # noqa: E402
    DecoderConfig, DecoderModel, EncoderConfig, EncoderDecoderConfig, EncoderDecoderModel,
    EncoderModel, MaskedLanguageModel, SequenceClassifier, TokenClassifier)
from tinyformer.nn import Mask  # noqa: E402
from tinyformer.training import (  # noqa: E402
    AdamW, ExampleBatches, Masking, TokenBatches, Trainer, causal_lm, classification, labelled,
    masked_lm, mean_loss, ngram_floors, pairs, seq2seq, tagging, warmup_cosine, windows)
from tinyformer.training.batches import IGNORED  # noqa: E402

PAD, MASK, CLS, SEP, FIRST = 0, 1, 2, 3, 4      # the special tokens, and the first of the others
Size = Dict[str, Any]


class Measured(NamedTuple):
    """What a task reached and what chance would; `reached` says whether that is enough."""

    what: str
    value: float
    chance: float
    reached: bool
    unit: str = ""


def train(model: Any, objective: Callable[..., Any], batches: Any, size: Size,
          **options: Any) -> None:
    """The steps of `size`, at a rate that rises for a tenth of them and falls to a tenth."""
    steps, lr = size["steps"], size["lr"]
    Trainer(model, functools.partial(objective, model), batches,
            AdamW(model.named_parameters(), lr=lr), warmup_cosine(lr, max(1, steps // 10), steps),
            steps, quiet=True, **options).run()


def sizes_of(size: Size) -> Dict[str, Any]:
    """The sizes of a model, without dropout: data is plentiful."""
    return {"d_model": size["d_model"], "n_layers": size["n_layers"], "n_heads": size["n_heads"],
            "dropout": 0.0, "norm": "pre", "std": size.get("std", 0.02)}


# Copy and reverse

def copy(size: Size) -> List[Measured]:
    """An encoder-decoder writes a string again, as it is or backwards."""
    return [_rewrite(size, name, turn) for name, turn in (
        ("copy", lambda row: row), ("reverse", lambda row: row[::-1]))]


def _rewrite(size: Size, name: str, turn: Callable[[List[int]], List[int]]) -> Measured:
    tf.manual_seed(0)
    training, unseen = _strings(size)
    model = EncoderDecoderModel(EncoderDecoderConfig(FIRST + size["symbols"], size["longest"] + 2,
                                                     **sizes_of(size)))
    examples = [(row, turn(row) + [SEP]) for row in training]
    train(model, functools.partial(seq2seq, begin_id=CLS),
          ExampleBatches(examples, size["batch"], pairs, bucket=8), size)
    written = generate(model, [CLS], size["longest"] + 1, temperature=0, stop_ids={SEP},
                       source=unseen)
    share = sum(text == turn(row) for text, row in zip(written, unseen)) / len(unseen)
    guess = sum(size["symbols"] ** -len(row) for row in unseen) / len(unseen)
    return Measured(f"{name}: exact match on {len(unseen)} unseen strings", share, guess,
                    share == 1.0)


def _strings(size: Size) -> Tuple[List[List[int]], List[List[int]]]:
    """Different random strings of all lengths to learn from, and others."""
    stream, found = Stream(1), {}
    wanted = size["strings"] + size["unseen"]
    while len(found) < wanted:
        length = 1 + stream.integers(size["longest"], 1)[0]
        found[tuple(FIRST + n for n in stream.integers(size["symbols"], length))] = None
    strings = [list(each) for each in found]
    return strings[:size["strings"]], strings[size["strings"]:]


# Masked words

def words(size: Size) -> List[Measured]:
    """An encoder finds a hidden word of a sentence that it never saw.

    "this dog barks and these cats purr": animal, sound and number agree within each half, so that
    every word follows from its neighbours. Counting words alone cannot know.
    """
    tf.manual_seed(0)
    sentences, vocabulary = _sentences(size["animals"])
    order = Stream(2).permutation(len(sentences))
    unseen = [sentences[n] for n in order[:size["unseen"]]]
    training = [sentences[n] for n in order[size["unseen"]:]]
    model = MaskedLanguageModel(EncoderModel(EncoderConfig(
        vocabulary, len(sentences[0]), n_segments=0, pooler=False, **sizes_of(size))))
    masking = Masking(vocabulary, MASK, (PAD, CLS, SEP), rate=size["rate"])
    train(model, masked_lm, ExampleBatches(training, size["batch"], masking), size)
    rows, targets = _each_word_hidden(unseen)
    with model.evaluating(), tf.no_grad():
        logits = model(rows)
        loss = F.cross_entropy(logits, tf.tensor(targets)).item()
        right = _hits(logits, targets)
    counts = [1] * vocabulary
    for row in training:
        for token in row[1:-1]:
            counts[token] += 1
    hidden = [token for answers in targets for token in answers if token != IGNORED]
    likely = counts.index(max(counts[FIRST:]), FIRST)
    floor = math.log(sum(counts)) - sum(math.log(counts[token]) for token in hidden) / len(hidden)
    return [Measured(f"masked words: found in {len(unseen)} unseen sentences", right,
                     hidden.count(likely) / len(hidden), right > size["aim"]),
            Measured("masked words: loss against counting words", loss, floor,
                     loss < size["share"] * floor, "nats")]


def _sentences(animals: int) -> Tuple[List[List[int]], int]:
    """All of them, and the size of their vocabulary."""
    both = FIRST
    half = [[FIRST + 1 + number, FIRST + 3 + 4 * animal + 2 * number,
             FIRST + 4 + 4 * animal + 2 * number]
            for animal in range(animals) for number in (0, 1)]
    return ([[CLS, *one, both, *two, SEP] for one, two in itertools.product(half, half)],
            FIRST + 3 + 4 * animals)


def _each_word_hidden(sentences: Sequence[List[int]]) -> Tuple[List[List[int]], List[List[int]]]:
    """Every sentence with one word hidden, for each of its words but "and"; and the words."""
    rows, targets = [], []
    for row in sentences:
        for place in (1, 2, 3, 5, 6, 7):
            rows.append(row[:place] + [MASK] + row[place + 1:])
            targets.append([IGNORED] * place + [row[place]] + [IGNORED] * (len(row) - place - 1))
    return rows, targets


def _hits(logits: Any, targets: List[List[int]]) -> float:
    """The share of the targets that have the largest logit."""
    pairs_ = [(row.index(max(row)), target) for rows, answers in zip(logits.tolist(), targets)
              for row, target in zip(rows, answers) if target != IGNORED]
    return sum(found == target for found, target in pairs_) / len(pairs_)


# A label decided by the next token

def next_token(size: Size) -> List[Measured]:
    """The label of a token is a property of the one behind it. Who looks back only cannot know.

    Measured on every string there is: whatever stands before, the next token has one property as
    often as the other, so that looking back is right exactly as often as not.
    """
    every = [[FIRST + n for n in string] for string in
             itertools.product(range(size["symbols"]), repeat=size["longest"])]
    targets = [[(token - FIRST) % 2 for token in row[1:]] + [IGNORED] for row in every]
    found = []
    for name, mask in (("both ways", None), ("back only", Mask.causal(size["longest"]))):
        tf.manual_seed(0)
        model = TokenClassifier(EncoderModel(EncoderConfig(
            FIRST + size["symbols"], size["longest"], n_segments=0, pooler=False,
            **sizes_of(size))), 2)
        train(model, functools.partial(tagging, mask=mask),
              ExampleBatches(list(zip(every, targets)), size["batch"], labelled), size)
        with model.evaluating(), tf.no_grad():
            share = _hits(model(every, mask=mask), targets)
        found.append(Measured(f"label by the next token, looking {name}", share, 0.5,
                              share == (1.0 if mask is None else 0.5)))
    return found


# Premise and hypothesis

def hypotheses(size: Size) -> List[Measured]:
    """Does one word follow from another? "poodle" implies "dog", and not the other way round.

    Without positions a premise and a hypothesis differ by their segment alone; without segments a
    pair and the pair turned round are one input with two labels. Measured on pairs never seen in
    either order, which follow from others (a implies b, b implies c).
    """
    count = size["symbols"]
    apart = [(i, j) for i in range(count) for j in range(i + 2, count)]
    order = Stream(3).permutation(len(apart))
    unseen = {apart[n] for n in order[:size["unseen"]]}
    known = [(i, j) for i in range(count) for j in range(i + 1, count) if (i, j) not in unseen]
    found = []
    for segments in (2, 0):
        tf.manual_seed(0)
        model = SequenceClassifier(EncoderModel(EncoderConfig(
            FIRST + count, None, positions="none", n_segments=segments, **sizes_of(size))), 2)
        examples = _both_orders(known, segments)
        train(model, classification, ExampleBatches(examples, size["batch"], labelled), size)
        ids, labels, lengths, *rest = labelled(_both_orders(sorted(unseen), segments))
        with model.evaluating(), tf.no_grad():
            logits = model(ids, *rest).tolist()
        share = sum(row.index(max(row)) == label
                    for row, label in zip(logits, labels.tolist())) / len(logits)
        found.append(Measured(f"{len(logits)} unseen pairs {'with' if segments else 'without'} "
                              "segments", share, 0.5, share == (1.0 if segments else 0.5)))
    return found


def _both_orders(chosen: Sequence[Tuple[int, int]], segments: int) -> List[Tuple[Any, ...]]:
    """[CLS] premise [SEP] hypothesis [SEP], label 1 where the first implies the second."""
    return [([CLS, FIRST + a, SEP, FIRST + b, SEP], int(a < b), *[[0, 0, 0, 1, 1]] * bool(segments))
            for i, j in chosen for a, b in ((i, j), (j, i))]


# Characters

def characters(size: Size, path: str) -> List[Measured]:
    """A decoder of the size that nanoGPT has for a laptop, on the characters of a text."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    alphabet = {char: number for number, char in enumerate(sorted(set(text)))}
    ids = [alphabet[char] for char in text]
    training, held_out = ids[:int(0.9 * len(ids))], ids[int(0.9 * len(ids)):]
    floors = ngram_floors(training, held_out, len(alphabet), longest=5)
    print("  floors: " + ", ".join(map(str, floors)), flush=True)
    tf.manual_seed(0)
    context, batch, steps, lr = size["max_len"], size["batch"], size["steps"], size["lr"]
    model = DecoderModel(DecoderConfig(len(alphabet), context, **sizes_of(size)))
    print(f"  {model.n_parameters():,} parameters", flush=True)
    loss = functools.partial(causal_lm, model)
    optimiser = AdamW(model.named_parameters(), lr=lr, betas=(0.9, 0.99), weight_decay=0.1)
    run = Trainer(model, loss, TokenBatches(training, batch, context), optimiser,
                  warmup_cosine(lr, steps // 20, steps, lr / 10), steps, evaluate_every=steps // 2,
                  evaluate=lambda: mean_loss(loss, windows(held_out, 64, context)))
    reached = run.run()[-1]["held_out"]
    best = min(floors, key=lambda floor: floor.nats)
    return [Measured(f"characters: held-out loss against the {best.name}", reached, best.nats,
                     reached <= size["aim"], "nats")]


# Sizes, budgets, the command line

FULL: Dict[str, Size] = {
    "copy": dict(d_model=64, n_layers=1, n_heads=4, symbols=10, longest=8, strings=20000,
                 unseen=500, batch=64, steps=500, lr=0.003, budget=80),
    "words": dict(d_model=32, n_layers=1, n_heads=4, animals=10, unseen=100, rate=0.15, batch=32,
                  steps=1500, lr=0.005, aim=0.95, share=0.25, budget=40),
    "next_token": dict(d_model=32, n_layers=1, n_heads=4, symbols=4, longest=5, batch=64, steps=200,
                       lr=0.005, budget=15),
    "hypotheses": dict(d_model=32, n_layers=1, n_heads=4, symbols=12, unseen=12, batch=32,
                       steps=400, lr=0.003, budget=20),
    "characters": dict(d_model=128, n_layers=4, n_heads=4, max_len=64, batch=12, steps=2000,
                       lr=0.001, aim=1.90, budget=600)}
MINI: Dict[str, Size] = {
    "copy": dict(d_model=16, n_layers=1, n_heads=1, std=0.3, symbols=6, longest=2, strings=36,
                 unseen=6, batch=8, steps=100, lr=0.03),
    "words": dict(d_model=8, n_layers=1, n_heads=1, std=0.2, animals=2, unseen=4, rate=0.3, batch=8,
                  steps=80, lr=0.03, aim=0.2, share=0.6),
    "next_token": dict(d_model=8, n_layers=1, n_heads=1, std=0.3, symbols=2, longest=3, batch=8,
                       steps=40, lr=0.03),
    "hypotheses": dict(d_model=12, n_layers=1, n_heads=1, std=0.3, symbols=5, unseen=2, batch=8,
                       steps=50, lr=0.04)}
TOYS: Dict[str, Callable[[Size], List[Measured]]] = {
    "copy": copy, "words": words, "next_token": next_token, "hypotheses": hypotheses}


def main() -> int:
    """Run the tasks that the command line names; 1 if one misses its aim or its budget."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.bench.toys", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="*", choices=[[], *FULL], help="default: the small ones")
    parser.add_argument("--text", metavar="FILE", help="what `characters` learns from, UTF-8")
    parser.add_argument("--mini", action="store_true", help="the sizes of the test suite")
    given = parser.parse_args()
    chosen = given.task or list(TOYS)
    if "characters" in chosen and not given.text:
        parser.error("characters needs --text FILE")
    tasks: Dict[str, Any] = {
        **TOYS, "characters": lambda size: characters(size, given.text)}
    failed = False
    for name in chosen:
        size = MINI[name] if given.mini and name in MINI else FULL[name]
        begun = time.process_time()
        found = tasks[name](size)
        seconds = time.process_time() - begun
        for each in found:
            show = (lambda x: f"{x:.3f}") if each.unit else (lambda x: f"{100 * x:.4g} %")
            print(f"  {each.what:<58} {show(each.value):>8} {each.unit} (chance "
                  f"{show(each.chance)}){'' if each.reached else '   MISSED'}")
            failed |= not each.reached
        budget = size.get("budget", math.inf)
        print(f"{name}: {seconds:.1f} CPU seconds of {budget}", flush=True)
        failed |= seconds > budget
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
