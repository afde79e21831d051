"""What encoding a text gives: ids, and beside each id what it is and where it came from.

An `Encoding` is a bundle of lists of equal length. Everything here (joining two texts with special
tokens, cutting to a length, windows over what was cut off, filling up) treats all the lists alike.
"""

from __future__ import annotations

from typing import Any, Iterable, List, Optional, Sequence, Tuple

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
              "special_tokens_mask", "attention_mask")
    __slots__ = FIELDS + ("overflow", )

    def __init__(self, ids: List[int], tokens: List[str], offsets: List[Tuple[int, int]],
                 word_ids: List[Optional[int]], sequence_ids: List[Optional[int]],
                 type_ids: List[int], special_tokens_mask: List[int],
                 attention_mask: List[int]) -> None:
        self.ids, self.tokens, self.offsets, self.word_ids = ids, tokens, offsets, word_ids
        self.sequence_ids, self.type_ids = sequence_ids, type_ids
        self.special_tokens_mask, self.attention_mask = special_tokens_mask, attention_mask
        self.overflow: List[Encoding] = []

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoding) and self.overflow == other.overflow and all(
            getattr(self, name) == getattr(other, name) for name in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        windows = f", {len(self.overflow)} more in overflow" * bool(self.overflow)
        return f"Encoding({len(self)} tokens: {' '.join(self.tokens)}{windows})"


Row = Tuple[List[int], List[str], List[Tuple[int, int]], List[Any]]
"""Ids, tokens, offsets and word ids of one text, with nothing added."""

Template = Tuple[Row, Row]
"""What stands before the first text, and after each text."""

NOTHING: Template = (([], [], [], []), ([], [], [], []))


def special(token: str, i: int) -> Row:
    """A special token as a row of one."""
    return [i], [token], [(0, 0)], [None]


def assembled(rows: Sequence[Row], template: Template) -> Encoding:
    """One or two texts as an Encoding, with what the template adds."""
    begin, (end_ids, end_tokens, end_offsets, end_words) = template
    ids, tokens, offsets, words = begin[0][:], begin[1][:], begin[2][:], begin[3][:]
    n, added = len(ids), len(end_ids)
    sequences: List[Optional[int]] = [None] * n
    types, special_mask = [0] * n, [1] * n
    for number, (new_ids, new_tokens, new_offsets, new_words) in enumerate(rows):
        n = len(new_ids)
        ids += new_ids
        ids += end_ids
        tokens += new_tokens
        tokens += end_tokens
        offsets += new_offsets
        offsets += end_offsets
        words += new_words
        words += end_words
        sequences += [number] * n + [None] * added
        types += [number] * (n + added)
        special_mask += [0] * n + [1] * added
    return Encoding(ids, tokens, offsets, words, sequences, types, special_mask, [1] * len(ids))


def truncated(rows: List[Row], template: Template, room: int, *,
              truncation: str, stride: int, side: str, overflow: bool,
              odd_to_first: bool) -> Encoding:
    """Cut the texts to `room` tokens, assemble, and keep windows over the rest if `overflow`.

    Every window repeats the last `stride` tokens of the one before. Of a pair, `overflow` has each
    combination of a window of the first and a window of the second, but for the one that is the
    result itself. Raises ValueError where the room does not allow what is asked.
    """
    lengths = [len(row[0]) for row in rows]
    windows = [_windows(length, kept, stride, side) for length, kept in
               zip(lengths, _rooms(lengths, room, truncation, odd_to_first))]
    parts = _combined(*windows) if overflow else [[every[0] for every in windows]]
    encodings = [assembled([_part(row, at) for row, at in zip(rows, combination)], template)
                 for combination in parts]
    encodings[0].overflow = encodings[1:]
    return encodings[0]


def _part(row: Row, at: slice) -> Row:
    ids, tokens, offsets, words = row
    return ids[at], tokens[at], offsets[at], words[at]


def _combined(first: List[slice], second: Optional[List[slice]] = None) -> List[List[slice]]:
    """The result's windows; then later ones of the first with all of the second, and so on."""
    if second is None:
        return [[a] for a in first]
    return ([[first[0], second[0]]] + [[a, b] for a in first[1:] for b in second] +
            [[first[0], b] for b in second[1:]])


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
    return [length - excess * (i == side) for i, length in enumerate(lengths)]


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
    """The room for the text itself. Raises ValueError if there is none, or a word is unknown."""
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
    filling = (pad_id, pad_token, (0, 0), None, None, 0, 1, 0)  # in the order of Encoding.FIELDS
    missing = max(0, length - len(encoding))
    fields = [getattr(encoding, name) for name in Encoding.FIELDS]
    result = Encoding(*([value] * missing * (side == "left") + values + [value] * missing *
                        (side == "right") for values, value in zip(fields, filling)))
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
