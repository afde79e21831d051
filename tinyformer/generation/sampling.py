"""The choice of the next token.

It works on Python floats and draws one number from the random stream, so both backends choose
alike.
"""

from __future__ import annotations

import math
from typing import Optional, Sequence

from tinyformer.arrays.stream import Stream, stream as global_stream


def check_sampling(temperature: float, top_k: int, top_p: float) -> None:
    """ValueError for settings that no sampling can have."""
    if not 0 <= temperature < math.inf:
        raise ValueError("temperature must be 0 (always the likeliest token) or above, not "
                         f"{temperature}")
    if top_k < 0:
        raise ValueError(f"top_k must be 0 (off) or a number of tokens, not {top_k}")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie in (0, 1], 1 being off, not {top_p}")


def check_scores(logits: Sequence[float]) -> float:
    """The largest score. Raises ValueError for scores that are nan, infinite, or all minus
    infinite."""
    best = max(logits)
    if best in (math.inf, -math.inf) or math.isnan(sum(logits)) and any(map(math.isnan, logits)):
        index = next((index for index, score in enumerate(logits) if score != score),
                     logits.index(best))
        raise ValueError(f"no next token can be chosen: the score of token {index} is "
                         f"{logits[index]}. The model's weights or its input are broken")
    return best


def choose(logits: Sequence[float], temperature: float = 1.0, top_k: int = 0,
           top_p: float = 1.0, stream: Optional[Stream] = None) -> int:
    """The index of the next token, given a score for each.

    The scores are divided by the temperature before the softmax; 0 is the limit, the first of the
    largest scores. `top_k` keeps the k largest scores (0, or more than there are: all). `top_p`
    keeps the fewest likeliest tokens whose probabilities reach p (Holtzman et al., 2020), after
    top_k. A score of minus infinity is never chosen. `stream` is where the random number comes
    from, the package's own unless given. Raises ValueError for settings that make no sense and for
    scores that are nan, infinite, or all minus infinite.
    """
    check_sampling(temperature, top_k, top_p)
    best = check_scores(logits)
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
    return order[(stream or global_stream).choice(weights)]
