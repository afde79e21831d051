"""Why a text was cut as it was.

First the text after every step of normalising, and each character that was deleted, by name. Then,
word by word, what the model tried: for WordPiece the candidates of the greedy match, longest first,
hit or miss, and for `[UNK]` where it failed; for byte-pair encoding the merges in the order they
were made; for the unigram model the best segmentations and their probabilities.

An `Explanation` prints itself; `blocks()` is what an HTML page is made of (see `report`).
"""

from __future__ import annotations

import math
import unicodedata
from typing import TYPE_CHECKING, Dict, List, NamedTuple, Optional, Set, Tuple

from .normalise import Normaliser, Span
from .report import Block, as_text, visible

if TYPE_CHECKING:
    from .bpe import BPE
    from .tokenizer import Tokenizer
    from .unigram import Unigram
    from .wordpiece import WordPiece


class Explanation(NamedTuple):
    """Blocks that explain; see `report` for what they can be."""

    content: List[Block]

    def blocks(self) -> List[Block]:
        """The explanation as blocks."""
        return self.content

    def __str__(self) -> str:
        return as_text(self.content)


def explain(tokenizer: "Tokenizer", text: str) -> Explanation:
    """Everything that happens to a text on its way to ids."""
    parts = tokenizer.parts(text, True)
    blocks: List[Block] = [("heading", "Text"), ("text", visible(text))]
    if tokenizer.normalise is not None:
        blocks += _steps(tokenizer.normalise, parts)
    seen: Set[str] = set()
    for _, part, special_id in parts:
        if special_id is not None:
            blocks += [("heading", visible(part)), ("text", f"a special token: id {special_id}")]
            continue
        for chunk in tokenizer.chunks(part):
            for word, _, _ in tokenizer.words(chunk):
                if word not in seen:
                    seen.add(word)
                    blocks += [("heading", visible(word)), *tokenizer.explain_word(word)]
    return Explanation(blocks + [("heading", "Tokens"), _tokens(tokenizer, text)])


def _tokens(tokenizer: "Tokenizer", text: str) -> Block:
    encoding = tokenizer.encode(text)
    rows = [[visible(token), str(i), visible(text[start:end]), f"{start}-{end}",
             "added" if word is None else str(word)]
            for token, i, (start, end), word in zip(encoding.tokens, encoding.ids,
                                                    encoding.offsets, encoding.word_ids)]
    return "table", ["token", "id", "source", "offsets", "word"], rows


def _steps(normalise: Normaliser, parts: List[Tuple[int, str, Optional[int]]]) -> List[Block]:
    """The text after each step of normalising, and what each step did to single characters.

    Special tokens in the text are left alone by all of them.
    """
    whole: List[Tuple[str, List[Span]]] = [(name, []) for name, _ in normalise.steps("")]
    for shift, part, special_id in parts:
        steps = normalise.steps(part)
        for (name, spans), (_, new) in zip(whole, steps if special_id is None else
                                           steps[:1] * len(steps)):
            spans += [(char, shift + start, shift + end) for char, start, end in new]
    rows, notes = [], []
    for (_, before), (name, after) in zip(whole, whole[1:]):
        rows.append([name, visible("".join(char for char, _, _ in after)),
                     "" if after != before else "nothing to do"])
        notes += _changes(name, before, after)
    blocks: List[Block] = [("heading", "Normalising"),
                           ("table", ["step", "text after it", ""], rows)]
    return blocks + [("table", ["step", "at", "character", "becomes"], notes)] * bool(notes)


def _changes(step: str, before: List[Span], after: List[Span]) -> List[List[str]]:
    """What a step made of each character that it changed (but for lower-casing in ASCII)."""
    rows = []
    old, new = _by_source(before), _by_source(after)
    for place in sorted(old):
        if old[place] != new.get(place, "") and not (step == "lower" and old[place].isascii()):
            rows.append([step, str(place), " ".join(map(named, old[place])),
                         " ".join(map(named, new.get(place, ""))) or "deleted"])
    return rows


def _by_source(spans: List[Span]) -> Dict[int, str]:
    texts: Dict[int, str] = {}
    for char, start, _ in spans:
        texts[start] = texts.get(start, "") + char
    return texts


