"""Why a trained vocabulary is what it is: its merges in order, and the tree under each piece."""

from __future__ import annotations

from typing import Dict, Iterable, List, NamedTuple, Sequence, Tuple, Union

from .merges import Merge
from .report import Block, as_text
from .trainer import Step, exact_score


class Trace:
    """The merges of a training run, with scores, runners-up, ties and changed words.

    Printing it gives a table; `blocks()` is what a page is made of.
    """

    def __init__(self, criterion: str, steps: Sequence[Step]) -> None:
        self.criterion, self.steps = criterion, list(steps)

    def blocks(self) -> List[Block]:
        """The trace as headings and tables: see `report`."""
        header = ["", "merge", "n(ab)", "n(a)", "n(b)", "score", "tied", "words", "runners-up"]
        rows = [self._row(number, step) for number, step in enumerate(self.steps, 1)]
        return [("heading", f"{len(rows)} merges by {self.criterion}"), ("table", header, rows)]

    def _row(self, number: int, step: Step) -> List[str]:
        merge = step.merge
        rivals = ", ".join(f"{r.left}+{r.right} {self._score(r)}" for r in step.runners_up[:3])
        words = f"{step.n_changed}: " + ", ".join(" ".join(word) for word, _ in step.changed)
        return [str(number), f"{merge.left} + {merge.right} = {merge.piece}",
                str(merge.pair_count), str(merge.left_count), str(merge.right_count),
                self._score(merge), str(step.tied), words, rivals]

    def _score(self, merge: Merge) -> str:
        if self.criterion == "likelihood":
            return f"{float(merge.score):+.3f} nats"
        return str(exact_score(merge, self.criterion))

    def __str__(self) -> str:
        return as_text(self.blocks())


Tree = Union[str, Tuple[str, "Tree", "Tree"]]


class Ancestry(NamedTuple):
    """The tree of merges that made a piece: (piece, left, right), or just a first piece."""

    tree: Tree

    def blocks(self) -> List[Block]:
        """The tree as a block: see `report`."""
        return [("heading", f"How {self.piece} was made"), ("tree", self.tree)]

    @property
    def piece(self) -> str:
        """The piece at the top."""
        return self.tree if isinstance(self.tree, str) else self.tree[0]

    def __str__(self) -> str:
        return as_text(self.blocks()[1:])


def ancestry(piece: str, merges: Iterable[Tuple[str, str, str]],
             known: Dict[str, int]) -> Ancestry:
    """The tree under `piece`, from merges (left, right, piece) in the order they were learnt.

    Raises ValueError for a piece that is not `known`, and where no merges are at hand.
    """
    if piece not in known:
        raise ValueError(f"{piece!r} is not among the {len(known)} pieces")
    made: Dict[str, Tuple[str, str]] = {}
    for left, right, joined in merges:
        made.setdefault(joined, (left, right))
    if not made:
        raise ValueError("no merges at hand: a vocab.txt does not hold them, only training does")

    def tree(piece: str) -> Tree:
        return (piece, *map(tree, made[piece])) if piece in made else piece  # type: ignore

    return Ancestry(tree(piece))
