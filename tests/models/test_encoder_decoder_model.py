"""The encoder-decoder: two texts, one table or two, cross-attention, the cache, what it refuses."""

from __future__ import annotations

import math

import pytest
from family import apart, flat, model

from tinyformer import functional as F
from tinyformer import manual_seed, no_grad, set_default_dtype, tensor
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.models import POSITIONS, EncoderDecoderConfig, EncoderDecoderModel
from tinyformer.nn import Cache, recorded_attention

SOURCE, TARGET = [[1, 2, 3, 4], [5, 6, 0, 1]], [[1, 2, 3], [4, 5, 6]]


@pytest.fixture(autouse=True)
def double():
    with set_default_dtype("float64"):
        yield


@pytest.mark.parametrize("batch, source, target", [(1, 1, 1), (1, 8, 1), (3, 1, 8), (2, 5, 3)])
@pytest.mark.parametrize("options, vocabulary", [
    ({}, 7), ({"target_vocab_size": 5}, 5), ({"target_vocab_size": 5, "tie_weights": False}, 5),
    ({"tie_weights": False}, 7)])
def test_shapes_with_shared_and_separate_tables(backend, batch, source, target, options,
                                                vocabulary):
    net = model("encoder-decoder", **options)
    logits = net([[1] * source] * batch, [[2] * target] * batch)
    assert logits.shape == (batch, target, vocabulary)
    assert (net.target_tokens is net.tokens) is ("target_vocab_size" not in options)
    assert (net.output is None) is options.get("tie_weights", True)


@pytest.mark.parametrize("options", [{}, {"target_vocab_size": 5}, {"tie_weights": False},
                                     {"n_decoder_layers": 1}])
def test_parameters_are_as_many_as_the_sizes_say(backend, options):
    d, f, v = 4, 4, 7
    attention, feed_forward = 4 * (d * d + d), d * f + f + f * d + d
    encoder, decoder = attention + feed_forward + 4 * d, 2 * attention + feed_forward + 6 * d
    expected = v * d + 8 * d + 2 * encoder + 2 * d + 2 * d + options.get(
        "n_decoder_layers", 2) * decoder + options.get("target_vocab_size", 0) * d
    expected += 0 if options.get("tie_weights", True) else v * d
    assert model("encoder-decoder", **options).n_parameters() == expected


def test_it_is_encode_and_then_decode(backend):
    net = model("encoder-decoder")
    memory = net.encode(SOURCE, [4, 2])
    assert memory.shape == (2, 4, 4)
    assert net.decode(TARGET, memory, [4, 2]).tolist() == net(SOURCE, TARGET, [4, 2]).tolist()
    assert net.decode(TARGET, memory).tolist() != net(SOURCE, TARGET, [4, 2]).tolist()


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_parameter_gets_a_gradient(backend, positions, norm):
    net = model("encoder-decoder", positions, norm=norm, target_vocab_size=6, tie_weights=False)
    y = net([[1, 2, 3, 4, 5, 6, 0]], [[1, 2, 3, 4, 5, 0]])
    y.backward(tensor(xp.astype(stream.normal(y.shape), xp.default_float)))
    for name, parameter in net.named_parameters():
        values = flat(parameter.grad)
        assert all(map(math.isfinite, values)), name
        assert name.endswith("key.bias") or max(map(abs, values)) > 1e-9, name


def test_the_target_attends_to_the_whole_source_in_every_layer(backend):
    net = model("encoder-decoder")
    with recorded_attention(net) as records:
        net(SOURCE, TARGET, [4, 2])
    shapes = {name: weights[0].shape for name, weights in records.items()}
    assert shapes == {
        **{f"encoder.blocks.{i}.attention": (2, 2, 4, 4) for i in range(2)},
        **{f"decoder.blocks.{i}.attention": (2, 2, 3, 3) for i in range(2)},
        **{f"decoder.blocks.{i}.cross_attention": (2, 2, 3, 4) for i in range(2)}}
    for i in range(2):
        cross = records[f"decoder.blocks.{i}.cross_attention"][0].tolist()
        assert all(w > 0 for head in cross[0] for row in head for w in row)
        assert all(row[2:] == [0.0, 0.0] and sum(row) == pytest.approx(1)
                   for head in cross[1] for row in head)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("pieces", [[1, 1, 1, 1], [2, 2]])
