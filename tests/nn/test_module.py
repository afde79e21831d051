"""Module: what the walk finds, what loading refuses, how a model is copied and printed."""

from __future__ import annotations

import copy
import os
import pickle
import sys
from typing import Any, Generic, List, TypeVar

import pytest

from tinyformer import functional as F
from tinyformer import manual_seed, tensor
from tinyformer.arrays import xp
from tinyformer.models import DecoderConfig, DecoderModel
from tinyformer.nn import Dropout, Embedding, FeedForward, Linear, Module, Parameter
from tinyformer.training.optimisers import SGD, AdamW


class Zoo(Module):
    """Parameters and modules wherever the walk has to look."""

    def __init__(self) -> None:
        self.first = Linear(2, 3)
        self.rows = [Linear(1, 1, bias=False), "no module", (Parameter([1.0]), None)]
        self.scale = Parameter([2.0, 3.0])
        self.named = {"left": Linear(1, 2, bias=False), "right": [Parameter([4.0])], 7: 8}
        self.table = tensor([5.0], requires_grad=True)      # a tensor, but no Parameter
        self.again = self.first


class Tied(Module):
    """Two layers that share a weight, and one module under two names."""

    def __init__(self) -> None:
        self.tokens = Embedding(3, 2)
        self.output = Linear(2, 3, bias=False)
        self.output.weight = self.tokens.weight
        self.twin = self.tokens

    def forward(self, ids: Any) -> Any:
        """The scores of every token."""
        return self.output(self.twin(ids))


ALL = ["scale", "rows.2.0", "named.right.0", "first.weight", "first.bias", "rows.0.weight",
       "named.left.weight"]


def small_model(tie: bool = True, dropout: float = 0.0) -> DecoderModel:
    """A model of 2 blocks, from seed 0."""
    manual_seed(0)
    return DecoderModel(DecoderConfig(5, 4, d_model=4, n_layers=2, n_heads=2, dropout=dropout,
                                      tie_weights=tie))


def numbers(module: Module) -> List[Any]:
    """All parameters as lists, for comparison."""
    return [parameter.tolist() for parameter in module.parameters()]


def test_the_walk_finds_attributes_lists_tuples_and_dicts(backend):
    zoo = Zoo()
    names = [name for name, _ in zoo.named_parameters()]
    assert sorted(names) == sorted(ALL) and len(names) == len(set(names))
    assert [id(p) for p in zoo.parameters()] == [id(p) for _, p in zoo.named_parameters()]
    assert zoo.n_parameters() == 9 + 1 + 1 + 2 + 2 + 1


def test_own_parameters_come_first_then_those_of_children_in_the_order_of_assignment(backend):
    assert [name for name, _ in Zoo().named_parameters()] == [
        "rows.2.0", "scale", "named.right.0", "first.weight", "first.bias", "rows.0.weight",
        "named.left.weight"]


def test_what_is_assigned_late_or_replaced_is_found(backend):
    layer = Linear(2, 2)
    layer.weight = Parameter([[1.0, 2.0], [3.0, 4.0]])
    layer.extra = Parameter([5.0])
    assert list(layer.state_dict()) == ["weight", "bias", "extra"]
    assert layer.state_dict()["weight"] is layer.weight
    layer.bias = None
    assert list(layer.state_dict()) == ["weight", "extra"]


def test_named_modules_each_once_parents_before_children_in_order(backend):
    names = [name for name, _ in small_model().named_modules()]
    block = ["", ".attention_norm", ".attention", ".attention.query", ".attention.key",
             ".attention.value", ".attention.output", ".feed_forward_norm", ".feed_forward",
             ".feed_forward.inner", ".feed_forward.outer", ".dropout"]
    assert names == ["", "tokens", "positions", "positions.table", "dropout", "stack",
                     *[f"stack.blocks.0{name}" for name in block],
                     *[f"stack.blocks.1{name}" for name in block], "stack.norm"]
    assert [name for name, _ in Zoo().named_modules("zoo")] == [
        "zoo", "zoo.first", "zoo.rows.0", "zoo.named.left"]


def test_a_module_that_knows_its_parent_ends_the_walk(backend):
    parent, child = Module(), Linear(1, 1)
    parent.child, child.parent = child, parent
    assert [name for name, _ in parent.named_modules()] == ["", "child"]
    assert list(parent.state_dict()) == ["child.weight", "child.bias"]


