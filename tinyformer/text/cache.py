"""A bounded memory for a function of a text."""

from __future__ import annotations

from typing import Callable, Dict, TypeVar

Value = TypeVar("Value")


class Cache(Dict[str, Value]):
    """`cache[text]` is `function(text)`, remembered for up to `limit` texts; then it starts afresh.

    Texts longer than `longest` characters are never kept, so memory is bounded. A hit costs no more
    than a dictionary's, which is why the whole cache is dropped and not its oldest part.
    """

    def __init__(self, function: Callable[[str], Value], limit: int = 1 << 17,
                 longest: int = 64) -> None:
        super().__init__()
        self.function, self.limit, self.longest = function, limit, longest

    def __missing__(self, text: str) -> Value:
        value = self.function(text)
        if len(text) <= self.longest:
            if len(self) >= self.limit:
                self.clear()
            self[text] = value
        return value

    def __reduce__(self) -> tuple:  # a copy, or a pickle, starts empty
        return Cache, (self.function, self.limit, self.longest)
