"""Make pretrained/: folders of tiny models as `transformers` saves them, and what they compute.

Run by hand in an environment that has torch and transformers; the tests do not need them.
tests/parity makes folders of its own with `make`, live.
    python tests/golden/make_pretrained.py
"""
import json
import shutil
from importlib.metadata import version
from pathlib import Path

import torch
import transformers as hf

V, T = 13, 7
IDS = [[2, 5, 9, 5, 3], [2, 12, 3, 0, 0]]
SEGMENTS = [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]
LENGTHS = [5, 3]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "rock", "rule", "##s", "va", "##se",
          "b", "##roke"]
BERT = dict(vocab_size=V, hidden_size=6, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=5, max_position_embeddings=T)
DISTILBERT = dict(vocab_size=V, dim=6, n_layers=2, n_heads=3, hidden_dim=5,
                  max_position_embeddings=T)
GPT2 = dict(vocab_size=V, n_embd=6, n_layer=2, n_head=2, n_positions=T, bos_token_id=None,
            eos_token_id=None)
LABELS = {0: "odd", 1: "even", 2: "neither"}

# name of the folder: class, configuration, options of it, dtype of the file
CASES = {
    "bert": (hf.BertModel, hf.BertConfig, BERT, "float32"),
    "bert-pretraining": (hf.BertForPreTraining, hf.BertConfig, BERT, "float32"),
    "bert-words": (hf.BertForMaskedLM, hf.BertConfig,
                   dict(BERT, hidden_act="relu", layer_norm_eps=1e-3), "float32"),
    "bert-classes": (hf.BertForSequenceClassification, hf.BertConfig,
                     dict(BERT, id2label=LABELS, classifier_dropout=0.3), "float16"),
    "bert-tags": (hf.BertForTokenClassification, hf.BertConfig,
                  dict(BERT, id2label=LABELS, hidden_act="gelu_new"), "bfloat16"),
    "bert-spans": (hf.BertForQuestionAnswering, hf.BertConfig, dict(BERT, type_vocab_size=3),
                   "float32"),
    "distilbert": (hf.DistilBertModel, hf.DistilBertConfig, DISTILBERT, "float32"),
    "distilbert-words": (hf.DistilBertForMaskedLM, hf.DistilBertConfig, DISTILBERT, "float32"),
    "distilbert-classes": (hf.DistilBertForSequenceClassification, hf.DistilBertConfig,
                           dict(DISTILBERT, id2label=LABELS), "float32"),
    "distilbert-tags": (hf.DistilBertForTokenClassification, hf.DistilBertConfig,
                        dict(DISTILBERT, id2label=LABELS), "float32"),
    "distilbert-spans": (hf.DistilBertForQuestionAnswering, hf.DistilBertConfig, DISTILBERT,
                         "float32"),
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config, GPT2, "float32"),
    "gpt2-body": (hf.GPT2Model, hf.GPT2Config, dict(GPT2, activation_function="relu"), "float32"),
    "gpt2-untied": (hf.GPT2LMHeadModel, hf.GPT2Config,
                    dict(GPT2, n_inner=5, tie_word_embeddings=False), "float32"),
}


def outputs(name, model):
    """What the model gives, by our names; padding is masked."""
    mask = torch.tensor([[1] * n + [0] * (len(IDS[0]) - n) for n in LENGTHS])
    options = {"token_type_ids": torch.tensor(SEGMENTS)} if name.split("-")[0] == "bert" else {}
    with torch.no_grad():
        out = model.eval()(input_ids=torch.tensor(IDS), attention_mask=mask, **options)
    if "last_hidden_state" in out:
        hidden = out["last_hidden_state"]
        if name.startswith("gpt2"):
            return {"logits": hidden @ model.wte.weight.T}
        pooled = out.get("pooler_output")
        return {"hidden": hidden, **({} if pooled is None else {"pooled": pooled})}
    if "start_logits" in out:
        return {"logits": torch.stack([out["start_logits"], out["end_logits"]], dim=1)}
    return {"logits": out["prediction_logits" if "prediction_logits" in out else "logits"]}


def make(folder, name, seed):
    """Save one model in `folder`; returns what it computes in float64 from the saved numbers."""
    kind, config, options, dtype = CASES[name]
    torch.manual_seed(seed)
    model = kind(config(**options))
    for parameter in model.parameters():        # gains and biases too, which begin as 1 and 0
        parameter.data = torch.round(torch.randn(parameter.shape), decimals=2)
    model = model.to(getattr(torch, dtype))
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if not name.startswith("gpt2"):
        text = "".join(f"{piece}\n" for piece in PIECES)
        (folder / "vocab.txt").write_text(text, encoding="utf-8", newline="\n")
    return {key: torch.round(x, decimals=13).tolist()
            for key, x in outputs(name, model.double()).items()}


if __name__ == "__main__":
    home = Path(__file__).with_name("pretrained")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    expected = {name: make(home / name, name, seed) for seed, name in enumerate(CASES)}
    about = {name: version(name) for name in ("torch", "transformers", "safetensors")}
    text = json.dumps({"versions": about, "ids": IDS, "segments": SEGMENTS, "lengths": LENGTHS,
                       "outputs": expected})
    (home / "expected.json").write_text(text + "\n", encoding="utf-8", newline="\n")
