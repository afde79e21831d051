"""One token after the other: the model scores what could come next, one is chosen and appended."""

from __future__ import annotations

from typing import Any, Callable, Collection, List, Optional, Sequence

from tinyformer.arrays.stream import Stream, stream
from tinyformer.autograd import no_grad
from tinyformer.generation.sampling import check_sampling, choose
from tinyformer.generation.scoring import as_rows, check_room, scorer

Decode = Callable[[List[int]], str]


def generate(model: Any, prompt: Any, max_new_tokens: int, *, temperature: float = 1.0,
             top_k: int = 0, top_p: float = 1.0, stop_ids: Collection[int] = (),
             stop_strings: Sequence[str] = (), decode: Optional[Decode] = None,
             slide: bool = False, seeds: Optional[Sequence[int]] = None, source: Any = None,
             use_cache: bool = True) -> Any:
    """The ids that the model continues a prompt with: at most `max_new_tokens`.

    `prompt` is a list of ids, or a list of such lists, of whatever lengths; then there is a list of
    new ids for each, the one that it would have alone. An encoder-decoder reads `source`, ids or a
    list of ids, and writes on from the prompt, which may be one for all sources.

    A stop id ends the text of its row and is not part of it. So does a stop string in the text that
    `decode` (of a tokenizer) makes of the row's new ids; the ids returned are those of the text
    before it, without a token that it begins within. What a prompt holds stops nothing.

    With temperature 0 nothing is random. Otherwise the rows draw in turn from the package's stream,
    one number each per token; with `seeds`, one per row, each has a stream of its own and writes
    what it writes alone after `manual_seed` of that seed.

    With the cache each token is computed once; `use_cache=False` computes the whole text again for
    every token, each row by itself, and is how the cache is tested. Both give the same scores to
    rounding. Where the positions run out, `slide` forgets the oldest tokens (and computes all of
    the window each time: every token stands elsewhere); without it that is refused at once, since
    the last token needs a position but the token after it does not. Dropout is off meanwhile.

    Raises ValueError for an empty prompt, one that leaves no room, and settings that make no sense.
    """
    check_sampling(temperature, top_k, top_p)
    prompts, sources, alone = as_rows(prompt, source)
    check_room(model, prompts, max_new_tokens, None if slide else max_new_tokens - 1,
               "ask for fewer, or slide the window (slide=True forgets the oldest tokens)")
    stops = Stops(stop_ids, stop_strings, decode)
    streams = _streams(seeds, len(prompts))
    new: List[List[int]] = [[] for _ in prompts]
    rows = list(range(len(prompts)))                # those that are not at their end
    with model.evaluating(), no_grad():
        scores = scorer(model, sources, model.positions.max_len if slide else None, use_cache)
        for _ in range(max_new_tokens):
            found = scores([prompts[row] + new[row] for row in rows])
            going = []
            for place, row in enumerate(rows):
                new[row].append(choose(found[place], temperature, top_k, top_p, streams[row]))
                if not stops.end(new[row]):
                    going.append(place)
            if not going:
                break
            if len(going) < len(rows):
                scores.select(going)
                rows = [rows[place] for place in going]
    return new[0] if alone else new


def _streams(seeds: Optional[Sequence[int]], rows: int) -> List[Stream]:
    """Where each row draws its random numbers."""
    if seeds is None:
        return [stream] * rows
    if len(seeds) != rows:
        raise ValueError(f"{len(seeds)} seeds were given for {rows} prompts: give one for each")
    return [Stream(seed) for seed in seeds]


class Stops:
    """What ends a text: ids, and strings in what `decode` makes of its ids.

    Raises ValueError for strings without a `decode`, and for an empty string.
    """

    def __init__(self, ids: Collection[int] = (), strings: Sequence[str] = (),
                 decode: Optional[Decode] = None) -> None:
        strings = [strings] if isinstance(strings, str) else list(strings)
        if strings and decode is None:
            raise ValueError("stop strings need decode, a function that makes text of ids: give "
                             "the tokenizer's")
        if not all(strings):
            raise ValueError("an empty stop string would end every text before it begins")
        self.ids, self.strings, self.decode = ids, strings, decode

    def end(self, new: List[int]) -> bool:
        """Whether the last of the new ids ends the text; if so, they are cut back to its end."""
        if new[-1] in self.ids:
            new.pop()
            return True
        if not self.strings or self.decode is None:
            return False
        text = self.decode(new)
        places = [text.find(string) for string in self.strings if string in text]
        if not places:
            return False
        before = text[:min(places)]
        while new and not before.startswith(self.decode(new)):
            new.pop()
        return True
