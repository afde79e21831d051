"""Who sees whom: the matrices that the architectures promise, and leaks that are noticed."""

from __future__ import annotations

import pytest

from tinyformer import manual_seed, tensor
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.models import (POSITIONS, DecoderConfig, DecoderModel, EncoderConfig,
                               EncoderDecoderConfig, EncoderDecoderModel, EncoderModel,
                               MaskedLanguageModel)
from tinyformer.nn import LayerNorm, Mask, masks
from tinyformer.viz import Influence, attention_maps, influence, who_sees_whom
from tinyformer.viz.attention import attention_weights

SIZES = dict(d_model=4, n_layers=2, n_heads=2, d_ff=4)
IDS = [1, 2, 3, 4]


def decoder(**options):
    manual_seed(0)
    return DecoderModel(DecoderConfig(7, 8, window=1, **SIZES, **options))


def encoder(**options):
    manual_seed(0)
    return EncoderModel(EncoderConfig(7, 8, window=1, **{**SIZES, **options}))


def translator(**options):
    manual_seed(0)
    return EncoderDecoderModel(EncoderDecoderConfig(7, 8, window=1, **SIZES, **options))


@pytest.mark.parametrize("stepwise", [False, True], ids=["whole", "cached"])
@pytest.mark.parametrize("positions", POSITIONS)
def test_figure_9_2_a_a_decoder_sees_what_came_before_and_itself(backend, positions, stepwise):
    seen = who_sees_whom(decoder(positions=positions), IDS, stepwise=stepwise)
    assert str(seen) == str(Mask.causal(4))


@pytest.mark.parametrize("positions", POSITIONS)
def test_figure_9_2_b_an_encoder_sees_everything(backend, positions):
    assert str(who_sees_whom(encoder(positions=positions), IDS[:3])) == "x x x\nx x x\nx x x"


@pytest.mark.parametrize("stepwise", [False, True], ids=["whole", "cached"])
@pytest.mark.parametrize("positions", ["learned", "relative", "disentangled"])
def test_a_translator_sees_the_whole_source_and_the_target_so_far(backend, positions, stepwise):
    seen = who_sees_whom(translator(positions=positions), [1, 2], [3, 4, 5], stepwise=stepwise)
    assert str(seen) == "x x | x . .\nx x | x x .\nx x | x x x"


def test_padding_and_other_rows_of_a_batch_influence_nothing(backend):
    seen = who_sees_whom(encoder(), [[1, 2], [3, 0]], lengths=[2, 1])
    assert str(seen) == "x x . .\nx x . .\n. . x .\n. . x x", "padding has its own stream"
    seen = who_sees_whom(translator(), [1, 0], [3, 4], source_lengths=[1])
    assert str(seen) == "x . | x .\nx . | x x"
    padded = xp.asarray([[False, True, True]])
    for stepwise in (False, True):
        seen = who_sees_whom(decoder(), [0, 1, 2], seen=padded, stepwise=stepwise)
        assert str(seen) == "x . .\n. x .\n. x x"


def test_a_mask_of_ones_own_is_seen_and_two_blocks_reach_what_one_does_not(backend):
    mask = Mask([[True, True, False], [True, True, True], [False, True, True]])
    seen = [who_sees_whom(encoder(n_layers=depth), [1, 2, 3], mask=mask) for depth in (1, 2)]
    assert str(seen[0]) == str(mask)
    assert str(seen[1]) == "x x x\nx x x\nx x x"


def test_a_leak_is_noticed(backend, monkeypatch):
    def leaky(queries, keys):
        ends = xp.reshape(xp.arange(queries) + (keys - queries) + 1, (queries, 1))
        return xp.arange(keys) <= ends

    monkeypatch.setattr(masks, "causal_mask", leaky)
    assert str(who_sees_whom(decoder(), IDS)) == "x x x .\nx x x x\nx x x x\nx x x x", \
        "one place ahead in each of two blocks"


def test_nothing_of_the_model_and_the_stream_changes(backend):
    model = decoder(dropout=0.5)
    model.tokens.weight.requires_grad = False
    state, data = stream.state(), model.tokens.weight.tolist()
    first = who_sees_whom(model, IDS).sizes
    assert first == who_sees_whom(model, IDS).sizes, "dropout is off, the cotangents are the same"
    assert stream.state() == state and model.tokens.weight.tolist() == data and model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert [name for name, parameter in model.named_parameters() if not parameter.requires_grad] \
        == ["tokens.weight"]


