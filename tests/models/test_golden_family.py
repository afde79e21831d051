"""Blocks, models and heads against PyTorch and transformers: forward and all gradients to 1e-10.

The right values stand in golden/family.json, made by golden/make_family.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from family_cases import differences

from tinyformer import functional as F
from tinyformer.autograd.operations.shaping import split_heads
from tinyformer.models import inputs
from tinyformer.nn import Block, MultiHeadAttention, T5Bias

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "family.json")
                    .read_text(encoding="utf-8"))
CASES = {case["name"]: case for case in GOLDEN["cases"]}


def test_both_norm_orders_every_head_and_every_architecture_are_there():
    assert {case["layer"] for case in CASES.values()} == {
        "Block", "EncoderDecoder", "EncoderDecoderModel", "EncoderModel", "MaskedLanguageModel",
        "SequenceClassifier", "TokenClassifier", "SpanClassifier", "DecoderModel"}
    blocks = [case["settings"] for case in CASES.values() if case["layer"] == "Block"]
    assert {(each["norm"], each.get("cross_attention", False)) for each in blocks} == {
        (norm, cross) for norm in ("pre", "post") for cross in (True, False)}


@pytest.mark.parametrize("name", CASES)
def test_as_in_pytorch_and_transformers(backend, name):
    assert differences(CASES[name]) == []


@pytest.mark.parametrize("case", GOLDEN["t5_buckets"], ids=str)
def test_the_buckets_of_t5(case):
    scheme = T5Bias(1, case["n_buckets"], case["max_distance"], case["bidirectional"])
    found = [scheme.bucket(case["first"] + place) for place in range(len(case["buckets"]))]
    assert found == case["buckets"]


attend = F.scaled_dot_product_attention


def swapped(self, x, norm, part, name):
    """The norm at the other place."""
    return x + part(norm(x)) if self.norm == "post" else norm(x + part(x))


def unmasked(query, key, value, **options):
    """Attention that looks everywhere."""
    return attend(query, key, value, **{**options, "attn_mask": None})


def from_the_left(start, row):
    """Positions that count padding as well."""
    return list(range(start, start + len(row)))


MUTANTS = [
    (Block, "_half", swapped, "encoder layer, pre-norm, relu"),
    (Block, "_half", swapped, "decoder layer, post-norm, gelu"),
    (F, "scaled_dot_product_attention", unmasked, "decoder layer, pre-norm, relu"),
    (F, "scaled_dot_product_attention", unmasked, "BERT, BertForTokenClassification"),
    (F, "scaled_dot_product_attention", unmasked, "encoder-decoder, pre-norm, shared=True"),
    (inputs, "_counted", from_the_left, "GPT-2, padding: left"),
    (MultiHeadAttention, "_keys_and_values", lambda self, memory: (
        split_heads(self.value(memory), self.n_heads), split_heads(self.key(memory), self.n_heads)),
     "BERT, BertModel")]


@pytest.mark.parametrize("owner, name, broken, case", MUTANTS)
def test_a_broken_model_is_noticed(backend, monkeypatch, owner, name, broken, case):
    monkeypatch.setattr(owner, name, broken)
    assert differences(CASES[case])
