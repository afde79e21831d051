"""Speed of the tokenizers beside Hugging Face's, as ratios from one run.

    RAYON_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false python tests/bench/bench_tokenizers.py \
        --vocab bert-base-uncased-vocab.txt [--megabytes 5] [--rounds 3] [FILE ...]

Two corpora of `--megabytes` each: English prose (the FILEs, or else the documentation in every
Python, repeated) and source code (this Python's standard library). Each contender gets the same
lines, alternating, and the best of the rounds counts, in CPU seconds of the process. Needs
`tokenizers`; `transformers` (its pure-Python BertTokenizer) is measured where it is installed.
"""

from __future__ import annotations

import argparse
import os
import pydoc_data.topics
import sys
import sysconfig
import time
from pathlib import Path

os.environ.setdefault("RAYON_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import tokenizers  # noqa: E402
from tokenizers import models, normalizers, pre_tokenizers, trainers  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tinyformer.text import WordPiece  # noqa: E402

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def corpora(files, size):
    """English prose and source code, each cut to about `size` characters, as lines."""
    if files:
        prose = "\n".join(Path(f).read_text(encoding="utf-8", errors="replace") for f in files)
    else:
        prose = "\n".join(text for _, text in sorted(pydoc_data.topics.topics.items()))
    code, total = [], 0
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if total > size:
            break
        if "site-packages" not in path.parts:
            code.append(path.read_text(encoding="utf-8", errors="replace"))
            total += len(code[-1])
    for name, text in (("prose", prose), ("code", "\n".join(code))):
        text = (text * (size // len(text) + 1))[:size]
        yield name, [line for line in text.split("\n") if line]


def best_of(rounds, contenders):
    """The least CPU time of each contender, the contenders taking turns."""
    best = {name: float("inf") for name in contenders}
    results = {}
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.process_time()
            results[name] = run()
            best[name] = min(best[name], time.process_time() - start)
    return best, results


def encoding(vocab, lines, rounds):
    """ids only, and with everything, each from a cold start."""
    rust = tokenizers.BertWordPieceTokenizer(vocab)

    def slow_contender():
        try:
            from transformers.models.bert import tokenization_bert_legacy
            Slow = tokenization_bert_legacy.BertTokenizerLegacy
        except ImportError:
            try:
                from transformers import BertTokenizer as Slow
            except ImportError:
                return {}
        slow = Slow(vocab)
        part = lines[:len(lines) // 10]  # a tenth, for it takes long
        return {"transformers, pure Python, tokenize": lambda: [slow.tokenize(x) for x in part],
                "transformers, pure Python, encode": lambda: [slow.encode(x) for x in part]}

    def ids():
        encode_ids = WordPiece.from_file(vocab).encode_ids
        return [encode_ids(line) for line in lines]

    def everything():
        encode = WordPiece.from_file(vocab).encode
        return [encode(line).ids for line in lines]

    best, results = best_of(rounds, {
        "tokenizers (Rust), ids of encode_batch": lambda: [e.ids for e in rust.encode_batch(lines)],
        "tinyformer, encode_ids": ids,
        "tinyformer, encode with offsets": everything, **slow_contender()})
    right = results["tokenizers (Rust), ids of encode_batch"]
    assert results["tinyformer, encode with offsets"] == right
    assert results["tinyformer, encode_ids"] == [ids[1:-1] for ids in right]
    for name in best:
        if name.startswith("transformers"):
            best[name] *= 10
    return best


def training(lines, rounds, size=8000):
    """Words and merges, from a cold start."""

    def rust():
        tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.train_from_iterator(lines, trainers.WordPieceTrainer(
            vocab_size=size, special_tokens=SPECIAL, show_progress=False, min_frequency=2))
        return tokenizer.get_vocab_size()

    best, results = best_of(rounds, {
        f"tokenizers (Rust), train {size}": rust,
        f"tinyformer, train {size}": lambda: WordPiece.train(lines, size).vocab_size,
        f"tinyformer, train {size} by score":
            lambda: WordPiece.train(lines, size, criterion="score", min_frequency=10).vocab_size})
    print("  pieces learnt:", results)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--megabytes", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--skip-training", action="store_true")
    options = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, tokenizers {tokenizers.__version__}")
    for name, lines in corpora(options.files, int(options.megabytes * 1e6)):
        size = sum(map(len, lines)) / 1e6
        print(f"{name}: {size:.2f} M characters, {len(lines):,} lines, "
              f"{len({w for line in lines for w in line.split()}):,} distinct chunks")
        tables = [encoding(options.vocab, lines, options.rounds)]
        if not options.skip_training:
            tables.append(training(lines, max(1, options.rounds // 3)))
        for best in tables:
            base = next(iter(best.values()))
            for contender, seconds in best.items():
                print(f"  {contender:45} {seconds:7.2f} s  {size / seconds:6.2f} M/s  "
                      f"{base / seconds:6.2f} x the first")


if __name__ == "__main__":
    main()
