"""Beam search: several beginnings of a text are carried on side by side, the best one wins.

The likeliest next token need not lead to the likeliest text. Beam search keeps the `width`
likeliest beginnings, extends each by every token, and keeps again the `width` likeliest of all
these. A beginning extended by the end token is a finished hypothesis and leaves the beam.

Longer texts have smaller probabilities, so hypotheses of different lengths are compared by
(Wu et al., 2016, equation 14)

    score(Y) = ln p(Y | X) / ((5 + |Y|) / 6)^alpha
"""

from __future__ import annotations

import heapq
import math
from typing import Any, List, NamedTuple, Sequence, Tuple

from tinyformer.autograd import no_grad
from tinyformer.generation.sampling import check_scores
from tinyformer.generation.scoring import as_rows, check_room, scorer


class Hypothesis(NamedTuple):
    """A finished text: its ids, of which the last is the end token and no other, the logarithm of
    their probability, and that divided by the penalty of its length."""

    ids: List[int]
    log_probability: float
    score: float


def beam_search(model: Any, prompt: Any, max_new_tokens: int, *, end_id: int, width: int = 4,
                length_penalty: float = 0.6, source: Any = None, use_cache: bool = True) -> Any:
    """The best finished texts behind a prompt, the best first, at most `width`.

    `prompt`, `source` and `use_cache` are those of `generate`; for a list of prompts there is a
    list of hypotheses each. A text has at most `max_new_tokens` tokens and then the end token,
    which is all that may stand in the last place and whose probability counts like any other's.
    `length_penalty` is alpha (0.6 in Vaswani et al., 2017); 0 compares probabilities alone.

    Width 1 is the greedy choice. Width V^max_new_tokens never drops a beginning and finds the best
    of all texts. A search ends only when no beginning that is left can still beat the `width` best
    hypotheses, whatever its length. Raises ValueError for a width below 1, an end token that the
    model does not score, an empty prompt, and one that leaves no room.
    """
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        raise ValueError(f"a beam is at least 1 wide (1 is the greedy choice), not {width!r}")
    if not math.isfinite(length_penalty):
        raise ValueError(f"length_penalty must be a finite number, not {length_penalty}")
    prompts, sources, alone = as_rows(prompt, source)
    check_room(model, prompts, max_new_tokens, max_new_tokens, "ask for fewer")
    beams = [Beam(end_id, width, length_penalty, max_new_tokens) for _ in prompts]
    with model.evaluating(), no_grad():
        scores = scorer(model, sources, None, use_cache)
        for _ in range(max_new_tokens + 1):
            found = iter(scores([prompt + ids for prompt, beam in zip(prompts, beams)
                                 for ids, _ in beam.alive]))
            kept, first = [], 0
            for beam in beams:
                here = len(beam.alive)
                kept += [first + parent for parent in beam.advance([next(found)
                                                                    for _ in range(here)])]
                first += here
            if not kept:
                break
            scores.select(kept)
    best = [beam.finished for beam in beams]
    return best[0] if alone else best


class Beam:
    """The search behind one prompt: what is `alive`, as (ids, log probability), and `finished`."""

    def __init__(self, end_id: int, width: int, length_penalty: float, longest: int) -> None:
        self.end_id, self.width, self.longest = end_id, width, longest
        self.length_penalty = length_penalty
        self.alive: List[Tuple[List[int], float]] = [([], 0.0)]
        self.finished: List[Hypothesis] = []

    def advance(self, scores: Sequence[Sequence[float]]) -> List[int]:
        """Extend each beginning alive by one token, given a score of every token behind it.

        Returns, for each that is alive now, the place that its beginning had before.
        """
        candidates = [(total + log, parent, token) for parent, (row, (_, total)) in
                      enumerate(zip(scores, self.alive)) for token, log in self._likeliest(row)]
        best = sorted(candidates, key=lambda candidate: -candidate[0])[:self.width]
        former, self.alive, parents = self.alive, [], []
        for total, parent, token in best:
            ids = former[parent][0] + [token]
            if token == self.end_id:
                self.finished.append(Hypothesis(ids, total, self._score(total, len(ids))))
            else:
                self.alive.append((ids, total))
                parents.append(parent)
        self.finished = sorted(self.finished, key=lambda each: -each.score)[:self.width]
        if self._settled():
            self.alive, parents = [], []
        return parents

    def _likeliest(self, scores: Sequence[float]) -> List[Tuple[int, float]]:
        """The tokens that could be among the best here, with the logarithm of their probability."""
        if not 0 <= self.end_id < len(scores):
            raise ValueError(f"the end token {self.end_id} is outside the {len(scores)} tokens "
                             "that the model scores")
        largest = check_scores(scores)
        total = largest + math.log(math.fsum(math.exp(score - largest) for score in scores))
        tokens = [self.end_id]
        if self.alive and len(self.alive[0][0]) < self.longest:
            tokens = heapq.nlargest(self.width, range(len(scores)), key=scores.__getitem__)
            tokens = [token for token in tokens if scores[token] > -math.inf]
        return [(token, scores[token] - total) for token in tokens]

    def _score(self, log_probability: float, length: int) -> float:
        return log_probability / ((5 + length) / 6) ** self.length_penalty

    def _settled(self) -> bool:
        """Whether nothing alive can come among the best: tokens only lower a probability, and the
        penalty is mildest at the greatest length (or, below 0, at the least)."""
        if len(self.finished) < self.width:
            return False
        lengths = [len(ids) + 1 for ids, _ in self.alive[:1]] + [self.longest + 1]
        hopes = (self._score(total, length) for _, total in self.alive for length in lengths)
        return max(hopes, default=-math.inf) <= self.finished[-1].score
