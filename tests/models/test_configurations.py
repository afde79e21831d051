"""Configurations: they print, compare, go through JSON, refuse contradictions; models obey them."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle

import pytest

from tinyformer import manual_seed
from tinyformer.models import (POSITIONS, Config, DecoderConfig, DecoderModel, EncoderConfig,
                               EncoderDecoderConfig, EncoderDecoderModel, EncoderModel)

OF_ALL = ("vocab_size, max_len, d_model, n_layers, n_heads, d_ff, dropout, attention_dropout, "
          "positions, window, norm, order, norm_kind, eps, activation, d_k, d_v, std")
CONFIGS = [DecoderConfig, EncoderConfig, EncoderDecoderConfig]
each_config = pytest.mark.parametrize("kind", CONFIGS)


@each_config
def test_json_and_back(kind):
    for config in (kind(7, 5), kind(1000, 128, 96, 3, 6, 100, 0.0, 0.5, "t5", norm="post"),
                   kind(7, None, positions="relative", window=0, d_k=3, d_v=5)):
        again = kind.from_dict(json.loads(json.dumps(config.to_dict())))
        assert again == config and hash(again) == hash(config) and repr(again) == repr(config)
        assert pickle.loads(pickle.dumps(config)) == config
    assert kind(7, 5) != kind(7, 6)


def test_it_prints_all_it_decides():
    assert repr(DecoderConfig(7, 5)) == (
        "DecoderConfig(vocab_size=7, max_len=5, d_model=64, n_layers=2, n_heads=4, d_ff=256, "
        "dropout=0.1, attention_dropout=0.1, positions='learned', window=8, norm='pre', "
        "order='paper', norm_kind='layer', eps=1e-05, activation='gelu_tanh', d_k=None, d_v=None, "
        "std=0.02, tie_weights=True)")
    assert repr(EncoderConfig(7, 5)).endswith(
        "norm='post', order='paper', norm_kind='layer', eps=1e-12, activation='gelu', d_k=None, "
        "d_v=None, std=0.02, n_segments=2, pooler=True, pooler_activation='tanh')"), "BERT's own"
    assert repr(EncoderDecoderConfig(7, 5, n_layers=3)).endswith(
        "n_decoder_layers=3, target_vocab_size=None, tie_weights=True)")


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        DecoderConfig(7, 5).d_model = 3


def test_unknown_and_missing_fields_are_named():
    with pytest.raises(ValueError) as caught:
        DecoderConfig.from_dict({"vocab_size": 7, "n_head": 4, "block_size": 5})
    assert str(caught.value) == (
        "DecoderConfig: 'n_head' is unknown, 'block_size' is unknown, 'max_len' is missing; it has "
        f"{OF_ALL}, tie_weights")
    with pytest.raises(ValueError, match="Config: 'x' is unknown"):
        Config.from_dict({"x": 1})


@each_config
@pytest.mark.parametrize("name", ["vocab_size", "max_len", "d_model", "n_layers", "n_heads",
                                  "d_ff", "d_k", "d_v", "window"])
@pytest.mark.parametrize("value", [0, -3, 2.5, 8.0, "8", True, math.nan])
def test_sizes_are_whole_numbers_of_at_least_1(kind, name, value):
    with pytest.raises(ValueError) as caught:
        kind(**{"vocab_size": 7, "max_len": 5, name: value})
    assert f"{name} must be a whole number of at least 1, not {value!r}" in str(caught.value)


@pytest.mark.parametrize("kind, name, value, least", [
    (DecoderConfig, "window", -1, 0), (EncoderConfig, "n_segments", -1, 0),
    (EncoderConfig, "n_segments", 1.5, 0), (EncoderDecoderConfig, "n_decoder_layers", 0, 1),
    (EncoderDecoderConfig, "target_vocab_size", 0, 1),
    (EncoderDecoderConfig, "target_vocab_size", "5", 1)])
def test_sizes_of_one_architecture(kind, name, value, least):
    with pytest.raises(ValueError) as caught:
        kind(7, 5, positions="relative", **{name: value})
    assert f"{name} must be a whole number of at least {least}, not {value!r}" in str(caught.value)


@each_config
def test_contradictory_sizes_are_refused(kind):
    with pytest.raises(ValueError, match="d_model=6 cannot be shared by n_heads=4: it must be a "
                                         "multiple, or d_k and d_v be given"):
        kind(7, 5, d_model=6, n_heads=4, d_k=2)
    assert kind(7, 5, d_model=6, n_heads=4, d_k=2, d_v=3).d_k == 2
    for name in ("dropout", "attention_dropout"):
        for dropout in (1.0, -0.1, 1.5, math.nan):
            with pytest.raises(ValueError, match=rf"{name} must lie in \[0, 1\), not {dropout}"):
                kind(7, 5, **{name: dropout})
    for name in ("d_model", "n_heads"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number .* not None"):
            kind(7, 5, **{name: None})
    for name in ("eps", "std"):
        for value in (-1e-9, math.nan):
            with pytest.raises(ValueError, match=f"{name} must be at least 0, not {value}"):
                kind(7, 5, **{name: value})


@each_config
@pytest.mark.parametrize("name, message", [
    ("positions", "there is no scheme of positions 'x'; there are learned, sinusoidal, relative, "
                  "rotary, alibi, t5, disentangled, none"),
    ("norm", "there is no place of the norm 'x'; there are pre, post"),
    ("order", "there is no order 'x'; there are paper, lecture"),
    ("norm_kind", "there is no norm 'x'; there are layer, lecture"),
    ("activation", "there is no activation 'x'; there are relu, gelu, gelu_tanh")])
def test_names_that_do_not_exist_are_refused_with_those_that_do(kind, name, message):
    with pytest.raises(ValueError) as caught:
        kind(7, 5, **{name: "x"})
    assert str(caught.value) == message


@each_config
def test_options_that_contradict_each_other_are_refused(kind):
    with pytest.raises(ValueError, match="learned positions need a max_len"):
        kind(7, None)
    for positions in POSITIONS[1:]:
        assert kind(7, None, positions=positions).max_len is None
    for sizes, width in (({"d_model": 6, "n_heads": 2}, 3), ({"d_k": 5}, 5)):
        with pytest.raises(ValueError, match=f"heads of width {width} are odd"):
            kind(7, 5, positions="rotary", **sizes)
    with pytest.raises(ValueError, match='order="lecture".* this has norm=\'pre\''):
        kind(7, 5, order="lecture", norm="pre")


def test_the_lecture_has_no_block_with_cross_attention():
    assert EncoderConfig(7, 5, order="lecture").order == "lecture"
    with pytest.raises(ValueError, match="no cross-attention; this has norm='post', "
                                         "cross_attention=True"):
        EncoderDecoderConfig(7, 5, order="lecture", norm="post")


OTHER = {"vocab_size": 7, "max_len": 6, "d_model": 8, "n_layers": 2, "n_heads": 1, "d_ff": 5,
         "dropout": 0.2, "attention_dropout": 0.3, "window": 2, "eps": 0.5, "activation": "relu",
         "d_k": 6, "d_v": 1, "std": 2.0, "norm_kind": "lecture"}
OWN = {DecoderConfig: (DecoderModel, {"norm": "post", "tie_weights": False}),
       EncoderConfig: (EncoderModel, {
           "norm": "pre", "n_segments": 3, "pooler": False, "pooler_activation": "relu"}),
       EncoderDecoderConfig: (EncoderDecoderModel, {
           "norm": "post", "n_decoder_layers": 3, "target_vocab_size": 4, "tie_weights": False})}
NEEDS = {"window": {"positions": "relative"}, "max_len": {"positions": "learned"}}


def description(kind, **values):
    """How a model of these values looks, and how large its first weights are."""
    manual_seed(0)
    model = OWN[kind][0](kind(**values))
    return repr(model), [f"{value:.5f}" for p in model.parameters() for value in
                         p.reshape(-1).tolist()]


@each_config
def test_every_field_shapes_the_model(backend, kind):
    """A configuration that a model ignored in part would be a lie."""
    base = {"vocab_size": 6, "max_len": 5, "d_model": 4, "n_layers": 1, "n_heads": 2, "d_ff": 3}
    other = {**OTHER, **OWN[kind][1]}
    fields = {field.name for field in dataclasses.fields(kind)}
    assert set(other) == fields - {"positions", "order"}
    for name, value in other.items():
        needed = {**base, **NEEDS.get(name, {})}
        ours, theirs = (description(kind, **each) for each in (needed, {**needed, name: value}))
        assert theirs[1 if name == "std" else 0] != ours[1 if name == "std" else 0], name
    drawn = {description(kind, **base, positions=positions)[0] for positions in POSITIONS}
    assert len(drawn) == len(POSITIONS)
    if kind is not EncoderDecoderConfig:
        assert "order=lecture" in description(kind, **{**base, "norm": "post",
                                                       "order": "lecture"})[0]