def test_a_cache_changes_nothing(backend, positions, pieces):
    net, target = model("encoder-decoder", positions), [[1, 2, 3, 4], [6, 5, 4, 3]]
    with no_grad():
        memory = net.encode(SOURCE, [4, 2])
        whole, results = net.decode(target, memory, [4, 2]), []
        for _ in range(2):                              # the second time after a reset
            cache, rows, begin = Cache(), [], 0
            for piece in pieces:
                part = [row[begin:begin + piece] for row in target]
                rows.append(net.decode(part, memory, [4, 2], cache=cache))
                begin += piece
            results.append(F.concat(rows, axis=1).tolist())
    assert apart(results[0], whole.tolist()) < 1e-10 and results[1] == results[0]


def test_a_cache_follows_the_rows_that_are_chosen(backend):
    """As a beam does: rows die, double and change places."""
    net = model("encoder-decoder", "t5")
    with no_grad():
        memory, cache = net.encode(SOURCE, [4, 2]), Cache()
        net.decode([[1, 2], [3, 4]], memory, [4, 2], cache=cache)
        cache.select([1, 1, 0])
        chosen = tensor([memory[row].tolist() for row in (1, 1, 0)])
        now = net.decode([[5], [6], [0]], chosen, [2, 2, 4], cache=cache)
        plain = net.decode([[3, 4, 5], [3, 4, 6], [1, 2, 0]], chosen, [2, 2, 4])
    assert apart(now[:, 0].tolist(), plain[:, -1].tolist()) < 1e-10


def test_dropout_is_on_in_training_and_off_in_eval(backend):
    loose, firm = model("encoder-decoder", dropout=0.5), model("encoder-decoder")
    assert loose(SOURCE, TARGET).tolist() != loose(SOURCE, TARGET).tolist()
    drawn = stream.state()
    assert firm(SOURCE, TARGET).tolist() == firm(SOURCE, TARGET).tolist()
    assert loose.eval()(SOURCE, TARGET).tolist() == firm(SOURCE, TARGET).tolist()
    assert stream.state() == drawn


def test_an_untrained_model_is_undecided(backend):
    manual_seed(0)
    net = EncoderDecoderModel(EncoderDecoderConfig(50, 8, d_model=8, n_layers=1, n_heads=2))
    loss = F.cross_entropy(net([[1, 2, 3]], [[4, 5, 6]]).reshape(3, 50), tensor([7, 8, 9]))
    assert loss.item() == pytest.approx(math.log(50), rel=0.05)


def test_what_it_refuses(backend):
    net = model("encoder-decoder", target_vocab_size=5)
    for source, target, error, message in (
            ([[1, 7]], [[1]], IndexError, r"id 7 at position \(0, 1\) .* vocabulary of 7"),
            ([[1]], [[1, 5]], IndexError, r"id 5 at position \(0, 1\) .* vocabulary of 5"),
            ([1], [[1]], ValueError, r"shape \(B, T\)"), ([[1]], [1], ValueError, r"shape \(B, T"),
            ([[1] * 9], [[1]], ValueError, "9 positions are asked for, .* max_len=8"),
            ([[1]], [[1] * 9], ValueError, "9 positions are asked for, .* max_len=8"),
            ([[1], [2]], [[1]], ValueError, r"attention leads from x \(B, T, D\) to memory "
                                            r"\(B, S, D\), not from \(1, 1, 4\) to \(2, 1, 4\)")):
        with pytest.raises(error, match=message):
            net(source, target)