def test_shared_parameters_count_once_under_their_first_name(backend):
    model = Tied()
    assert list(model.state_dict()) == ["tokens.weight"]
    assert model.n_parameters() == 6 and len(model.parameters()) == 1
    model([[0, 1]]).sum().backward()
    assert model.tokens.weight.grad.shape == (3, 2)


def test_freeze_unfreeze_train_eval_reach_everything_and_return_the_module(backend):
    model = small_model()
    assert all(p.requires_grad for p in model.parameters())
    assert model.freeze() is model and not any(p.requires_grad for p in model.parameters())
    assert model.unfreeze() is model and all(p.requires_grad for p in model.parameters())
    assert model.training and model.eval() is model
    assert not any(module.training for _, module in model.named_modules())
    assert model.train() is model and all(module.training for _, module in model.named_modules())
    assert Linear(1, 1).training, "eval() of one module changes no other"


def test_a_frozen_part_gets_no_gradient_and_the_rest_does(backend):
    model = small_model(tie=False)
    model.tokens.freeze()
    model([[1, 2]]).sum().backward()
    assert model.tokens.weight.grad is None and model.output.weight.grad is not None


def test_evaluating_gives_every_module_its_own_mode_back(backend):
    model = small_model()
    model.stack.eval()
    former = [module.training for _, module in model.named_modules()]
    with pytest.raises(KeyError):
        with model.evaluating():
            assert not any(module.training for _, module in model.named_modules())
            raise KeyError
    assert [module.training for _, module in model.named_modules()] == former
    assert len(set(former)) == 2


def test_zero_grad_forgets(backend):
    model = small_model()
    model([[1, 2]]).sum().backward()
    assert model.tokens.weight.grad is not None
    model.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_module_without_forward_says_so(backend):
    with pytest.raises(NotImplementedError, match="Zoo does not define forward"):
        Zoo()(1)


def test_loading_what_another_model_has(backend):
    one, other = small_model(), small_model()
    for parameter in other.parameters():
        parameter.data = xp.zeros_like(parameter.data)
    other.load_state_dict(one.state_dict())
    assert numbers(other) == numbers(one)
    lists = {name: value.tolist() for name, value in one.state_dict().items()}
    arrays = {name: value.data for name, value in one.state_dict().items()}
    for state in (lists, arrays):
        fresh = small_model()
        fresh.tokens.weight.data = xp.zeros_like(fresh.tokens.weight.data)
        fresh.load_state_dict(state)
        assert numbers(fresh) == numbers(one)
        assert {p.dtype for p in fresh.parameters()} == {p.dtype for p in one.parameters()}


@pytest.mark.parametrize("optimiser", [lambda p: SGD(p, lr=0.1, momentum=0.9),
                                       lambda p: AdamW(p, lr=0.1)])
def test_training_a_model_leaves_the_one_it_was_loaded_from_alone(backend, optimiser):
    one, other = small_model(), small_model()
    other.load_state_dict(one.state_dict())
    former = numbers(one)
    steps = optimiser(other.named_parameters())
    for _ in range(2):
        F.cross_entropy(other([[1, 2]])[0], tensor([2, 3])).backward()
        steps.step()
    assert numbers(one) == former and numbers(other) != former


def test_loading_names_every_misfit_and_changes_nothing(backend):
    model = small_model()
    former = numbers(model)
    state = {name: (value * 0.0).tolist() for name, value in model.state_dict().items()}
    del state["positions.table.weight"], state["stack.norm.bias"]
    state.update({"tokens.weight": [[1.0, 2.0]], "stack.norm.weight": 7.0, "stray": [1.0],
                  "stack.blocks.0.attention.query.bias": [[1.0], [2.0, 3.0]],
                  "stack.blocks.2.dropout": [2.0]})
    with pytest.raises(ValueError) as caught:
        model.load_state_dict(state)
    lines = str(caught.value).split("\n")
    assert lines[0] == "these weights do not fit DecoderModel; nothing was changed:"
    assert sorted(line.strip() for line in lines[1:] if "query.bias" not in line) == [
        "positions.table.weight: missing, shape (4, 4) needed",
        "stack.blocks.2.dropout: unexpected, there is no such parameter",
        "stack.norm.bias: missing, shape (4,) needed",
        "stack.norm.weight: shape () given, (4,) needed",
        "stray: unexpected, there is no such parameter",
        "tokens.weight: shape (1, 2) given, (5, 4) needed"]
    assert len([line for line in lines if "stack.blocks.0.attention.query.bias: " in line]) == 1
    assert numbers(model) == former


