"""Stacks: encoder, decoder and both; norms, memory, caches, great depth, dropout that is off."""

from __future__ import annotations

import math

import pytest
from trials import at, close, flat, loud, normal

from tinyformer import manual_seed, no_grad, set_default_dtype
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.nn import (ALiBi, Block, Cache, Decoder, Encoder, EncoderDecoder, LayerNorm,
                           LectureNorm, Mask, Relative, Rotary, T5Bias)


@pytest.fixture(autouse=True)
def double():
    with set_default_dtype("float64"):
        yield


POSITIONS = {"none": None, "rotary": Rotary, "alibi": lambda: ALiBi(2),
             "relative": lambda: Relative(2, 2, 2), "t5": lambda: T5Bias(2)}


def stack(kind=Decoder, n_layers=2, dropout=0.0, **options):
    """A loud stack of width 4 with 2 heads."""
    manual_seed(0)
    return loud(kind(n_layers, 4, 2, 8, dropout, **options))


@pytest.mark.parametrize("batch, length", [(1, 1), (3, 1), (1, 7), (2, 5)])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_n_vectors_become_n_vectors(backend, batch, length, norm):
    x, memory = normal(batch, length, 4), normal(batch, 3, 4)
    assert Encoder(2, 4, 2, 8, norm=norm)(x).shape == x.shape
    assert Decoder(2, 4, 2, 8, norm=norm)(x).shape == x.shape
    assert Decoder(2, 4, 2, 8, norm=norm, cross_attention=True)(x, memory=memory).shape == x.shape
    assert EncoderDecoder(1, 2, 4, 2, 8, norm=norm)(memory, x).shape == x.shape


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("position", POSITIONS)
def test_bidirectional_is_causal_without_the_mask_and_nothing_else(backend, norm, position):
    """Textbook 9.2.1: one stack, one mask."""
    options = {"norm": norm, "position": POSITIONS[position]}
    encoder, decoder = stack(Encoder, **options), stack(Decoder, **options)
    x = normal(2, 5, 4)
    assert encoder(x, Mask.causal(5)).tolist() == decoder(x).tolist()
    assert not close(encoder(x).tolist(), decoder(x).tolist(), 0.01)


def test_a_decoder_is_causal_whatever_else_a_mask_says(backend):
    decoder, x = stack(), normal(1, 4, 4, requires_grad=True)
    for mask in (None, Mask(xp.ones((4, 4), xp.bool)), Mask.padding([4], 4)):
        x.grad = None
        decoder(x, mask)[0, 1].sum().backward()
        assert [any(row) for row in x.grad.tolist()[0]] == [True, True, False, False]


def test_pre_norm_adds_one_norm_at_the_end_and_post_norm_none(backend):
    """Post: norm(x + part(x)); pre: x + part(norm(x)), and one last norm of the sum."""
    x = normal(1, 3, 4)
    pre, post = stack(norm="pre"), stack(norm="post")
    assert isinstance(pre.norm, LayerNorm) and post.norm is None
    assert isinstance(Encoder(1, 4, 2, 8, norm_kind="lecture").norm, LectureNorm)
    block = post.blocks[0]
    halfway = block.attention_norm(x + block.attention(x))
    assert block(x).tolist() == block.feed_forward_norm(
        halfway + block.feed_forward(halfway)).tolist()
    block = pre.blocks[0]
    halfway = x + block.attention(block.attention_norm(x))
    assert block(x).tolist() == (halfway + block.feed_forward(
        block.feed_forward_norm(halfway))).tolist()


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_third_part_looks_at_the_memory(backend, norm):
    """The one that slide 31 leaves out: between self-attention and feed-forward map."""
    block = stack(n_layers=1, norm=norm, cross_attention=True).blocks[0]
    x, memory, mask = normal(2, 3, 4), normal(2, 5, 4), Mask.padding([5, 2], 5)

    def half(x, norm_layer, part):
        return x + part(norm_layer(x)) if norm == "pre" else norm_layer(x + part(x))

    first = half(x, block.attention_norm, block.attention)
    second = half(first, block.cross_norm, lambda h: block.cross_attention(h, memory, mask))
    whole = half(second, block.feed_forward_norm, block.feed_forward)
    assert block(x, None, memory, mask).tolist() == whole.tolist()


def test_memory_where_there_must_be_one_and_none_where_there_must_not(backend):
    x = normal(1, 2, 4)
    with pytest.raises(ValueError, match="needs a memory, one without takes none"):
        stack(cross_attention=True)(x)
    with pytest.raises(ValueError, match="needs a memory, one without takes none"):
        stack()(x, memory=x)


def test_what_is_hidden_of_the_memory_influences_nothing(backend):
    model = loud(EncoderDecoder(1, 1, 4, 2, 8, 0.0))
    source, target = normal(2, 4, 4, requires_grad=True), normal(2, 3, 4)
    y = model(source, target, Mask.padding([4, 2], 4))
    y.sum().backward()
    assert [any(row) for row in source.grad.tolist()[1]] == [True, True, False, False]
    assert all(any(row) for row in source.grad.tolist()[0])
    alone = model(source[1:, :2], target[1:])
    assert close(y[1].tolist(), alone[0].tolist())


