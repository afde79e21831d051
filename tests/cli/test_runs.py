"""Folders of runs: which one a new run may take, and what is read of an old one."""

from __future__ import annotations

import builtins
import os

import pytest

from tinyformer.autograd import tensor
from tinyformer.cli import runs
from tinyformer.training import checkpoint
from tinyformer.training.loop import claimed


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """runs/mine in a folder of its own, still empty."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    return folder


def test_an_empty_folder_and_an_empty_log_may_be_taken(mine):
    assert runs.new_folder("mine", False) == os.path.join("runs", "mine")
    (mine / "log.jsonl").write_bytes(b"")
    assert runs.new_folder("mine", False) == os.path.join("runs", "mine")


def test_a_log_whose_checkpoint_is_gone_is_not_overwritten_unasked(mine):
    (mine / "log.jsonl").write_bytes(b'{"step": 1}\n')
    with pytest.raises(ValueError, match="exists.*checkpoint.safetensors is gone.*--force"):
        runs.new_folder("mine", False)
    assert runs.new_folder("mine", True) == os.path.join("runs", "mine")


@pytest.mark.parametrize("name", ["log.jsonl.partial", "checkpoint.safetensors.partial",
                                  "vocab.txt.tmp", "running"])
def test_what_a_killed_run_left_behind_is_its_own(mine, name):
    (mine / name).write_bytes(b"half a")
    folder = runs.new_folder("mine", False)
    runs.clear(folder)
    assert list(mine.iterdir()) == []


@pytest.mark.parametrize("name", ["thesis.tex", "my-checkpoint.safetensors", "notes.partial",
                                  "log.jsonl.bak"])
def test_what_is_not_of_a_run_is_left_alone(mine, name):
    (mine / name).write_bytes(b"years of work")
    with pytest.raises(ValueError, match=f"no run has made .{name}."):
        runs.new_folder("mine", True)


def test_a_run_that_is_training_is_not_cleared(mine):
    (mine / "checkpoint.safetensors").write_bytes(b"weights")
    with claimed(str(mine)), pytest.raises(BlockingIOError, match="is training in"):
        runs.clear(str(mine))
    assert (mine / "checkpoint.safetensors").exists()
    runs.clear(str(mine))
    runs.clear(str(mine / "not there"))
    assert list(mine.iterdir()) == []


def test_a_model_is_loaded_from_one_opening(tiny, monkeypatch):
    tiny.train(steps=2)
    real, opened = open, []

    def counted(path, *rest, **options):
        opened.append(str(path))
        return real(path, *rest, **options)

    monkeypatch.setattr(builtins, "open", counted)
    _, _, state = runs.load_model("run-1")
    assert state["step"] == 2
    assert len([path for path in opened if path.endswith("checkpoint.safetensors")]) == 1


@pytest.mark.parametrize("extra, lacking", [({}, "settings"), (None, "settings"),
                                            ({"settings": {}, "model": {}}, "tokens")])
def test_a_checkpoint_that_another_program_made_is_told_apart(tiny, extra, lacking):
    state = {"step": 1} if extra is None else {"step": 1, "extra": extra}
    checkpoint.save(tiny.folder / "other.safetensors", state, {"model.w": tensor([1.0]).data})
    for command in ("info", "generate"):
        result = tiny(command, "other.safetensors")
        assert result.status == 1 and "Traceback" not in result.err
        for part in ("other.safetensors is a checkpoint", "the command line", repr(lacking)):
            assert part in result.err