def test_loading_in_part(backend):
    model = small_model()
    former = model.tokens.weight.tolist()
    model.load_state_dict({"stack.norm.bias": [1.0, 2.0, 3.0, 4.0], "stray": [1.0]}, strict=False)
    assert model.stack.norm.bias.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert model.tokens.weight.tolist() == former
    with pytest.raises(ValueError, match=r"norm.bias: shape \(1,\) given, \(4,\) needed"):
        model.load_state_dict({"stack.norm.bias": [1.0]}, strict=False)


def test_a_tied_weight_may_come_under_any_of_its_names(backend):
    table = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    for names in (["tokens.weight"], ["output.weight"], ["twin.weight"],
                  ["output.weight", "tokens.weight", "twin.weight"]):
        model = Tied()
        model.load_state_dict({name: table for name in names})
        assert model.tokens.weight.tolist() == table
        assert model.output.weight is model.tokens.weight is model.twin.weight
    model = Tied()
    former = model.tokens.weight.tolist()
    with pytest.raises(ValueError, match="tokens.weight or output.weight or twin.weight: missing"):
        model.load_state_dict({})
    with pytest.raises(ValueError, match="  output.weight: other numbers than under another name"):
        model.load_state_dict({"tokens.weight": table, "output.weight": [[0.0, 0.0]] * 3})
    assert model.tokens.weight.tolist() == former


def test_a_loaded_parameter_keeps_its_dtype_and_its_identity(backend):
    layer = Linear(2, 1, bias=False)
    weight, dtype = layer.weight, layer.weight.dtype
    layer.load_state_dict({"weight": [[1, 2]]})
    assert layer.weight is weight and weight.dtype == dtype and weight.tolist() == [[1.0, 2.0]]
    assert weight.requires_grad


def test_loading_between_forward_and_backward_is_noticed(backend):
    layer = Linear(2, 1)
    y = layer(tensor([[1.0, 2.0]])).sum()
    layer.load_state_dict(layer.state_dict())
    with pytest.raises(RuntimeError, match="was replaced"):
        y.backward()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copied_model_keeps_its_ties_and_shares_nothing(backend, duplicate):
    for model in (Tied(), small_model(), small_model(tie=False)):
        model.eval()
        twin = duplicate(model)
        assert list(twin.state_dict()) == list(model.state_dict())
        assert numbers(twin) == numbers(model)
        assert all(type(p) is Parameter and p.requires_grad for p in twin.parameters())
        assert not {id(p) for p in twin.parameters()} & {id(p) for p in model.parameters()}
        assert twin([[0, 1, 2]]).tolist() == model([[0, 1, 2]]).tolist()
        former = numbers(model)
        twin.tokens.weight.data = xp.zeros_like(twin.tokens.weight.data)
        assert numbers(model) == former
        assert not twin.training
    tied = duplicate(Tied())
    assert tied.output.weight is tied.tokens.weight and tied.twin is tied.tokens


def test_print_folds_equal_blocks_and_counts_parameters(backend):
    assert repr(small_model(dropout=0.1)).split("\n") == [
        "DecoderModel(                                       532",
        "  (tokens): Embedding(5, 4)                          20",
        "  (positions): Learned(                              16",
        "    (table): Embedding(4, 4)                         16",
        "  )",
        "  (dropout): Dropout(p=0.1)",
        "  (stack): Decoder(                                 496",
        "    (blocks.0-1): 2 x Block(                        488",
        "      norm=pre",
        "      (attention_norm): LayerNorm(4, eps=1e-05)       8",
        "      (attention): MultiHeadAttention(               80",
        "        n_heads=2, dropout=0.1",
        "        (query): Linear(4, 4)                        20",
        "        (key): Linear(4, 4)                          20",
        "        (value): Linear(4, 4)                        20",
        "        (output): Linear(4, 4)                       20",
        "      )",
        "      (feed_forward_norm): LayerNorm(4, eps=1e-05)    8",
        "      (feed_forward): FeedForward(                  148",
        "        gelu_tanh",
        "        (inner): Linear(4, 16)                       80",
        "        (outer): Linear(16, 4)                       68",
        "      )",
        "      (dropout): Dropout(p=0.1)",
        "    )",
        "    (norm): LayerNorm(4, eps=1e-05)                   8",
        "  )",
        ")"]


