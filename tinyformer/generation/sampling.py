"""One token after the other: the model scores what could come next, one is chosen and appended.

The choice works on Python floats and draws one number from the random stream, so both backends
choose alike.
"""

from __future__ import annotations

import math
from typing import Any, Collection, List, Sequence

from tinyformer.arrays.stream import stream
from tinyformer.autograd import no_grad


def check_sampling(temperature: float, top_k: int, top_p: float) -> None:
    """ValueError for settings that no sampling can have."""
    if not 0 <= temperature < math.inf:
        raise ValueError("temperature must be 0 (always the likeliest token) or above, not "
                         f"{temperature}")
    if top_k < 0:
        raise ValueError(f"top_k must be 0 (off) or a number of tokens, not {top_k}")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie in (0, 1], 1 being off, not {top_p}")


def choose(logits: Sequence[float], temperature: float = 1.0, top_k: int = 0,
           top_p: float = 1.0) -> int:
    """The index of the next token, given a score for each.

    The scores are divided by the temperature before the softmax; 0 is the limit, the first of the
    largest scores. `top_k` keeps the k largest scores (0, or more than there are: all). `top_p`
    keeps the fewest likeliest tokens whose probabilities reach p (Holtzman et al., 2020), after
    top_k. A score of minus infinity is never chosen. Raises ValueError for settings that make no
    sense and for scores that are nan, infinite, or all minus infinite.
    """
    check_sampling(temperature, top_k, top_p)
    best = max(logits)
    if best in (math.inf, -math.inf) or any(score != score for score in logits):
        index = next((index for index, score in enumerate(logits) if score != score),
                     logits.index(best))
        raise ValueError(f"no next token can be chosen: the score of token {index} is "
                         f"{logits[index]}. The model's weights or its input are broken")
    if temperature == 0:
        return logits.index(best)
    order: Sequence[int] = range(len(logits))
    if 0 < top_k < len(logits) or top_p < 1:
        order = sorted(order, key=lambda index: -logits[index])[:top_k or None]
    weights = [math.exp((logits[index] - best) / temperature) for index in order]
    if top_p < 1:
        goal, reached, kept = top_p * math.fsum(weights), 0.0, 0
        while kept < len(weights) and reached < goal:
            reached += weights[kept]
            kept += 1
        weights = weights[:max(kept, 1)]
    return order[stream.choice(weights)]


def generate(model: Any, prompt: Sequence[int], max_new_tokens: int, *, temperature: float = 1.0,
             top_k: int = 0, top_p: float = 1.0, stop_ids: Collection[int] = (),
             slide: bool = False) -> List[int]:
    """The ids that the model continues the prompt with: at most `max_new_tokens`.

    A stop id ends the text and is not part of it. Dropout is off meanwhile. The whole sequence is
    computed again for every token. Where the positions run out, `slide` forgets the oldest tokens;
    without it that is refused at once, since the last token needs a position but the token after
    it does not. Raises ValueError for an empty prompt, or one that leaves no room.
    """
    check_sampling(temperature, top_k, top_p)
    ids = list(prompt)
    limit = model.positions.max_len
    if not ids:
        raise ValueError("the prompt is empty: begin with the beginning-of-text token")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must be 0 or above, not {max_new_tokens}")
    needed = len(ids) + max_new_tokens - 1          # what is appended last is never looked at
    if limit is not None and not slide and needed > limit:
        raise ValueError(f"a prompt of {len(ids)} tokens and {max_new_tokens} new ones need "
                         f"{needed} positions, the model has {limit}: ask for fewer, or slide the "
                         "window (slide=True forgets the oldest tokens)")
    new: List[int] = []
    with model.evaluating(), no_grad():
        while len(new) < max_new_tokens:
            window = ids + new
            logits = model([window[-limit:] if limit is not None else window])
            token = choose(logits.data[0, -1].tolist(), temperature, top_k, top_p)
            if token in stop_ids:
                break
            new.append(token)
    return new
