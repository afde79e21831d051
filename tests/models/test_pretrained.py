"""Folders of `transformers` give here what they give there, and come back unchanged."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from pathlib import Path

import pytest

from tinyformer import manual_seed, no_grad, set_default_dtype
from tinyformer import functional as F
from tinyformer.arrays import safetensors, xp
from tinyformer.arrays.stream import stream
from tinyformer.models import (DecoderConfig, DecoderModel, EncoderConfig, EncoderModel,
                               MaskedLanguageModel, SequenceClassifier, SpanClassifier,
                               TokenClassifier, load_pretrained, save_pretrained)
from tinyformer.training import AdamW


def beside(name):
    """A module of the tests in this folder."""
    path = Path(__file__).with_name(f"{name}.py")
    specification = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


folders = beside("pretrained_folders")
GOLDEN, OUTPUTS, changed = folders.GOLDEN, folders.OUTPUTS, folders.changed

CLASSES = {"bert": EncoderModel, "bert-pretraining": MaskedLanguageModel,
           "bert-words": MaskedLanguageModel, "bert-classes": SequenceClassifier,
           "bert-tags": TokenClassifier, "bert-spans": SpanClassifier, "distilbert": EncoderModel,
           "distilbert-words": MaskedLanguageModel, "distilbert-classes": SequenceClassifier,
           "distilbert-tags": TokenClassifier, "distilbert-spans": SpanClassifier,
           "gpt2": DecoderModel, "gpt2-body": DecoderModel, "gpt2-untied": DecoderModel}
QUIET = {"progress": lambda text: None}


@pytest.fixture(autouse=True)
def double():
    """The golden values are of float64."""
    with set_default_dtype("float64"):
        yield


def load(folder):
    """A folder, without a word."""
    return load_pretrained(folder, **QUIET)


@pytest.mark.filterwarnings("ignore:.*next sentence")
@pytest.mark.parametrize("name", OUTPUTS)
def test_it_computes_what_transformers_computes(backend, name):
    model, tokenizer, labels = load(GOLDEN / name)
    assert type(model) is CLASSES[name] and folders.difference(name, model) < 1e-10
    assert not any(module.training for _, module in model.named_modules())
    assert all(parameter.requires_grad for parameter in model.parameters())
    named = ("odd", "even", "neither") if name.split("-")[-1] in ("classes", "tags") else ()
    assert labels == named
    if name.startswith("gpt2"):
        assert tokenizer is None
    else:
        assert tokenizer.encode_ids("The rock rules, broke") == [5, 6, 7, 8, 1, 11, 12]


def test_the_options_of_the_folder_are_those_of_the_model():
    config = load(GOLDEN / "bert-words").model.encoder.config
    assert (config.activation, config.eps, config.n_segments, config.pooler) == (
        "relu", 1e-3, 2, False)
    assert load(GOLDEN / "bert").model.config == EncoderConfig(
        13, max_len=7, d_model=6, n_layers=2, n_heads=2, d_ff=5)
    assert load(GOLDEN / "bert-classes").model.dropout.p == 0.3
    assert load(GOLDEN / "distilbert-classes").model.dropout.p == 0.2
    assert load(GOLDEN / "gpt2-untied").model.config == DecoderConfig(
        13, max_len=7, d_model=6, n_layers=2, n_heads=2, d_ff=5, tie_weights=False)


def test_loading_draws_nothing(backend):
    manual_seed(1)
    before = stream.state()
    load(GOLDEN / "gpt2")
    assert stream.state() == before


def test_pure_python_states_its_memory_before_it_loads(backend, capsys):
    model = load_pretrained(GOLDEN / "bert").model
    said = capsys.readouterr()
    count = model.n_parameters()
    assert said.out == ""
    statement = f": {count:,} parameters, which take about {count * 32 / 1e6:.2f} MB of memory"
    assert (statement in said.err) == (backend == "python")


def without_prefix(tensors):
    """A body handed on as it is."""
    return {name.partition(".")[2]: tensor for name, tensor in tensors.items()}


def with_prefix(prefix):
    """A body out of a model with a head that was cut off."""
    return lambda tensors: {prefix + name: tensor for name, tensor in tensors.items()}


def old_names(tensors):
    """As Google's checkpoints were converted in 2018."""
    renamed = {name.replace("LayerNorm.weight", "LayerNorm.gamma")
               .replace("LayerNorm.bias", "LayerNorm.beta"): each
               for name, each in tensors.items()}
    assert set(renamed) != set(tensors)
    return renamed


def buffers(*names):
    """With tensors that are no weights."""
    return lambda tensors: {**tensors, **{name: safetensors.Encoded(
        "I64", (1, 7), bytes(56)) for name in names}}


