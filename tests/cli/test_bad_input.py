"""One message that says what to do, no traceback, and nothing lost."""

from __future__ import annotations

import builtins
import importlib.util
import sys

import pytest


def refused(result, *parts: str, status: int = 1) -> None:
    """The command ended with `status` and a message that has all the parts."""
    assert result.status == status, result
    assert "Traceback" not in result.err
    for part in parts:
        assert part in result.err, f"{part!r} is not in: {result.err}"


def test_unknown_option_names_the_likely_one(tiny):
    refused(tiny("train", "--stpes", "5"), "--stpes", "--steps", status=2)


def test_unknown_command(tiny):
    refused(tiny("trian"), "trian", "train", status=2)


def test_missing_text(tiny):
    refused(tiny("train", "--text", "nowhere.txt"), "nowhere.txt", "No such file")


def test_empty_text(tiny):
    (tiny.folder / "empty.txt").write_text(" \n", encoding="utf-8")
    refused(tiny("train", "--text", "empty.txt"), "empty.txt", "is empty")


def test_text_that_is_not_utf8(tiny):
    (tiny.folder / "latin.txt").write_bytes(b"plain, then \xe9 in Latin-1")
    refused(tiny("train", "--text", "latin.txt"), "latin.txt", "0xe9", "offset 12")


def test_text_shorter_than_one_context(tiny):
    (tiny.folder / "text.txt").write_text("A few words only, not many. " * 3, encoding="utf-8")
    refused(tiny.train("--max-len", "64"), "65", "tokens")
    assert not (tiny.folder / "runs").exists()


def test_sizes_that_make_no_model(tiny):
    refused(tiny.train("--n-heads", "3"), "d_model=8", "n_heads=3")
    refused(tiny.train("--dropout", "1.5"), "dropout", "1.5")
    refused(tiny.train("--lr", "0"), "lr")
    refused(tiny.train("--batch-size", "0"), "batch_size", "0")
    refused(tiny.train("--vocab-size", "10"), "10", "at least")


def test_float32_needs_numpy(tiny):
    refused(tiny.train("--dtype", "float32"), "float32", "--backend numpy")


def test_unknown_engine(tiny):
    refused(tiny("train", "--backend", "cuda"), "cuda", "numpy or python")


def test_numpy_missing_says_how_to_install_it(tiny, monkeypatch):
    find = importlib.util.find_spec

    def without_numpy(name, *rest):
        return None if name == "numpy" else find(name, *rest)

    with monkeypatch.context() as here:
        here.setattr(importlib.util, "find_spec", without_numpy)
        refused(tiny("train", "--backend", "numpy"), "pip install", "numpy")


def test_no_language_reference(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    refused(tiny("train", "--backend", "python"), "language reference", "--text")


def test_a_run_is_never_overwritten_unasked(tiny):
    tiny.train("--name", "mine")
    before = (tiny.folder / "runs/mine/log.jsonl").read_bytes()
    refused(tiny.train("--name", "mine"), "exists", "--resume mine", "--force")
    assert (tiny.folder / "runs/mine/log.jsonl").read_bytes() == before


def test_a_folder_of_somebody_else_is_left_alone(tiny):
    (tiny.folder / "runs/mine").mkdir(parents=True)
    (tiny.folder / "runs/mine/thesis.tex").write_text("years of work", encoding="utf-8")
    refused(tiny.train("--name", "mine", "--force"), "thesis.tex", "--name")
    refused(tiny.train("--name", "../mine"), "not a path")


def test_unknown_run(tiny):
    refused(tiny("generate", "nothing"), "nothing", "tinyformer train")
    tiny.train("--name", "mine")
    refused(tiny("generate", "nothing"), "mine")


def test_damaged_checkpoints_say_where(tiny):
    tiny.train()
    path = tiny.folder / "runs/run-1/checkpoint.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    refused(tiny("generate", "run-1"), "checkpoint.safetensors", "byte")
    edited = bytearray(whole)
    edited[-20] ^= 1
    path.write_bytes(bytes(edited))
    refused(tiny("generate", "run-1"), "bytes", "was changed")
    path.write_bytes(b"PK\x03\x04 something else")
    refused(tiny("generate", "run-1"), "checkpoint.safetensors")


def test_disk_full_leaves_the_former_checkpoint(tiny, monkeypatch):
    tiny.train("--name", "mine", steps=3)
    before = (tiny.folder / "runs/mine/checkpoint.safetensors").read_bytes()
    real = builtins.open

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.file.close()

        def __getattr__(self, name):
            return getattr(self.file, name)

        def write(self, data):
            raise OSError(28, "No space left on device", "checkpoint.safetensors")

    def full(path, mode="r", *rest, **options):
        file = real(path, mode, *rest, **options)
        return Full(file) if "checkpoint" in str(path) and "w" in mode or "x" in mode else file

    monkeypatch.setattr(builtins, "open", full)
    result = tiny.train("--name", "other", steps=3)
    monkeypatch.undo()
    refused(result, "No space left")
    assert (tiny.folder / "runs/mine/checkpoint.safetensors").read_bytes() == before


@pytest.mark.parametrize("words, part", [(["--temperature", "-1"], "temperature"),
                                         (["--top-k", "-1"], "top_k"), (["--top-p", "0"], "top_p"),
                                         (["--max-new-tokens", "0"], "--max-new-tokens"),
                                         (["--temperature", "nan"], "temperature")])
def test_sampling_settings(tiny, words, part):
    tiny.train()
    refused(tiny("generate", "run-1", *words), part)


def test_tokenize_without_what_it_needs(tiny):
    refused(tiny("tokenize", "text"), "--vocab", status=2)
    refused(tiny("tokenize", "--train", "text.txt"), "--out", status=2)
    refused(tiny("tokenize", "--vocab", "nowhere.txt", "text"), "nowhere.txt")


def test_divergence_names_the_step(tiny):
    result = tiny.train("--lr", "1e200", steps=9)
    refused(result, "step", "lower rate")
