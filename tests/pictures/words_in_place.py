"""Where the words of a picture stand: none may leave it, and no two may overlap."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any, Iterator, Tuple

SPACE = "{http://www.w3.org/2000/svg}"


def boxes(picture: Any) -> Iterator[Tuple[str, float, float, float, float]]:
    """The rectangle that each text takes, with the widest plausible letters (0.6 em)."""
    for node in ElementTree.fromstring(picture).iter(f"{SPACE}text"):
        words, size = node.text or "", 15 if "tf-title" in (node.get("class") or "") else 12
        x, y = (float(node.get(name) or "nan") for name in "xy")
        width = 0.6 * size * len(words)
        x -= {"middle": width / 2, "end": width, None: 0}[node.get("text-anchor")]
        yield words, x, y - 0.8 * size, x + width, y + 0.2 * size


def assert_words_in_place(picture: Any, width: float, height: float) -> None:
    """Every text lies within the picture and clear of every other."""
    placed = list(boxes(picture))
    for i, (words, x0, y0, x1, y1) in enumerate(placed):
        assert 0 <= x0 and x1 <= width + 1 and 0 <= y0 and y1 <= height, words
        for other, u0, v0, u1, v1 in placed[:i]:
            assert max(u0 - x1, x0 - u1, v0 - y1, y0 - v1) >= -0.1, (words, other)
