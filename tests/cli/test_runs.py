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


def test_two_runs_without_a_name_get_two_folders_at_once(mine):
    folders = [runs.new_folder("", False) for _ in range(3)]
    assert folders == [os.path.join("runs", f"run-{number}") for number in (1, 2, 3)]
    assert all(map(os.path.isdir, folders))


def test_a_folder_is_dropped_only_while_it_is_empty(mine):
    first, second = runs.new_folder("", False), runs.new_folder("", False)
    (mine.parent / "run-1" / "log.jsonl").write_bytes(b"")
    for folder in (first, second, second):
        runs.drop_if_empty(folder)
    assert sorted(path.name for path in mine.parent.iterdir()) == ["mine", "run-1"]
    (mine.parent / "run-1" / "log.jsonl").unlink()
    runs.drop_if_empty(first)
    runs.drop_if_empty(str(mine))
    assert not mine.parent.exists()


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
    (tiny.folder / "runs/other").mkdir(parents=True)
    os.replace(tiny.folder / "other.safetensors", tiny.folder / "runs/other/checkpoint.safetensors")
    result = tiny("train", "--resume", "other")
    assert result.status == 1 and "Traceback" not in result.err
    assert "is a checkpoint, but not of a run of the command line" in result.err


def test_resume_refuses_a_log_of_another_run(tiny):
    tiny.train(steps=3)
    (tiny.folder / "runs/run-1/log.jsonl").unlink()
    result = tiny("train", "--resume", "run-1")
    assert result.status == 1 and "Traceback" not in result.err
    assert "expected the steps 1 to 3, one a line, but there is no such file" in result.err
