"""The log of a run: one JSON object a line, one line a step, in `log.jsonl`.

    {"step": 1, "loss": 6.931, "rate": 0.0003, "norm": 1.42}
    {"step": 100, "loss": 4.87, "rate": 0.003, "norm": 0.61, "held_out": 4.95}

It holds nothing that depends on the clock, so two runs that did the same have the same log. Every
line reaches the system before the next step begins; a run killed in the middle of a line leaves a
torn one, which is dropped when the run is resumed, together with the steps after the checkpoint.
The steps up to the checkpoint must all be there: a log that lacks one is of another run.
"""

from __future__ import annotations

import errno
import json
import os
from typing import Any, Dict, List, Tuple

from tinyformer.arrays.safetensors import replace_file


class LossLog:
    """The log at `path`, open at its end; lines up to step `keep` are kept, later ones cut off.

    Raises ValueError, and changes nothing, where those kept are not the steps 1 to `keep`.
    """

    def __init__(self, path: str, keep: int = 0) -> None:
        replace_file(path, lines_up_to(keep, path))
        self._file = open(path, "ab", buffering=0)
        self._path = path

    def append(self, record: Dict[str, Any]) -> None:
        """Add one line and hand it to the system. Raises ValueError for nan or infinity, which JSON
        lacks, OSError where the disk is full."""
        line = json.dumps(record, allow_nan=False).encode("utf-8") + b"\n"
        try:
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror}; a line of the log was not written. Make "
                          "room, and resume from the checkpoint", self._path) from None

    def sync(self) -> None:
        """Down to the disk: called before a checkpoint that counts on these lines."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_log(path: str) -> List[Dict[str, Any]]:
    """The records of a log, in order, without a torn last line. Raises ValueError where another
    line is not a record, FileNotFoundError where there is no log."""
    with open(path, "rb"):
        return [record for _, record in _lines(path)]


def lines_up_to(keep: int, path: str) -> List[bytes]:
    """The lines of the steps 1 to `keep`, of which a checkpoint of step `keep` is the result.

    Raises ValueError where the log has others, or lacks one of them.
    """
    found = [(line, record["step"]) for line, record in _lines(path) if record["step"] <= keep]
    steps = [step for _, step in found]
    expected = list(range(1, keep + 1))
    if steps != expected:
        same = next((n for n, pair in enumerate(zip(steps, expected)) if pair[0] != pair[1]),
                    min(len(steps), keep))
        there = ("there is no such file" if not os.path.exists(path) else
                 f"step {steps[same]} stands in place of {same + 1}" if same < len(steps) else
                 f"it ends with step {same}" if same else "it has none of them")
        raise ValueError(f"{path} is not the log of this checkpoint: expected the steps 1 to "
                         f"{keep}, one a line, but {there}. Put the log of the run back beside its "
                         "checkpoint, or start a new run")
    return [line for line, _ in found]


def _lines(path: str) -> List[Tuple[bytes, Dict[str, Any]]]:
    """The whole lines of the log and what they say; none if there is no log."""
    if not os.path.exists(path):
        return []
    with open(path, "rb") as file:
        whole = [line for line in file if line.endswith(b"\n")]
    found: List[Tuple[bytes, Dict[str, Any]]] = []
    position = 0
    for number, line in enumerate(whole, start=1):
        try:
            record = json.loads(line)
            if not isinstance(record["step"], int):
                raise TypeError
        except (ValueError, TypeError, KeyError):
            raise ValueError(f"{path}, line {number}, byte {position}: not a record of a step: "
                             f"{line[:60]!r}. Take that line out, or start a new run") from None
        found.append((line, record))
        position += len(line)
    return found
