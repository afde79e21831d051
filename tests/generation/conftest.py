"""Small models with opinions, for every scheme of positions."""

from __future__ import annotations

import pytest

from tinyformer import manual_seed
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.models import (DecoderConfig, DecoderModel, EncoderDecoderConfig,
                               EncoderDecoderModel)

VOCABULARY, LONGEST = 7, 16


def _loud(net, spread):
    """The model with weights large enough to be heard everywhere."""
    for parameter in net.parameters():
        noise = xp.astype(stream.normal(parameter.shape) * spread, parameter.data.dtype)
        parameter.data = parameter.data + noise
    return net


@pytest.fixture
def decoder():
    """Makes a decoder-only model."""
    def make(positions="learned", seed=0, spread=0.5, **changed):
        manual_seed(seed)
        sizes = {"vocab_size": VOCABULARY, "max_len": LONGEST, "d_model": 4, "n_layers": 1,
                 "n_heads": 2, "d_ff": 8, "dropout": 0.3, "window": 2, "positions": positions}
        return _loud(DecoderModel(DecoderConfig(**{**sizes, **changed})), spread)
    return make


@pytest.fixture
def translator():
    """Makes an encoder-decoder."""
    def make(positions="learned", seed=0, spread=0.5, **changed):
        manual_seed(seed)
        sizes = {"vocab_size": VOCABULARY, "max_len": LONGEST, "d_model": 4, "n_layers": 1,
                 "n_heads": 2, "d_ff": 8, "dropout": 0.3, "window": 2,
                 "positions": positions}
        return _loud(EncoderDecoderModel(EncoderDecoderConfig(**{**sizes, **changed})), spread)
    return make
