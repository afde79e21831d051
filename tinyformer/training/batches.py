"""What a step trains on: inputs, and the same tokens one place to the left as targets.

    tokens   the cat sat on the mat
    ids      the cat sat on the
    targets      cat sat on the mat

`TokenBatches` cuts windows out of one long stream of tokens, `RowBatches` takes whole rows (names,
sentences) and pads them. Both draw from the one random stream of the package, and both know their
position (`state_dict`), so that a run that is resumed sees the very batches it would have seen.
"""

from __future__ import annotations

import binascii
import struct
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from tinyformer.arrays import xp
from tinyformer.arrays.stream import Stream, stream as global_stream

IGNORED = -100      # a target that costs nothing: the `ignore_index` of the cross-entropy


class TokenBatches:
    """Endless batches of windows at random places of one stream of tokens.

    `next(batches)` gives `(ids, targets)`, int arrays of shape (B, T) with B = `batch_size` and
    T = `max_len`; a window takes T + 1 tokens. Raises ValueError where the stream is shorter than
    that.
    """

    def __init__(self, tokens: Sequence[int], batch_size: int, max_len: int,
                 stream: Optional[Stream] = None) -> None:
        _check_sizes(batch_size, max_len)
        self.tokens = list(tokens)
        self.batch_size, self.max_len = batch_size, max_len
        self.stream = stream or global_stream
        self.drawn = 0
        if len(self.tokens) <= max_len:
            raise ValueError(f"the text has {len(self.tokens)} tokens, but one context takes "
                             f"max_len + 1 = {max_len + 1}; take more text, or a max_len of "
                             f"{len(self.tokens) - 1}")
        self._crc = checksum(self.tokens)

    def __iter__(self) -> TokenBatches:
        return self

    def __next__(self) -> Tuple[Any, Any]:
        starts = self.stream.integers(len(self.tokens) - self.max_len, self.batch_size)
        self.drawn += 1
        return shifted([self.tokens[start:start + self.max_len + 1] for start in starts])

    def state_dict(self) -> Dict[str, Any]:
        """The position; the places drawn next follow from the random stream, saved with it."""
        return {"drawn": self.drawn, **self._data()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Go on from `state`. Raises ValueError where it belongs to other tokens or sizes."""
        _check_same_data(state, self._data())
        self.drawn = state["drawn"]

    def _data(self) -> Dict[str, Any]:
        return {"tokens": len(self.tokens), "crc32": self._crc, "batch_size": self.batch_size,
                "max_len": self.max_len}


class RowBatches:
    """Endless batches of rows of different lengths, every row once an epoch, in a new order each
    time.

    `next(batches)` gives `(ids, targets, lengths)`: int arrays of shape (B, T), where T is the
    length of the longest row of the batch less one, and a list of B numbers. Behind a shorter row
    `ids` holds `pad_id` and `targets` holds -100, which the cross-entropy ignores; `lengths` counts
    what is real. The last batch of an epoch may be short.

    Raises ValueError for a row with nothing to predict (fewer than two tokens), or with more than
    `max_len` + 1 tokens where that limit is given.
    """

    def __init__(self, rows: Sequence[Sequence[int]], batch_size: int, pad_id: int = 0,
                 max_len: Optional[int] = None, stream: Optional[Stream] = None) -> None:
        _check_sizes(batch_size, 1 if max_len is None else max_len)
        self.rows = [list(row) for row in rows]
        self.batch_size, self.pad_id = batch_size, pad_id
        self.stream = stream or global_stream
        self.epoch, self.position = 0, 0
        self.order: List[int] = []
        if not self.rows:
            raise ValueError("there are no rows to train on")
        for number, row in enumerate(self.rows):
            if len(row) < 2:
                raise ValueError(f"row {number} has {len(row)} tokens; it takes 2 to predict one "
                                 "from another. Leave it out, or give it a begin and an end token")
            if max_len is not None and len(row) > max_len + 1:
                raise ValueError(f"row {number} has {len(row)} tokens, but max_len + 1 = "
                                 f"{max_len + 1} is the most; cut it, or raise max_len")
        self._crc = checksum([len(self.rows), *(i for row in self.rows for i in (len(row), *row))])

    def __iter__(self) -> RowBatches:
        return self

    def __next__(self) -> Tuple[Any, Any, List[int]]:
        if self.position == len(self.order):
            self.order, self.position = self.stream.permutation(len(self.rows)), 0
            self.epoch += 1
        chosen = self.order[self.position:self.position + self.batch_size]
        self.position += len(chosen)
        return padded([self.rows[number] for number in chosen], self.pad_id)

    def state_dict(self) -> Dict[str, Any]:
        """The position: the epoch, its order of rows, and how many of them are used."""
        return {"epoch": self.epoch, "position": self.position, "order": self.order, **self._data()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Go on from `state`. Raises ValueError where it belongs to other rows or sizes."""
        _check_same_data(state, self._data())
        self.epoch, self.position, self.order = state["epoch"], state["position"], state["order"]

    def _data(self) -> Dict[str, Any]:
        return {"rows": len(self.rows), "crc32": self._crc, "batch_size": self.batch_size}


def windows(tokens: Sequence[int], batch_size: int, max_len: int) -> Iterator[Tuple[Any, Any]]:
    """`(ids, targets)` of every token of the stream in order, once: what a held-out loss is taken
    over.

    The windows lie end to end; the last one is as short as what is left, in a batch of its own.
    """
    _check_sizes(batch_size, max_len)
    cuts = [list(tokens[start:start + max_len + 1]) for start in range(0, len(tokens) - 1, max_len)]
    whole = [cut for cut in cuts if len(cut) == max_len + 1]
    for start in range(0, len(whole), batch_size):
        yield shifted(whole[start:start + batch_size])
    if len(whole) < len(cuts):
        yield shifted(cuts[-1:])


def shifted(rows: Sequence[List[int]]) -> Tuple[Any, Any]:
    """Rows of T + 1 tokens as `(ids, targets)`, both (B, T): what is read, and what comes next."""
    return (xp.asarray([row[:-1] for row in rows], dtype=xp.int64),
            xp.asarray([row[1:] for row in rows], dtype=xp.int64))


def padded(rows: Sequence[List[int]], pad_id: int) -> Tuple[Any, Any, List[int]]:
    """Rows of different lengths as `(ids, targets, lengths)`, filled up at the right end."""
    lengths = [len(row) - 1 for row in rows]
    width = max(lengths)
    ids = [row[:-1] + [pad_id] * (width - length) for row, length in zip(rows, lengths)]
    targets = [row[1:] + [IGNORED] * (width - length) for row, length in zip(rows, lengths)]
    return xp.asarray(ids, dtype=xp.int64), xp.asarray(targets, dtype=xp.int64), lengths


def checksum(numbers: Sequence[int]) -> int:
    """The CRC-32 of a sequence of integers: tells whether it is still the same data."""
    return binascii.crc32(struct.pack(f"<{len(numbers)}q", *numbers))


def _check_sizes(batch_size: int, max_len: int) -> None:
    if batch_size < 1 or max_len < 1:
        raise ValueError(f"batch_size and max_len must be at least 1, not {batch_size} and "
                         f"{max_len}")


def _check_same_data(state: Dict[str, Any], data: Dict[str, Any]) -> None:
    """What the saved position counts in must be what is there now."""
    for key, value in data.items():
        if state.get(key) != value:
            raise ValueError(f"the position belongs to other data: {key} was {state.get(key)}, now "
                             f"it is {value}. Resume with the same text, vocabulary and sizes, or "
                             "start a new run")