def test_only_attention_carries_anything_between_positions(backend):
    """Every other part of a block leaves each position to itself."""
    block = decoder().stack.blocks[0]
    x = xp.astype(stream.normal((1, 3, 4)), xp.default_float)
    for part in (LayerNorm(4), block.feed_forward, block.attention_norm):
        assert str(influence(part, x)) == "x . .\n. x .\n. . x", type(part).__name__
    assert str(influence(block.attention, x)) == "x x x\nx x x\nx x x"
    assert all(parameter.grad is None for parameter in block.parameters()), "none else is touched"


def test_a_cotangent_of_ones_would_be_blind_where_a_random_one_sees(backend):
    x = tensor(xp.astype(stream.normal((1, 2, 4)), xp.default_float), requires_grad=True)
    LayerNorm(4)(x)[0, 0].sum().backward()
    assert xp.max(xp.abs(x.grad.data)) < 1e-4
    assert influence(LayerNorm(4), x.detach()).sizes[0][0] > 1e-2


def test_an_output_that_depends_on_nothing_is_seen_by_nobody(backend):
    constant = tensor([[[1.0, 2.0]]])
    assert influence(lambda x: constant, [[[1.0]]]).sizes == [[0.0]]


def test_names_stand_beside_the_table_and_in_the_pictures():
    seen = Influence([[1.0, 0.0], [0.5, 2.0]], ["The", "Rock"], ["a", "bb"])
    assert str(seen) == "    The Rock\na   x   .\nbb  x   x"
    assert repr(seen).startswith("Influence of 2 inputs on 2 outputs:\n")
    assert all(f">{name}<" in seen.picture() and f">{name}<" in seen.flow() for name in
               ("The", "Rock", "a", "bb"))
    assert seen._repr_svg_() == seen.picture()
    assert seen.flow(chosen=1).count("<polygon") == 3
    assert seen.flow(chosen=1).count('class="tf-head tf-heavy') == 2
    assert ">2<" in Influence([[1.0, 0.0]]).picture(), "without names the places are counted"


@pytest.mark.parametrize("call, error, words", [
    (lambda: who_sees_whom(MaskedLanguageModel(encoder()), IDS), TypeError, "MaskedLanguageModel"),
    (lambda: who_sees_whom(encoder(), IDS, stepwise=True), TypeError, "not stepwise"),
    (lambda: who_sees_whom(translator(), IDS), ValueError, "reads 2 texts, 1 are given"),
    (lambda: who_sees_whom(decoder(), IDS, IDS), ValueError, "reads 1 texts, 2 are given"),
    (lambda: influence(lambda x: x.sum(), [[[1.0]]]), ValueError, r"\(B, T, E\)"),
])
def test_what_it_cannot_look_into_it_says(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_attention_maps_show_every_head_of_every_layer(backend):
    model = translator(dropout=0.5)

    def call():
        return model([[1, 2]], [[3, 4, 5]])

    weights = attention_weights(model, call)
    assert list(weights) == ["encoder.blocks.0.attention", "encoder.blocks.1.attention",
                             "decoder.blocks.0.attention", "decoder.blocks.0.cross_attention",
                             "decoder.blocks.1.attention", "decoder.blocks.1.cross_attention"]
    cross = weights["decoder.blocks.0.cross_attention"]
    assert len(cross[0]) == 2 and len(cross[0][0]) == 3 and len(cross[0][0][0]) == 2
    for row in cross[0][0]:
        assert sum(row) == pytest.approx(1.0, abs=1e-6)
    picture = attention_maps(model, call, layer="decoder.blocks.0.cross_attention",
                             keys=["un", "deux"], queries=["a", "b", "c"])
    assert picture.count("decoder block 0 cross, head") == 2 * 2, "each as title and as words"
    assert ">deux<" in picture
    with pytest.raises(ValueError, match="no attention nowhere took part.*encoder.blocks.0"):
        attention_maps(model, call, layer="nowhere")
