"""What is trained in the comparisons: the sizes, the data, and tinyformer's models and steps.

A step is forward, backward and AdamW, without clipping and without dropout.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import tinyformer as tf
from tinyformer import functional as F
from tinyformer.arrays.stream import Stream
from tinyformer.models import (DecoderConfig, DecoderModel, EncoderConfig, EncoderDecoderConfig,
                               EncoderDecoderModel, EncoderModel, MaskedLanguageModel)
from tinyformer.training.optimisers import AdamW

Size = Dict[str, int]
Step = Callable[[], float]
Ids = List[List[int]]
SIZES: Dict[str, Size] = {
    "tiny": dict(vocab_size=11, max_len=6, d_model=8, n_layers=1, n_heads=2, batch=2),
    "a": dict(vocab_size=128, max_len=32, d_model=64, n_layers=2, n_heads=4, batch=8),
    "b": dict(vocab_size=512, max_len=64, d_model=128, n_layers=4, n_heads=4, batch=16),
    "c": dict(vocab_size=8000, max_len=128, d_model=256, n_layers=6, n_heads=8, batch=16)}
LR, DECAY = 0.0003, 0.01
IGNORED, SHARE, SMOOTHING = -100, 0.15, 0.1     # masked words, and label smoothing


def options(size: Size) -> Dict[str, Any]:
    """The arguments of a configuration."""
    return {**{key: value for key, value in size.items() if key != "batch"}, "dropout": 0.0}


def rows(size: Size, seed: int, length: int) -> Ids:
    """Random ids (B, length)."""
    return [Stream(1000 * seed + row).integers(size["vocab_size"], length)
            for row in range(size["batch"])]


def texts(size: Size) -> Tuple[Ids, Ids]:
    """Random ids (B, T), and of each the id that follows."""
    found = rows(size, 1, size["max_len"] + 1)
    return [row[:-1] for row in found], [row[1:] for row in found]


def hidden_words(size: Size) -> Tuple[Ids, Ids]:
    """Random ids (B, T) of which some are hidden by the last id, and what is hidden."""
    ids, targets = rows(size, 2, size["max_len"]), []
    for number, row in enumerate(ids):
        draws = Stream(number).uniforms_list(len(row))
        chosen = [draw < SHARE for draw in draws]
        chosen[number % len(row)] = True
        targets.append([old if hide else IGNORED for old, hide in zip(row, chosen)])
        row[:] = [size["vocab_size"] - 1 if hide else old for old, hide in zip(row, chosen)]
    return ids, targets


def pairs(size: Size) -> Tuple[Ids, Ids, Ids]:
    """Sources (B, T), what the decoder reads (B, T), and what it is to write."""
    before, targets = texts(size)
    return rows(size, 3, size["max_len"]), before, targets


def training(model: Any, loss: Callable[[], Any]) -> Step:
    """A function that trains one step and returns the loss."""
    optimiser = AdamW(list(model.named_parameters()), lr=LR, weight_decay=DECAY)

    def step() -> float:
        value = loss()
        value.backward()
        optimiser.step()
        optimiser.zero_grad()
        return float(value.item())

    return step


def decoder(size: Size) -> Tuple[Any, Callable[[], Any]]:
    """A decoder, and its loss on random texts."""
    tf.manual_seed(0)
    model = DecoderModel(DecoderConfig(**options(size)))
    ids, targets = map(tf.tensor, texts(size))
    return model, lambda: F.cross_entropy(model(ids), targets)


def encoder(size: Size) -> Tuple[Any, Callable[[], Any]]:
    """BERT's block and head without segments, and its loss on hidden words."""
    tf.manual_seed(0)
    model = MaskedLanguageModel(EncoderModel(EncoderConfig(**options(size), n_segments=0,
                                                           pooler=False)))
    ids, targets = map(tf.tensor, hidden_words(size))
    return model, lambda: F.cross_entropy(model(ids), targets, IGNORED)


def translation(size: Size) -> Tuple[Any, Callable[[], Any]]:
    """An encoder-decoder, and its smoothed loss on random pairs of texts."""
    tf.manual_seed(0)
    model = EncoderDecoderModel(EncoderDecoderConfig(**options(size)))
    source, before, targets = map(tf.tensor, pairs(size))
    return model, lambda: F.cross_entropy(model(source, before), targets,
                                          label_smoothing=SMOOTHING)


MODELS = {"decoder": decoder, "encoder": encoder, "translation": translation}


def step(model: str, size: str, backend: str = "numpy", dtype: str = "float32") -> Step:
    """A training step by names, for a process of its own."""
    tf.use_backend(backend)
    tf.set_default_dtype(dtype)
    return training(*MODELS[model](SIZES[size]))


def multiply_adds(size: Size) -> int:
    """Those of a decoder's step: forward, and twice as many backward.

    Per token and layer 4 D^2 for the projections, 2 D F for the feed-forward map, F = 4 D, and
    2 T D for scores and mixtures; and D V for the scores of the tokens.
    """
    width, length = size["d_model"], size["max_len"]
    layer = 12 * width * width + 2 * length * width
    return 3 * size["batch"] * length * (size["n_layers"] * layer + width * size["vocab_size"])
