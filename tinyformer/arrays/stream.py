"""One stream of random numbers for everything: weights, dropout masks, batches, samples.

Python's `random.Random` and NumPy's `MT19937` are the same generator: from one state they make the
same doubles and the same bytes. So the same seed gives the same numbers in both backends, and a run
in one is the test of the other. The raw draws `uniform` and `bits16` agree bit for bit; what is
derived from them by logarithms and cosines agrees to rounding.
"""

from __future__ import annotations

import math
import random

from tinyformer.arrays.backend import xp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Sequence, Tuple


class Stream:
    """A stream of random numbers that begins at `seed` and knows its state."""

    def __init__(self, seed: int = 0) -> None:
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Begin again at `seed`, an integer."""
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise TypeError(f"a seed is an integer, not {seed!r}")
        if seed < 0:
            raise ValueError(f"a seed is 0 or above, not {seed}: the sign would be ignored, and "
                             f"{seed} would be {-seed}")
        self._state = list(random.Random(seed).getstate()[1])
        self._generator: Any = None

    def _raw(self) -> Any:
        """The generator of the backend in use, at the state where the last one stopped."""
        if type(self._generator) is not xp.Generator:
            self._generator = xp.Generator(self.state())
        return self._generator

    def state(self) -> List[int]:
        """The 625 integers from which the stream goes on: a list that JSON can hold."""
        return list(self._generator.state() if self._generator else self._state)

    def restore(self, state: Sequence[int]) -> None:
        """Go on from a state that `state()` gave. Raises ValueError for anything else."""
        words = list(state)
        valid = all(type(word) is int and 0 <= word < 2 ** 32 for word in words)
        if len(words) != 625 or not valid or words[624] > 624:
            raise ValueError(f"a random state is 625 integers below 2**32, the last at most 624; "
                             f"this is not one (length {len(words)})")
        self._state, self._generator = words, None

    def uniform(self, n: int) -> Any:
        """`n` draws in [0, 1) as an array of float64."""
        return self._raw().uniform(n)

    def bits16(self, n: int) -> Any:
        """`n` draws below 65,536 as an array of ints."""
        return self._raw().bits16(n)

    def uniforms_list(self, n: int) -> List[float]:
        """`n` draws in [0, 1) as Python floats."""
        return list(self.uniform(n).tolist())

    def normal(self, shape: Tuple[int, ...]) -> Any:
        """Draws from N(0, 1) in `shape`, float64, by the method of Box and Muller (1958).

        Two uniform draws make a radius sqrt(-2 ln(1 - u)) and an angle 2 pi v; the cosine is used.
        """
        count = math.prod(shape)
        u, v = self.uniform(count), self.uniform(count)
        radius = xp.sqrt(-2.0 * xp.log(1.0 - u))
        return xp.reshape(radius * xp.cos(v * (2.0 * math.pi)), shape)

    def integers(self, high: int, n: int) -> List[int]:
        """`n` draws from 0, 1, ..., high - 1."""
        if high < 1:
            raise ValueError(f"integers(high={high}): there is no integer in [0, {high})")
        return [int(number * high) for number in self.uniforms_list(n)]

    def permutation(self, n: int) -> List[int]:
        """0, 1, ..., n - 1 in random order (Fisher and Yates)."""
        order = list(range(n))
        for last, number in zip(range(n - 1, 0, -1), self.uniforms_list(max(n - 1, 0))):
            other = int(number * (last + 1))
            order[last], order[other] = order[other], order[last]
        return order

    def choice(self, weights: Sequence[float]) -> int:
        """An index, drawn with probability proportional to its weight.

        Raises ValueError for weights that are negative, not finite, or sum to 0.
        """
        total = math.fsum(weights)
        if not 0 < total < math.inf or min(weights) < 0:
            raise ValueError(f"choice: weights must be finite, at least 0 and sum to more than 0; "
                             f"their sum is {total}")
        left = self.uniforms_list(1)[0] * total
        for index, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return index
        return max(index for index, weight in enumerate(weights) if weight > 0)


stream = Stream()


def manual_seed(seed: int) -> None:
    """Begin the stream, which every random draw of the package comes from, again at `seed`."""
    stream.seed(seed)
