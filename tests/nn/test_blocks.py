"""Block, Stack and Learned positions: the residual stream, great depth, the end of the table."""

from __future__ import annotations

import math

import pytest

from tinyformer import manual_seed, tensor
from tinyformer.arrays import xp
from tinyformer.nn import Block, Learned, Mask, Stack


def normal(*shape, **options):
    """A tensor of draws."""
    from tinyformer.arrays.stream import stream
    return tensor(xp.astype(stream.normal(shape), xp.default_float), **options)


def test_a_block_adds_its_halves_to_what_comes_in(backend):
    """With halves that give only their last biases, x becomes x + (1,0) + (0,10)."""
    block = Block(2, 1, 3, dropout=0.0)
    for parameter in block.parameters():
        parameter.data = xp.zeros_like(parameter.data)
    block.attention.output.bias.data = xp.asarray([1.0, 0.0])
    block.feed_forward.outer.bias.data = xp.asarray([0.0, 10.0])
    assert block(tensor([[[5.0, 6.0]]])).tolist() == [[[6.0, 16.0]]]


def test_the_norm_stands_before_each_half(backend):
    """A block is blind to the size and the mean of its input, but for the way around."""
    manual_seed(0)
    block = Block(4, 2, 8, dropout=0.0, std=1.0, out_std=1.0)
    block.attention_norm.eps = block.feed_forward_norm.eps = 0.0
    x = normal(1, 3, 4)
    added = block.attention(block.attention_norm(x))
    moved = block.attention(block.attention_norm(x * 3.0 + 7.0))
    assert moved.reshape(-1).tolist() == pytest.approx(added.reshape(-1).tolist(), abs=1e-4)
    halfway = x + added
    whole = halfway + block.feed_forward(block.feed_forward_norm(halfway))
    assert block(x).tolist() == whole.tolist()


@pytest.mark.parametrize("dropout, equal", [(0.0, True), (0.5, False)])
def test_a_dropout_of_0_is_off_everywhere_and_eval_turns_all_off(backend, dropout, equal):
    """Attention, block and stack: no dropout keeps a probability of its own."""
    manual_seed(0)
    stack, x = Stack(2, 4, 2, 8, dropout), normal(2, 3, 4)
    assert (stack(x).tolist() == stack(x).tolist()) is equal
    stack.eval()
    assert stack(x).tolist() == stack(x).tolist()
    default = Stack(1, 4, 2, 8)
    assert {module.p for _, module in default.named_modules() if hasattr(module, "p")} == {0.1}
    assert default.blocks[0].attention.dropout == 0.1


def test_what_writes_into_the_stream_begins_smaller(backend):
    manual_seed(0)
    stack = Stack(8, 32, 2, 64)
    for name, parameter in stack.named_parameters():
        if name.endswith("output.weight") or name.endswith("outer.weight"):
            std = 0.02 / math.sqrt(16)
        elif name.endswith("norm.weight") or parameter.ndim == 1:
            continue
        else:
            std = 0.02
        values = parameter.reshape(-1).tolist()
        found = math.sqrt(sum(value * value for value in values) / len(values))
        assert found == pytest.approx(std, rel=0.15), name


def test_two_hundred_blocks_deep(backend):
    manual_seed(0)
    stack, x = Stack(200, 2, 1, 2, dropout=0.0), normal(1, 3, 2, requires_grad=True)
    y = stack(x, Mask.causal(3))
    (y * y).sum().backward()
    assert len(stack.parameters()) == 200 * 16 + 2
    assert all(parameter.grad is not None for parameter in stack.parameters())
    first = stack.blocks[0].attention.value.weight.grad.reshape(-1).tolist()
    assert all(math.isfinite(g) for g in first) and any(first)


def test_a_stack_of_none_is_its_norm(backend):
    stack, x = Stack(0, 4, 2, 8), normal(1, 2, 4)
    assert stack(x).tolist() == stack.norm(x).tolist()


@pytest.mark.parametrize("shape", [(1, 1, 4), (1, 7, 4), (3, 1, 4), (5, 3, 4)])
def test_odd_shapes(backend, shape):
    manual_seed(0)
    assert Block(4, 4, 5)(normal(*shape)).shape == shape


def test_learned_positions_add_one_vector_each(backend):
    positions = Learned(3, 2)
    positions.load_state_dict({"table.weight": [[1, 2], [3, 4], [5, 6]]})
    x = tensor([[[10.0, 10.0], [20.0, 20.0]], [[0.0, 0.0], [0.0, 0.0]]])
    assert positions.at_input(x, xp.arange(2)).tolist() == [
        [[11.0, 12.0], [23.0, 24.0]], [[1.0, 2.0], [3.0, 4.0]]]
    own = positions.at_input(x, xp.asarray([[1, 2], [0, 0]]))            # padded on the left
    assert own.tolist() == [[[13.0, 14.0], [25.0, 26.0]], [[1.0, 2.0], [1.0, 2.0]]]
    assert positions.max_len == 3


def test_beyond_the_last_position_both_numbers_are_named(backend):
    x = tensor(xp.zeros((1, 513, 2)))
    with pytest.raises(ValueError, match="513 positions are asked for, but learned positions reach "
                                         "only max_len=512: give a shorter sequence"):
        Learned(512, 2).at_input(x, xp.arange(513))
    with pytest.raises(IndexError, match="-1"):
        Learned(4, 2).at_input(tensor(xp.zeros((1, 1, 2))), xp.asarray([-1]))
