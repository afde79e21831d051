"""A command line in a folder of its own, on a text that trains in a second."""

from __future__ import annotations

import pathlib
from typing import Iterator, List, NamedTuple

import pytest

from tinyformer.arrays import set_default_dtype, use_backend
from tinyformer.cli import main

TEXT = "\n".join(f"The rock rules. The {what} broke in the {when}, and we broke even.\n"
                 for what in ("vase", "news", "dawn", "law", "record", "tire", "note") * 6
                 for when in ("morning", "evening"))
SMALL = [
    "--d-model", "8", "--n-layers", "1", "--n-heads", "2", "--max-len", "8", "--batch-size", "2",
    "--vocab-size", "80", "--lr", "0.01", "--dtype", "float64"
]


class Result(NamedTuple):
    """What a command left."""

    status: int
    out: str
    err: str


class CommandLine:
    """Runs commands in `folder`, which holds text.txt."""

    def __init__(self, folder: pathlib.Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capture = folder, capture

    def __call__(self, *words: str) -> Result:
        self.capture.readouterr()
        try:
            status = main(words)
        except SystemExit as stop:
            status = int(stop.code or 0)
        out, err = self.capture.readouterr()
        return Result(status, out, err)

    def train(self, *words: str, steps: int = 6, backend: str = "python") -> Result:
        """Train on text.txt in a miniature size."""
        small: List[str] = []
        for option, value in zip(SMALL[::2], SMALL[1::2]):
            small += [] if option in words else [option, value]
        return self("train", "--text", "text.txt", "--backend", backend, "--steps", str(steps),
                    *small, *words)


@pytest.fixture
def tiny(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
         capsys: pytest.CaptureFixture[str]) -> Iterator[CommandLine]:
    """A command line whose choice of engine ends with the test."""
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with use_backend("python"), set_default_dtype(None):
        yield CommandLine(tmp_path, capsys)
