"""From raw text to the characters that a vocabulary knows.

BERT's tokenizer changes a text in five steps before it looks for pieces:

    clean        controls are deleted, every kind of white space becomes one space
    space CJK    each Chinese character gets a space on both sides, so that it is a word of its own
    decompose    "é" becomes "e" and a combining accent (Unicode's NFD) ...
    strip        ... and the accent is dropped
    lower        one character at a time

Four of the five look at a single character, so each is a function from a character to the text that
takes its place (nothing, itself, or several characters). The same functions serve twice:
`Normaliser.spans` applies them one after the other to (character, start, end) triples, and every
later offset comes out right by construction; calling the `Normaliser` applies them through
translation tables, many times faster, when only the text matters.

Source: google-research/bert, `tokenization.py`; Hugging Face `tokenizers` for what the profile "hf"
does differently.
"""

from __future__ import annotations

import unicodedata
from typing import Any, Callable, Dict, List, Optional, Tuple

Span = Tuple[str, int, int]
"""A character of the normalised text, and the slice [start, end) of the source it came from."""

Step = Callable[[List[Span]], List[Span]]

PROFILES = ("hf", "google")

# Chinese characters as BERT counts them: no kana, no Hangul, no later extensions.
CJK_RANGES = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def is_whitespace(char: str) -> bool:
    """Space, tab, line feed, carriage return, and Unicode's separators (Zs, Zl, Zp).

    Vertical tab, form feed, U+001C-1F and U+0085 are not here: they are controls, which cleaning
    deletes.
    """
    return char in " \t\n\r" or unicodedata.category(char) in ("Zs", "Zl", "Zp")


def is_cjk(char: str) -> bool:
    """Whether BERT treats the character as a Chinese word."""
    code = ord(char)
    return code >= 0x3400 and any(low <= code <= high for low, high in CJK_RANGES)


def is_punctuation(char: str) -> bool:
    """ASCII that is neither letter, digit nor space (so `$` and `+` too), and the category P."""
    if char < "\x7f":
        return char > " " and not char.isalnum()
    return unicodedata.category(char).startswith("P")


def clean(char: str) -> str:
    """White space becomes a space; controls, format, private use, lone surrogates vanish."""
    if is_whitespace(char):
        return " "
    if char == "\ufffd" or unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs"):
        return ""
    return char


def clean_google(char: str) -> str:
    """`clean` as google-research/bert has it: private use and lone surrogates stay."""
    return char if unicodedata.category(char) in ("Co", "Cs") else clean(char)


def space_cjk(char: str) -> str:
    """Put a space on each side of a Chinese character."""
    return f" {char} " if is_cjk(char) else char


def strip_mark(char: str) -> str:
    """Drop non-spacing marks (category Mn); the spacing marks of Indic scripts stay."""
    return "" if unicodedata.category(char) == "Mn" else char


class Table(Dict[int, str]):
    """A function of characters as a table for `str.translate`, filled as characters come."""
    def __init__(self, *functions: Callable[[str], str]) -> None:
        super().__init__()
        self.functions = functions

    def __missing__(self, code: int) -> str:
        text = chr(code)
        for function in self.functions:
            text = "".join(map(function, text))
        self[code] = text
        return text

    def apply(self, spans: List[Span]) -> List[Span]:
        """The function on every character of a list of spans."""
        return [(new, start, end) for char, start, end in spans for new in self[ord(char)]]


_PARTS = Table(lambda char: unicodedata.normalize("NFD", char))


def decompose(spans: List[Span]) -> List[Span]:
    """Unicode's canonical decomposition (NFD), each result keeping the span of its source.

    A character becomes its parts; then each run of combining marks is sorted, stably, by combining
    class.
    """
    parts = [(part, start, end) for char, start, end in spans for part in _PARTS[ord(char)]]
    if unicodedata.is_normalized("NFD", "".join([part for part, _, _ in parts])):
        return parts
    first = 0
    while first < len(parts):
        last = first
        while last < len(parts) and unicodedata.combining(parts[last][0]):
            last += 1
        parts[first:last] = sorted(parts[first:last],
                                   key=lambda part: unicodedata.combining(part[0]))
        first = last + 1
    return parts


def lower_whole(spans: List[Span]) -> List[Span]:
    """Lower-case the text as a whole: `str.lower` makes a sigma that ends a word a final one."""
    lowered = iter("".join(char for char, _, _ in spans).lower())
    return [(next(lowered), start, end) for char, start, end in spans for _ in char.lower()]


class Normaliser:
    """The five steps, with their options.

    * `lowercase`: lower-case the text (the "uncased" models).
    * `strip_accents`: drop accents; None means "exactly when lower-casing", as BERT does.
    * `handle_chinese_chars`: make every Chinese character a word.
    * `profile`: "hf" follows Hugging Face `tokenizers`, "google" google-research/bert, which keeps
      private-use characters, lowers before it strips, and lowers the text as a whole.

    >>> Normaliser()("Crème\\tBRÛLÉE")
    'creme brulee'
    >>> Normaliser(lowercase=False).spans("a\\u200bb")
    [('a', 0, 1), ('b', 2, 3)]
    """
    def __init__(self,
                 lowercase: bool = True,
                 strip_accents: Optional[bool] = None,
                 handle_chinese_chars: bool = True,
                 profile: str = "hf") -> None:
        if profile not in PROFILES:
            raise ValueError(f"unknown profile {profile!r}: choose one of {', '.join(PROFILES)}")
        self.lowercase, self.strip_accents = lowercase, strip_accents
        self.handle_chinese_chars, self.profile = handle_chinese_chars, profile
        self.strips = lowercase if strip_accents is None else strip_accents
        google = profile == "google"
        first = [clean_google if google else clean] + [space_cjk] * handle_chinese_chars
        last = [strip_mark] * self.strips + [str.lower] * (lowercase and not google)
        self._first, self._last = Table(*first), Table(*last)
        self._lower_whole = lowercase and google
        self._steps = self._plan()

    def settings(self) -> Dict[str, Any]:
        """The arguments of the constructor."""
        return {
            "lowercase": self.lowercase, "strip_accents": self.strip_accents,
            "handle_chinese_chars": self.handle_chinese_chars, "profile": self.profile
        }

    def __call__(self, text: str) -> str:
        """The normalised text alone, by translation tables."""
        text = text.translate(self._first)
        if self._lower_whole:
            text = text.lower()
        if self.strips:
            text = unicodedata.normalize("NFD", text)
        return text.translate(self._last)

    def spans(self, text: str) -> List[Span]:
        """The normalised text as (character, start, end): where in `text` it came from."""
        return self.steps(text)[-1][1]

    def steps(self, text: str) -> List[Tuple[str, List[Span]]]:
        """Every step taken here, as its name and the spans after it. The first is the source."""
        spans = [(char, i, i + 1) for i, char in enumerate(text)]
        done = [("source", spans)]
        for name, step in self._steps:
            spans = step(spans)
            done.append((name, spans))
        return done

    def _plan(self) -> List[Tuple[str, Step]]:
        google = self.profile == "google"
        plan: List[Tuple[str, Step]] = [("clean", Table(clean_google if google else clean).apply)]
        if self.handle_chinese_chars:
            plan.append(("space CJK", Table(space_cjk).apply))
        strip: List[Tuple[str, Step]] = []
        if self.strips:
            strip = [("decompose", decompose), ("strip accents", Table(strip_mark).apply)]
        lower: List[Tuple[str, Step]] = []
        if self.lowercase:
            lower = [("lower", lower_whole if google else Table(str.lower).apply)]
        return plan + (lower + strip if google else strip + lower)
