"""What each command does when all is well."""

from __future__ import annotations

import json
import math
import pathlib
import re
import signal

import pytest

from tinyformer.cli import corpus
from tinyformer.training.loop import Trainer


def losses(folder: pathlib.Path, run: str) -> list:
    """The losses in the log of a run."""
    log = (folder / "runs" / run / "log.jsonl").read_text(encoding="utf-8")
    return [json.loads(line)["loss"] for line in log.split("\n") if line]


def test_train_leaves_four_files_and_shows_every_floor(tiny, backend):
    result = tiny.train(steps=40, backend=backend)
    assert result.status == 0, result.err
    run = tiny.folder / "runs" / "run-1"
    assert sorted(path.name for path in run.iterdir()) == [
        "checkpoint.safetensors", "log.jsonl", "loss.svg", "vocab.txt"]
    for name in ("uniform", "unigram", "bigram", "trigram", "this model"):
        assert re.search(rf"\d\.\d{{3}}  {name}", result.out), name
    assert len(losses(tiny.folder, "run-1")) == 40
    assert losses(tiny.folder, "run-1")[-1] < losses(tiny.folder, "run-1")[0] - 0.5
    svg = (run / "loss.svg").read_text(encoding="utf-8")
    assert svg.startswith("<svg") and "trigram" in svg and "held out" in svg


def test_the_untrained_model_is_undecided(tiny):
    tiny.train(steps=1)
    vocabulary = (tiny.folder / "runs/run-1/vocab.txt").read_text(encoding="utf-8").count("\n")
    assert losses(tiny.folder, "run-1")[0] == pytest.approx(math.log(vocabulary), rel=0.02)


def test_both_engines_train_alike(tiny):
    pytest.importorskip("numpy")
    tiny.train("--name", "pure", "--dropout", "0.1", steps=50, backend="python")
    tiny.train("--name", "fast", "--dropout", "0.1", steps=50, backend="numpy")
    pure, fast = losses(tiny.folder, "pure"), losses(tiny.folder, "fast")
    assert len(pure) == 50
    assert max(abs(p - q) for p, q in zip(pure, fast)) < 1e-9


def test_profile_shows_where_the_time_went_and_changes_nothing(tiny, backend):
    plain = tiny.train("--name", "plain", "--dropout", "0.1", backend=backend)
    result = tiny.train("--name", "seen", "--dropout", "0.1", "--profile", backend=backend)
    assert result.status == 0, result.err
    assert losses(tiny.folder, "seen") == losses(tiny.folder, "plain")
    assert re.search(r"^6 steps in \d+\.\d\d s; a step, times in milliseconds$", result.out, re.M)
    assert re.search(r"^linear +7 +\d+\.\d\d +\d+\.\d\d +\d+\.\d\d +\d+\.\d% +\d+% ", result.out,
                     re.M)
    assert "steps in" not in plain.out


def test_profile_of_a_run_that_was_stopped_and_of_one_that_goes_on(tiny, monkeypatch):
    advance = Trainer._advance

    def interrupted(trainer):
        advance(trainer)
        if trainer.step == 4:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Trainer, "_advance", interrupted)
    result = tiny.train("--profile")
    assert result.status == 130 and "stopped after step 4 of 6" in result.err
    assert "\n4 steps in" in result.out
    assert "\n2 steps in" in tiny("train", "--resume", "run-1", "--profile").out


def test_another_seed_is_another_run(tiny):
    tiny.train("--name", "one")
    tiny.train("--name", "same")
    tiny.train("--name", "two", "--seed", "1")
    assert losses(tiny.folder, "one") == losses(tiny.folder, "same") != losses(tiny.folder, "two")


def test_runs_are_numbered_until_they_are_named(tiny):
    tiny.train()
    tiny.train()
    assert (tiny.folder / "runs/run-2/checkpoint.safetensors").exists()