def tied(**copies):
    """With second copies of tied weights."""
    return lambda tensors: {**tensors, **{copy.replace("__", "."): tensors[name]
                                          for copy, name in copies.items()}}


VARIANTS = {
    "BERT with a prefix": ("bert", with_prefix("bert.")),
    "DistilBERT with a prefix": ("distilbert", with_prefix("distilbert.")),
    "GPT-2 without a prefix": ("gpt2", without_prefix),
    "GPT-2's body with a prefix": ("gpt2-body", with_prefix("transformer.")),
    "gamma and beta": ("bert", old_names),
    "gamma and beta below a head": ("bert-words", old_names),
    "positions of BERT": ("bert", buffers("embeddings.position_ids", "embeddings.token_type_ids")),
    "positions below a head": ("bert-tags", buffers("bert.embeddings.position_ids")),
    "masks of GPT-2": ("gpt2", buffers("transformer.h.0.attn.bias", "h.1.attn.masked_bias")),
    "BERT's tied table": ("bert-words", tied(
        cls__predictions__decoder__weight="bert.embeddings.word_embeddings.weight",
        cls__predictions__decoder__bias="cls.predictions.bias")),
    "DistilBERT's tied table": ("distilbert-words", tied(
        vocab_projector__weight="distilbert.embeddings.word_embeddings.weight")),
    "GPT-2's tied table": ("gpt2", tied(lm_head__weight="transformer.wte.weight"))}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_names_that_files_have_in_the_wild(tmp_path, variant):
    name, change = VARIANTS[variant]
    model = load(changed(tmp_path, name, change)).model
    assert type(model) is CLASSES[name] and folders.difference(name, model) < 1e-10


def test_a_body_without_a_pooler_and_without_its_head(tmp_path):
    def body(tensors):
        return {name: each for name, each in tensors.items()
                if name.startswith("bert.") and "pooler" not in name}
    with pytest.warns(UserWarning, match="cls.seq_relationship.weight.* not loaded"):
        whole = load(GOLDEN / "bert-pretraining").model
    assert whole.encoder.pooler is not None, "a pooler below a head is kept"
    model = load(changed(tmp_path, "bert-words", body)).model
    assert type(model) is EncoderModel and model.pooler is None
    same = load(GOLDEN / "bert-words").model.encoder
    assert model(folders.IDS).hidden.tolist() == same(folders.IDS).hidden.tolist()


@pytest.mark.parametrize("name", ["bert-classes", "bert-tags", "distilbert-classes",
                                  "distilbert-tags", "bert-spans"])
def test_the_head_is_known_by_its_tensors_where_config_json_is_silent(tmp_path, name):
    folder = changed(tmp_path, name, config={}, without=("architectures",))
    assert type(load(folder).model) is CLASSES[name]


def test_the_family_is_known_by_its_class_and_missing_keys_are_the_usual(tmp_path):
    folder = changed(tmp_path, "bert", config={}, without=(
        "model_type", "hidden_act", "layer_norm_eps", "type_vocab_size"))
    assert folders.difference("bert", load(folder).model) < 1e-10


@pytest.mark.parametrize("name, keys", [
    ("bert", {"gradient_checkpointing": False, "position_embedding_type": "absolute",
              "directionality": "bidi", "pooler_fc_size": 768, "pooler_type": "first_token_transf",
              "_num_labels": 9, "output_past": True, "torch_dtype": "float32"}),
    ("distilbert", {"sinusoidal_pos_embds": False, "tie_weights_": True, "finetuning_task": "sst-2",
                    "output_past": True, "torchscript": False, "pruned_heads": {}}),
    ("gpt2", {"n_ctx": 7, "summary_type": "cls_index", "task_specific_params": {"a": {}},
              "_num_labels": 1, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}})])
def test_keys_of_well_known_folders_that_change_nothing(tmp_path, name, keys):
    assert folders.difference(name, load(changed(tmp_path, name, config=keys)).model) < 1e-10


def test_the_other_names_of_keys_are_understood(tmp_path):
    folder = changed(tmp_path, "gpt2", config={"hidden_size": 6, "n_ctx": 7}, without=("n_embd",))
    assert folders.difference("gpt2", load(folder).model) < 1e-10


def test_the_settings_of_the_tokenizer(tmp_path):
    folder = changed(tmp_path, "bert")
    assert load(folder).tokenizer.settings()["lowercase"] is True
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False,
         "never_split": None}), encoding="utf-8")
    settings = load(folder).tokenizer.settings()
    assert (settings["lowercase"], settings["strip_accents"], settings["handle_chinese_chars"]) == (
        False, True, False)
    (folder / "vocab.txt").unlink()
    assert load(folder).tokenizer is None


