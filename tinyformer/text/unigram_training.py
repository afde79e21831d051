"""Learning the pieces of a unigram model: start with far too many, keep those that matter.

1. Seed: every character, and the substrings of words with the highest count times length.
2. EM: the expected number of times each piece is used, over all segmentations of all words (E);
   probabilities in proportion to it (M). The likelihood of the corpus never falls.
3. Prune: take away the quarter of the pieces that the corpus would miss least; characters stay.
4. Repeat 2 and 3 until `size` pieces are left.

Source: Kudo 2018, section 3.2. (SentencePiece adds a prior that favours few pieces; not here.)
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Dict, List, Sequence, Set, Tuple

from .corpus import Progress
from .lattice import Arc, Lattice

SEEDS_PER_PIECE = 5  # how much too many
KEPT = 0.75  # of the pieces, at each pruning
EM_STEPS = 2  # between prunings

LONGEST_WORD = 100  # longer words are left out: they would teach little and take long


class Model:
    """Pieces and their log probabilities, and the corpus as lattices over them.

    The lattices keep while probabilities change; pruning makes a new model.
    """

    def __init__(self, words: Dict[str, int], pieces: Sequence[str],
                 scores: Sequence[float]) -> None:
        self.words, self.pieces, self.scores = words, list(pieces), list(scores)
        self.ids = {piece: i for i, piece in enumerate(self.pieces)}
        self.longest = max(map(len, self.pieces))
        self.corpus = [(n, len(word), self.arcs(word)) for word, n in words.items()]

    def arcs(self, word: str) -> List[Arc]:
        """The arcs of a word's lattice."""
        arcs, get = [], self.ids.get
        for start in range(len(word)):
            for end in range(start + 1, min(len(word), start + self.longest) + 1):
                piece = get(word[start:end])
                if piece is not None:
                    arcs.append((start, end, piece))
        return arcs

    def em_step(self) -> float:
        """One step of EM. Returns the log likelihood of the corpus before it.

        This is `Lattice.expected` for all words, with plain probabilities for speed: the weight
        `a` of all ways to a place, the weight `b` of all ways from it, each word `n` times.
        """
        weights = list(map(math.exp, self.scores))
        expected = [0.0] * len(weights)
        likelihoods = []
        for n, length, arcs in self.corpus:
            a = [1.0] + [0.0] * length
            for start, end, piece in arcs:
                a[end] += a[start] * weights[piece]
            if a[length] < 1e-290:
                continue  # so unlikely that floats cannot hold its share
            likelihoods.append(n * math.log(a[length]))
            b = [0.0] * length + [n / a[length]]
            for start, end, piece in reversed(arcs):
                weight = weights[piece] * b[end]
                b[start] += weight
                expected[piece] += a[start] * weight
        self.scores = log_shares(self.pieces, expected)
        return math.fsum(likelihoods)

    def pruned(self, size: int) -> Model:
        """The model of the characters, and of the other pieces whose loss would cost most.

        To first order, losing a piece costs the times it is used (in best segmentations) times
        the nats by which its own best segmentation is less likely. `size` pieces are kept in all.
        """
        used = [0] * len(self.pieces)
        for n, length, arcs in self.corpus:
            for _, _, piece in Lattice(length, arcs, self.scores).best():
                used[piece] += n
        costs = [math.inf if len(piece) == 1 else used[i] and round(used[i] * self.advantage(i), 6)
                 for i, piece in enumerate(self.pieces)]
        ranked = sorted(self.ids.values(), key=lambda i: (-costs[i], self.pieces[i]))
        kept = sorted(ranked[:size])
        pieces = [self.pieces[i] for i in kept]
        return Model(self.words, pieces,
                     log_shares(pieces, [math.exp(self.scores[i]) for i in kept]))

    def advantage(self, i: int) -> float:
        """The nats by which a piece is likelier than its best segmentation without itself."""
        piece = self.pieces[i]
        arcs = [arc for arc in self.arcs(piece) if arc[2] != i]
        others = Lattice(len(piece), arcs, self.scores)
        return self.scores[i] - others.score(others.best())


def learn_pieces(words: Dict[str, int], size: int, max_piece: int = 16, min_frequency: int = 2,
                 progress: Progress = None) -> List[Tuple[str, float]]:
    """`size` pieces with log probabilities, likeliest first (ties: the smaller text).

    Raises ValueError if there are more characters than that.
    """
    characters = {char for word in words for char in word}
    if size < len(characters):
        raise ValueError(f"{size} pieces are below the {len(characters)} characters of the corpus")
    words = {word: n for word, n in words.items() if len(word) <= LONGEST_WORD}
    model = seeded(words, characters, size * SEEDS_PER_PIECE, max_piece, min_frequency)
    while True:
        for _ in range(EM_STEPS):
            likelihood = model.em_step()
        if progress:
            progress(f"{len(model.pieces):,} of {size:,} pieces, log likelihood {likelihood:,.0f}")
        if len(model.pieces) <= size:
            break
        model = model.pruned(max(size, int(len(model.pieces) * KEPT)))
    learnt = ((piece, round(score, 9)) for piece, score in zip(model.pieces, model.scores))
    return sorted(learnt, key=lambda entry: (-entry[1], entry[0]))


def seeded(words: Dict[str, int], characters: Set[str], size: int, max_piece: int,
           min_frequency: int) -> Model:
    """The characters, and up to `size` pieces in all by count times length."""
    counts: Counter[str] = Counter(dict.fromkeys(characters, 0))
    for word, n in words.items():
        for start in range(len(word)):
            for end in range(start + 1, min(len(word), start + max_piece) + 1):
                counts[word[start:end]] += n
    weights = {piece: n * len(piece) for piece, n in counts.items()
               if len(piece) == 1 or n >= min_frequency}
    ranked = sorted(weights, key=lambda piece: (len(piece) > 1, -weights[piece], piece))[:size]
    return Model(words, ranked, log_shares(ranked, [weights[piece] for piece in ranked]))


def log_shares(pieces: Sequence[str], counts: Sequence[float]) -> List[float]:
    """Counts as log probabilities. No piece falls to nothing: pruning decides what goes."""
    counts = [max(n, 1e-9) for n in counts]
    total = math.log(math.fsum(counts))  # fsum: the same digits on every Python
    return [math.log(n) - total for n in counts]
