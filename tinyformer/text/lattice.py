"""All the ways to cut a word, as a lattice: places between characters, joined by pieces.

      h    u    g    s
    0 -- 1 -- 2 -- 3 -- 4       an arc is a piece with its score log p(piece);
           \\____ug___/         a path from 0 to the end is a segmentation,
     \\_______hug_____/         and its score is the sum over its arcs

Every question about segmentations is one sweep over the arcs, from left to right:

    best path    best[j]  = max over arcs i -> j of  best[i] + score          (Viterbi)
    n best       the same with the n best scores at each place
    all paths    log a[j] = log sum over arcs i -> j of  exp(log a[i] + score)
    sampling     from the end, an arc i -> j with probability  a[i] exp(score) / a[j]

Source: Kudo 2018, "Subword Regularization", sections 3.1 and 3.2.
"""

from __future__ import annotations

import heapq
import math
import random
from typing import List, Optional, Sequence, Tuple

INF = math.inf


Arc = Tuple[int, int, int]
"""Two places, and the piece between them."""

Path = List[Arc]


class Lattice:
    """The arcs of a word with places 0 to `length`, and the score of each piece.

    `arcs` must be sorted by their start, so that one sweep sees all arcs into a place before those
    out of it.
    """

    def __init__(self, length: int, arcs: Sequence[Arc], scores: Sequence[float]) -> None:
        self.length, self.arcs, self.scores = length, arcs, scores

    def best(self) -> Path:
        """The path with the highest score. Of equal ones, that whose last piece is the longest.

        Raises ValueError if no path leads through.
        """
        best = [0.0] + [-INF] * self.length
        back: List[Optional[Arc]] = [None] * (self.length + 1)
        scores = self.scores
        for arc in self.arcs:
            start, end, piece = arc
            score = best[start] + scores[piece]
            if score > best[end]:
                best[end], back[end] = score, arc
        path: Path = []
        place = self.length
        while place:
            last = back[place]
            if last is None:
                raise ValueError(f"no way through the lattice: nothing ends at {place}")
            path.append(last)
            place = last[0]
        return path[::-1]

    def score(self, path: Path) -> float:
        """The logarithm of the path's probability."""
        return math.fsum(self.scores[piece] for _, _, piece in path)

    def nbest(self, n: int) -> List[Tuple[float, Path]]:
        """The `n` best paths with their scores, best first."""
        at: List[List[Tuple[float, Path]]] = [[] for _ in range(self.length + 1)]
        at[0] = [(0.0, [])]
        for arc in self.arcs:
            start, end, piece = arc
            longer = [(score + self.scores[piece], path + [arc]) for score, path in at[start]]
            at[end] = heapq.nlargest(n, at[end] + longer, key=lambda entry: entry[0])
        return at[self.length]

    def forward(self, theta: float = 1.0) -> List[float]:
        """For each place, the log of the summed weights exp(theta * score) of all paths to it."""
        total = [0.0] + [-INF] * self.length
        for start, end, piece in self.arcs:
            total[end] = log_add(total[end], total[start] + theta * self.scores[piece])
        return total

    def expected(self) -> Tuple[float, List[float]]:
        """The logarithm of the word's probability, and for each arc how often it is expected.

        The expectation of an arc is the share of all paths, by weight, that pass through it.
        """
        before = self.forward()
        after = [-INF] * self.length + [0.0]
        for start, end, piece in reversed(self.arcs):
            after[start] = log_add(after[start], self.scores[piece] + after[end])
        whole = before[self.length]
        return whole, [math.exp(before[start] + self.scores[piece] + after[end] - whole)
                       for start, end, piece in self.arcs]

    def sample(self, theta: float, generator: random.Random) -> Path:
        """A path with probability proportional to exp(theta * score)."""
        into: List[List[Arc]] = [[] for _ in range(self.length + 1)]
        for arc in self.arcs:
            into[arc[1]].append(arc)
        total = self.forward(theta)
        path: Path = []
        place = self.length
        while place:
            draw, arc = generator.random(), into[place][-1]
            for arc in into[place]:
                draw -= math.exp(total[arc[0]] + theta * self.scores[arc[2]] - total[place])
                if draw < 0:
                    break
            path.append(arc)
            place = arc[0]
        return path[::-1]


def log_add(a: float, b: float) -> float:
    """log(exp(a) + exp(b)), without overflow."""
    if a < b:
        a, b = b, a
    return a if b == -INF else a + math.log1p(math.exp(b - a))
