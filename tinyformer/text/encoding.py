"""What encoding a text gives: ids, and beside each id what it is and where it came from.

An `Encoding` is a bundle of lists of equal length. Everything here (joining two texts with special
tokens, cutting to a length, windows over what was cut off, filling up) treats all the lists alike.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple

TRUNCATIONS = ("longest_first", "only_first", "only_second")
SIDES = ("left", "right")


class Encoding:
    """The ids of a text (or of a pair), and for each of them:

    * `tokens`: the piece as the vocabulary writes it;
    * `offsets`: the slice (start, end) of the source that it came from, in code points; (0, 0) for
      what was added;
    * `word_ids`: the number of its word in its text; None for what was added;
    * `sequence_ids`: 0 for the first text, 1 for the second, None for what was added;
    * `type_ids`: the segment of the model's input: 0, or 1 from the second text on;
    * `attention_mask`: 1, but 0 for padding;
    * `special_tokens_mask`: 1 for what was added (a special token in the text itself has 0).

    `overflow` holds the windows over what truncation cut off, as Encodings of their own.
    """

    FIELDS = ("ids", "tokens", "offsets", "word_ids", "sequence_ids", "type_ids",
              "attention_mask", "special_tokens_mask")
    __slots__ = FIELDS + ("overflow",)

    ids: List[int]
    tokens: List[str]
    offsets: List[Tuple[int, int]]
    word_ids: List[Optional[int]]
    sequence_ids: List[Optional[int]]
    type_ids: List[int]
    attention_mask: List[int]
    special_tokens_mask: List[int]

    def __init__(self, *fields: List[Any]) -> None:
        for name, values in zip(self.FIELDS, fields or [[] for _ in self.FIELDS]):
            setattr(self, name, values)
        self.overflow: List[Encoding] = []

    @classmethod
    def of_text(cls, ids: List[int], tokens: List[str], offsets: List[Tuple[int, int]],
                word_ids: List[Any], sequence: int = 0) -> Encoding:
        """The encoding of one text, nothing added yet."""
        n = len(ids)
        return cls(ids, tokens, offsets, word_ids, [sequence] * n, [sequence] * n, [1] * n, [0] * n)

    @classmethod
    def added(cls, token: str, i: int, type_id: int = 0, attention: int = 1,
              n: int = 1) -> Encoding:
        """`n` times a token that is not in the text: a special token, or padding."""
        return cls([i] * n, [token] * n, [(0, 0)] * n, [None] * n, [None] * n, [type_id] * n,
                   [attention] * n, [1] * n)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, part: slice) -> Encoding:
        return Encoding(*(getattr(self, name)[part] for name in self.FIELDS))

    def __add__(self, other: Encoding) -> Encoding:
        return Encoding(*(getattr(self, name) + getattr(other, name) for name in self.FIELDS))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoding) and self.overflow == other.overflow and all(
            getattr(self, name) == getattr(other, name) for name in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        windows = f", {len(self.overflow)} more in overflow" * bool(self.overflow)
        return f"Encoding({len(self)} tokens: {' '.join(self.tokens)}{windows})"


Wrap = Callable[[Encoding, Optional[Encoding]], Encoding]


def truncated(first: Encoding, second: Optional[Encoding], room: int, wrap: Wrap, *,
              truncation: str = "longest_first", stride: int = 0, side: str = "right",
              overflow: bool = False, odd_to_first: bool = False) -> Encoding:
    """Cut the texts to `room` tokens, wrap them, and keep windows over the rest if `overflow`.

    Every window repeats the last `stride` tokens of the one before. Of a pair, `overflow` has each
    combination of a window of the first and a window of the second, but for the one that is the
    result itself. Raises ValueError where the room does not allow what is asked.
    """
    lengths = [len(first)] + ([len(second)] if second is not None else [])
    rooms = _rooms(lengths, room, truncation, odd_to_first)
    firsts = _windows(len(first), rooms[0], stride, side)
    if second is None:
        encodings = [wrap(first[part], None) for part in firsts]
    else:
        seconds = _windows(len(second), rooms[1], stride, side)
        encodings = [wrap(first[a], second[b]) for a, b in _pairs(firsts, seconds, overflow)]
    encodings[0].overflow = encodings[1:] if overflow else []
    return encodings[0]


def _pairs(first: List[slice], second: List[slice],
           overflow: bool) -> List[Tuple[slice, slice]]:
    """The result's two windows; then later ones of the first with all of the second, and so on."""
    if not overflow:
        return [(first[0], second[0])]
    later = [(a, b) for a in first[1:] for b in second]
    return [(first[0], second[0])] + later + [(first[0], b) for b in second[1:]]


def _rooms(lengths: List[int], room: int, truncation: str, odd_to_first: bool) -> List[int]:
    """How many tokens of each text may stay."""
    excess = sum(lengths) - room
    if excess <= 0:
        return lengths
    if truncation == "longest_first":
        if len(lengths) == 1:
            return [room]
        return list(_share(lengths[0], lengths[1], room, odd_to_first))
    side = TRUNCATIONS.index(truncation) - 1
    if side >= len(lengths):
        raise ValueError("truncation 'only_second' needs a second text: there is only one")
    if lengths[side] <= excess:
        raise ValueError(
            f"truncation {truncation!r}: {sum(lengths)} tokens are {excess} more than the room of "
            f"{room}, but that text has only {lengths[side]}")
    lengths[side] -= excess
    return lengths


