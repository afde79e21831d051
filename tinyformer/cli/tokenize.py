"""Cut text into WordPiece pieces, or learn a vocabulary.

    tokenize --vocab vocab.txt "Encode me!"        the pieces and ids of a text (- reads standard input)
    tokenize --train FILE ... --vocab-size N --out vocab.txt
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys

from tinyformer.text import WordPiece


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `tokenize`."""
    parser.add_argument("text", nargs="?", help="the text, or - for standard input")
    parser.add_argument("--vocab", metavar="FILE", help="a vocabulary, one piece a line")
    parser.add_argument("--cased", action="store_true", help="keep capitals and accents")
    parser.add_argument("--train", nargs="+", metavar="FILE", help="learn a vocabulary from these texts")
    parser.add_argument("--vocab-size", type=int, default=8000, metavar="N", help="pieces to learn (default 8000)")
    parser.add_argument("--out", metavar="FILE", help="where the learned vocabulary goes")


def run(arguments: argparse.Namespace) -> int:
    """Train a vocabulary, or print the pieces and the ids of a text."""
    if bool(arguments.train) == bool(arguments.vocab):
        arguments.parser.error("give either --vocab FILE and a text, or --train FILE ... and --out FILE")
    return _train(arguments) if arguments.train else _show(arguments)


def _train(arguments: argparse.Namespace) -> int:
    if not arguments.out:
        arguments.parser.error("--train needs --out FILE for the vocabulary")
    if os.path.exists(arguments.out):
        raise ValueError(f"{arguments.out} exists; remove it or choose another --out")
    tokenizer = WordPiece.train([pathlib.Path(path) for path in arguments.train], arguments.vocab_size,
                                lowercase=not arguments.cased,
                                progress=lambda line: print(line, file=sys.stderr))
    tokenizer.save(arguments.out)
    print(f"{tokenizer.vocab_size:,} pieces in {arguments.out}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    if arguments.text is None:
        arguments.parser.error("give the text to cut, or - to read it from standard input")
    tokenizer = WordPiece.from_file(arguments.vocab, lowercase=not arguments.cased)
    text = sys.stdin.read() if arguments.text == "-" else arguments.text
    for line in text.split("\n"):
        ids = tokenizer.encode_ids(line)
        print(" ".join(tokenizer.tokens[each] for each in ids))
        print(" ".join(map(str, ids)))
    return 0