def test_force_overwrites(tiny):
    tiny.train("--name", "mine", steps=9)
    result = tiny.train("--name", "mine", "--force", steps=4)
    assert result.status == 0, result.err
    assert len(losses(tiny.folder, "mine")) == 4


def test_generate_goes_on_from_the_prompt(tiny):
    tiny.train(steps=30)
    result = tiny("generate", "run-1", "The rock", "--max-new-tokens", "20", "--temperature", "0")
    assert result.status == 0, result.err
    assert result.out.startswith("The rock")
    assert result.out == tiny("generate", "runs/run-1", "The rock", "--max-new-tokens", "20",
                              "--temperature", "0").out
    assert tiny("generate", "runs/run-1/checkpoint.safetensors", "The rock", "--max-new-tokens",
                "20", "--temperature", "0").out == result.out


def test_generate_without_a_prompt_begins_afresh(tiny):
    tiny.train()
    one = tiny("generate", "run-1", "--max-new-tokens", "12", "--seed", "1")
    assert one.status == 0 and one.out.strip()
    assert one.out != tiny("generate", "run-1", "--max-new-tokens", "12", "--seed", "2").out


def test_top_k_of_zero_and_beyond_the_vocabulary_mean_all(tiny):
    tiny.train()
    words = ["generate", "run-1", "The", "--max-new-tokens", "8", "--seed", "3"]
    everything = tiny(*words).out
    assert tiny(*words, "--top-k", "0").out == tiny(*words, "--top-k", "9999").out == everything
    assert tiny(*words, "--top-k", "1").out == tiny(*words, "--temperature", "0").out


def test_a_stop_string_ends_the_text_before_it(tiny):
    tiny.train()
    words = ["generate", "run-1", "The", "--max-new-tokens", "12", "--seed", "1"]
    whole = tiny(*words).out.strip()
    piece = whole.split()[3]
    found = tiny(*words, "--stop", piece, "--stop", "no such text")
    assert found.status == 0, found.err
    assert whole.startswith(found.out.strip()) and len(found.out.strip()) < len(whole)
    assert piece not in found.out.strip()[len("The"):]


def test_info_names_the_parts_of_a_run(tiny):
    tiny.train(steps=3)
    result = tiny("info", "run-1")
    assert "step 3 of 3" in result.out and "1 x Block" not in result.out and "Block(" in result.out
    assert re.search(r"DecoderModel\( +[\d,]+\n", result.out)
    assert "backend" in tiny("info").out


def test_info_describes_well_known_models(tiny):
    result = tiny("info", "bert-base-cased")
    assert result.status == 0 and "(blocks.0-11): 12 x Block(" in result.out
    assert re.match(r"EncoderModel\( +108,310,272\n", result.out)


def test_tokenize_learns_and_cuts(tiny):
    result = tiny("tokenize", "--train", "text.txt", "--vocab-size", "90", "--out", "vocab.txt")
    assert result.status == 0 and "90 pieces" in result.out, result.err
    pieces, ids = tiny("tokenize", "--vocab", "vocab.txt", "The rock rules.").out.split("\n")[:2]
    assert pieces.replace(" ##", "").split() == ["the", "rock", "rules", "."]
    assert len(ids.split()) == len(pieces.split())


def test_the_split_is_nine_to_one_and_loses_nothing():
    whole = corpus.Corpus("a", ["one two\nthree four\n" * 30, "five six\n" * 20])
    training, held_out = whole.split()
    assert "".join(training + held_out) == "".join(whole.documents)
    assert 0.09 < sum(map(len, held_out)) / whole.size < 0.13


def test_the_language_reference_is_english_without_underlines():
    reference = corpus.language_reference()
    assert reference.size > 300_000
    assert "\n****" not in "".join(reference.documents)


def test_the_split_holds_where_lines_are_long():
    long = corpus.Corpus("a", ["Title\n" + "one two three " * 1000, "short\n" * 4])
    training, held_out = long.split()
    assert "".join(training + held_out) == "".join(long.documents)
    assert 0.09 < sum(map(len, held_out)) / long.size < 0.2
