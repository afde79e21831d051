"""Training steps of an encoder and of an encoder-decoder against PyTorch's own modules.

The encoder finds hidden words: BERT's block, norms after each half, exact GELU. The encoder-decoder
looks from one text at another: norms before each part, label smoothing 0.1.
"""

from __future__ import annotations

from typing import Sequence

import tinyformer as tf
from tests.bench import trained
from tests.bench.measure import Asked, Figures, alternate, distance, figure

ROUNDS = {"tiny": 2, "a": 40, "b": 17}


def measure(asked: Asked, sizes: Sequence[str] = "ab") -> Figures:
    """The rows of the part "encoders"."""
    from tests.bench import torch_modules
    tf.use_backend("numpy")
    for kind in ("encoder", "translation"):
        for name in sizes:
            size = trained.SIZES[name]
            model, loss = trained.MODELS[kind](size)
            theirs = torch_modules.step(kind, size, model.state_dict())
            timed = alternate({"tinyformer": trained.training(model, loss), "PyTorch": theirs},
                              ROUNDS[name])
            yield figure(f"{kind} {name}", timed.ratio("tinyformer", "PyTorch"), timed.words())
            yield distance(f"{kind} losses {name}", timed.results, "tinyformer", "PyTorch")
