"""From normalised text to words.

White space separates words and vanishes; every punctuation character is a word of its own. Pieces
never cross a word, so whatever is known about a word (its pieces, how often it occurs) can be
remembered by its text.
"""

from __future__ import annotations

import re
from typing import List, Sequence, Tuple

from .normalise import CJK_RANGES, Span, Table, is_punctuation

# Maximal runs without white space as `normalise.is_whitespace` defines it. Nothing that normalising
# or splitting does looks across white space, so such a chunk of raw text can be handled, and
# remembered, by itself. `str.split()` also splits at vertical tab, form feed, U+001C-1F and U+0085
# (PyPy's at U+180E too), which cleaning deletes.
_SPACES = " \t\n\r\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_CJK = "".join(f"{chr(low)}-{chr(high)}" for low, high in CJK_RANGES)
_CHUNK = re.compile(f"[^{_SPACES}]+")
_CHUNK_OR_CJK = re.compile(f"[{_CJK}]|[^{_SPACES}{_CJK}]+")
_ANY_CJK = re.compile(f"[{_CJK}]")
_MISLEADS_SPLIT = re.compile("[\x0b\x0c\x1c-\x1f\x85\u180e]")

Word = Tuple[str, Sequence[int], Sequence[int]]
"""A word, and for each of its characters where in the source it starts, and where it ends."""


def chunks(text: str, cjk: bool = False) -> List[str]:
    """The runs of raw text between white space; with `cjk` every Chinese character by itself.

    >>> chunks("a  b漢c", cjk=True)
    ['a', 'b', '漢', 'c']
    """
    if cjk and not text.isascii() and _ANY_CJK.search(text):
        return _CHUNK_OR_CJK.findall(text)
    return _CHUNK.findall(text) if _MISLEADS_SPLIT.search(text) else text.split()


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
        if _ISOLATED[ord(char)] != char or char == " ":
            if i > begin:
                words.append(word_of(spans[begin:i]))
            if char != " ":
                words.append(word_of(spans[i:i + 1]))
            begin = i + 1
    return words


def word_of(spans: List[Span]) -> Word:
    """The word that consists of these characters."""
    return ("".join([char for char, _, _ in spans]), [start for _, start, _ in spans],
            [end for _, _, end in spans])


_ODD = re.compile("[^\t\n\r -~]")
_PLAIN_WORDS = re.compile("[0-9A-Za-z]+|[^0-9A-Za-z \t\n\r]")


def is_plain(text: str) -> bool:
    """Whether the text is ASCII without controls: normalising changes nothing in it but case."""
    return not _ODD.search(text)


def split_plain(text: str) -> List[str]:
    """`split_words`, for `is_plain` texts."""
    return _PLAIN_WORDS.findall(text)
