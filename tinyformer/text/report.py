"""Explanations as blocks, and blocks as text for a terminal.

An explanation is a list of blocks, each a tuple whose first entry says what it is:

    ("heading", text)
    ("text", text)
    ("table", header, rows)             rows of texts; a cell "hit" or "miss" may be coloured
    ("pieces", [(piece, source), ...])  a word, cut
    ("tree", tree)                      (label, left, right), or a label alone

`as_text` prints them; `tinyformer.pictures.html` draws the same blocks as a page. So every
explanation is written once.
"""

from __future__ import annotations

import unicodedata
from typing import Any, Callable, Dict, Sequence, Tuple

Block = Tuple[Any, ...]


def as_text(blocks: Sequence[Block]) -> str:
    """The blocks as lines for a terminal."""
    return "\n".join(_LAYOUT[block[0]](*block[1:]) for block in blocks).lstrip("\n")


def visible(text: str) -> str:
    """The text with nothing hidden: every character that does not print, by its code point.

    >>> visible("a\\u200bb")
    'a<U+200B>b'
    """
    return "".join(char if char.isprintable() and not unicodedata.combining(char)
                   else f"<U+{ord(char):04X}>" for char in text)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [list(header)] + [list(row) for row in rows]
    widths = [max(_width(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join("  ".join(cell + " " * (width - _width(cell))
                               for cell, width in zip(line, widths)).rstrip() for line in lines)


def _width(text: str) -> int:
    """Columns that a terminal gives a text: wide East Asian characters take two, marks none."""
    return sum((0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF"
                else 1) for c in text)


def _pieces(pieces: Sequence[Tuple[str, str]]) -> str:
    return "  " + " | ".join(piece for piece, _ in pieces)


def _tree(tree: Any) -> str:
    """A tree, the root on top.

    >>> print(_tree(("hug", "h", ("##ug", "##u", "##g"))))
    hug
    |-- h
    `-- ##ug
        |-- ##u
        `-- ##g
    """
    if isinstance(tree, str):
        return tree
    label, left, right = tree
    upper = _tree(left).replace("\n", "\n|   ")
    lower = _tree(right).replace("\n", "\n    ")
    return f"{label}\n|-- {upper}\n`-- {lower}"


_LAYOUT: Dict[str, Callable[..., str]] = {
    "heading": lambda text: f"\n{text}\n{'-' * _width(text)}",
    "text": lambda text: text,
    "table": _table,
    "pieces": _pieces,
    "tree": _tree,
}