def named(char: str) -> str:
    """A character by code point, name and category.

    >>> named("\\u200b")
    'U+200B ZERO WIDTH SPACE (Cf)'
    """
    shows = char.isprintable() and char != " " and not unicodedata.combining(char)
    category = unicodedata.category(char)
    name = unicodedata.name(char, "control" if category == "Cc" else "without a name")
    return f"{char} " * shows + f"U+{ord(char):04X} {name} ({category})"


def greedy_explained(tokenizer: "WordPiece", word: str) -> List[Block]:
    """The candidates of the greedy match on a word, in the order they were tried."""
    if len(word) > tokenizer.max_word:
        return [("text", f"[UNK]: {len(word)} characters are more than {tokenizer.max_word}")]
    rows: List[List[str]] = []
    pieces: List[Tuple[str, str]] = []
    start = 0
    while start < len(word):
        tried, end = tokenizer.candidates(word, start)
        for candidate, i in tried:
            rows.append([str(start), candidate, "miss" if i is None else "hit",
                         "" if i is None else f"id {i}"])
        if end is None:
            return [_tries(rows), *_why_unknown(tokenizer, word, start)]
        pieces.append((tried[-1][0], word[start:end]))
        start = end
    return [("pieces", pieces), _tries(rows)]


def _tries(rows: List[List[str]]) -> Block:
    """The candidates as a table; of many misses in a row, the first few."""
    shown: List[List[str]] = []
    misses = 0
    for row in rows:
        misses = misses + 1 if row[2] == "miss" else 0
        if misses <= 6:
            shown.append(row)
        elif misses == 7:
            shown.append(["", "...", "miss", "shorter ones"])
    return "table", ["from", "tried", "", ""], shown


def _why_unknown(tokenizer: "WordPiece", word: str, start: int) -> List[Block]:
    """Where the match failed, what was known up to there, and what would have worked."""
    lines = [f"[UNK]: no piece fits from position {start}, where {visible(word[start:])!r} is "
             f"left; known up to there: {visible(word[:start])!r}"]
    agreeing = {piece: _agreement(piece, "##" * (start > 0) + word[start:])
                for piece in tokenizer.tokens if piece not in tokenizer.special_tokens}
    nearest = min(agreeing, key=lambda piece: (-agreeing[piece], len(piece), piece), default="")
    if agreeing.get(nearest, 0) > 2 * (start > 0):
        lines.append(f"the nearest piece is {visible(nearest)!r}")
    other = tokenizer.any_segmentation(word)
    if other:
        lines.append(f"greedy is not optimal: {' '.join(map(visible, other))} would have worked")
    return [("text", line) for line in lines]


def _agreement(piece: str, text: str) -> int:
    """How many characters two texts have in common from the start."""
    n = 0
    while n < min(len(piece), len(text)) and piece[n] == text[n]:
        n += 1
    return n


def merges_explained(tokenizer: "BPE", word: str) -> List[Block]:
    """The pieces of a word after each merge, with the merge's rank."""
    pieces = tokenizer.spell(word)
    rows = [["", "", " ".join(map(visible, pieces))]]
    while True:
        known = [(tokenizer.ranks[pair], i) for i, pair in enumerate(zip(pieces, pieces[1:]))
                 if pair in tokenizer.ranks]
        if not known:
            break
        rank, i = min(known)
        left, right = pieces[i:i + 2]
        pieces[i:i + 2] = [left + right]
        rows.append([str(rank), f"{left} + {right}", " ".join(map(visible, pieces))])
    missing = [f"{visible(piece)} is not in the vocabulary" for piece in pieces
               if piece not in tokenizer.vocab]
    return [("table", ["rank", "merge", "pieces"], rows), *(("text", line) for line in missing)]


def lattice_explained(tokenizer: "Unigram", word: str) -> List[Block]:
    """The best segmentations of a word, with their share among all segmentations."""
    lattice = tokenizer.lattice(word)
    whole = lattice.forward()[-1]
    rows = [[" ".join(visible(tokenizer.token_of(piece, word[start:end]))
                      for start, end, piece in path),
             f"{score:.3f}", f"{math.exp(score - whole):.1%}"]
            for score, path in lattice.nbest(5)]
    return [("table", ["segmentation", "log p", "share"], rows)]