def test_a_memory_that_is_all_hidden_gives_zeros_and_finite_gradients(backend):
    model = loud(EncoderDecoder(1, 1, 4, 2, 8, 0.0))
    source, target = normal(2, 4, 4, requires_grad=True), normal(2, 3, 4, requires_grad=True)
    (model(source, target, Mask.padding([4, 0], 4)) ** 2).sum().backward()
    assert set(flat(source.grad[1])) == {0.0}
    for parameter in [source, target, *model.parameters()]:
        assert all(map(math.isfinite, flat(parameter.grad)))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("pieces", [[1, 1, 1, 1, 1], [3, 2]])
def test_a_cache_changes_nothing_but_the_work(backend, position, pieces):
    decoder = stack(position=POSITIONS[position], cross_attention=True)
    x, memory, mask = normal(2, 5, 4), normal(2, 3, 4), Mask.padding([3, 1], 3)
    with no_grad():
        whole = decoder(x, None, memory, mask).tolist()
        cache, rows, begin = Cache(), [[], []], 0
        for piece in pieces:
            y = decoder(x[:, begin:begin + piece], None, memory, mask, cache=cache).tolist()
            rows = [row + new for row, new in zip(rows, y)]
            begin += piece
    assert close(rows, whole)
    assert cache.held(decoder.blocks[0].attention) == 5
    assert cache.held(decoder.blocks[1].cross_attention) == 3


def test_a_memory_is_projected_once(backend, monkeypatch):
    decoder = stack(n_layers=1, cross_attention=True)
    cross, calls = decoder.blocks[0].cross_attention, []
    forward = type(cross.key).forward

    def counted(self, x):
        if self is cross.key:
            calls.append(x.shape)
        return forward(self, x)
    monkeypatch.setattr(type(cross.key), "forward", counted)
    cache, memory = Cache(), normal(1, 3, 4)
    for _ in range(3):
        decoder(normal(1, 1, 4), memory=memory, cache=cache)
    assert calls == [(1, 3, 4)]


def test_places_reach_every_block(backend):
    decoder, x = stack(position=Rotary), normal(1, 3, 4)
    assert decoder(x).tolist() == decoder(x, places=at([[0, 1, 2]])).tolist()
    assert not close(decoder(x).tolist(), decoder(x, places=at([[0, 2, 5]])).tolist(), 1e-3)


def test_two_hundred_lecture_blocks_deep_with_finite_gradients(backend):
    """Slide 19 says hundreds; those with the norm before stand in test_blocks."""
    manual_seed(0)
    deep = Decoder(200, 2, 1, 2, 0.0, norm="post", order="lecture", norm_kind="lecture",
                   projections=False)
    x = normal(1, 2, 2, requires_grad=True)
    (deep(x) * normal(1, 2, 2)).sum().backward()
    for parameter in [x, *deep.parameters()]:
        assert all(map(math.isfinite, flat(parameter.grad)))
    assert any(flat(deep.blocks[-1].feed_forward.outer.weight.grad))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("make", [lambda **o: Encoder(2, 4, 2, 8, 0.0, **o),
                                  lambda **o: Decoder(2, 4, 2, 8, 0.0, norm="post", **o)])
def test_a_dropout_of_0_is_0_inside_attention_too(backend, position, make):
    """Peers keep 0.1 on the weights when the model is told 0."""
    manual_seed(0)
    layers, x = loud(make(position=POSITIONS[position])), normal(2, 3, 4)
    drawn = stream.state()
    assert layers(x).tolist() == layers(x).tolist() and layers.training
    assert stream.state() == drawn, "nothing is even drawn"


@pytest.mark.parametrize("position", POSITIONS)
def test_every_dropout_is_on_in_training_and_off_in_eval(backend, position):
    layers, x = stack(dropout=0.5, position=POSITIONS[position]), normal(2, 3, 4)
    assert layers(x).tolist() != layers(x).tolist()
    layers.eval()
    drawn, calm = stream.state(), layers(x).tolist()
    assert layers(x).tolist() == calm and stream.state() == drawn
    assert calm == stack(dropout=0.0, position=POSITIONS[position])(x).tolist()


def test_the_dropout_of_the_weights_may_be_another(backend):
    for falls, equal in ((0.0, True), (0.9, False)):
        block = Block(4, 2, 8, 0.0, attention_dropout=falls)
        assert block.attention.dropout == falls and block.dropout.p == 0.0
        manual_seed(0)
        x = normal(2, 3, 4)
        loud(block)
        assert (block(x).tolist() == block(x).tolist()) is equal


def test_all_blocks_share_the_buckets_of_t5_where_they_are_given_one(backend):
    shared = T5Bias(2)
    layers = Encoder(3, 4, 2, 8, position=lambda: shared)
    assert [name for name, _ in layers.named_parameters() if "position" in name] == [
        "blocks.0.attention.position.weight"]
    apart = Encoder(3, 4, 2, 8, position=lambda: T5Bias(2))
    assert len([name for name, _ in apart.named_parameters() if "position" in name]) == 3


def test_an_encoder_decoder_of_vectors_takes_a_mask_for_either_side(backend):
    manual_seed(0)
    model = loud(EncoderDecoder(1, 1, 4, 2, 8, 0.0))
    source, target = normal(2, 4, 4), normal(2, 3, 4)
    y = model(source, target, Mask.padding([4, 2], 4), Mask.padding([3, 2], 3))
    memory = model.encoder(source, Mask.padding([4, 2], 4))
    assert y.tolist() == model.decoder(target, Mask.causal(3) & Mask.padding([3, 2], 3), memory,
                                       Mask.padding([4, 2], 4)).tolist()
    assert y.tolist() != model(source, target, Mask.padding([4, 2], 4)).tolist()
