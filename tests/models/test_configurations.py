"""Configurations go through JSON unchanged and refuse what contradicts itself."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle

import pytest

from tinyformer.models import Config, DecoderConfig, DecoderModel


def test_json_and_back():
    for config in (DecoderConfig(7, 5), DecoderConfig(1000, 128, 96, 3, 6, 100, 0.0, False)):
        again = DecoderConfig.from_dict(json.loads(json.dumps(config.to_dict())))
        assert again == config and hash(again) == hash(config) and repr(again) == repr(config)
        assert pickle.loads(pickle.dumps(config)) == config
    assert DecoderConfig(7, 5) != DecoderConfig(7, 6)


def test_it_prints_all_it_decides():
    assert repr(DecoderConfig(7, 5)) == (
        "DecoderConfig(vocab_size=7, max_len=5, d_model=64, n_layers=2, n_heads=4, d_ff=256, "
        "dropout=0.1, tie_weights=True)")


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        DecoderConfig(7, 5).d_model = 3


def test_unknown_and_missing_fields_are_named():
    with pytest.raises(ValueError) as caught:
        DecoderConfig.from_dict({"vocab_size": 7, "n_head": 4, "block_size": 5})
    assert str(caught.value) == (
        "DecoderConfig: 'n_head' is unknown, 'block_size' is unknown, 'max_len' is missing; it has "
        "vocab_size, max_len, d_model, n_layers, n_heads, d_ff, dropout, tie_weights")
    with pytest.raises(ValueError, match="Config: 'x' is unknown"):
        Config.from_dict({"x": 1})


@pytest.mark.parametrize("name", ["vocab_size", "max_len", "d_model", "n_layers", "n_heads",
                                  "d_ff"])
@pytest.mark.parametrize("value", [0, -3, 2.5, 8.0, "8", True, math.nan])
def test_sizes_are_whole_numbers_of_at_least_1(name, value):
    with pytest.raises(ValueError) as caught:
        DecoderConfig(**{"vocab_size": 7, "max_len": 5, name: value})
    assert f"{name} must be a whole number of at least 1, not {value!r}" in str(caught.value)


def test_contradictory_sizes_are_refused():
    with pytest.raises(ValueError, match="d_model=6 cannot be shared by n_heads=4: it must be a"):
        DecoderConfig(7, 5, d_model=6, n_heads=4)
    for dropout in (1.0, -0.1, 1.5, math.nan):
        with pytest.raises(ValueError, match=rf"dropout must lie in \[0, 1\), not {dropout}"):
            DecoderConfig(7, 5, dropout=dropout)
    for name in ("d_model", "n_heads"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number .* not None"):
            DecoderConfig(7, 5, **{name: None})


def test_every_field_shapes_the_model(backend):
    """A configuration that a model ignored in part would be a lie."""
    base = {"vocab_size": 6, "max_len": 5, "d_model": 4, "n_layers": 1, "n_heads": 2, "d_ff": 3}
    ours = repr(DecoderModel(DecoderConfig(**base)))
    other = {"vocab_size": 7, "max_len": 6, "d_model": 8, "n_layers": 2, "n_heads": 4, "d_ff": 5,
             "dropout": 0.2, "tie_weights": False}
    assert set(other) == {field.name for field in dataclasses.fields(DecoderConfig)}
    for name, value in other.items():
        assert repr(DecoderModel(DecoderConfig(**{**base, name: value}))) != ours, name
