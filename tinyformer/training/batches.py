"""What a step trains on: inputs, and the same tokens one place to the left as targets.

    tokens   the cat sat on the mat
    ids      the cat sat on the
    targets      cat sat on the mat

`TokenBatches` cuts windows out of one long stream of tokens, `RowBatches` takes whole rows (names,
sentences) and pads them, `ExampleBatches` takes examples of any kind (see `examples`). All draw
from the one random stream of the package, and all know their position (`state_dict`), so that a run
that is resumed sees the very batches it would have seen.
"""

from __future__ import annotations

import binascii
import struct
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

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


class ExampleBatches:
    """Endless batches of examples, every example once an epoch, in a new order each time.

    `next(batches)` gives what `collate` makes of a list of `batch_size` examples; the last batch of
    an epoch may be short. An example is a row of ids, or a tuple of rows and numbers.

    Rows of one batch are padded to the longest. With `bucket` k, of every k batches' examples in
    their random order those of similar length are put together, and then the batches are shuffled:
    less padding, and still another grouping every epoch. 0 leaves the order alone.

    Raises ValueError where there are no examples.
    """

    def __init__(self, examples: Sequence[Any], batch_size: int,
                 collate: Callable[[List[Any]], Any], *, bucket: int = 0,
                 stream: Optional[Stream] = None) -> None:
        _check_sizes(batch_size, 1)
        self.examples, self.batch_size, self.collate = list(examples), batch_size, collate
        self.bucket, self.stream = bucket, stream or global_stream
        self.epoch, self.position = 0, 0
        self.order: List[int] = []
        if not self.examples:
            raise ValueError("there are no rows to train on")
        if bucket < 0:
            raise ValueError(f"bucket must be 0 (off) or a number of batches, not {bucket}")
        self._crc = checksum(_numbers(self.examples))

    def __iter__(self) -> ExampleBatches:
        return self

    def __next__(self) -> Any:
        if self.position == len(self.order):
            self.order, self.position = self.stream.permutation(len(self.examples)), 0
            if self.bucket:
                self.order = self._bucketed(self.order)
            self.epoch += 1
        chosen = self.order[self.position:self.position + self.batch_size]
        self.position += len(chosen)
        return self.collate([self.examples[number] for number in chosen])

    def _bucketed(self, order: List[int]) -> List[int]:
        """The order in which neighbours are of similar length; a short batch stays the last."""
        pool = self.bucket * self.batch_size
        sorted_ = [number for start in range(0, len(order), pool)
                   for number in sorted(order[start:start + pool],
                                        key=lambda number: sizes(self.examples[number]))]
        whole, rest = divmod(len(order), self.batch_size)
        starts = [self.batch_size * number for number in self.stream.permutation(whole)]
        last = sorted_[len(order) - rest:]
        return [n for start in starts for n in sorted_[start:start + self.batch_size]] + last

    def state_dict(self) -> Dict[str, Any]:
        """The position: the epoch, its order of rows, and how many of them are used."""
        return {"epoch": self.epoch, "position": self.position, "order": self.order, **self._data()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Go on from `state`. Raises ValueError where it belongs to other rows or sizes."""
        _check_same_data(state, self._data())
        self.epoch, self.position, self.order = state["epoch"], state["position"], state["order"]

    def _data(self) -> Dict[str, Any]:
        return {"rows": len(self.examples), "crc32": self._crc, "batch_size": self.batch_size}


class RowBatches(ExampleBatches):
    """Batches of rows of different lengths, each token to be predicted from those before it.

    `next(batches)` gives `(ids, targets, lengths)`: int arrays of shape (B, T), where T is the
    length of the longest row of the batch less one, and a list of B numbers. Behind a shorter row
    `ids` holds `pad_id` and `targets` holds -100, which the cross-entropy ignores; `lengths` counts
    what is real.

    Raises ValueError for a row with nothing to predict (fewer than two tokens), or with more than
    `max_len` + 1 tokens where that limit is given.
    """

    def __init__(self, rows: Sequence[Sequence[int]], batch_size: int, pad_id: int = 0,
                 max_len: Optional[int] = None, stream: Optional[Stream] = None,
                 bucket: int = 0) -> None:
        _check_sizes(batch_size, 1 if max_len is None else max_len)
        for number, row in enumerate(rows):
            if len(row) < 2:
                raise ValueError(f"row {number} has {len(row)} tokens; it takes 2 to predict one "
                                 "from another. Leave it out, or give it a begin and an end token")
            if max_len is not None and len(row) > max_len + 1:
                raise ValueError(f"row {number} has {len(row)} tokens, but max_len + 1 = "
                                 f"{max_len + 1} is the most; cut it, or raise max_len")
        super().__init__([list(row) for row in rows], batch_size,
                         lambda chosen: padded(chosen, pad_id), bucket=bucket, stream=stream)


def sizes(example: Any) -> Tuple[int, ...]:
    """The lengths of the rows of an example, by which examples are alike.

    >>> sizes([5, 3, 8]), sizes(([5, 3, 8], 1)), sizes(([5, 3], [1, 7, 7]))
    ((3,), (3,), (2, 3))
    """
    if not isinstance(example, tuple):
        return (len(example),)
    return tuple(len(part) for part in example if not isinstance(part, int))


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


def _numbers(data: Any) -> List[int]:
    """All integers of nested sequences, each sequence with its length before it."""
    if isinstance(data, int):
        return [data]
    return [len(data), *(number for part in data for number in _numbers(part))]


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
