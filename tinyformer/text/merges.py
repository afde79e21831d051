"""Learning pieces from counts of words, one merge at a time.

Every word starts as single characters. Again and again, one pair of neighbouring pieces is chosen,
and joined wherever it stands; the joined piece is the next entry of the vocabulary. What "the best
pair" means is the criterion; with n(x) the number of occurrences of a piece, n(ab) of a pair, N of
all pieces:

    count        n(ab)                    byte-pair encoding (Sennrich et al. 2016); also what
    `tokenizers` calls WordPiece score        n(ab) / (n(a) n(b))      the formula of the Hugging
    Face course likelihood   L(after) / L(before)     the pair that raises the likelihood of the
    corpus most (Schuster & Nakajima 2012)

**The tie rule** is one for all: the higher score, then the higher n(ab), then the smaller text
(left piece, then right piece, by code points). No dictionary order enters, so the same corpus gives
the same pieces everywhere.

`learn_naive` says what is meant, in exact fractions, and counts the whole corpus anew for every
merge; `learn` is its fast double, which only ever looks at the words that a merge changes.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from fractions import Fraction
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

Pair = Tuple[str, str]
Spell = Callable[[str], List[str]]
Join = Callable[[str, str], str]
Key = Tuple[float, int, Pair]  # what the heap sorts by: -score, -n(ab), the texts


class Merge(NamedTuple):
    """A learnt merge: the pair, its piece, and n(ab), n(a), n(b), N and the score at the time."""

    left: str
    right: str
    piece: str
    pair_count: int
    left_count: int
    right_count: int
    total: int
    score: Union[Fraction, float]


class Criterion(NamedTuple):
    """How good a pair is, from n(ab), n(a), n(b), N, and whether a and b are the same piece.

    `exact` is a fraction, `fast` a float in the same order. `local` says that n(ab) alone decides.
    """

    exact: Callable[[int, int, int, int, bool], Fraction]
    fast: Callable[[int, int, int, int, bool], float]
    local: bool


def likelihood_ratio(n: int, left: int, right: int, total: int, same: bool) -> Fraction:
    """L(after) / L(before) of a merge, under the unigram model that fits best before and after.

    A corpus with piece counts n(s) has the likelihood prod n(s)^n(s) / N^N. A merge that happens n
    times takes n from n(a), n(b) and N, and adds a piece that occurs n times; all else cancels.
    Where a and b are the same piece, at most half of its occurrences can be a left part.
    """
    power = lambda x: x**x  # noqa: E731 (and 0 ** 0 is 1, as it should be)
    if same:
        n = min(n, left // 2)
        parts = Fraction(power(left - 2 * n), power(left))
    else:
        parts = Fraction(power(left - n) * power(right - n), power(left) * power(right))
    return parts * Fraction(power(n) * power(total), power(total - n))


def likelihood_gain(n: int, left: int, right: int, total: int, same: bool) -> float:
    """The logarithm of `likelihood_ratio`, in nats, rounded to 9 places so that equal ratios
    compare equal.

    To first order it is n log(n N / (n(a) n(b))): the score decides the sign, the count the size.
    """
    def lost(whole: int, taken: int) -> float:  # f(whole) - f(whole - taken), f(x) = x log x
        rest = whole - taken
        return taken * math.log(whole) - (rest * math.log1p(-taken / whole) if rest else 0.0)

    if same:
        n = min(n, left // 2)
        parts = lost(left, 2 * n)
    else:
        parts = lost(left, n) + lost(right, n)
    return round(n * math.log(n) - parts + lost(total, n), 9)


CRITERIA = {
    "count": Criterion(lambda n, left, right, total, same: Fraction(n),
                       lambda n, left, right, total, same: n,
                       local=True),
    "score": Criterion(lambda n, left, right, total, same: Fraction(n, left * right),
                       lambda n, left, right, total, same: n / (left * right),
                       local=False),
    "likelihood": Criterion(likelihood_ratio, likelihood_gain, local=False),
}


def criterion_named(name: str) -> Criterion:
    """The criterion of that name. Raises ValueError that lists the names."""
    if name not in CRITERIA:
        raise ValueError(f"unknown criterion {name!r}: choose one of {', '.join(CRITERIA)}")
    return CRITERIA[name]


def join_pair(pieces: List[str], left: str, right: str, joined: str) -> List[str]:
    """The pieces with every `left, right` replaced by `joined`, from the left.

    >>> join_pair(["a", "a", "a"], "a", "a", "aa")
    ['aa', 'a']
    """
    result: List[str] = []
    i, last = 0, len(pieces) - 1
    while i <= last:
        if i < last and pieces[i] == left and pieces[i + 1] == right:
            result.append(joined)
            i += 2
        else:
            result.append(pieces[i])
            i += 1
    return result


def learn_naive(words: Dict[str, int],
                spell: Spell,
                join: Join,
                criterion: str = "count",
                min_frequency: int = 1) -> Iterator[Merge]:
    """Yield the merges of a corpus, best first, until no pair occurs `min_frequency` times.

    `words` maps words to their counts, `spell` a word to its first pieces, `join` two pieces to the
    piece they make. Neighbouring pairs are counted where they overlap too: "aaa" has the pair (a,
    a) twice.
    """
    exact = criterion_named(criterion).exact
    corpus = [(spell(word), n) for word, n in words.items()]
    while True:
        singles: Dict[str, int] = defaultdict(int)
        pairs: Dict[Pair, int] = defaultdict(int)
        for pieces, n in corpus:
            for piece in pieces:
                singles[piece] += n
            for pair in zip(pieces, pieces[1:]):
                pairs[pair] += n
        total = sum(singles.values())
        scores = {(a, b): exact(n, singles[a], singles[b], total, a == b)
                  for (a, b), n in pairs.items() if n >= min_frequency}
        if not scores:
            return
        left, right = best = min(scores, key=lambda pair: (-scores[pair], -pairs[pair], pair))
        joined = join(left, right)
        yield Merge(left, right, joined, pairs[best], singles[left], singles[right], total,
                    scores[best])
        corpus = [(join_pair(pieces, left, right, joined), n) for pieces, n in corpus]


def learn(words: Dict[str, int],
          spell: Spell,
          join: Join,
          criterion: str = "count",
          min_frequency: int = 1) -> Iterator[Merge]:
    """The merges of `learn_naive`, fast: only words that a merge changes are looked at again."""
    learner = Learner(words, spell, join, criterion, min_frequency)
    while True:
        merge = learner.best()
        if merge is None:
            return
        yield merge
        learner.apply(merge)


class Learner:
    """The counts of a corpus, kept up to date merge by merge, and a heap of the pairs.

    A pair is pushed when it may have become better: it is new or more frequent, or (unless the
    count alone decides) one of its pieces has become rarer. Becoming worse is noticed when a pair
    is popped: its score is computed anew, and if it has dropped, the pair goes back with what it is
    worth now. So the pair taken is always the true best.
    """
    def __init__(self, words: Dict[str, int], spell: Spell, join: Join, criterion: str,
                 min_frequency: int) -> None:
        self.criterion, self.join, self.min_frequency = criterion_named(criterion), join, max(
            1, min_frequency)
        self.words = [spell(word) for word in words]
        self.counts = list(words.values())
        self.singles: Dict[str, int] = defaultdict(int)
        self.pairs: Dict[Pair, int] = defaultdict(int)
        self.where: Dict[Pair,
                         Set[int]] = defaultdict(set)  # the words that hold, or have held, a pair
        self.touching: Dict[str, Set[Pair]] = defaultdict(
            set)  # the pairs that have a piece (unless local)
        for i, (pieces, n) in enumerate(zip(self.words, self.counts)):
            for piece in pieces:
                self.singles[piece] += n
            for pair in zip(pieces, pieces[1:]):
                self.pairs[pair] += n
                self.where[pair].add(i)
        self.total = sum(self.singles.values())
        if not self.criterion.local:
            self._touch(self.pairs)
        self.heap = [self._key(pair) for pair, n in self.pairs.items() if n >= self.min_frequency]
        heapq.heapify(self.heap)

    def _key(self, pair: Pair) -> Key:
        (left, right), n = pair, self.pairs[pair]
        score = self.criterion.fast(n, self.singles[left], self.singles[right], self.total,
                                    left == right)
        return -score, -n, pair

    def _touch(self, pairs: Dict[Pair, int]) -> None:
        for pair in pairs:
            self.touching[pair[0]].add(pair)
            self.touching[pair[1]].add(pair)

    def best(self) -> Optional[Merge]:
        """The best pair as a merge, or None when no pair is frequent enough."""
        key = self._pop()
        return None if key is None else self._merge(key)

    def rivals(self, winner: Merge, most: int) -> Tuple[List[Merge], int]:
        """The `most` best pairs after `winner`, and how many pairs have the same score as it."""
        found: Dict[Pair, Key] = {(winner.left, winner.right): (0, 0, ("", ""))}
        tied = 0
        while True:
            key = self._pop()
            if key is None:
                break
            found.setdefault(key[2], key)
            if -key[0] < winner.score and len(found) > most + 1:
                break
        rivals = [key for key in found.values() if key[2] != ("", "")]
        for key in rivals:
            heapq.heappush(self.heap, key)
            tied += -key[0] == winner.score
        return [self._merge(key) for key in rivals[:most]], tied

    def _pop(self) -> Optional[Key]:
        while self.heap:
            key = heapq.heappop(self.heap)
            if self.pairs.get(key[2], 0) >= self.min_frequency:
                now = self._key(key[2])
                if now == key:
                    return key
                if now > key:
                    heapq.heappush(self.heap, now)
        return None

    def _merge(self, key: Key) -> Merge:
        left, right = key[2]
        return Merge(left, right, self.join(left, right), self.pairs[key[2]], self.singles[left],
                     self.singles[right], self.total, -key[0])

    def apply(self, merge: Merge) -> List[int]:
        """Join the pair wherever it stands, and bring counts and heap up to date.

        Returns the numbers of the words that changed.
        """
        changes: Dict[Pair, int] = defaultdict(int)
        changed = []
        for i in self.where.pop((merge.left, merge.right)):
            old, n = self.words[i], self.counts[i]
            new = join_pair(old, merge.left, merge.right, merge.piece)
            joined = len(old) - len(new)
            if not joined:
                continue
            changed.append(i)
            self.words[i] = new
            for pair in zip(old, old[1:]):
                changes[pair] -= n
            for pair in zip(new, new[1:]):
                changes[pair] += n
                self.where[pair].add(i)
            for piece, sign in ((merge.left, -1), (merge.right, -1), (merge.piece, 1)):
                self.singles[piece] += sign * joined * n
            self.total -= joined * n
        self._update(changes, merge)
        return changed

    def _update(self, changes: Dict[Pair, int], merge: Merge) -> None:
        for pair, change in changes.items():
            self.pairs[pair] += change
            if self.pairs[pair] == 0:
                del self.pairs[pair]
                self.where.pop(pair, None)
        better = {pair for pair, change in changes.items() if change > 0}
        if not self.criterion.local:
            self._touch({pair: 0 for pair in better})
            for piece in (merge.left, merge.right, merge.piece):
                self.touching[piece] = {pair for pair in self.touching[piece] if pair in self.pairs}
                better |= self.touching[piece]
        for pair in better:
            if self.pairs[pair] >= self.min_frequency:
                heapq.heappush(self.heap, self._key(pair))
