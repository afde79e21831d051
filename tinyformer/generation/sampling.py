"""One token after the other: the model scores what could come next, one is chosen and appended.

The choice works on Python floats and draws one number from the random stream, so both backends choose
alike.
"""

from __future__ import annotations

import math
from typing import Any, Collection, List, Sequence

from tinyformer.arrays.stream import stream
from tinyformer.autograd import no_grad


def check_sampling(temperature: float, top_k: int, top_p: float) -> None:
    """ValueError for settings that no sampling can have."""
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must be 0 (always the likeliest token) or above, not {temperature}")
    if top_k < 0:
        raise ValueError(f"top_k must be 0 (off) or a number of tokens, not {top_k}")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie in (0, 1], 1 being off, not {top_p}")


def choose(logits: Sequence[float], temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> int:
    """The index of the next token, given a score for each.

    The scores are divided by the temperature before the softmax; 0 is the limit, the first of the largest
    scores. `top_k` keeps the k largest scores (0, or more than there are: all). `top_p` keeps the fewest
    likeliest tokens whose probabilities reach p (Holtzman et al., 2020), after top_k. Raises ValueError.
    """
    check_sampling(temperature, top_k, top_p)
    if any(score != score for score in logits):
        raise ValueError("the scores of the next token contain nan: the model's weights are broken")
    best = max(logits)
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
    """The ids that the model continues the prompt with: at most `max_new_tokens`, ending before a stop id.

    Dropout is off meanwhile. The whole sequence is computed again for every token. Where the positions
    run out, `slide` drops the oldest token and goes on; without it that is refused at once. Raises
    ValueError for an empty prompt (begin with the beginning-of-text token), or one that leaves no room.
    """
    check_sampling(temperature, top_k, top_p)
    limit = model.positions.max_len
    if not prompt:
        raise ValueError("the prompt is empty: begin with the beginning-of-text token")
    if limit is not None and not slide and len(prompt) + max_new_tokens > limit + 1:
        raise ValueError(f"a prompt of {len(prompt)} tokens and {max_new_tokens} new ones need "
                         f"{len(prompt) + max_new_tokens - 1} positions, the model has {limit}: ask for fewer, "
                         "or slide the window (slide=True forgets the oldest tokens)")
    ids = list(prompt)
    training = model.training
    model.eval()
    try:
        for _ in range(max_new_tokens):
            window = ids[-limit:] if slide and limit is not None else ids
            with no_grad():
                logits = model([window])
            token = choose(logits.data[0, -1].tolist(), temperature, top_k, top_p)
            if token in stop_ids:
                break
            ids.append(token)
    finally:
        model.train(training)
    return ids[len(prompt):]
