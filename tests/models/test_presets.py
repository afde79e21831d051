"""Described models: the founding documents' numbers, without a weight."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tinyformer import manual_seed
from tinyformer.arrays.stream import stream
from tinyformer.models import (PRESETS, EncoderConfig, EncoderModel, TransformerConfig, describe,
                               preset)

PATH = Path(__file__).with_name("pretrained_folders.py")
specification = importlib.util.spec_from_file_location(PATH.stem, PATH)
folders = importlib.util.module_from_spec(specification)
specification.loader.exec_module(folders)

COUNTS = {"bert-base-cased": 108_310_272, "bert-base-uncased": 109_482_240,
          "xlm-roberta-large": 558_836_736, "gpt2": 124_439_808, "transformer-base": 63_082_496}


@pytest.mark.parametrize("name", COUNTS)
def test_the_parameters_of_a_preset_are_counted_without_drawing_or_allocating_them(backend, name):
    manual_seed(1)
    before = stream.state()
    with folders.little_memory():
        model = describe(name)
        text = str(model)
    assert model.n_parameters() == COUNTS[name] and f"{COUNTS[name]:,}" in text.split("\n")[0]
    assert stream.state() == before and set(COUNTS) == set(PRESETS)


def test_the_tree_of_bert_base_cased_is_that_of_slide_19(backend):
    lines = [" ".join(line.split()) for line in str(describe("bert-base-cased")).split("\n")]
    for line in ("(tokens): Embedding(28996, 768) 22,268,928", "(table): Embedding(512, 768) "
                 "393,216", "(segments): Embedding(2, 768) 1,536",
                 "(blocks.0-11): 12 x Block( 85,054,464",      # 12 x 7,087,872
                 "(inner): Linear(768, 3072) 2,362,368", "(outer): Linear(3072, 768) 2,360,064",
                 "(pooler): Pooler(768, 768, tanh) 590,592"):
        assert line in lines


def test_two_thirds_of_a_layer_are_its_feed_forward_map(backend):
    block = describe("bert-base-cased").stack.blocks[0]
    assert block.n_parameters() == 7_087_872
    share = block.feed_forward.n_parameters() / block.n_parameters()
    assert share == pytest.approx(.6663, abs=5e-5)


@pytest.mark.parametrize("pooler, count", [(False, 108_490_752), (True, 109_081_344)])
def test_the_textbooks_bert_of_30000_tokens_has_about_100_million(backend, pooler, count):
    config = EncoderConfig(30_000, max_len=512, d_model=768, n_layers=12, n_heads=12,
                           pooler=pooler)
    assert describe(config).n_parameters() == count


def test_a_description_has_the_shapes_of_the_model(backend):
    config = EncoderConfig(7, max_len=5, d_model=8, n_layers=2, n_heads=2)
    assert str(describe(config)) == str(EncoderModel(config))


def test_a_described_model_cannot_compute_and_says_why(backend):
    with pytest.raises(TypeError, match=r"a weight of shape \(28996, 768\) without numbers"):
        describe("bert-base-cased")([[1, 2]])


def test_other_presets_are_refused_with_a_list(backend):
    with pytest.raises(ValueError, match="no preset 'bert'; there are bert-base-cased, bert-base-"):
        describe("bert")
    assert isinstance(preset("gpt2"), TransformerConfig)
