"""How likely is each next token? The scores behind texts that grow, computed in two ways.

`Plain` computes every text by itself and from its beginning, each time: slow and obvious, the
oracle of the other. `Cached` computes all texts at once, padded on the left, and of each only what
is new, because it remembers keys and values. Both are called with the whole texts.

    scores = scorer(model)
    scores([[5, 3], [7]])           -> two rows of V numbers
    scores([[5, 3, 4], [7, 1]])     -> the next two
"""

from __future__ import annotations

import inspect
from typing import Any, List, Optional, Sequence, Tuple, Union

from tinyformer.arrays import xp
from tinyformer.autograd import Tensor
from tinyformer.generation.stepping import Stepper, knows
from tinyformer.nn import Cache

Ids = Sequence[int]
Rows = List[List[int]]


class Plain:
    """The whole of every text, each time, each text alone.

    `sources` are what an encoder-decoder reads, one per text. Of a text longer than `limit` only
    the last `limit` tokens are looked at.
    """

    def __init__(self, model: Any, sources: Optional[Rows] = None,
                 limit: Optional[int] = None) -> None:
        self.model, self.sources, self.limit = model, sources, limit

    def __call__(self, texts: Rows) -> List[List[float]]:
        """The scores of the next token, (B, V), behind B texts."""
        found = []
        for row, text in enumerate(texts):
            window = [text if self.limit is None else text[-self.limit:]]
            logits = (self.model(window) if self.sources is None else
                      self.model([self.sources[row]], window))
            found.append(logits.data[0, -1].tolist())
        return found

    def select(self, rows: Sequence[int]) -> None:
        """Go on with the texts of these rows, in this order, some perhaps several times."""
        if self.sources is not None:
            self.sources = [self.sources[row] for row in rows]


class Cached:
    """All texts at once, of each only what was not there at the last call.

    Once a text is longer than `limit`, its tokens stand at other positions than when they were
    remembered, and everything is computed again each time.
    """

    def __init__(self, model: Any, sources: Optional[Rows] = None,
                 limit: Optional[int] = None) -> None:
        self.model, self.plain = model, Plain(model, sources, limit)
        self.cache: Optional[Cache] = Cache()
        self.stepper = Stepper(model) if knows(model) else None
        self.known: List[int] = []                  # how much of each text is in the cache
        self.memory: Optional[Tensor] = None        # (B, S, D), what the encoder made
        if sources is not None:
            self.lengths = [len(source) for source in sources]
            width = max(self.lengths)
            padded = [source + [0] * (width - len(source)) for source in sources]
            self.memory = model.encode(padded, self.lengths)

    def __call__(self, texts: Rows) -> List[List[float]]:
        """The scores of the next token, (B, V), behind B texts."""
        limit = self.plain.limit
        if self.cache is None or limit is not None and max(map(len, texts)) > limit:
            self.cache = self.memory = None
            return self.plain(texts)
        self.known = self.known or [0] * len(texts)
        ids, seen = _left([text[known:] for text, known in zip(texts, self.known)])
        self.known = [len(text) for text in texts]
        if self.stepper and len(self.cache) and seen is None is self.cache.seen \
                and len(ids[0]) == 1 and not self.stepper.is_seen():
            scores: List[List[float]] = self.stepper([row[0] for row in ids], self.cache).tolist()
            return scores
        if self.memory is None:
            logits = self.model(ids, seen=seen, cache=self.cache)
        else:
            logits = self.model.decode(ids, self.memory, self.lengths, seen=seen, cache=self.cache)
        return logits.data[:, -1].tolist()

    def select(self, rows: Sequence[int]) -> None:
        """Go on with the texts of these rows, in this order, some perhaps several times."""
        self.plain.select(rows)
        if self.cache is None:
            return
        self.cache.select(rows)
        self.known = [self.known[row] for row in rows]
        if self.memory is not None:
            self.memory = self.memory[xp.asarray(list(rows), xp.int64)]
            self.lengths = [self.lengths[row] for row in rows]


def scorer(model: Any, sources: Optional[Rows] = None, limit: Optional[int] = None,
           use_cache: bool = True) -> Union[Plain, Cached]:
    """What scores texts with `model`: with a cache where it is wanted and the model takes one."""
    takes = inspect.signature(model.forward if sources is None else model.decode).parameters
    return (Cached if use_cache and "cache" in takes else Plain)(model, sources, limit)


def _left(rows: Rows) -> Tuple[Rows, Any]:
    """Rows filled up on the left to one width, and (B, T) bools, true for what is no filling; None
    where nothing was filled."""
    width = max(map(len, rows))
    seen = [[False] * (width - len(row)) + [True] * len(row) for row in rows]
    filled = [[0] * (width - len(row)) + row for row in rows]
    return filled, None if all(map(all, seen)) else xp.asarray(seen)


def as_rows(prompt: Any, source: Any) -> Tuple[Rows, Optional[Rows], bool]:
    """Prompts and sources as lists, one of each for each text; and whether it was a single one.

    One prompt serves all sources. Raises ValueError for an empty one, and for numbers of prompts
    and sources that differ.
    """
    prompts, alone = _nested(prompt, "prompt", "begin with the beginning-of-text token")
    if source is None:
        return prompts, None, alone
    sources, single = _nested(source, "source", "give at least its end token")
    if alone:
        prompts, alone = [prompts[0] for _ in sources], single
    if len(prompts) != len(sources) or single and not alone:
        raise ValueError(f"{len(prompts)} prompts do not go together with {len(sources)} sources: "
                         "give one prompt for all, or one for each")
    return prompts, sources, alone


def _nested(ids: Any, name: str, advice: str) -> Tuple[Rows, bool]:
    """A sequence of ids, or several, as several; and whether it was one."""
    rows = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    alone = not rows or not hasattr(rows[0], "__len__")
    rows = [rows] if alone else [list(row) for row in rows]
    for number, row in enumerate(rows):
        if not row:
            which = "the " + name if alone else f"{name} {number}"
            raise ValueError(f"{which} is empty: {advice}")
    return rows, alone


def check_room(model: Any, prompts: Rows, max_new_tokens: int, looked_at: Optional[int],
               advice: str) -> None:
    """ValueError for a negative number of new tokens, or prompts that leave no room for them.

    `looked_at` is how many new tokens need a position; None where positions never run out.
    """
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must be 0 or above, not {max_new_tokens}")
    limit, longest = model.positions.max_len, max(map(len, prompts))
    if limit is not None and looked_at is not None and longest + looked_at > limit:
        raise ValueError(f"a prompt of {longest} tokens and {max_new_tokens} new ones need "
                         f"{longest + looked_at} positions, the model has {limit}: {advice}")