def _share(first: int, second: int, room: int, odd_to_first: bool) -> Tuple[int, int]:
    """Shorten the longer text, then both alike. An odd token is the second's, or the first's.

    google-research/bert takes tokens off one by one, from the second text where both are equally
    long, so the first keeps the odd one. `tokenizers` gives it to the text that is longer (the
    second, if both are equally long).
    """
    low, high = sorted((first, second))
    if 2 * low <= room:
        rooms = low, room - low
    else:
        rooms = room // 2, room - room // 2
    if odd_to_first:
        return (max(rooms), min(rooms)) if first > second or 2 * low >= room else rooms
    return rooms if first <= second else (rooms[1], rooms[0])


def _windows(length: int, room: int, stride: int, side: str) -> List[slice]:
    """Windows of at most `room` tokens that cover all `length`, each overlapping the last."""
    if length <= room:
        return [slice(0, length)]
    if room == 0:
        return [slice(0, 0)]
    if stride >= room:
        raise ValueError(f"stride {stride} must be below the {room} tokens that this text may keep")
    last = -(-(length - stride) // (room - stride))  # windows needed: ceil((length-stride) / step)
    starts = [i * (room - stride) for i in range(last)]
    windows = [(start, min(start + room, length)) for start in starts]
    if side == "left":
        windows = [(length - end, length - start) for start, end in windows]
    return [slice(start, end) for start, end in windows]


def check_truncation(max_length: int, added: int, truncation: str, stride: int,
                     side: str) -> int:
    """The room for the text itself. Raises ValueError for settings that leave none, or unknown
    ones."""
    if truncation not in TRUNCATIONS:
        raise ValueError(f"unknown truncation {truncation!r}: choose one of "
                         f"{', '.join(TRUNCATIONS)}")
    if side not in SIDES:
        raise ValueError(f"unknown truncation_side {side!r}: choose left or right")
    room = max_length - added
    if room < 1:
        raise ValueError(f"max_length {max_length} - {added} special = {room}: no room for text")
    if not 0 <= stride < room:
        raise ValueError(f"stride {stride} must be at least 0 and below the room that is left: "
                         f"max_length {max_length} - {added} special = {room}")
    return room


def padded(encodings: Sequence[Encoding], length: Optional[int], multiple: Optional[int],
           pad_token: str, pad_id: int, side: str = "right") -> List[Encoding]:
    """Fill encodings, and their overflow, up to `length` (None: the longest of them).

    The length is rounded up to a multiple of `multiple`. Longer encodings stay as they are.
    """
    if side not in SIDES:
        raise ValueError(f"unknown padding_side {side!r}: choose left or right")
    if multiple is not None and multiple < 1:
        raise ValueError(f"pad_to_multiple_of must be at least 1, not {multiple}")
    if length is None:
        length = max((len(window) for window in _with_overflow(encodings)), default=0)
    length = -(-length // (multiple or 1)) * (multiple or 1)
    return [_fill(encoding, length, pad_token, pad_id, side) for encoding in encodings]


def _fill(encoding: Encoding, length: int, pad_token: str, pad_id: int, side: str) -> Encoding:
    padding = Encoding.added(pad_token, pad_id, attention=0, n=max(0, length - len(encoding)))
    result = encoding + padding if side == "right" else padding + encoding
    result.overflow = [_fill(w, length, pad_token, pad_id, side) for w in encoding.overflow]
    return result


def _with_overflow(encodings: Iterable[Encoding]) -> Iterable[Encoding]:
    for encoding in encodings:
        yield encoding
        yield from encoding.overflow


def align_labels(encoding: Encoding, word_labels: Sequence[int], ignore: int = -100) -> List[int]:
    """One label for each token: that of its word at the word's first piece, else `ignore`.

    `word_labels` belong to the words of the first text. A loss that ignores `ignore` then counts
    every word once (Devlin et al. 2018, section 5.3). Raises ValueError if a word has no label.
    """
    labels, before = [], None
    for word, sequence in zip(encoding.word_ids, encoding.sequence_ids):
        begins, before = word is not None and (word, sequence) != before, (word, sequence)
        if word is None or sequence != 0 or not begins:
            labels.append(ignore)
        elif word >= len(word_labels):
            raise ValueError(f"word {word} has no label: there are only {len(word_labels)}")
        else:
            labels.append(word_labels[word])
    return labels


def detokenize(text: str, encoding: Encoding) -> List[str]:
    """The slice of the source that each token stands for; "" for what was added.

    Unlike decoding, this is exact: case, accents and deleted characters come back. (What lies
    between two tokens is `text[end_of_one:start_of_next]`.)
    """
    return [text[start:end] for start, end in encoding.offsets]
