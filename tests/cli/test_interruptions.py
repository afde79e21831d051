"""Killed, interrupted, resumed: the log is that of a run which never stopped, bit for bit."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 60


def start(folder: pathlib.Path, *words: str) -> "subprocess.Popen[str]":
    """A command in a process of its own."""
    return subprocess.Popen([sys.executable, "-m", "tinyformer", *words], cwd=folder, text=True,
                            encoding="utf-8", env={**os.environ, "PYTHONPATH": str(ROOT)},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def options(backend: str, name: str) -> list:
    """A run of 60 steps, with dropout, in about a second."""
    return [
        "train", "--text", "text.txt", "--backend", backend, "--dtype", "float64", "--d-model",
        "16", "--n-layers", "1", "--n-heads", "2", "--max-len", "8", "--batch-size", "2",
        "--vocab-size", "80", "--dropout", "0.1", "--steps",
        str(STEPS), "--name", name
    ]


def log(folder: pathlib.Path, name: str) -> bytes:
    """The log of a run, as far as it is written."""
    path = folder / "runs" / name / "log.jsonl"
    return path.read_bytes() if path.exists() else b""


def wait_for(process: "subprocess.Popen[str]", folder: pathlib.Path, name: str, lines: int) -> None:
    """Until the log has that many lines."""
    while process.poll() is None and log(folder, name).count(b"\n") < lines:
        time.sleep(0.002)


def test_killed_at_any_moment_and_resumed(tiny, backend):
    whole = start(tiny.folder, *options(backend, "whole"))
    assert whole.wait() == 0, whole.stderr.read()
    broken = start(tiny.folder, *options(backend, "broken"))
    for lines in (5, 23, 47):
        wait_for(broken, tiny.folder, "broken", lines)
        broken.kill()
        broken.communicate()
        broken = start(tiny.folder, "train", "--resume", "broken")
    out, err = broken.communicate()
    assert broken.returncode == 0, err
    assert log(tiny.folder, "broken") == log(tiny.folder, "whole")
    assert log(tiny.folder, "whole").count(b"\n") == STEPS


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for a single process")
def test_ctrl_c_saves_and_says_how_to_go_on(tiny):
    whole = start(tiny.folder, *options("python", "whole"))
    stopped = start(tiny.folder, *options("python", "stopped"))
    wait_for(stopped, tiny.folder, "stopped", 7)
    stopped.send_signal(signal.SIGINT)
    _, err = stopped.communicate()
    assert stopped.returncode == 130
    assert "python3 -m tinyformer train --resume stopped" in err and "Traceback" not in err
    assert 7 <= log(tiny.folder, "stopped").count(b"\n") < STEPS
    assert (tiny.folder / "runs/stopped/loss.svg").exists()
    assert tiny("train", "--resume", "stopped").status == 0
    assert whole.wait() == 0
    assert log(tiny.folder, "stopped") == log(tiny.folder, "whole")


def test_a_finished_run_resumes_to_its_report(tiny):
    tiny.train(steps=4)
    before = log(tiny.folder, "run-1")
    result = tiny("train", "--resume", "run-1")
    assert result.status == 0 and "this model" in result.out, result.err
    assert log(tiny.folder, "run-1") == before


def test_resume_refuses_another_text(tiny):
    tiny.train(steps=4)
    (tiny.folder / "text.txt").write_text("Something else entirely is written here now. " * 60,
                                          encoding="utf-8")
    result = tiny("train", "--resume", "run-1")
    assert result.status == 1 and "other data" in result.err


def test_resume_refuses_options_that_the_run_has_fixed(tiny):
    tiny.train(steps=4)
    result = tiny("train", "--resume", "run-1", "--d-model", "32", "--steps", "9")
    assert result.status != 0 and "--d-model" in result.err and "--steps" in result.err
