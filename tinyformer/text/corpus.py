"""Counting words: all that a trainer needs to know about a corpus.

A corpus is a text, a file (an `os.PathLike`, such as `pathlib.Path`), or any iterable of the two.
Files are read in blocks, so memory grows with the number of distinct words and not with the length
of the corpus.
"""

from __future__ import annotations

import codecs
import os
from collections import Counter
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Union

Text = Union[str, "os.PathLike[str]"]
Corpus = Union[Text, Iterable[Text]]
Progress = Optional[Callable[[str], None]]
"""Called now and then with a line that says how far the work is."""

BLOCK = 1 << 17  # bytes of a file read at a time
TOLD = 1 << 20  # characters between two lines of progress


def count_words(corpus: Corpus,
                chunks: Callable[[str], Iterable[str]],
                words: Callable[[str], List[str]],
                progress: Progress = None) -> Dict[str, int]:
    """How often each word occurs in the corpus.

    `chunks` cuts a text into parts that can be handled by themselves, `words` makes such a part
    words. Each different part is handled once, however often it occurs. Raises ValueError if there
    is no word at all.
    """
    raw: Counter[str] = Counter()
    characters = 0
    for text in texts(corpus):
        raw.update(chunks(text))
        before, characters = characters, characters + len(text)
        if progress and before // TOLD != characters // TOLD:
            progress(f"{characters:,} characters read, {len(raw):,} distinct words")
    counts: Counter[str] = Counter()
    for chunk, n in raw.items():
        for word in words(chunk):
            counts[word] += n
    if not counts:
        raise ValueError(f"the corpus has no words ({characters} characters): nothing to train on")
    return counts


def texts(corpus: Corpus) -> Iterator[str]:
    """The texts of a corpus; those of a file block by block."""
    for part in [corpus] if isinstance(corpus, (str, os.PathLike)) else corpus:
        if isinstance(part, str):
            yield part
        elif isinstance(part, os.PathLike):
            yield from blocks(part)
        else:
            raise TypeError(
                f"a corpus is made of str and os.PathLike, not {type(part).__name__}: {part!r:.60}")


def blocks(path: "os.PathLike[str]", size: int = BLOCK) -> Iterator[str]:
    """A UTF-8 file in parts of about `size` bytes that end with a line, or at least with a word,
    where they can.

    Raises ValueError with the offset of the first byte that is not UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    rest, done = "", 0
    with open(path, "rb") as file:
        while True:
            data = file.read(size)
            waiting = len(decoder.getstate()[0])
            try:
                text = rest + decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{os.fspath(path)} is not UTF-8: byte {error.object[error.start]:#04x} "
                    f"at offset {done - waiting + error.start}") from None
            done += len(data)
            if not data:
                break
            cut = text.rfind("\n") + 1 or text.rfind(" ") + 1 or len(text)
            rest = text[cut:]
            yield text[:cut]
    if text:
        yield text
