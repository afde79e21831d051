"""Folders that do not fit are refused before memory is taken, with every name and number."""

from __future__ import annotations

import importlib.util
import json
import os
import struct
from pathlib import Path

import pytest

from tinyformer.arrays import safetensors
from tinyformer.arrays.safetensors import Encoded, SafetensorsError
from tinyformer.models import (DecoderConfig, DecoderModel, EncoderConfig, EncoderDecoderConfig,
                               EncoderDecoderModel, EncoderModel, MaskedLanguageModel,
                               SequenceClassifier, SpanClassifier, TokenClassifier, describe,
                               load_pretrained, save_pretrained)
from tinyformer.text import WordPiece


def beside(name):
    """A module of the tests in this folder."""
    path = Path(__file__).with_name(f"{name}.py")
    specification = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


folders = beside("pretrained_folders")
changed, little_memory = folders.changed, folders.little_memory


def refusal(folder):
    """The ValueError that loading a folder ends in; nothing is said or loaded before."""
    with pytest.raises(ValueError) as caught:
        load_pretrained(folder, progress=lambda text: pytest.fail("memory was taken"))
    return str(caught.value)


def test_every_tensor_that_is_missing_unexpected_or_does_not_fit_is_named(backend, tmp_path):
    def spoil(tensors):
        del tensors["bert.encoder.layer.0.output.dense.bias"]
        del tensors["cls.predictions.transform.dense.weight"]
        tensors["bert.encoder.layer.2.output.dense.bias"] = Encoded("F32", (6,), bytes(24))
        tensors["surprise"] = Encoded("F32", (1,), bytes(4))
        tensors["cls.predictions.bias"] = Encoded("F32", (12,), bytes(48))
        tensors["bert.embeddings.LayerNorm.bias"] = Encoded("I32", (6,), bytes(24))
        tensors["bert.embeddings.LayerNorm.weight"] = Encoded("F8_E4M3", (6,), bytes(6))
        return tensors
    text = refusal(changed(tmp_path, "bert-words", spoil))
    assert "does not fit the MaskedLanguageModel that config.json describes; nothing was" in text
    assert sorted(line.strip() for line in text.split("\n")[1:]) == [
        "bert.embeddings.LayerNorm.bias: I32 given, one of F64, F32, F16, BF16 needed",
        "bert.embeddings.LayerNorm.weight: F8_E4M3 given, one of F64, F32, F16, BF16 needed",
        "bert.encoder.layer.0.output.dense.bias: missing, shape (6,) needed",
        "bert.encoder.layer.2.output.dense.bias: unexpected, MaskedLanguageModel has no such "
        "tensor",
        "cls.predictions.bias: shape (12,) given, (13,) needed",
        "cls.predictions.transform.dense.weight: missing, shape (6, 6) needed",
        "surprise: unexpected, MaskedLanguageModel has no such tensor"]


def test_fused_and_transposed_tensors_are_held_against_their_own_shape(tmp_path):
    text = refusal(changed(tmp_path, "gpt2", lambda tensors: {
        **tensors, "transformer.h.1.attn.c_attn.weight": Encoded("F32", (18, 6), bytes(432))}))
    assert "h.1.attn.c_attn.weight: shape (18, 6) given, (6, 18) needed" in text


def test_a_pooler_that_the_family_does_not_have_is_unexpected(tmp_path):
    text = refusal(changed(tmp_path, "distilbert", lambda tensors: {
        **tensors, "pooler.dense.bias": Encoded("F32", (6,), bytes(24))}))
    assert "pooler.dense.bias: unexpected, EncoderModel has no such tensor" in text


