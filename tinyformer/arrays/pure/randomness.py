"""The two raw draws of the random stream, made by Python's own MT19937 generator."""

from __future__ import annotations

import random
import struct

from tinyformer.arrays.pure.array import Array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List


class Generator:
    """MT19937 at a state of 625 integers: 624 words and the position among them."""

    def __init__(self, state: List[int]) -> None:
        self.random = random.Random()
        self.random.setstate((3, tuple(state), None))

    def state(self) -> List[int]:
        """The 625 integers from which the draws go on."""
        return list(self.random.getstate()[1])

    def uniform(self, n: int) -> Array:
        """`n` numbers in [0, 1) with 53 random bits each."""
        draw = self.random.random
        _check_count("uniform", n)
        return Array([draw() for _ in range(n)], (n,), "float")

    def bits16(self, n: int) -> Array:
        """`n` integers below 65,536; draws whole words of 32 bits, and nothing for none."""
        _check_count("bits16", n)
        words = (n + 1) // 2
        buffer = self.random.randbytes(4 * words) if n else b""
        return Array(list(struct.unpack(f"<{2 * words}H", buffer))[:n], (n,), "int")


def _check_count(name: str, n: int) -> None:
    if n < 0:
        raise ValueError(f"{name}: cannot draw {n} numbers")
