"""Cases with right values, most of them from public reports.

`data/cases.jsonl` holds inputs and what `tokenizers` 0.23.3 made of them; where a case says
`recommended`, that decides. The vocabularies in `data/` are excerpts of the published ones: the
pieces that the cases need, each with its id.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from tinyformer.text import WordPiece

DATA = Path(__file__).parent / "data"
CASES = [json.loads(line) for line in
         (DATA / "cases.jsonl").read_text(encoding="utf-8").split("\n") if line]
EXCERPTS = json.loads((DATA / "vocabularies.json").read_text(encoding="utf-8"))


def of_kind(*ops, kinds=(None,)):
    chosen = [c for c in CASES if c["op"] in ops and c["config"].get("kind") in kinds]
    return pytest.mark.parametrize("case", chosen, ids=[c["id"] for c in chosen])


def wordpiece(config, profile="hf"):
    """The tokenizer of a case: a vocabulary of its own, or an excerpt with its ids."""
    vocab = config["vocab"]
    if isinstance(vocab, str):
        pieces = EXCERPTS[vocab]
        tokens = [""] * (max(pieces.values()) + 1)
        for token, i in pieces.items():
            tokens[i] = token
        vocab = tokens
    return WordPiece(vocab, config.get("lowercase", True), config.get("strip_accents"),
                     profile=profile)


def compare(encoding, expected):
    names = dict(tokens="tokens", ids="ids", offsets="offsets", type_ids="type_ids",
                 word_ids="word_ids", special_tokens_mask="special_tokens_mask",
                 attention_mask="attention_mask", sequence_ids="sequence_ids")
    for name, ours in names.items():
        if name in expected:
            values = getattr(encoding, ours)
            assert [list(v) if isinstance(v, tuple) else v for v in values] == expected[name], name
    if "overflowing" in expected:
        assert len(encoding.overflow) == len(expected["overflowing"])
        for window, right in zip(encoding.overflow, expected["overflowing"]):
            compare(window, right)


# Cases in which `recommended` overrules the reference: the tokens that are right here.
RECOMMENDED = {
    "lone-surrogate": ["[CLS]", "ok", "##bad", "[SEP]"],
    "cjk-ext-e-2b820": ["[CLS]", "a", "[UNK]", "b", "[SEP]"],
}


@of_kind("encode", "encode_pair")
def test_encode(case):
    tokenizer = wordpiece(case["config"])
    encoding = tokenizer.encode(case["input"], case.get("pair"))
    if case["id"] in RECOMMENDED:
        assert encoding.tokens == RECOMMENDED[case["id"]]
        return
    compare(encoding, case["expected"])
    if "pair" not in case:
        ids = tokenizer.encode_ids(case["input"])
        assert ids == case["expected"]["ids"][1:-1]


@of_kind("encode")
def test_the_google_profile(case):
    if "google_tokens" in case:
        google = wordpiece(case["config"], profile="google")
        assert google.encode(case["input"]).tokens == case["google_tokens"]


@of_kind("truncate")
def test_truncate(case):
    tokenizer = wordpiece(case["config"])
    how = case["config"]["truncation"]
    options = dict(max_length=how["max_length"], stride=how["stride"], return_overflow=True,
                   truncation=how["strategy"], truncation_side=how["direction"])
    if "error" in case["expected"]:
        with pytest.raises(ValueError):
            tokenizer.encode(case["input"], case.get("pair"), **options)
        return
    if "padding" in case["config"]:
        encoding, = tokenizer.encode_batch([case["input"]], padding="longest",
                                           **case["config"]["padding"], **options)
    else:
        encoding = tokenizer.encode(case["input"], case.get("pair"), **options)
    compare(encoding, case["expected"])


@of_kind("pad_batch")
def test_pad(case):
    how = dict(case["config"]["padding"])
    padding = how.pop("length", "longest")
    encodings = wordpiece(case["config"]).encode_batch(
        [text if isinstance(text, str) else tuple(text) for text in case["input"]],
        padding=padding, **how)
    assert len(encodings) == len(case["expected"])
    for encoding, expected in zip(encodings, case["expected"]):
        compare(encoding, expected)


@of_kind("encode_words")
def test_words(case):
    compare(wordpiece(case["config"]).encode_words(case["input"]), case["expected"])


@of_kind("decode")
def test_decode(case):
    config = case["config"]
    tokenizer = wordpiece(config)
    skip = config["skip_special_tokens"]
    if case["id"] == "dec-unk-id":  # the reference drops the id without a word
        with pytest.raises(ValueError, match="id 99999 at position 1"):
            tokenizer.decode(case["input"], skip)
        return
    cleanup = "hf" if config["cleanup"] else "none"
    assert tokenizer.decode(case["input"], skip, cleanup) == case["expected"]
    if "hf_slow_decoded" in case:
        assert tokenizer.decode(case["input"], skip, "legacy") == case["hf_slow_decoded"]


@of_kind("load_vocab")
def test_load(case, tmp_path):
    path = tmp_path / "vocab.txt"
    data = case["input"].encode("latin-1")
    path.write_bytes(data)
    if "error" in case["expected"] or not data:
        with pytest.raises(ValueError, match="not UTF-8|is empty"):
            WordPiece.from_file(path)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert WordPiece.from_file(path).vocab == case["expected"]["vocab"]


@of_kind("construct")
def test_construct(case):
    tokenizer = wordpiece(case["config"])
    if "error" in case["expected"]:
        with pytest.raises(ValueError, match=r"no \[SEP\] among its 4 pieces"):
            tokenizer.encode(case["input"])
    else:
        assert tokenizer.encode(case["input"]).tokens == case["expected"]["tokens"]
