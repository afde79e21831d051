"""The family against a living PyTorch and transformers, in float64, on fresh numbers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tinyformer import set_default_dtype, tensor
from tinyformer.arrays import xp
from tinyformer.nn import Disentangled, Rotary, T5Bias
from tinyformer.nn.positions import alibi_slopes

torch = pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with")
HAS_TRANSFORMERS = importlib.util.find_spec("transformers") is not None
needs_transformers = pytest.mark.skipif(
    not HAS_TRANSFORMERS, reason="transformers is not installed: nothing to compare with")


def load(path: str) -> Any:
    """A module of the tests, by its file."""
    specification = importlib.util.spec_from_file_location(
        Path(path).stem, Path(__file__).parents[1] / path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


maker, differences = load("golden/make_family.py"), load("models/family_cases.py").differences


def named(make: Any) -> Any:
    """The cases of two seeds by name."""
    return {f"{case['name']}, seed {seed}": case for seed in (1, 2) for case in make(seed)}


TORCH = named(maker.torch_cases)
THEIRS = named(maker.transformers_cases) if HAS_TRANSFORMERS else {}


@pytest.mark.parametrize("name", TORCH)
def test_it_is_as_pytorch_computes_it(backend, name):
    assert differences(TORCH[name]) == []


@needs_transformers
@pytest.mark.parametrize("name", THEIRS)
def test_it_is_as_transformers_computes_it(backend, name):
    assert differences(THEIRS[name]) == []


@needs_transformers
def test_rotary_is_that_of_llama(backend):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import (LlamaRotaryEmbedding,
                                                          apply_rotary_pos_emb)
    places = torch.tensor([[0, 1, 2, 7, 300], [3, 4, 5, 6, 4000]])
    query, key = torch.randn(2, 2, 3, 5, 8, dtype=torch.float64)
    turn = LlamaRotaryEmbedding(LlamaConfig(hidden_size=24, num_attention_heads=3))
    expected = apply_rotary_pos_emb(query, key, *turn(query, places))
    with set_default_dtype("float64"):
        found = Rotary().at_heads(tensor(query.tolist()), tensor(key.tolist()),
                                  *[xp.asarray(places.tolist())] * 2)
    for ours, theirs in zip(found, expected):            # their angles are float32
        assert torch.allclose(torch.tensor(ours.tolist(), dtype=torch.float64), theirs, atol=1e-3)
        near = torch.tensor(ours.tolist(), dtype=torch.float64)[:, :, :3] - theirs[:, :, :3]
        assert near.abs().max() < 1e-6


@needs_transformers
@pytest.mark.parametrize("n_heads", [1, 2, 3, 8, 12, 16, 20])
def test_alibi_has_the_slopes_of_bloom(n_heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    theirs = build_alibi_tensor(torch.ones(1, 2), n_heads, torch.float64)[:, 0, 1].tolist()
    assert alibi_slopes(n_heads) == pytest.approx(theirs, rel=1e-6)


@needs_transformers
@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_bias_is_that_of_t5(backend, bidirectional):
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention
    theirs = T5Attention(T5Config(d_model=6, d_kv=2, num_heads=3, is_decoder=not bidirectional,
                                  relative_attention_num_buckets=8,
                                  relative_attention_max_distance=20),
                         has_relative_attention_bias=True, layer_idx=0).double()
    with set_default_dtype("float64"):
        scheme = T5Bias(3, 8, 20, bidirectional)
        scheme.load_state_dict({"weight": theirs.relative_attention_bias.weight.tolist()})
        places = xp.reshape(xp.arange(30), (1, 30))
        ours = scheme.score_bias(tensor([0.0]), tensor([0.0]), places, places)
    assert ours.tolist() == theirs.compute_bias(30, 30).tolist()


@needs_transformers
@pytest.mark.parametrize("kind, sign", [("c2p", 1), ("p2c", -1)])
def test_disentangled_is_that_of_deberta_but_for_a_sign(backend, kind, sign):
    """Equation 4 has r^q_(j-i) where the released code has r^q_(i-j): as if positions ran back."""
    from transformers import DebertaV2Config
    from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention
    theirs = DisentangledSelfAttention(DebertaV2Config(
        hidden_size=6, num_attention_heads=3, relative_attention=True, max_relative_positions=4,
        pos_att_type=[kind], share_att_key=False)).double().eval()
    query, key, table = (torch.randn(*shape, dtype=torch.float64)
                         for shape in ((3, 7, 2), (3, 7, 2), (8, 6)))
    expected = theirs.disentangled_attention_bias(query, key, None, table, 3)
    with set_default_dtype("float64"):
        scheme = Disentangled(6, 3, 2, span=4, std=0.0)
        part = scheme.position_key if kind == "c2p" else scheme.position_query
        layer = theirs.pos_key_proj if kind == "c2p" else theirs.pos_query_proj
        part.load_state_dict({name: p.tolist() for name, p in layer.named_parameters()})
        scheme.table.data = xp.asarray(table.tolist())
        places = xp.reshape(xp.arange(7), (1, 7)) * sign
        ours = scheme.score_bias(tensor([query.tolist()]), tensor([key.tolist()]), places, places)
    assert torch.allclose(torch.tensor(ours[0].tolist(), dtype=torch.float64), expected,
                          atol=1e-12)
