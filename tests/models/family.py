"""Small models of every architecture with every scheme of positions, heard everywhere."""

from __future__ import annotations

from typing import Any, List

from tinyformer import manual_seed
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.models import (DecoderConfig, DecoderModel, EncoderConfig, EncoderDecoderConfig,
                               EncoderDecoderModel, EncoderModel)
from tinyformer.nn import Module

KINDS = {"encoder": (EncoderModel, EncoderConfig), "decoder": (DecoderModel, DecoderConfig),
         "encoder-decoder": (EncoderDecoderModel, EncoderDecoderConfig)}
VOCABULARY, LONGEST = 7, 8


def model(kind: str, positions: str = "learned", **changed: Any) -> Any:
    """A model of two layers of width 4, knowing 8 positions where there is an end, without dropout,
    with weights large enough for everything to be heard."""
    manual_seed(0)
    make, configuration = KINDS[kind]
    options = {"max_len": LONGEST, "d_model": 4, "n_layers": 2, "n_heads": 2, "d_ff": 4,
               "dropout": 0.0, "window": 2, "positions": positions, **changed}
    return loud(make(configuration(VOCABULARY, **options)))


def loud(module: Module) -> Module:
    """The module with noise added to all its parameters."""
    for parameter in module.parameters():
        noise = xp.astype(stream.normal(parameter.shape) * 0.3, parameter.data.dtype)
        parameter.data = parameter.data + noise
    return module


def apart(rows: Any, others: Any) -> float:
    """The largest difference between equally nested lists."""
    if isinstance(rows, list):
        assert len(rows) == len(others)
        return max((apart(row, other) for row, other in zip(rows, others)), default=0.0)
    return abs(rows - others)


def flat(x: Any) -> List[float]:
    """All numbers of a tensor."""
    return x.reshape(-1).tolist()
