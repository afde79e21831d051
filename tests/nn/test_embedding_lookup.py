"""The handout's first section: ids are names, a lookup is a one-hot row times E, and its gradient
is S^T G, an itemised bill."""

from __future__ import annotations

import pytest
from trials import close, dot

from tinyformer import functional as F
from tinyformer import manual_seed, set_default_dtype, tensor
from tinyformer.arrays import xp
from tinyformer.nn import Block, Embedding, Linear, Module, described
from tinyformer.training.optimisers import SGD, AdamW

E = [[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]]


@pytest.fixture(autouse=True)
def double():
    with set_default_dtype("float64"):
        yield


def table():
    """The handout's E."""
    layer = Embedding(3, 4)
    layer.weight.data = xp.asarray(E)
    return layer


def test_the_sequence_2_0(backend):
    x = table()([2, 0])
    assert x.tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]
    assert table().n_parameters() == 12 and x.size == 8


def test_neighbouring_ids_need_not_be_near(backend):
    """Squared distances 1, 4 and 3."""
    rows = table().weight

    def apart(i, j):
        difference = (rows[i] - rows[j]).tolist()
        return dot(difference, difference)
    assert (apart(0, 1), apart(0, 2), apart(1, 2)) == (1, 4, 3)


def test_a_lookup_is_a_one_hot_row_times_e_to_the_last_bit(backend):
    manual_seed(0)
    layer = Embedding(7, 3)
    one_hot = tensor([[float(column == i) for column in range(7)] for i in (4, 0, 4)])
    assert layer([4, 0, 4]).tolist() == (one_hot @ layer.weight).tolist()


@pytest.mark.parametrize("ids, bill, expected", [
    ([2, 0], [[1, 2, 3, 4], [5, 6, 7, 8]], [[5, 6, 7, 8], [0, 0, 0, 0], [1, 2, 3, 4]]),
    ([2, 0, 2], [[1, 2, 3, 4], [10, 20, 30, 40], [100, 200, 300, 400]],
     [[10, 20, 30, 40], [0, 0, 0, 0], [101, 202, 303, 404]])])
def test_the_gradient_is_the_transposed_choice_times_g(backend, ids, bill, expected):
    """Repeated ids add up: `grad[ids] += G` would keep the last alone."""
    layer = table()
    layer(ids).backward(tensor([[float(g) for g in row] for row in bill]))
    assert layer.weight.grad.tolist() == expected


def test_a_gradient_of_0_is_no_rest(backend):
    """Row 1 is never looked up: its gradient is 0, and weight decay still takes its hundredth;
    what momentum is left over moves it; frozen, it stays."""
    layer = table()
    optimiser = AdamW([("weight", layer.weight)], lr=0.1, weight_decay=0.1)
    layer([2, 0]).sum().backward()
    assert layer.weight.grad.tolist()[1] == [0.0] * 4
    optimiser.step()
    assert close(layer.weight.tolist()[1], [0.99, 0.99, 0.99, 0.0])
    layer = table()
    with_momentum = SGD([("weight", layer.weight)], lr=0.1, momentum=0.9)
    for ids in ([1], [0]):
        layer.zero_grad()
        layer(ids).sum().backward()
        with_momentum.step()
    assert close(layer.weight.tolist()[1], [x - 0.1 - 0.09 for x in E[1]])


def test_a_frozen_table_stays_while_the_rest_learns(backend):
    class Probe(Module):
        """A table and a map of its vectors."""

        def __init__(self):
            self.tokens, self.output = table(), Linear(4, 2)

        def forward(self, ids):
            """Scores of two classes."""
            return self.output(self.tokens(ids))

    manual_seed(0)
    net = Probe()
    net.tokens.freeze()
    optimiser = AdamW(net.named_parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        net.zero_grad()
        loss = F.cross_entropy(net([2, 0]), tensor([0, 1]))
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] and net.tokens.weight.tolist() == E
    assert "tokens.weight" in net.state_dict() and net.tokens.weight.grad is None


def test_the_static_vector_is_one_and_the_hidden_ones_are_many(backend):
    """Row 9: the same word, alone and beside others."""
    manual_seed(0)
    layer, block = Embedding(7, 4), Block(4, 2, 8, 0.0, std=1.0, out_std=1.0)
    texts = [[3, 1], [3, 2], [3, 5]]
    static = layer(texts)[:, 0].tolist()
    hidden = block(layer(texts))[:, 0].tolist()
    assert static[0] == static[1] == static[2]
    assert not any(close(hidden[i], hidden[j], 1e-3) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_two_thirds_of_a_layer_are_its_feed_forward_map():
    """Slide 19: a layer of BERT-base has 7,087,872 parameters, 66.63 % of them in there."""
    with described():
        block = Block(768, 12, 3072)
    assert block.n_parameters() == 7_087_872
    assert round(100 * block.feed_forward.n_parameters() / 7_087_872, 2) == 66.63