@pytest.mark.parametrize("name, copy, original", [
    ("bert-words", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    ("distilbert-words", "vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"),
    ("gpt2", "lm_head.weight", "transformer.wte.weight")])
def test_a_tied_tensor_with_other_numbers_is_refused(tmp_path, name, copy, original):
    def untie(tensors):
        table = tensors[original]
        return {**tensors, copy: Encoded(table.dtype, table.shape, table.data[:-1] + b"\1")}
    assert f"{copy}: not equal to {original}, although one tensor serves as both" in refusal(
        changed(tmp_path, name, untie))


def test_two_names_of_one_tensor_are_refused(tmp_path):
    text = refusal(changed(tmp_path, "bert", lambda tensors: {
        **tensors, "bert.pooler.dense.bias": tensors["pooler.dense.bias"]}))
    assert "'bert.pooler.dense.bias' and 'pooler.dense.bias', which are two names of one" in text \
        or "'pooler.dense.bias' and 'bert.pooler.dense.bias', which are two names of one" in text


def test_a_head_that_config_json_promises_must_be_there(tmp_path):
    text = refusal(changed(tmp_path, "bert-spans", lambda tensors: {
        name: each for name, each in tensors.items() if name.startswith("bert.")}))
    assert "qa_outputs.weight: missing, shape (2, 6) needed" in text
    assert "qa_outputs.bias: missing, shape (2,) needed" in text


CONFIGURATIONS = {
    "another kind of model": ("bert", {"model_type": "t5", "architectures": ["T5Model"]},
                              "no model here is a 't5' (model_type; architectures: 'T5Model'); "
                              "those that are read are bert, distilbert, gpt2"),
    "no kind of model": ("bert", {"model_type": None, "architectures": None}, "is a None"),
    "a list for a kind": ("bert", {"model_type": ["bert"]}, "no model here is a ['bert']"),
    "kinds that contradict": ("bert", {"architectures": ["GPT2LMHeadModel"]},
                              "model_type says 'bert', but architectures says 'GPT2LMHeadModel'"),
    "an architecture that is none": ("bert", {"architectures": "BertModel"}, "is a list of names"),
    "a class that is not here": ("bert-classes", {"architectures": ["BertForMultipleChoice"]},
                                 "there is no class like BertForMultipleChoice here, only BertMod"),
    "another head": ("bert-classes", {"architectures": ["BertForMaskedLM"]},
                     "architectures says BertForMaskedLM, but the tensors of a head in the file "
                     "are those of BertForSequenceClassification or BertForTokenClassification"),
    "unknown keys": ("bert", {"rope_theta": 1e4, "quantization_config": {}},
                     "'rope_theta' is unknown; what it asks for could not be honoured (remove it "
                     "from the file if it changes nothing); 'quantization_config' is unknown"),
    "other positions": ("bert", {"position_embedding_type": "relative_key"},
                        "position_embedding_type='relative_key' is not computed here, only "
                        "'absolute'"),
    "a decoder": ("bert", {"is_decoder": True, "add_cross_attention": True},
                  "is_decoder=True is not computed here, only False; add_cross_attention=True is"),
    "a scale per layer": ("gpt2", {"scale_attn_by_inverse_layer_idx": True},
                          "scale_attn_by_inverse_layer_idx=True is not computed here"),
    "pruned heads": ("bert", {"pruned_heads": {"0": [1]}}, "pruned_heads={'0': [1]} is not"),
    "names that contradict": ("gpt2", {"n_ctx": 9, "hidden_size": 8},
                              "hidden_size=8 contradicts n_embd=6; n_ctx=9 contradicts "
                              "n_positions=7"),
    "an activation": ("bert", {"hidden_act": "swish"}, "hidden_act='swish' is no activation here; "
                      "there are gelu, gelu_new, relu"),
    "no activation": ("bert", {"hidden_act": None}, "hidden_act=None is no activation"),
    "heads": ("bert", {"num_attention_heads": 4}, "d_model=6 cannot be shared by n_heads=4"),
    "a size in quotes": ("bert", {"hidden_size": "6"}, "d_model must be a whole number of at lea"),
    "a size below 1": ("bert", {"num_hidden_layers": 0}, "n_layers must be a whole number of at"),
    "a size of None": ("bert", {"vocab_size": None}, "vocab_size must be a whole number"),
    "no positions": ("bert", {"max_position_embeddings": None}, "learned positions need a max_len"),
    "more layers than tensors": ("bert", {"num_hidden_layers": 10 ** 9},
                                 "num_hidden_layers=1,000,000,000, but "),
    "a dropout in quotes": ("bert", {"hidden_dropout_prob": "0.1"},
                            "hidden_dropout_prob must be a number, not '0.1'"),
    "a dropout of 2": ("bert", {"hidden_dropout_prob": 2.0}, "dropout must lie in [0, 1), not 2.0"),
    "a classifier's dropout": ("bert-classes", {"classifier_dropout": "0.1"},
                               "classifier_dropout must be a number, not '0.1'"),
    "a classifier's dropout of 1.5": ("bert-classes", {"classifier_dropout": 1.5}, "1.5"),
    "nan": ("bert", {"layer_norm_eps": float("nan")}, "eps must be at least 0, not nan"),
    "tied perhaps": ("gpt2", {"tie_word_embeddings": "yes"}, "must be true or false, not 'yes'"),
    "words without the table": ("bert-words", {"tie_word_embeddings": False},
                                "tie_word_embeddings=false, but masked words are scored with"),
    "labels": ("bert-classes", {"num_labels": 2}, "num_labels=2 contradicts id2label, which names "
               "3"),
    "labels with a gap": ("bert-classes", {"id2label": {"0": "a", "2": "b"}},
                          "id2label must name the classes 0 to 1, not 0, 2"),
    "labels that are none": ("bert-classes", {"id2label": {"0": 1}}, "id2label must give numbers"),
    "no label": ("bert-classes", {"num_labels": 0, "id2label": None}, "num_labels must be a whole"),
}


@pytest.mark.parametrize("case", CONFIGURATIONS)
def test_configurations_that_cannot_be_honoured(tmp_path, case):
    name, keys, message = CONFIGURATIONS[case]
    folder = changed(tmp_path, name, config=keys)
    text = refusal(folder)
    assert text.startswith(f"{folder / 'config.json'}: ") and message in text


def test_sizes_that_contradict_the_tensors_are_refused_with_both(tmp_path):
    text = refusal(changed(tmp_path, "bert", config={"hidden_size": 8}))
    assert "embeddings.word_embeddings.weight: shape (13, 6) given, (13, 8) needed" in text
    text = refusal(changed(tmp_path, "bert-classes", config={"id2label": {"0": "a", "1": "b"}}))
    assert "classifier.weight: shape (3, 6) given, (2, 6) needed" in text
    text = refusal(changed(tmp_path, "bert", config={"num_hidden_layers": 3}))
    assert text.count("missing") == 16
    text = refusal(changed(tmp_path, "gpt2", config={"tie_word_embeddings": False}))
    assert "lm_head.weight: missing, shape (13, 6) needed" in text


@pytest.mark.parametrize("text, message", [
    ("{", "is no JSON that can be used: Expecting"), ("[]", "an object of keys and values, not []"),
    ("", "is no JSON"), ('{"a": 1, "a": 2}', "the key 'a' occurs twice"),
    ("[" * 100_000, "is no JSON that can be used"), ('{"a": ' + "9" * 5000 + "}", "config.json")])
def test_a_configuration_that_is_none(tmp_path, text, message):
    folder = changed(tmp_path, "bert")
    (folder / "config.json").write_text(text, encoding="utf-8")
    assert message in refusal(folder)
    (folder / "config.json").write_bytes(b"\xff{}")
    assert "is not UTF-8" in refusal(folder)
    with open(folder / "config.json", "wb") as file:
        file.truncate(1 << 30)
    assert "is 1,073,741,824 bytes long" in refusal(folder)


def test_files_that_are_not_there(tmp_path):
    folder = changed(tmp_path, "bert")
    os.replace(folder / "model.safetensors", folder / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match="not from pytorch_model.bin: in transformers, "):
        load_pretrained(folder)
    (folder / "model.safetensors.index.json").write_text("{}", encoding="utf-8")
    with pytest.raises(FileNotFoundError, match="these are in several: in transformers, save_pre"):
        load_pretrained(folder)
    (folder / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match="config.json"):
        load_pretrained(folder)
    with pytest.raises(OSError):
        load_pretrained(folder / "vocab.txt")


def spoiled(data, how):
    """The bytes of a file made hostile."""
    (length,) = struct.unpack("<Q", data[:8])
    header, rest = json.loads(data[8:8 + length]), data[8 + length:]
    first, second = [name for name in header if name != "__metadata__"][:2]
    if how == "4 GB of header":
        return struct.pack("<Q", 4 << 30) + data[8:]
    if how == "truncated":
        return data[:-10]
    if how == "a name twice":
        text = data[8:8 + length].decode().rstrip()
        text = text[:-1] + f', "{first}": {json.dumps(header[first])}}}'
        return struct.pack("<Q", len(text)) + text.encode() + rest
    if how == "overlapping":
        header[second]["data_offsets"] = header[first]["data_offsets"]
    elif how == "beyond the end":
        header[first] = {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}
    elif how == "a size that is a lie":
        header[first]["shape"] = [1 << 20, 1 << 20]
    text = json.dumps(header)
    return struct.pack("<Q", len(text)) + text.encode() + rest


@pytest.mark.parametrize("how", ["4 GB of header", "truncated", "a name twice", "overlapping",
                                 "beyond the end", "a size that is a lie"])
def test_hostile_files_are_refused_before_memory_is_taken(backend, tmp_path, how):
    folder = changed(tmp_path, "bert")
    path = folder / "model.safetensors"
    path.write_bytes(spoiled(path.read_bytes(), how))
    with little_memory(), pytest.raises(SafetensorsError, match="model.safetensors, byte"):
        load_pretrained(folder)


def test_a_configuration_that_claims_a_giant_takes_no_memory(backend, tmp_path):
    sizes = {"vocab_size": 10 ** 12, "intermediate_size": 10 ** 9}
    folder = changed(tmp_path, "bert", config=sizes)
    with little_memory():
        text = refusal(folder)
    assert "shape (13, 6) given, (1000000000000, 6) needed" in text


def test_a_vocabulary_that_does_not_fit(tmp_path):
    folder = changed(tmp_path, "bert")
    with open(folder / "vocab.txt", "a", encoding="utf-8") as file:
        file.write("more\n")
    assert "has 14 pieces, but the model has vectors for 13" in refusal(folder)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": "no"}', encoding="utf-8")
    assert "do_lower_case must be true or false, not 'no'" in refusal(folder)


SIZES = {"max_len": 7, "d_model": 6, "n_heads": 2, "n_layers": 1}
OTHERS = {
    "Shaw's positions": (EncoderModel, EncoderConfig(13, positions="relative", **SIZES),
                         "positions='relative' (there it is 'learned')"),
    "the lecture's block": (EncoderModel, EncoderConfig(13, order="lecture", **SIZES),
                            "order='lecture' (there it is 'paper')"),
    "the lecture's norm": (EncoderModel, EncoderConfig(13, norm_kind="lecture", **SIZES),
                           "norm_kind='lecture' (there it is 'layer')"),
    "BERT with its norms before": (EncoderModel, EncoderConfig(13, norm="pre", **SIZES),
                                   "norm='pre' (there it is 'post')"),
    "GPT-2 with its norms after": (DecoderModel, DecoderConfig(13, norm="post", **SIZES),
                                   "norm='post' (there it is 'pre')"),
    "GPT-2 that turns": (DecoderModel, DecoderConfig(13, positions="none", **SIZES),
                         "positions='none'"),
    "narrow keys": (DecoderModel, DecoderConfig(13, d_k=2, **SIZES),
                    "d_k=2 (there it is d_model / n_heads)"),
    "wide values": (EncoderModel, EncoderConfig(13, d_k=3, d_v=5, **SIZES),
                    "d_v=5 (there it is d_model / n_heads)"),
    "a pooler with another end": (EncoderModel, EncoderConfig(
        13, pooler_activation="relu", **SIZES), "pooler_activation='relu' (there it is 'tanh')"),
    "DistilBERT with another eps": (EncoderModel, EncoderConfig(
        13, n_segments=0, pooler=False, eps=1e-5, **SIZES), "eps=1e-05 (there it is 1e-12)"),
    "a pooler without segments": (EncoderModel, EncoderConfig(13, n_segments=0, **SIZES),
                                  "no encoder with pooler=True and n_segments=0"),
    "translation": (EncoderDecoderModel, EncoderDecoderConfig(13, **SIZES),
                    "transformers has no model like EncoderDecoderModel; those that it can open "
                    "are DecoderModel, EncoderModel")}


@pytest.mark.parametrize("case", OTHERS)
def test_models_that_transformers_does_not_have_are_refused_by_option(tmp_path, case):
    kind, config, message = OTHERS[case]
    with pytest.raises(ValueError) as caught:
        save_pretrained(kind(config), tmp_path / "new")
    assert message in str(caught.value) and not (tmp_path / "new").exists()
    if "pooler=True" not in message:
        assert "A checkpoint (tinyformer.training.checkpoint) can hold any model" in str(
            caught.value)


def test_a_classifier_without_segments_needs_distilberts_pooler(tmp_path):
    encoder = EncoderModel(EncoderConfig(13, n_segments=0, **SIZES))
    with pytest.raises(ValueError, match="pooler_activation='tanh' .there it is 'relu'"):
        save_pretrained(SequenceClassifier(encoder, 2), tmp_path / "new")
    for kind in (MaskedLanguageModel, SpanClassifier):
        with pytest.warns(UserWarning, match="the pooler is not saved"):
            save_pretrained(kind(encoder), tmp_path / "new")
    load_pretrained(tmp_path / "new")


def test_what_does_not_fit_the_model_is_not_saved(tmp_path):
    model = EncoderModel(EncoderConfig(5, **SIZES))
    new = tmp_path / "new"
    pieces = ["[PAD]", "[UNK]", "a", "b", "c"]
    with pytest.raises(ValueError, match="tokenizer has 6 pieces, but the model has vectors for 5"):
        save_pretrained(model, new, WordPiece(pieces + ["d"]))
    with pytest.raises(ValueError, match="profile='google', which transformers does not have"):
        save_pretrained(model, new, WordPiece(pieces, profile="google"))
    with pytest.raises(ValueError, match="1 labels for a model of 0 classes"):
        save_pretrained(model, new, labels=["x"])
    with pytest.raises(ValueError, match="2 labels for a model of 3 classes"):
        save_pretrained(TokenClassifier(model, 3), new, labels=["x", "y"])
    with pytest.raises(ValueError, match="two classes cannot have one name: x, x"):
        save_pretrained(TokenClassifier(model, 2), new, labels=["x", "x"])
    with pytest.raises(ValueError, match="one of F64, F32, F16, BF16, not as 'I64'"):
        save_pretrained(model, new, dtype="I64")
    with pytest.raises(TypeError, match="without numbers"):
        save_pretrained(describe(model.config), new)
    assert not new.exists()
    new.mkdir()
    (new / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="holds the tokenizer.json of another tokenizer"):
        save_pretrained(model, new, WordPiece(pieces))
    assert os.listdir(new) == ["tokenizer.json"]


def test_a_full_disk_leaves_the_former_weights(tmp_path, monkeypatch):
    model = EncoderModel(EncoderConfig(5, **SIZES))
    save_pretrained(model, tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="nothing was saved"):
        save_pretrained(model, tmp_path, dtype="F64")
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert safetensors.read_header(tmp_path / "model.safetensors").metadata == {"format": "pt"}
