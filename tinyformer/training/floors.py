"""What a loss has to beat: tables that count.

A loss of 3.05 nats per token says little until one knows what no network at all would reach. An
n-gram table predicts a token from the n - 1 before it by counting (Shannon 1948), smoothed by
adding a constant a to every count (Lidstone 1920):

    p(w | h) = (count(h w) + a) / (count(h) + a V)

`uniform` knows nothing (ln V), `unigram` how frequent each token is, `bigram` the token before,
`trigram` the two before. A transformer earns its keep only below all of them: a well-known tutorial
model of characters ends at 1.88 where a 4-gram table has 1.78.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

# For each order, the constant that is best *on the held-out text itself* is taken, so that every
# floor is the strongest of its kind: a model below it is not below it by a badly chosen constant.
SMOOTHING = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
NAMES = ("unigram", "bigram", "trigram")


class Floor(NamedTuple):
    """A table's loss on the held-out text, in nats per token, and its smoothing constant."""

    name: str
    nats: float
    smoothing: float = 0.0

    def __str__(self) -> str:
        return f"{self.name} {self.nats:.2f}"


def ngram_floors(training: Sequence[int], held_out: Sequence[int], vocab_size: int,
                 longest: int = 3) -> List[Floor]:
    """The floors `uniform, unigram, bigram, trigram` of `held_out`, counted on `training`; with a
    greater `longest` also those of a 4-gram, a 5-gram and so on.

    Both are flat sequences of ids below `vocab_size`. All orders predict the same tokens, those
    from the third (of the longest: the n-th) on, so they compare with each other. Raises ValueError
    for fewer tokens than that, or an id out of range.
    """
    longest = max(longest, len(NAMES))
    texts = {"training": training, "held-out": held_out}
    for name, ids in texts.items():
        if len(ids) < longest:
            raise ValueError(f"the {name} text has {len(ids)} tokens, a "
                             f"{_name(longest)} needs {longest}; take more")
        if min(ids) < 0 or max(ids) >= vocab_size:
            raise ValueError(f"the {name} text has ids from {min(ids)} to {max(ids)}, the "
                             f"vocabulary only 0 to {vocab_size - 1}")
    floors = [Floor("uniform", math.log(vocab_size))]
    for order in range(1, longest + 1):
        pairs = _counts(training, held_out[longest - order:], order)
        losses = [(_loss(pairs, a, vocab_size), a) for a in SMOOTHING]
        floors.append(Floor(_name(order), *min(losses)))
    return floors


def _name(order: int) -> str:
    return NAMES[order - 1] if order <= len(NAMES) else f"{order}-gram"


def lowest(floors: Sequence[Floor]) -> Floor:
    """The floor to beat."""
    return min(floors, key=lambda floor: floor.nats)


def _counts(training: Sequence[int], held_out: Sequence[int],
            order: int) -> Dict[Tuple[int, int], int]:
    """For every n-gram of the held-out text: how often training has it, and its history.

    The result counts the pairs (count(h w), count(h)): many tokens share one, and each pair is
    priced only once however many constants are tried.
    """
    grams = Counter(_ngrams(training, order))
    histories: Counter[Any] = Counter()
    for gram, count in grams.items():
        histories[gram[:-1]] += count
    pairs: Counter[Tuple[int, int]] = Counter()
    for gram, count in Counter(_ngrams(held_out, order)).items():
        pairs[grams[gram], histories[gram[:-1]]] += count
    return pairs


def _ngrams(ids: Sequence[int], order: int) -> Any:
    return zip(*(ids[start:] for start in range(order)))


def _loss(pairs: Dict[Tuple[int, int], int], a: float, vocab_size: int) -> float:
    """Mean nats per token under the smoothing constant `a`."""
    total = math.fsum(count * math.log((history + a * vocab_size) / (gram + a))
                      for (gram, history), count in pairs.items())
    return total / sum(pairs.values())
