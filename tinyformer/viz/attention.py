"""Where attention looks: its weights as pictures.

A weight says how much of a value entered a mixture. It is no explanation of an output: two very
different rows of weights mix equal values to the same result.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

from tinyformer.autograd import no_grad
from tinyformer.nn import Module, recorded_attention
from tinyformer.pictures import Svg, beside, table


def attention_weights(model: Module, call: Callable[[], Any]) -> Dict[str, List[Any]]:
    """What every attention of `model` weighs during `call()`, dropout off: by the name of the
    layer, a nested list (B, H, T, S)."""
    with model.evaluating(), no_grad(), recorded_attention(model) as records:
        call()
    return {name: weights[-1].tolist() for name, weights in records.items() if weights}


def attention_maps(model: Module, call: Callable[[], Any], *, queries: Sequence[str] = (),
                   keys: Sequence[str] = (), layer: Optional[str] = None, row: int = 0,
                   title: str = "attention") -> Svg:
    """Every head of every attention of `model` (or of the `layer` named) during `call()`, row
    `row` of the batch, side by side: a row per query, a column per key.

    Raises ValueError where no layer of that name took part.
    """
    weights = attention_weights(model, call)
    if not weights or layer is not None and layer not in weights:
        raise ValueError(f"no attention {layer or ''} took part; those that did: "
                         f"{', '.join(weights) or 'none'}")
    maps = [table(head, title=f"{_short(name)}, head {place}", row_names=queries, column_names=keys,
                  largest=1.0)
            for name, heads in weights.items() if layer in (None, name)
            for place, head in enumerate(heads[row])]
    return beside(*maps, title=title, columns=4)


def _short(name: str) -> str:
    """The name of a layer as a title: stack.blocks.0.attention -> block 0."""
    parts = [part for part in name.split(".") if part not in ("stack", "attention")]
    return " ".join(parts).replace("blocks", "block").replace("cross_attention", "cross")
