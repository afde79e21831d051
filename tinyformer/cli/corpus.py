"""The texts that a run learns from: the user's files, or the real text inside every Python."""

from __future__ import annotations

import os
import re
from typing import List, NamedTuple, Sequence, Tuple

from tinyformer.text import WordPiece
from tinyformer.text.corpus import blocks

UNDERLINE = re.compile(r"^[*=~^-]{3,}$\n", re.MULTILINE)
HELD_OUT = 10           # one part in ten, the last, is never trained on


class Corpus(NamedTuple):
    """Documents, and what to call them."""

    name: str
    documents: List[str]

    @property
    def size(self) -> int:
        """The number of characters."""
        return sum(map(len, self.documents))

    def split(self) -> Tuple[List[str], List[str]]:
        """The first nine tenths of the characters and the last one, cut at the end of a line."""
        training: List[str] = []
        left = self.size * (HELD_OUT - 1) // HELD_OUT
        for number, document in enumerate(self.documents):
            if len(document) > left:
                cut = document.rfind("\n", 0, left) + 1 or document.rfind(" ", 0, left) + 1 or left
                begun = [document[:cut]] if document[:cut].strip() else []
                return training + begun, [document[cut:]] + self.documents[number + 1:]
            training.append(document)
            left -= len(document)
        return training, []


def language_reference() -> Corpus:
    """The language reference, about half a million characters of English, from `pydoc_data.topics`.

    The lines of asterisks that underline its headings are left out. Raises ValueError where this
    Python comes without it.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise ValueError(
            "this Python comes without the language reference (pydoc_data.topics), which some "
            "distributions pack separately: give a text of your own with --text FILE") from None
    return Corpus("the Python language reference (pydoc_data.topics)",
                  [UNDERLINE.sub("", topics[name]) for name in sorted(topics)])


def from_files(paths: Sequence[str]) -> Corpus:
    """One document per file.

    Raises OSError for a missing file, ValueError for an empty one or one that is not UTF-8, with
    the offset of the first wrong byte.
    """
    documents = []
    for path in paths:
        text = "".join(blocks(path)).lstrip("\ufeff")  # type: ignore[arg-type]
        if not text.strip():
            raise ValueError(
                f"{path} is empty ({os.path.getsize(path)} bytes): there is nothing to learn")
        documents.append(text)
    return Corpus(", ".join(paths), documents)


def encode(tokenizer: WordPiece, documents: Sequence[str]) -> List[int]:
    """The ids of the documents in one stream, each begun by [CLS], the beginning-of-text token."""
    ids: List[int] = []
    for document in documents:
        ids.append(tokenizer.cls_id)
        ids += tokenizer.encode_ids(document)
    return ids
