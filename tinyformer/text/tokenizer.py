"""The frame that all tokenizers share: chunks, words, pieces, each with its place in the source.

    text    "Encode  me!"
    chunks  "Encode" "me!"               raw text, cut where nothing looks across the cut
    words   "encode" | "me" "!"          normalised; every character knows its source
    pieces  "en" "##code" | "me" | "!"   what the model makes of a word

A tokenizer says how each of the three steps goes (`chunks`, `words`, `segment`). The frame does all
the rest: special tokens in the text, offsets and word ids, a bounded memory of chunks that were cut
before, pairs, truncation, padding.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Any, Collection, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from .cache import Cache
from .encoding import (NOTHING, Encoding, Row, Template, align_labels, assembled, check_truncation,
                       detokenize, padded, special, truncated)
from .explain import Explanation, explain
from .normalise import Normaliser
from .report import Block
from .vocabulary import check_unique
from .words import Word

Piece = Tuple[int, int, int]
"""An id, and the slice [start, end) of the word that it stands for."""

Allowed = Union[bool, Collection[str]]
Pair = Tuple[str, str]

Spelling = Tuple[Tuple[int, ...], Tuple[str, ...], Tuple[Tuple[int, int], ...]]
"""What a word becomes: ids, tokens, and the slice of the word that each stands for."""

Cut = Tuple[Tuple[int, ...], Tuple[str, ...], Tuple[Tuple[int, int, int], ...], int]
"""What a chunk becomes: ids, tokens, (start, end, word) of each; and how many words it has."""


class Tokenizer:
    """A vocabulary, and the frame around the three steps that a subclass defines.

    * `tokens`: the pieces; the place of a piece is its id. `vocab` is the way back.
    * `special_tokens`: tokens that stand for themselves. Written in a text they are recognised
      (unless `allow_special` says no), and `decode` leaves them out.
    """

    normalise: Optional[Normaliser] = None  # None: the text stays as it is
    odd_to_first = False  # which text of a truncated pair keeps an odd token: see encoding._share

    def __init__(self, tokens: Iterable[str], special_tokens: Sequence[str] = ()) -> None:
        self.tokens = list(tokens)
        check_unique(self.tokens, "piece")
        self.vocab: Dict[str, int] = {token: i for i, token in enumerate(self.tokens)}
        self.special_tokens = tuple(token for token in special_tokens if token in self.vocab)
        self._any_special = _any_of(self.special_tokens)
        self._special_ids = {self.vocab[token] for token in self.special_tokens}
        self._wrapping: Optional[Template] = None
        self._ids: Cache[Tuple[int, ...]] = Cache(self.chunk_ids)
        self._cuts: Cache[Cut] = Cache(self.cut)
        self._spelled: Cache[Spelling] = Cache(self.spelled)

    # The three steps

    def chunks(self, text: str) -> List[str]:
        """Parts of the text that can be cut by themselves, in order; white space may be missing."""
        raise NotImplementedError

    def words(self, chunk: str) -> List[Word]:
        """The normalised words of a chunk, each character with its slice of the chunk."""
        raise NotImplementedError

    def segment(self, word: str) -> List[Piece]:
        """The pieces of a word."""
        raise NotImplementedError

    def word_texts(self, chunk: str) -> List[str]:
        """The words of a chunk without their places: what training counts."""
        return [word for word, _, _ in self.words(chunk)]

    # What may differ between models

    def plain(self, text: str) -> Optional[Tuple[str, List[str]]]:
        """A short way for texts whose characters keep their places: the text as the model sees it,
        and its words in order. None: there is no short way for this text."""
        return None

    def token_of(self, piece: int, text: str) -> str:
        """How the token list shows a piece that stands for `text`."""
        return self.tokens[piece]

    def template(self) -> Optional[Tuple[str, str]]:
        """The special tokens before the first text and after each text. None for none."""
        return None

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of `ids`."""
        raise NotImplementedError

    def explain_word(self, word: str) -> List[Block]:
        """What the model tried on a word, as blocks of a report."""
        raise NotImplementedError

    # The vocabulary

    @property
    def vocab_size(self) -> int:
        """The number of ids: the rows of an embedding."""
        return len(self.tokens)

    def id_of(self, token: str) -> int:
        """The id of a token that must be there. Raises ValueError if it is not."""
        if token not in self.vocab:
            raise ValueError(f"the vocabulary has no {token} among its {len(self.tokens)} pieces")
        return self.vocab[token]

    def checked_tokens(self, ids: Iterable[int], skip_special_tokens: bool) -> List[str]:
        """The tokens of `ids`. Raises ValueError for an id outside the vocabulary."""
        tokens = []
        for place, i in enumerate(ids):
            if not 0 <= i < len(self.tokens):
                raise ValueError(f"id {i} at position {place} is outside the vocabulary of "
                                 f"{len(self.tokens)} pieces")
            if not (skip_special_tokens and i in self._special_ids):
                tokens.append(self.tokens[i])
        return tokens

    # Encoding

    def encode_ids(self, text: str, *, allow_special: Allowed = True) -> List[int]:
        """The ids of a text, nothing added. The fast way: what was cut once is remembered."""
        ids: List[int] = []
        for _, part, special_id in self.parts(text, allow_special):
            if special_id is None:
                ids += chain.from_iterable(map(self._ids.__getitem__, self.chunks(part)))
            else:
                ids.append(special_id)
        return ids

    def chunk_ids(self, chunk: str) -> Tuple[int, ...]:
        """The ids of a chunk: those of `cut`, for which a model may know a shorter way."""
        return self.cut(chunk)[0]

    def spelled(self, word: str) -> Spelling:
        """Ids, tokens and slices of a word."""
        pieces = self.segment(word)
        return (tuple([i for i, _, _ in pieces]),
                tuple([self.token_of(i, word[start:end]) for i, start, end in pieces]),
                tuple([(start, end) for _, start, end in pieces]))

    def cut(self, chunk: str) -> Cut:
        """Words, then pieces of a chunk, with their slices of it."""
        ids: List[int] = []
        tokens: List[str] = []
        places: List[Tuple[int, int, int]] = []
        words = self.words(chunk)
        for number, (word, starts, ends) in enumerate(words):
            new_ids, new_tokens, slices = self._spelled[word]
            ids += new_ids
            tokens += new_tokens
            for start, end in slices:
                places.append((starts[start], ends[end - 1], number))
        return tuple(ids), tuple(tokens), tuple(places), len(words)

    def encode(self, text: str, pair: Optional[str] = None, *, add_special_tokens: bool = True,
               max_length: Optional[int] = None, truncation: str = "longest_first",
               truncation_side: str = "right", stride: int = 0, return_overflow: bool = False,
               allow_special: Allowed = True) -> Encoding:
        """Ids, tokens, offsets, word ids and masks of a text, or of a pair of texts.

        * `max_length` cuts to so many tokens, special ones included. `truncation` says of which
          text: the longer one first, "only_first" or "only_second"; `truncation_side` at which end.
        * `return_overflow` keeps what was cut off as further windows in `encoding.overflow`; each
          repeats the last `stride` tokens of the window before.
        * `allow_special=False` takes special tokens in the text as plain text, so that nobody can
          forge a boundary by writing `[SEP]`; a set of tokens allows just these.

        Raises ValueError for settings that leave no room for text.
        """
        rows = [self._row(part, allow_special) for part in (text, pair) if part is not None]
        return self._finish(rows, add_special_tokens, max_length, stride, truncation=truncation,
                            side=truncation_side, overflow=return_overflow)

    def encode_words(self, words: Sequence[str], pair: Optional[Sequence[str]] = None, *,
                     add_special_tokens: bool = True, max_length: Optional[int] = None,
                     truncation: str = "longest_first", truncation_side: str = "right",
                     stride: int = 0, return_overflow: bool = False,
                     allow_special: Allowed = True) -> Encoding:
        """`encode` for text that is already split into words.

        A word id is the place in the list (a word that vanishes leaves a gap); offsets start anew
        with every word.
        """
        rows = [self._word_row(part, allow_special) for part in (words, pair) if part is not None]
        return self._finish(rows, add_special_tokens, max_length, stride, truncation=truncation,
                            side=truncation_side, overflow=return_overflow)

    def encode_batch(self, texts: Iterable[Union[str, Pair]], *,
                     padding: Union[str, int, None] = None,
                     pad_to_multiple_of: Optional[int] = None, padding_side: str = "right",
                     **options: Any) -> List[Encoding]:
        """Encode texts, or pairs of texts; `options` as in `encode`.

        `padding` fills every encoding up: "longest" to the longest of them, a number to that many
        tokens (longer ones stay), both rounded up to `pad_to_multiple_of`.
        """
        encodings = [self.encode(text, **options) if isinstance(text, str) else
                     self.encode(text[0], text[1], **options) for text in texts]
        if padding is None:
            return encodings
        if isinstance(padding, bool) or not (padding == "longest" or isinstance(padding, int)):
            raise ValueError(f"padding must be 'longest', a number or None, not {padding!r}")
        length = padding if isinstance(padding, int) else None
        pad = self.pad_token()
        return padded(encodings, length, pad_to_multiple_of, pad, self.id_of(pad), padding_side)

    def pad_token(self) -> str:
        """The token that fills rows up."""
        return "[PAD]"

    def align_labels(self, encoding: Encoding, word_labels: Sequence[int],
                     ignore: int = -100) -> List[int]:
        """Labels of words as labels of tokens: see `encoding.align_labels`."""
        return align_labels(encoding, word_labels, ignore)

    def detokenize(self, text: str, encoding: Encoding) -> List[str]:
        """The exact slice of the source of each token: see `encoding.detokenize`."""
        return detokenize(text, encoding)

    def explain(self, text: str) -> Explanation:
        """Why a text is cut as it is: print it, or make a page of it. See `explain.explain`."""
        return explain(self, text)

    # Parts of encoding

    def parts(self, text: str, allowed: Allowed) -> List[Tuple[int, str, Optional[int]]]:
        """The text split at the special tokens in it: (start, part, id of the special token)."""
        pattern = self._special_pattern(allowed)
        parts: List[Tuple[int, str, Optional[int]]] = []
        done = 0
        for match in pattern.finditer(text) if pattern else ():
            if match.start() > done:
                parts.append((done, text[done:match.start()], None))
            parts.append((match.start(), match[0], self.vocab[match[0]]))
            done = match.end()
        if done < len(text):
            parts.append((done, text[done:] if done else text, None))
        return parts

    def _special_pattern(self, allowed: Allowed) -> Optional["re.Pattern[str]"]:
        if isinstance(allowed, bool):
            return self._any_special if allowed else None
        for token in allowed:
            if token not in self.special_tokens:
                raise ValueError(f"allow_special: {token!r} is not a special token; there are "
                                 f"{' '.join(self.special_tokens) or 'none'}")
        return _any_of(allowed)

    def _row(self, text: str, allowed: Allowed) -> Row:
        """Ids, tokens, offsets and word ids of one text."""
        row: Row = ([], [], [], [])
        n_words = 0
        for shift, part, special_id in self.parts(text, allowed):
            plain = None if special_id is not None else self.plain(part)
            if special_id is not None:
                row[0].append(special_id)
                row[1].append(part)
                row[2].append((shift, shift + len(part)))
                row[3].append(n_words)
                n_words += 1
            elif plain is not None:
                n_words = self._add_plain(row, shift, n_words, *plain)
            else:
                n_words = self._add_chunks(row, shift, n_words, part)
        return row

    def _add_plain(self, row: Row, shift: int, number: int, text: str, words: List[str]) -> int:
        """Add the pieces of a plain text to a row. Returns the number of its next word."""
        ids, tokens, offsets, numbers = row
        spelled, place = self._spelled, 0
        for word in words:
            place = text.index(word, place)  # nothing but white space is skipped
            new_ids, new_tokens, slices = spelled[word]
            ids += new_ids
            tokens += new_tokens
            at = shift + place
            for start, end in slices:
                offsets.append((at + start, at + end))
                numbers.append(number)
            number += 1
            place += len(word)
        return number

    def _add_chunks(self, row: Row, shift: int, number: int, text: str) -> int:
        """Add the pieces of any text to a row. Returns the number of its next word."""
        ids, tokens, offsets, numbers = row
        cuts, place = self._cuts, 0
        for chunk in self.chunks(text):
            place = text.index(chunk, place)  # nothing but white space is skipped
            new_ids, new_tokens, places, n_words = cuts[chunk]
            ids += new_ids
            tokens += new_tokens
            at = shift + place
            for start, end, word in places:
                offsets.append((at + start, at + end))
                numbers.append(number + word)
            number += n_words
            place += len(chunk)
        return number

    def _word_row(self, words: Sequence[str], allowed: Allowed) -> Row:
        """`_row` for a list of words."""
        if isinstance(words, str):
            raise TypeError("encode_words takes a list of words; for a text there is encode")
        whole: Row = ([], [], [], [])
        for number, word in enumerate(words):
            ids, tokens, offsets, _ = self._row(word, allowed)
            whole[0].extend(ids)
            whole[1].extend(tokens)
            whole[2].extend(offsets)
            whole[3].extend([number] * len(ids))
        return whole

    def _finish(self, rows: List[Row], add_special_tokens: bool, max_length: Optional[int],
                stride: int, **how: Any) -> Encoding:
        template = self._template() if add_special_tokens else NOTHING
        if max_length is None:
            if stride:
                raise ValueError(f"stride {stride} without max_length: nothing is cut")
            return assembled(rows, template)
        begin, end = template
        added = len(begin[0]) + len(end[0]) * len(rows)
        room = check_truncation(max_length, added, how["truncation"], stride, how["side"])
        return truncated(rows, template, room, stride=stride, odd_to_first=self.odd_to_first, **how)

    def _template(self) -> Template:
        if self._wrapping is not None:
            return self._wrapping
        names = self.template()
        if names is None:
            return NOTHING
        begin, end = names
        self._wrapping = special(begin, self.id_of(begin)), special(end, self.id_of(end))
        return self._wrapping


def _any_of(tokens: Collection[str]) -> Optional["re.Pattern[str]"]:
    """A pattern for any of the tokens, a longer one before those that begin like it."""
    longest_first = sorted(filter(None, tokens), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
