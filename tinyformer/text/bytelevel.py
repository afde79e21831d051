"""Text as bytes, the way GPT-2 sees it.

Every text is a string of UTF-8 bytes, so a vocabulary of the 256 bytes can spell anything and needs
no unknown token. So that pieces can be printed and stored as text, each byte is written as a
character: printable Latin-1 characters stand for themselves, the other 68 bytes for the characters
from U+0100 on (a space is `Ġ`).

Source: Radford et al. 2019; openai/gpt-2 `encoder.py`, whose regular expression splits the words.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Dict, List

from .normalise import Table
from .words import Word


def _byte_characters() -> List[str]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printable)
    characters = {byte: chr(byte) for byte in printable}
    characters.update((byte, chr(256 + i)) for i, byte in enumerate(others))
    return [characters[byte] for byte in range(256)]


BYTES: List[str] = _byte_characters()
"""The character that stands for each byte."""

BYTE_OF: Dict[str, int] = {char: byte for byte, char in enumerate(BYTES)}


def encoded(char: str) -> str:
    """The characters that stand for the bytes of a character.

    U+DC80-DCFF are the bytes 80-FF, as Python's "surrogateescape" reads bytes that are not UTF-8;
    other lone surrogates have no bytes and vanish.

    >>> encoded("é"), encoded(" "), encoded("\\udcff"), encoded("\\ud800")
    ('Ã©', 'Ġ', 'ÿ', '')
    """
    try:
        data = char.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return ""
    return "".join(map(BYTES.__getitem__, data))


_ENCODED = Table(encoded)


def byte_word(chunk: str) -> Word:
    """The chunk as byte characters, each with the slice of the character that it belongs to."""
    starts = [i for i, char in enumerate(chunk) for _ in encoded(char)]
    return chunk.translate(_ENCODED), starts, [start + 1 for start in starts]


def to_bytes(text: str) -> bytes:
    """The bytes that a string of byte characters stands for."""
    return bytes(map(BYTE_OF.__getitem__, text))


# GPT-2 splits by Unicode's categories L and N, which `re` cannot name. So the text is looked at in
# a shadow of ASCII, one character for one character: every letter beyond ASCII looks like A, every
# number like 0, white space like a tab, all else like an exclamation mark.
_WORDS = re.compile(r"'(?:[stmd]|re|ve|ll)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+"
                    r"|\s+(?!\S)|\s+", re.ASCII)


def _shade(char: str) -> str:
    if char < "\x80":
        return char
    category = unicodedata.category(char)
    if char == "\x85" or category[0] == "Z":
        return "\t"
    return {"L": "A", "N": "0"}.get(category[0], "!")


_SHADOW = Table(_shade)


def split_bytes(text: str) -> List[str]:
    """The words of GPT-2: contractions, letters, numbers, signs, each with the space before it.

    They cover the text, so nothing is lost.

    >>> split_bytes("I'll go  at 10!")
    ['I', "'ll", ' go', ' ', ' at', ' 10', '!']
    """
    if text.isascii():
        return _WORDS.findall(text)
    shadow = text.translate(_SHADOW)
    return [text[match.start():match.end()] for match in _WORDS.finditer(shadow)]
