"""The tensors of a file: which of our parameters each of theirs is made of."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Tuple

from tinyformer.arrays import xp
from tinyformer.models.pretrained.families import Family, Head
from tinyformer.nn import Module, Parameter


class Piece(NamedTuple):
    """One of their tensors: our parameters one below the other, transposed where theirs is.

    GPT-2 keeps the projections to queries, keys and values in one (D, 3 D), which is ours, three of
    (D, D), transposed.
    """

    name: str                   # with a prefix where their class has one
    parts: List[Parameter]
    transposed: bool

    @property
    def shape(self) -> Tuple[int, ...]:
        """The shape of theirs."""
        ours = (sum(part.shape[0] for part in self.parts), *self.parts[0].shape[1:])
        return ours[::-1] if self.transposed else ours

    def fill(self, array: Any) -> None:
        """Give our parameters the numbers of theirs."""
        array = xp.permute_dims(array, (1, 0)) if self.transposed else array
        begin = 0
        for part in self.parts:
            rows = array[begin:begin + part.shape[0]]
            part.data = xp.reshape(xp.reshape(rows, (-1,)), part.shape)     # row-major, of its own
            begin += part.shape[0]

    def array(self) -> Any:
        """Theirs, made of ours."""
        whole = xp.concat([part.data for part in self.parts], axis=0)
        return xp.permute_dims(whole, (1, 0)) if self.transposed else whole


def pieces(family: Family, head: Head, model: Module, pooler: bool = True) -> Dict[str, Piece]:
    """All tensors of `model` in their class, by their names without a prefix; without a pooler
    where it is to be left out."""
    found: Dict[str, Piece] = {}
    for ours, parameter in model.named_parameters():
        if not pooler and ours.startswith("encoder.pooler."):
            continue
        theirs, in_body = family.their_name(head, ours)
        full = family.prefix + theirs if in_body and head.layers else theirs
        piece = Piece(full, [], theirs.endswith(family.transposed or ("\0",)))
        found.setdefault(theirs, piece).parts.append(parameter)
    return found
