"""What attention remembers of the tokens that it has seen, so that only new ones are computed.

A key and a value depend on their own token and on those before it. Once computed they never change,
and a model that writes one token after the other needs them again at every step.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from tinyformer.arrays import xp
from tinyformer.arrays.backend import fusible
from tinyformer.autograd import Tensor
from tinyformer.autograd.tensor import wrap


@fusible
def laid_behind(old: Any, new: Any, room: Any) -> Tuple[Any, Any]:
    """A room, and what is remembered (B, H, S, K) with what is new (B, H, T, K) behind it.

    A backend that can write into arrays takes more memory than it needs, the room, and finds it
    here again at the next call. Here there is none.
    """
    return None, xp.concat([old, new], axis=2)


class Cache:
    """Keys and values (B, H, S, K) of every attention, and the positions (B, S) of the tokens.

    `seen` is the mask of the tokens that may be looked at, (B, S), or None where none is padding.
    Gradients do not pass a cache but through `once`: it is for generation, under `no_grad`.
    """

    def __init__(self) -> None:
        self.pairs: Dict[Any, Tuple[Any, Any]] = {}    # arrays, or the tensors of `once`
        self.rooms: Dict[Any, Tuple[Any, Any]] = {}    # memory that the pairs can grow into
        self.positions: Any = None
        self.seen: Any = None

    def __len__(self) -> int:
        """The number of positions that are remembered."""
        return 0 if self.positions is None else int(self.positions.shape[1])

    def held(self, owner: Any) -> int:
        """The number of keys that are remembered of an attention."""
        return self.pairs[owner][0].shape[2] if owner in self.pairs else 0

    def extend(self, owner: Any, key: Tensor, value: Tensor) -> Tuple[Tensor, Tensor]:
        """The remembered keys and values of an attention with the new ones behind them."""
        keys, values = self.grown(owner, key.data, value.data)
        return wrap(keys), wrap(values)

    def grown(self, owner: Any, key: Any, value: Any) -> Tuple[Any, Any]:
        """The same of arrays."""
        if owner in self.pairs:
            (room, key), (other, value) = (laid_behind(*each) for each in zip(
                self.pairs[owner], (key, value), self.rooms.get(owner, (None, None))))
            self.rooms[owner] = room, other
        self.pairs[owner] = key, value
        return key, value

    def once(self, owner: Any, make: Callable[[], Tuple[Tensor, Tensor]]) -> Tuple[Tensor, Tensor]:
        """Keys and values that are the same at every step (of an encoder's memory)."""
        if owner not in self.pairs:
            self.pairs[owner] = make()
        return self.pairs[owner]

    def follow(self, positions: Any, seen: Optional[Any]) -> Tuple[Any, Any]:
        """Add new tokens' positions (B, T) and which of them are no padding (B, T) or None.

        Returns those of all tokens, (B, S).
        """
        if self.positions is not None:
            former = self.seen
            if former is not None or seen is not None:
                former, seen = (xp.asarray(each) if each is not None else
                                xp.ones(tuple(like.shape), xp.bool)
                                for each, like in ((former, self.positions), (seen, positions)))
                seen = xp.concat([former, seen], axis=1)
            positions = xp.concat([self.positions, positions], axis=1)
        self.positions, self.seen = positions, seen
        return positions, seen

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these rows of the batch, in this order, some perhaps several times."""
        chosen = xp.asarray(list(rows), xp.int64)
        self.rooms.clear()
        self.pairs = {owner: (key[chosen], value[chosen])
                      for owner, (key, value) in self.pairs.items()}
        if self.positions is not None and self.positions.shape[0] > 1:
            self.positions = xp.take(self.positions, chosen, axis=0)
        if self.seen is not None:
            self.seen = xp.take(self.seen, chosen, axis=0)
