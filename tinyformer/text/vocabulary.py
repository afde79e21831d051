"""The file `vocab.txt`: one piece a line, and the number of the line, from 0, is the piece's id.

Ids must not shift, so nothing here is forgiving without saying so: blank lines keep their id and
are reported, a piece that occurs twice is refused.
"""

from __future__ import annotations

import os
import warnings
from typing import Dict, List, Sequence, Union

PathLike = Union[str, "os.PathLike[str]"]

# Unicode's White_Space, which is trimmed from the end of a line as `tokenizers` does.
# `str.rstrip()` takes U+001C-1F too.
_TRIMMED = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200b)))


def read_text(path: PathLike) -> str:
    """The text of a UTF-8 file. Raises ValueError with the offset of the byte that is not UTF-8."""
    if os.path.isdir(path):
        raise ValueError(f"{os.fspath(path)} is a directory, not a file")
    with open(path, "rb") as file:
        data = file.read()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)} is not UTF-8: byte {data[error.start]:#04x} at offset "
                         f"{error.start} (line {data.count(10, 0, error.start) + 1})") from None


def write_text(path: PathLike, text: str) -> None:
    """Write a UTF-8 file completely or not at all: to a temporary neighbour first, which then takes
    the name."""
    temporary = f"{os.fspath(path)}.tmp"
    with open(temporary, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    os.replace(temporary, path)


def read_vocab(path: PathLike) -> List[str]:
    """The pieces of a `vocab.txt`, in the order of their ids.

    Lines end with a line feed; white space at their end, a carriage return too, does not belong to
    the piece. A byte order mark is removed, with a warning; blank lines stand for the piece `""`,
    with a warning. Raises ValueError for an empty file, a piece on two lines, and bytes that are
    not UTF-8.
    """
    text, name = read_text(path), os.fspath(path)
    if text.startswith("\ufeff"):
        warnings.warn(f"{name} begins with a byte order mark: removed", stacklevel=3)
        text = text[1:]
    if not text:
        raise ValueError(f"{name} is empty: a vocabulary needs at least one piece")
    lines = text[:-1].split("\n") if text.endswith("\n") else text.split(
        "\n")  # never splitlines: U+2028 is no line end
    tokens = [line.rstrip(_TRIMMED) for line in lines]
    check_unique(tokens, f"{name}: line", first=1)
    blank = [i + 1 for i, token in enumerate(tokens) if not token]
    if blank:
        warnings.warn(
            f"{name}: blank line{'s' * (len(blank) > 1)} {_some(blank)} kept as the piece '' with "
            "the id of the line",
            stacklevel=3)
    return tokens


def write_vocab(path: PathLike, tokens: Sequence[str]) -> None:
    """Write `tokens` as a `vocab.txt` that `read_vocab` reads back exactly. Raises ValueError where
    it could not."""
    for i, token in enumerate(tokens):
        if "\n" in token or token != token.rstrip(_TRIMMED):
            raise ValueError(f"piece {i} is {token!r}: vocab.txt cannot hold a line feed, "
                             "or white space at the end")
    write_text(path, "".join(f"{token}\n" for token in tokens))


def check_unique(tokens: Sequence[str], what: str, first: int = 0) -> None:
    """Raise ValueError if a piece occurs twice, naming both places. Blank pieces may repeat: they
    are never found."""
    seen: Dict[str, int] = {}
    for i, token in enumerate(tokens, first):
        if token and seen.setdefault(token, i) != i:
            raise ValueError(
                f"{what} {i} repeats the piece {token!r} of {what.split()[-1]} {seen[token]}: "
                "two ids for one piece")


def _some(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    return shown + f" and {len(numbers) - 5} more" * (len(numbers) > 5)
