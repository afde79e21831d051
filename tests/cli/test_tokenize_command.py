"""The command `tokenize`: pieces, explanations, pages, training."""

from __future__ import annotations

import pytest

VOCAB = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nEn\n##code\nme\n!\nen\n"


@pytest.fixture
def vocab(tiny):
    (tiny.folder / "vocab.txt").write_text(VOCAB, encoding="utf-8")
    return ("tokenize", "--vocab", "vocab.txt")


def test_the_lecture(tiny, vocab):
    assert tiny(*vocab, "--cased", "Encode me!").out == "En ##code me !\n5 6 7 8\n"
    assert tiny(*vocab, "Encode me!").out == "en ##code me !\n9 6 7 8\n"


def test_standard_input(tiny, vocab, monkeypatch):
    import io
    monkeypatch.setattr("sys.stdin", io.StringIO("me\nme!"))
    assert tiny(*vocab, "-").out == "me\n7\nme !\n7 8\n"


def test_explained_in_the_terminal_and_as_a_page(tiny, vocab):
    result = tiny(*vocab, "--explain", "--html", "why.html", "--cased", "Encode\u200b <me>")
    assert result.status == 0 and "U+200B ZERO WIDTH SPACE (Cf)  deleted" in result.out
    page = (tiny.folder / "why.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") and "##code" in page and "<me>" not in page
    quiet = tiny(*vocab, "--html", "again.html", "me")
    assert quiet.out == "" and "again.html" in quiet.err


def test_a_byte_level_vocabulary(tiny):
    from tinyformer.text import BPE
    BPE.train("the cat " * 9, 270, byte_level=True).save("vocab.json", "merges.txt")
    result = tiny("tokenize", "--vocab", "vocab.json", "--merges", "merges.txt", "the cat")
    assert result.out.split("\n")[0] == "the Ġcat"


def test_training_by_another_criterion_with_every_merge(tiny):
    result = tiny("tokenize", "--train", "text.txt", "--vocab-size", "70", "--out", "out.txt",
                  "--criterion", "score", "--min-frequency", "20", "--explain", "--html", "m.html")
    assert result.status == 0, result.err
    assert "merges by score" in result.out and "pieces in out.txt" in result.out
    assert "runners-up" in (tiny.folder / "m.html").read_text(encoding="utf-8")


def test_what_is_refused(tiny, vocab):
    (tiny.folder / "double.txt").write_text("[UNK]\na\na\n", encoding="utf-8")
    train = ("--train", "text.txt", "--out")
    for words, message in ((("--vocab", "double.txt", "a"), "line 3 repeats the piece 'a'"),
                           (("--vocab", ".", "a"), "is a directory"),
                           ((*train, "o.txt", "--vocab-size", "3"), "at least"),
                           ((*train, "vocab.txt"), "vocab.txt exists")):
        result = tiny("tokenize", *words)
        assert result.status == 1 and message in result.err, result


def test_a_runs_vocabulary_is_used_as_its_model_reads(tiny):
    tiny.train("--name", "mine")
    wanted = tiny("tokenize", "--vocab", "mine", "The rock").out
    assert wanted.split("\n")[0].replace(" ##", "") == "The rock"
    for path in ("runs/mine", "runs/mine/vocab.txt", "runs/mine/checkpoint.safetensors"):
        assert tiny("tokenize", "--vocab", path, "The rock").out == wanted


def test_options_that_do_not_go_together(tiny):
    result = tiny("tokenize", "--train", "text.txt", "--out", "v.txt", "some text")
    assert result.status == 2 and "--vocab" in result.err
    result = tiny("tokenize", "--vocab", "v.txt", "--out", "w.txt", "some text")
    assert result.status == 2 and "--train" in result.err
