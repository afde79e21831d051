"""From counted words to a vocabulary: special tokens, characters, merges.

The same for WordPiece and for byte-pair encoding, which differ in how a word is first spelled and
in how two pieces join.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from .corpus import Progress
from .merges import CRITERIA, Join, Learner, Merge, Spell


class Step(NamedTuple):
    """One merge, and what else could have been chosen.

    * `runners_up`: the next best pairs; `tied`: how many other pairs had the same score;
    * `changed`: examples of words that changed, as (pieces after the merge, count of the word), and
      `n_changed`: how many different words did.
    """

    merge: Merge
    runners_up: List[Merge]
    tied: int
    changed: List[Tuple[List[str], int]]
    n_changed: int


class Plan(NamedTuple):
    """How to train: see `WordPiece.train` for the meaning of each."""

    spell: Spell
    join: Join
    vocab_size: int
    special_tokens: Sequence[str]
    criterion: str = "count"
    min_frequency: int = 2
    trace: bool = False
    progress: Progress = None


def check_size(vocab_size: object) -> int:
    """Raise TypeError unless the size is a whole number."""
    if isinstance(vocab_size, bool) or not isinstance(vocab_size, int):
        raise TypeError(f"vocab_size must be a whole number, not {vocab_size!r}")
    return vocab_size


def limited(words: Dict[str, int], limit: Optional[int]) -> Dict[str, int]:
    """The words that need only the `limit` most frequent characters (ties: the smaller one)."""
    if limit is None:
        return words
    counts: Counter[str] = Counter()
    for word, n in words.items():
        for char in word:
            counts[char] += n
    kept = set(sorted(counts, key=lambda char: (-counts[char], char))[:limit])
    return {word: n for word, n in words.items() if kept.issuperset(word)}


def learn_vocabulary(words: Dict[str, int], alphabet: Sequence[str],
                     plan: Plan) -> Tuple[List[str], List[Step]]:
    """The pieces, at most `plan.vocab_size` of them, and the merges that made them.

    Raises ValueError if the special tokens and the alphabet alone are too many.
    """
    special = list(plan.special_tokens)
    tokens = special + [piece for piece in alphabet if piece not in special]
    if check_size(plan.vocab_size) < len(tokens):
        raise ValueError(f"vocab_size {plan.vocab_size} is below the {len(special)} special tokens "
                         f"and {len(tokens) - len(special)} characters of the corpus: "
                         f"{len(tokens)} at least")
    known, steps = set(tokens), []
    for step in _steps(words, known, plan):
        steps.append(step)
        merge = step.merge
        if merge.piece not in known:
            known.add(merge.piece)
            tokens.append(merge.piece)
            if plan.progress and len(tokens) % 100 == 0:
                plan.progress(f"{len(tokens):,} of {plan.vocab_size:,} pieces, last {merge.piece} "
                              f"({merge.pair_count:,} times)")
    return tokens, steps


def _steps(words: Dict[str, int], known: Set[str], plan: Plan) -> Iterator[Step]:
    """The merges, until `known`, to which the caller adds, holds `vocab_size` pieces."""
    if len(known) >= plan.vocab_size:
        return
    learner = Learner(words, plan.spell, plan.join, plan.criterion, plan.min_frequency)
    while len(known) < plan.vocab_size:
        merge = learner.best()
        if merge is None or (plan.criterion == "likelihood" and merge.score <= 0):
            return
        rivals, tied = learner.rivals(merge, 5) if plan.trace else ([], 0)
        changed = learner.apply(merge)
        shown = sorted(changed, key=lambda i: (-learner.counts[i], i))[:3] if plan.trace else []
        yield Step(merge, rivals, tied, [(learner.words[i], learner.counts[i]) for i in shown],
                   len(changed))


def exact_score(merge: Merge, criterion: str) -> Optional[Fraction]:
    """The score of a merge as a fraction. None where it would fill pages (likelihood of much
    text)."""
    if criterion == "likelihood" and merge.total > 1000:
        return None
    return CRITERIA[criterion].exact(merge.pair_count, merge.left_count, merge.right_count,
                                     merge.total, merge.left == merge.right)
