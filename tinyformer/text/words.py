"""From normalised text to words.

White space separates words and vanishes; every punctuation character is a word of its own. Pieces
never cross a word, so whatever is known about a word (its pieces, how often it occurs) can be
remembered by its text.
"""

from __future__ import annotations

import re
from typing import List, Tuple

from .normalise import Span, Table, is_punctuation

# Maximal runs without white space as `normalise.is_whitespace` defines it. Nothing that normalising
# or splitting does looks across white space, so such a chunk of raw text can be handled, and
# remembered, by itself. (`str.split()` also splits at vertical tab, form feed, U+001C-1F and
# U+0085, which cleaning deletes.)
CHUNK = re.compile("[^ \t\n\r\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_MISLEADS_SPLIT = re.compile("[\x0b\x0c\x1c-\x1f\x85]")

Word = Tuple[str, List[Tuple[int, int]]]
"""A word and, for each of its characters, the slice of the source that it came from."""


def chunks(text: str) -> List[str]:
    """The runs of raw text between white space."""
    return CHUNK.findall(text) if _MISLEADS_SPLIT.search(text) else text.split()


def _isolate(char: str) -> str:
    return f" {char} " if is_punctuation(char) else char


_ISOLATED = Table(_isolate)


def split_words(text: str) -> List[str]:
    """The words of a normalised text.

    >>> split_words("don't stop.")
    ['don', "'", 't', 'stop', '.']
    """
    return text.translate(_ISOLATED).split()


def split_spans(spans: List[Span]) -> List[Word]:
    """`split_words`, with the source span of every character."""
    words: List[Word] = []
    begin = 0
    for i, (char, _, _) in enumerate(spans + [(" ", 0, 0)]):
        if char == " " or is_punctuation(char):
            if i > begin:
                words.append(_word(spans[begin:i]))
            if char != " ":
                words.append(_word(spans[i:i + 1]))
            begin = i + 1
    return words


def _word(spans: List[Span]) -> Word:
    return "".join(char for char, _, _ in spans), [(start, end) for _, start, end in spans]