def test_print_folds_only_equal_neighbours_and_counts_what_is_shared_once(backend):
    several = Module()
    several.parts = [Linear(1, 2), Linear(1, 2), Linear(1, 3), Linear(1, 2)]
    several.shared = [several.parts[0]] * 3
    several.gain = Parameter([1.0, 2.0])
    several.off = Dropout(0.5)
    assert repr(several).split("\n") == [
        "Module(                           20",
        "  (gain): Parameter(2,)            2",
        "  (parts.0-1): 2 x Linear(1, 2)    8",
        "  (parts.2): Linear(1, 3)          6",
        "  (parts.3): Linear(1, 2)          4",
        "  (shared.0-2): 3 x Linear(1, 2)   4",
        "  (off): Dropout(p=0.5)",
        ")"]
    assert repr(Linear(3, 1, bias=False)) == "Linear(3, 1, bias=False)  3"


def test_a_bare_tensor_never_takes_the_place_of_a_parameter(backend):
    layer = Linear(2, 1)
    with pytest.raises(TypeError, match="Linear.weight is a parameter"):
        layer.weight = tensor([[1.0, 2.0]])
    layer.weight.data = tensor([[1.0, 2.0]]).data
    layer.weight = Parameter([[3.0, 4.0]])
    layer.bias = None
    assert [name for name, _ in layer.named_parameters()] == ["weight"]


class Doubled(Module):
    """A user's module around one of the package."""

    def __init__(self, inner):
        self.inner = inner

    def forward(self, x):
        self.line = sys._getframe().f_lineno + 1
        return self.inner(x) * 2.0


def place_of(tensor):
    return os.path.basename(tensor._node.where[0]), tensor._node.where[1]


def test_an_operation_names_the_line_that_called_the_module(backend):
    """Deep in modules of the package it is the line that called the outermost; in a user's own
    module, the line there; and afterwards nothing is left of either."""
    layer, x = FeedForward(2, 3), tensor([[1.0, 2.0]], requires_grad=True)
    here = os.path.basename(__file__)
    line = sys._getframe().f_lineno + 1
    assert place_of(layer(x)) == (here, line)
    mine = Doubled(layer)
    assert place_of(mine(x)) == (here, mine.line)
    layer.outer = Doubled(layer.outer)         # a user's inside one of the package
    assert place_of(layer(x)) == (here, layer.outer.line)
    with pytest.raises(ValueError):
        FeedForward(2, 3)(tensor([[1.0]]))
    line = sys._getframe().f_lineno + 1
    assert place_of(x * 2.0) == (here, line)


def test_what_a_user_writes_within_a_layer_is_named_by_its_own_line(backend):
    """An activation, and a method put in the place of one of the package's."""
    lines = {}

    def activation(x):
        lines["activation"] = sys._getframe().f_lineno + 1
        return x * 2.0

    class Mine(FeedForward):
        def forward(self, x):
            lines["forward"] = sys._getframe().f_lineno + 1
            return super().forward(x) * 3.0

    layer, x = FeedForward(2, 3), tensor([[1.0, 2.0]], requires_grad=True)
    layer.function, layer.outer = activation, lambda hidden: hidden
    assert place_of(layer(x)) == (os.path.basename(__file__), lines["activation"])
    assert place_of(Mine(2, 3)(x)) == (os.path.basename(__file__), lines["forward"])


def test_a_module_goes_together_with_other_bases():
    class Tagged:
        def __init_subclass__(cls, tag=0, **options):
            super().__init_subclass__(**options)
            cls.tag = tag

    class Both(Module, Tagged, tag=3):
        """With an option of the other base."""

    T = TypeVar("T")

    class Of(Module, Generic[T]):
        """With a parameter."""

    assert Both.tag == 3 and Of[int] is not None