@pytest.mark.filterwarnings("ignore:.*next sentence", "ignore:the pooler is not saved")
@pytest.mark.parametrize("name", OUTPUTS)
def test_what_is_saved_is_what_was_loaded(backend, tmp_path, name):
    model, tokenizer, labels = load(GOLDEN / name)
    save_pretrained(model, tmp_path / "new" / "folder", tokenizer, labels, dtype="F64")
    again = load(tmp_path / "new" / "folder")
    assert type(again.model) is type(model) and again.labels == labels
    assert folders.difference(name, again.model) < 1e-10
    if tokenizer is not None:
        assert again.tokenizer.tokens == tokenizer.tokens
        assert again.tokenizer.settings() == tokenizer.settings()
    ours, theirs = (dict(each.named_parameters()) for each in (model, again.model))
    for key in set(ours) - {"encoder.pooler.weight", "encoder.pooler.bias"}:
        assert theirs[key].tolist() == ours[key].tolist(), key


@pytest.mark.filterwarnings("ignore:.*next sentence", "ignore:the pooler is not saved")
@pytest.mark.parametrize("name", OUTPUTS)
def test_what_is_saved_has_the_names_and_keys_of_transformers(tmp_path, name):
    model, tokenizer, labels = load(GOLDEN / name)
    save_pretrained(model, tmp_path, tokenizer, labels, "F64")
    there, here = (json.loads((folder / "config.json").read_text(encoding="utf-8"))
                   for folder in (GOLDEN / name, tmp_path))
    if name not in ("bert-pretraining", "gpt2-body"):       # two classes that are not here
        ours, theirs = folders.tensors_of(tmp_path), folders.tensors_of(GOLDEN / name)
        assert {key: each.shape for key, each in ours.items()} == {
            key: each.shape for key, each in theirs.items()}
        assert here["architectures"] == there["architectures"]
    head = safetensors.read_header(tmp_path / "model.safetensors")
    assert head.metadata == {"format": "pt"}
    for key in set(here) - {"architectures", "pad_token_id", "n_inner", "qa_dropout", "id2label",
                            "label2id", "classifier_dropout", "embd_pdrop"}:
        assert here[key] == there[key], key
    assert set(here) <= set(there) | {"classifier_dropout"}


def losses(model, steps, kind):
    """Train on the golden ids, without dropout."""
    optimiser = AdamW(model.named_parameters(), lr=0.01)
    history = []
    for _ in range(steps):
        logits = model(folders.IDS)
        targets = [[(i * 2 + 1) % 3 for i in row] for row in folders.IDS]
        loss = F.cross_entropy(logits, xp.asarray(
            targets if kind is TokenClassifier else [2, 0]))
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        history.append(loss.item())
    return history


@pytest.mark.parametrize("kind", [SequenceClassifier, TokenClassifier])
@pytest.mark.parametrize("segments", [0, 1, 2])
def test_a_model_that_was_trained_here_goes_on_from_its_folder(backend, tmp_path, kind, segments):
    config = EncoderConfig(13, max_len=7, d_model=6, n_layers=2, n_heads=2, d_ff=5, dropout=0.0,
                           n_segments=segments, pooler=kind is SequenceClassifier,
                           pooler_activation="tanh" if segments else "relu")
    manual_seed(2)
    model = kind(EncoderModel(config), 3)
    losses(model, 2, kind)
    save_pretrained(model, tmp_path)
    again = load(tmp_path).model.train()
    assert again.encoder.config == config
    assert losses(again, 1, kind) == pytest.approx(losses(model, 1, kind), abs=1e-5)


def test_half_the_bytes(tmp_path):
    model = load(GOLDEN / "gpt2").model
    sizes = {}
    for dtype in ("F32", "BF16", "F16"):
        save_pretrained(model, tmp_path / dtype, dtype=dtype)
        sizes[dtype] = sum(len(each.data) for each in folders.tensors_of(tmp_path / dtype).values())
        assert folders.difference("gpt2", load(tmp_path / dtype).model) < 0.5
    assert sizes["F32"] == 2 * sizes["BF16"] == 2 * sizes["F16"]


ENCODER = EncoderConfig(13, max_len=7, d_model=6, n_layers=1, n_heads=2)


def test_poolers_that_a_class_there_lacks_are_left_out_with_a_word(tmp_path):
    with pytest.warns(UserWarning, match="the pooler is not saved: BertForMaskedLM has none"):
        save_pretrained(MaskedLanguageModel(EncoderModel(ENCODER)), tmp_path)
    assert not any("pooler" in name for name in folders.tensors_of(tmp_path))
    bare = EncoderModel(dataclasses.replace(ENCODER, pooler=False))
    with pytest.warns(UserWarning, match="BertModel.from_pretrained.folder, add_pooling_layer=F"):
        save_pretrained(bare, tmp_path)
    with no_grad():
        assert load(tmp_path).model.pooler is None
