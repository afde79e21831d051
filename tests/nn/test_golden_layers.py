"""Every layer and the whole model against PyTorch 2.13: forward and all gradients to 1e-10.

The right values stand in golden/layers.json, made by golden/make_layers.py.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from layer_cases import differences

from tinyformer import functional as F
from tinyformer.nn import LayerNorm, Linear, attention

GOLDEN = Path(__file__).parents[1] / "golden" / "layers.json"
CASES = {case["name"]: case for case in json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]}


def test_every_layer_and_every_mask_kind_is_there():
    assert {case["layer"] for case in CASES.values()} == {
        "Linear", "Embedding", "LayerNorm", "FeedForward", "MultiHeadAttention", "Block",
        "DecoderModel"}
    assert sum("MultiHeadAttention" in name for name in CASES) == 12


@pytest.mark.parametrize("name", CASES)
def test_as_in_pytorch(backend, name):
    assert differences(CASES[name]) == []


def broken_norm(self, x):
    """The sample deviation with eps beside it, as the Annotated Transformer has it."""
    n = x.shape[-1]
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = (centred * centred).sum(axis=-1, keepdims=True) * (1 / (n - 1))
    return centred / (deviation.sqrt() + self.eps) * self.weight + self.bias


def exact_gelu(x, approximate):
    """The other GELU."""
    return gelu(x)


def unscaled(query, key, value, **options):
    """Attention without the square root."""
    return attend(query, key, value, **{**options, "scale": 1.0})


def unmasked(query, key, value, **options):
    """Attention that looks everywhere."""
    return attend(query, key, value, **{**options, "attn_mask": None})


def mixed_up_heads(x, n_heads):
    """(B, T, D) -> (B, H, T, K) as if the heads came first."""
    batch, length, width = x.shape
    return x.reshape(batch, n_heads, length, width // n_heads)


gelu, attend = F.gelu, F.scaled_dot_product_attention
MUTANTS = [
    (LayerNorm, "forward", broken_norm, "LayerNorm"),
    (Linear, "forward", lambda self, x: F.linear(x, self.weight), "Linear, bias=True"),
    (F, "gelu", exact_gelu, "FeedForward"),
    (F, "scaled_dot_product_attention", unscaled, "MultiHeadAttention to itself, mask: none"),
    (F, "scaled_dot_product_attention", unmasked, "MultiHeadAttention to memory, mask: padding"),
    (F, "scaled_dot_product_attention", unmasked, "DecoderModel, tied=True, padding=False"),
    (attention, "split_heads", mixed_up_heads, "MultiHeadAttention to itself, mask: causal"),
]


@pytest.mark.parametrize("owner, name, broken, case", MUTANTS)
def test_a_broken_layer_is_noticed(backend, monkeypatch, owner, name, broken, case):
    monkeypatch.setattr(owner, name, broken)
    assert differences(CASES[case])


def test_a_number_that_is_not_finite_is_a_difference(backend):
    case = dict(CASES["LayerNorm"])
    case["parameters"] = dict(case["parameters"], bias=[math.nan] * 5)
    assert any("output" in found for found in differences(case))
