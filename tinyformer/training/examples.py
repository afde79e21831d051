"""From examples to batches: rows of different lengths side by side, the shorter ones padded.

Each function takes a list of examples and returns a batch, and so is a `collate` of
`ExampleBatches`. In all batches the targets come second; -100 there is no target.

    labelled       (row, label), (row, labels), (row, label, segments)
    pairs          (source, target)
    Masking(...)   row, (row, segments)
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Collection, Iterator, List, Optional, Sequence, Tuple

from tinyformer.arrays import xp
from tinyformer.arrays.stream import Stream, stream as global_stream
from tinyformer.training.batches import IGNORED

Row = Sequence[int]


def filled(rows: Sequence[Row], filling: int = 0) -> Any:
    """Rows of different lengths as ints (B, T), filled up at the right end."""
    width = max(map(len, rows))
    return xp.asarray([list(row) + [filling] * (width - len(row)) for row in rows], xp.int64)


def labelled(examples: Sequence[Any], pad_id: int = 0) -> Tuple[Any, ...]:
    """(row, label) -> (ids (B, T), labels, lengths); with segments (row, label, segments) those
    too.

    A label is a number, for the whole row: labels (B,), or one for each token: labels (B, T).
    Raises ValueError where a row has not as many labels or segments as tokens.
    """
    rows, labels, *segments = zip(*examples)
    if isinstance(labels[0], int):
        targets = xp.asarray(list(labels), xp.int64)
    else:
        _check_alike(rows, labels, "labels")
        targets = filled(labels, IGNORED)
    return (filled(rows, pad_id), targets, [len(row) for row in rows],
            *_segments(rows, segments))


def pairs(examples: Sequence[Tuple[Row, Row]], pad_id: int = 0) -> Tuple[Any, Any, List[int]]:
    """(source, target) -> (source (B, S), targets (B, T), source lengths).

    A target begins with its first word and ends with its end token; what the decoder reads, the
    same one place to the right behind a beginning, is made by `objectives.seq2seq`.
    """
    sources, targets = zip(*examples)
    return filled(sources, pad_id), filled(targets, IGNORED), [len(source) for source in sources]


def once(examples: Sequence[Any], batch_size: int,
         collate: Callable[[List[Any]], Any]) -> Iterator[Any]:
    """The examples in their order, once: what a held-out loss is taken over."""
    for start in range(0, len(examples), batch_size):
        yield collate(list(examples[start:start + batch_size]))


@dataclasses.dataclass(frozen=True)
class Masking:
    """Hides words for an encoder to find (Devlin et al., 2019, section 3.1), anew at every call.

    A token is chosen with probability `rate`; of the chosen ones 80 % become `mask_id`, 10 % some
    other token, 10 % stay as they are, so that the model cannot rely on a word that it sees. What
    stands in `special_ids` is never chosen and never put anywhere. A call draws one number for each
    token from `stream` (the package's unless given) and one for each token that it makes up. It
    never changes what it is given.

    Raises ValueError for a rate outside [0, 1], and where all the vocabulary is special.
    """

    vocab_size: int
    mask_id: int
    special_ids: Collection[int]
    rate: float = 0.15
    pad_id: int = 0
    stream: Optional[Stream] = None

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ValueError(f"the rate of masking must lie in [0, 1], not {self.rate}")
        if not self._words():
            raise ValueError(f"all {self.vocab_size} tokens are special: there is nothing to mask")

    def __call__(self, examples: Sequence[Any]) -> Tuple[Any, ...]:
        """Rows, or (row, segments) -> (ids (B, T), targets (B, T), lengths), and segments (B, T).

        Targets are -100 but where a token was chosen; there they are that token.
        """
        rows, *segments = zip(*[each if isinstance(each, tuple) else (each,) for each in examples])
        ids, targets = self.corrupted(rows)
        return (filled(ids, self.pad_id), filled(targets, IGNORED), [len(row) for row in rows],
                *_segments(rows, segments))

    def corrupted(self, rows: Sequence[Row]) -> Tuple[List[List[int]], List[List[int]]]:
        """New rows with hidden words, and their targets."""
        stream, words = self.stream or global_stream, self._words()
        special = {*self.special_ids, self.mask_id}
        ids, targets = [list(row) for row in rows], [[IGNORED] * len(row) for row in rows]
        for row, answers in zip(ids, targets):
            for place, (token, draw) in enumerate(zip(list(row), stream.uniforms_list(len(row)))):
                if token in special or draw >= self.rate:
                    continue
                answers[place] = token
                if draw < 0.8 * self.rate:
                    row[place] = self.mask_id
                elif draw < 0.9 * self.rate:
                    row[place] = words[stream.integers(len(words), 1)[0]]
        return ids, targets

    def _words(self) -> List[int]:
        """The tokens that may be chosen and put in."""
        special = {*self.special_ids, self.mask_id}
        return [token for token in range(self.vocab_size) if token not in special]


def _segments(rows: Sequence[Row], segments: Sequence[Sequence[Row]]) -> List[Any]:
    """Segments (B, T) where the examples have any."""
    for each in segments:
        _check_alike(rows, each, "segments")
    return [filled(each) for each in segments]


def _check_alike(rows: Sequence[Row], others: Sequence[Row], name: str) -> None:
    for number, (row, other) in enumerate(zip(rows, others)):
        if len(row) != len(other):
            raise ValueError(f"row {number} of a batch has {len(row)} tokens but {len(other)} "
                             f"{name}: there must be one for each")
