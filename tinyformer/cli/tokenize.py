"""Cut text into pieces and say why, or learn a vocabulary.

    tokenize --vocab vocab.txt "Encode me!"             its pieces and ids (- reads standard input)
    tokenize --vocab run-1 "Encode me!"                 as the model of a run reads it
    tokenize --vocab vocab.txt --explain "Encode me!"   each step from the text to the ids
    tokenize --vocab vocab.json --merges merges.txt "Encode me!"      byte-pair encoding, as GPT-2
    tokenize --train FILE ... --vocab-size N --out vocab.txt          learn a WordPiece vocabulary
    tokenize --train FILE ... --out vocab.txt --html merges.html      and show every merge
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from typing import Any, List, Tuple

from tinyformer.cli import runs
from tinyformer.pictures.html import page
from tinyformer.text import BPE, Tokenizer, WordPiece
from tinyformer.text.merges import CRITERIA
from tinyformer.text.report import as_text
from tinyformer.training import checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `tokenize`."""
    parser.add_argument("text", nargs="?", help="the text, or - for standard input")
    parser.add_argument("--vocab", metavar="FILE", help="a vocabulary, one piece a line, or a run")
    parser.add_argument("--merges", metavar="FILE",
                        help="the merges of a byte-level vocabulary, whose --vocab is a .json")
    parser.add_argument("--cased", action="store_true", help="keep capitals and accents")
    parser.add_argument("--explain", action="store_true",
                        help="every step from the text to the ids; with --train every merge")
    parser.add_argument("--html", metavar="FILE", help="write the explanation as a page")
    parser.add_argument("--train", nargs="+", metavar="FILE",
                        help="learn a vocabulary from these texts")
    parser.add_argument("--vocab-size", type=int, default=8000, metavar="N",
                        help="pieces to learn (default 8000)")
    parser.add_argument("--criterion", choices=sorted(CRITERIA), default="count",
                        help="what makes a pair worth merging (default count)")
    parser.add_argument("--min-frequency", type=int, default=2, metavar="N",
                        help="how often a pair must occur (default 2)")
    parser.add_argument("--out", metavar="FILE", help="where the learned vocabulary goes")


def run(arguments: argparse.Namespace) -> int:
    """Train a vocabulary, or print the pieces and the ids of a text."""
    if arguments.train and (arguments.text is not None or arguments.merges):
        arguments.parser.error("--train learns from files; a text and --merges go with --vocab")
    if arguments.vocab and arguments.out:
        arguments.parser.error("--out is for the vocabulary that --train learns; --vocab is there")
    if bool(arguments.train) == bool(arguments.vocab):
        arguments.parser.error("give either --vocab FILE and a text, or --train FILE ... and "
                               "--out FILE")
    return _train(arguments) if arguments.train else _show(arguments)


def _train(arguments: argparse.Namespace) -> int:
    if not arguments.out:
        arguments.parser.error("--train needs --out FILE for the vocabulary")
    if os.path.exists(arguments.out):
        raise ValueError(f"{arguments.out} exists; remove it or choose another --out")
    explained = arguments.explain or arguments.html
    tokenizer = WordPiece.train([pathlib.Path(path) for path in arguments.train],
                                arguments.vocab_size, lowercase=not arguments.cased,
                                criterion=arguments.criterion,
                                min_frequency=arguments.min_frequency, trace=bool(explained),
                                progress=_progress)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    tokenizer.save(arguments.out)
    if explained and tokenizer.trace is not None:
        _explain(arguments, f"How {arguments.out} was learnt", tokenizer.trace.blocks())
    print(f"{tokenizer.vocab_size:,} pieces in {arguments.out}")
    return 0


def _progress(line: str) -> None:
    """A line that stays in place on a terminal."""
    print(f"\r{line:<78}" if sys.stderr.isatty() else line, file=sys.stderr, flush=True,
          end="" if sys.stderr.isatty() else "\n")


def _show(arguments: argparse.Namespace) -> int:
    if arguments.text is None:
        arguments.parser.error("give the text to cut, or - to read it from standard input")
    tokenizer: Tokenizer
    if arguments.merges:
        tokenizer = BPE.from_files(arguments.vocab, arguments.merges)
    else:
        tokenizer = _wordpiece(arguments.vocab, arguments.cased)
    text = sys.stdin.read() if arguments.text == "-" else arguments.text
    if arguments.explain or arguments.html:
        _explain(arguments, "From text to ids", tokenizer.explain(text).blocks())
        return 0
    for line in text[:-1 if text.endswith("\n") else None].split("\n"):
        ids = tokenizer.encode_ids(line)
        print(" ".join(tokenizer.tokens[each] for each in ids))
        print(" ".join(map(str, ids)))
    return 0


def _wordpiece(path: str, cased: bool) -> WordPiece:
    """The tokenizer of a vocabulary. That of a run is used as the run's model was trained on it."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    beside = os.path.join(folder, runs.CHECKPOINT)
    named = not os.path.exists(path) and os.path.isdir(os.path.join(runs.RUNS, path))
    if named or os.path.exists(path) and os.path.isfile(beside):
        file = runs.checkpoint_file(path) if named else beside
        return runs.run_state(checkpoint.read_state(file), file).tokenizer
    return WordPiece.from_file(path, lowercase=not cased)


def _explain(arguments: argparse.Namespace, title: str, blocks: List[Tuple[Any, ...]]) -> None:
    """Print the blocks if asked to, and write them as a page if asked to."""
    if arguments.explain:
        print(as_text(blocks))
    if arguments.html:
        page(title, blocks).save(arguments.html)
        print(f"a page in {arguments.html}", file=sys.stderr)
