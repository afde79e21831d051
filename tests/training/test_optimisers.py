"""Optimisers against PyTorch's own steps; who is updated, who is decayed; clipping."""
import copy
import json
import math
import pickle
from pathlib import Path

import pytest

from tinyformer.arrays import set_default_dtype, xp
from tinyformer.arrays.stream import Stream
from tinyformer.autograd import Tensor, tensor
from tinyformer.training import optimisers
from tinyformer.training.optimisers import SGD, Adam, AdamW, clip_grad_norm

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "optimisers.json").read_text("utf-8"))


@pytest.fixture(autouse=True)
def float64(backend):
    with set_default_dtype("float64"):
        yield


def flat(nested):
    return [x for item in nested for x in flat(item)] if isinstance(nested, list) else [nested]


def words_of(run):
    return f"{run['name']}-{len(run['settings'])}"


def weight_and_bias():
    return [("weight", tensor(GOLDEN["start"][0], requires_grad=True)),
            ("bias", tensor(GOLDEN["start"][1], requires_grad=True))]


def set_gradients(parameters, gradients):
    for (_, parameter), gradient in zip(parameters, gradients):
        parameter.grad = None if gradient is None else tensor(gradient)


@pytest.mark.parametrize("run", GOLDEN["runs"], ids=words_of)
def test_steps_equal_those_of_pytorch(run):
    parameters = weight_and_bias()
    optimiser = getattr(optimisers, run["name"])(parameters, **run["settings"])
    for rate, gradients, expected in zip(GOLDEN["rates"], GOLDEN["gradients"], run["steps"]):
        set_gradients(parameters, gradients)
        optimiser.step(run["settings"]["lr"] * rate)
        for (_, parameter), values in zip(parameters, expected):
            assert flat(parameter.tolist()) == pytest.approx(flat(values), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("run", GOLDEN["runs"], ids=words_of)
@pytest.mark.parametrize("pause", [0, 2, 3])
def test_a_state_saved_and_loaded_goes_on_bit_for_bit(run, pause):
    parameters = weight_and_bias()
    make = getattr(optimisers, run["name"])
    optimiser = make(parameters, **run["settings"])
    for step, gradients in enumerate(GOLDEN["gradients"]):
        if step == pause:
            state = optimiser.state_dict()
            state = {**json.loads(json.dumps({k: v for k, v in state.items() if k != "arrays"})),
                     "arrays": state["arrays"]}
            others = [(name, tensor(p.tolist(), requires_grad=True)) for name, p in parameters]
            again = make(others, lr=0.77)
        if step >= pause:
            set_gradients(others, gradients)
        set_gradients(parameters, gradients)
        optimiser.step()
        if step == pause:
            again.load_state_dict(state)
        if step >= pause:
            again.step()
            assert [p.tolist() for _, p in others] == [p.tolist() for _, p in parameters]


@pytest.mark.parametrize("make", [SGD, Adam, AdamW])
def test_only_parameters_of_two_axes_are_decayed(make):
    parameters = [tensor(values, requires_grad=True) for values in ([[1.0, 2.0]], [1.0, 2.0], 1.0)]
    optimiser = make(parameters, lr=0.1, weight_decay=0.5)
    for parameter in parameters:
        parameter.grad = Tensor(xp.zeros_like(parameter.data))
    optimiser.step()
    assert parameters[1].tolist() == [1.0, 2.0] and parameters[2].item() == 1.0
    assert all(after < before for after, before in zip(parameters[0].tolist()[0], [1.0, 2.0]))
    assert "; decayed: 1 tensors, 2 numbers; not decayed: 2 tensors, 3 numbers" in repr(optimiser)


def test_decoupled_decay_does_not_depend_on_the_gradient():
    moved = []
    for size in (1.0, 1000.0):
        p = tensor([[2.0]], requires_grad=True)
        plain = tensor([[2.0]], requires_grad=True)
        for parameter, decay in ((p, 0.5), (plain, 0.0)):
            parameter.grad = tensor([[size]])
            AdamW([parameter], lr=0.1, weight_decay=decay).step()
        moved.append(plain.item() - p.item())
    assert moved == [pytest.approx(0.1 * 0.5 * 2.0, rel=1e-12)] * 2


def test_a_shared_parameter_is_updated_once():
    shared = tensor([[1.0]], requires_grad=True)
    optimiser = SGD([("a.weight", shared), ("b.weight", shared)], lr=0.25)
    shared.grad = tensor([[1.0]])
    optimiser.step()
    assert list(optimiser.parameters) == ["a.weight"]
    assert shared.item() == 0.75
    assert clip_grad_norm([shared, shared]) == 1.0


def test_what_has_no_gradient_is_left_alone_and_its_steps_are_not_counted():
    late, early = tensor([1.0], requires_grad=True), tensor([1.0], requires_grad=True)
    optimiser = Adam([("late", late), ("early", early)], lr=0.1)
    for _ in range(50):
        early.grad = tensor([1.0])
        optimiser.step()
    assert late.item() == 1.0 and optimiser.steps == {"late": 0, "early": 50}
    late.grad = tensor([1.0])
    optimiser.step()
    assert late.item() == pytest.approx(0.9, abs=1e-6)      # the first step of Adam is lr, always


def test_a_step_is_noticed_by_graphs_and_leaves_former_arrays_alone():
    p = tensor([[1.0, 2.0]], requires_grad=True)
    before, version = p.data, p.version
    loss = (p * p).sum()
    p.grad = tensor([[1.0, 1.0]])
    optimiser = AdamW([p], lr=0.1)
    for _ in range(2):
        optimiser.step()
    assert before.tolist() == [[1.0, 2.0]] and p.version > version
    with pytest.raises(RuntimeError, match="replaced"):
        loss.backward()


def test_a_saved_state_does_not_change_with_later_steps():
    parameters = weight_and_bias()
    optimiser = AdamW(parameters)
    set_gradients(parameters, GOLDEN["gradients"][0])
    optimiser.step()
    state = optimiser.state_dict()
    before = json.dumps({name: array.tolist() for name, array in state["arrays"].items()})
    optimiser.step()
    assert json.dumps({name: array.tolist() for name, array in state["arrays"].items()}) == before
    assert state["steps"] == {"weight": 1, "bias": 1}


def test_zero_grad_forgets():
    parameters = weight_and_bias()
    set_gradients(parameters, GOLDEN["gradients"][0])
    SGD(parameters, lr=0.1).zero_grad()
    assert all(parameter.grad is None for _, parameter in parameters)


def test_float32_stays_float32(backend):
    if backend == "python":
        pytest.skip("the pure backend has float64 only")
    for make in (SGD, Adam, AdamW):
        p = tensor([[1.0, 2.0]], dtype="float32", requires_grad=True)
        p.grad = tensor([[1.0, 1.0]], dtype="float32")
        optimiser = make([p], lr=0.1, weight_decay=0.1)
        optimiser.step()
        assert clip_grad_norm([p], 0.1) == pytest.approx(2 ** 0.5)
        optimiser.step()
        assert p.dtype == p.grad.dtype == "float32"
        assert all(array.dtype == xp.float32 for array in optimiser.state_dict()["arrays"].values())


@pytest.mark.parametrize("make, words", [
    (lambda p: SGD([], lr=0.1), "no parameters"),
    (lambda p: SGD([p], lr=-0.1), "lr=-0.1 makes no sense in SGD"),
    (lambda p: SGD([p], lr=math.nan), "lr=nan"),
    (lambda p: SGD([p], lr=0.1, momentum=1.0), "momentum=1.0"),
    (lambda p: AdamW([p], betas=(0.9, 1.0)), "beta2=1.0 makes no sense in AdamW"),
    (lambda p: AdamW([("a", p), ("a", tensor([1.0]))]), "two parameters are called 'a'"),
])
def test_settings_that_make_no_sense_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make(tensor([1.0], requires_grad=True))


def test_a_state_of_something_else_is_refused():
    parameters = weight_and_bias()
    optimiser = AdamW(parameters)
    set_gradients(parameters, GOLDEN["gradients"][0])
    optimiser.step()
    state = optimiser.state_dict()
    with pytest.raises(ValueError, match="the state is of AdamW, this optimiser is Adam"):
        Adam(parameters).load_state_dict(state)
    with pytest.raises(ValueError, match=r"other parameters: bias \(1 in all\)"):
        AdamW(parameters[:1]).load_state_dict(state)
    fresh = AdamW([("weight", tensor([[1.0]])), parameters[1]])
    with pytest.raises(ValueError, match=r"first.weight in shape \(2, 3\), .* shape \(1, 1\)"):
        fresh.load_state_dict(state)
    assert fresh.steps == {"weight": 0, "bias": 0}


def test_clipping_shortens_all_gradients_together():
    parameters = [tensor([3.0], requires_grad=True), tensor([[0.0, 4.0]], requires_grad=True),
                  tensor([9.0], requires_grad=True)]
    parameters[0].grad, parameters[1].grad = tensor([3.0]), tensor([[0.0, 4.0]])
    arrays = [parameter.grad.data for parameter in parameters[:2]]
    assert clip_grad_norm(parameters, 10.0) == 5.0
    assert parameters[0].grad.tolist() == [3.0]
    assert clip_grad_norm(parameters, 2.5) == 5.0
    assert parameters[0].grad.tolist() == [1.5] and parameters[1].grad.tolist() == [[0.0, 2.0]]
    assert [array.tolist() for array in arrays] == [[3.0], [[0.0, 4.0]]]
    assert clip_grad_norm(parameters) == 2.5 and parameters[2].grad is None
    assert clip_grad_norm([]) == 0.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_is_named_and_nothing_changes(bad):
    parameters = weight_and_bias()
    set_gradients(parameters, [[[1.0, bad, 2.0], [bad, 1.0, 1.0]], [100.0, 1.0, 1.0]])
    with pytest.raises(FloatingPointError, match=r"gradient of weight, shape \(2, 3\), has 2 of 6"):
        clip_grad_norm(parameters, 1.0)
    assert parameters[1][1].grad.tolist() == [100.0, 1.0, 1.0]


def test_a_gradient_too_large_to_be_squared_says_so():
    p = tensor([1.0], requires_grad=True)
    p.grad = tensor([1e200])
    with pytest.raises(FloatingPointError, match="gradient of 0, .* to be squared in float64"):
        clip_grad_norm([p], 1.0)
    with pytest.raises(ValueError, match="max_norm must be above 0, not 0"):
        clip_grad_norm([p], 0)


@pytest.mark.parametrize("make", [lambda p: AdamW(p, lr=0.1), lambda p: Adam(p, lr=0.1),
                                  lambda p: SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
                                  lambda p: SGD(p, lr=0.1)])
def test_together_or_apart_is_the_same(make, backend):
    """Whoever has a gradient at a step is updated with the others that have one, and moves as with
    an optimiser of its own; what a state holds is not changed by later steps."""
    draws = Stream(4)
    shapes = {"w": (3, 2), "b": (3,), "u": (2, 2)}
    starts = {name: draws.normal(shape).tolist() for name, shape in shapes.items()}
    together = {name: tensor(rows, requires_grad=True) for name, rows in starts.items()}
    apart = {name: tensor(rows, requires_grad=True) for name, rows in starts.items()}
    joint = make(list(together.items()))
    alone = {name: make([(name, each)]) for name, each in apart.items()}
    states = []
    for having in ("wbu", "wb", "u", "wbu", "b", "wu", "wbu", "wbu"):
        for name in shapes:
            gradient = draws.normal(shapes[name]).tolist() if name in having else None
            for each in (together[name], apart[name]):
                each.grad = None if gradient is None else tensor(gradient)
        joint.step()
        for name in having:
            alone[name].step()
        arrays = joint.state_dict()["arrays"]
        states.append((arrays, {key: array.tolist() for key, array in arrays.items()}))
        for name in shapes:
            assert together[name].tolist() == apart[name].tolist()
        for optimiser in alone.values():
            for key, array in optimiser.state_dict()["arrays"].items():
                assert arrays[key].tolist() == array.tolist()
    for arrays, then in states:
        assert {key: array.tolist() for key, array in arrays.items()} == then


def test_numbers_set_between_steps_are_stepped_from(backend):
    """A parameter that was given other numbers is not the one that the last step has laid out."""
    p, q = tensor([[1.0, 2.0]], requires_grad=True), tensor([[3.0]], requires_grad=True)
    optimiser = SGD([p, q], lr=1.0)
    for value in ([[5.0, 6.0]], [[-1.0, 0.0]]):
        p.data = value
        before = q.tolist()
        for each in (p, q):
            each.grad = tensor([[1.0] * each.shape[1]])
        optimiser.step()
        assert p.tolist() == [[number - 1.0 for number in value[0]]]
        assert q.tolist() == [[before[0][0] - 1.0]]


def test_momentum_that_is_set_later_counts_from_there(backend):
    p = tensor([1.0], requires_grad=True)
    optimiser = SGD([p], lr=1.0)
    for momentum, expected in ((0.0, 0.0), (0.5, -1.0), (0.5, -2.5)):
        optimiser.settings["momentum"] = momentum
        p.grad = tensor([1.0])
        optimiser.step()
        assert p.tolist() == [expected]


def test_numbers_written_in_place_and_touched_are_stepped_from(backend):
    """Also in a copy, whose parameters lie in other memory than the last step's."""
    p, q = tensor([[1.0, 2.0]], requires_grad=True), tensor([[3.0]], requires_grad=True)
    pair = [p, q], SGD([p, q], lr=1.0)
    for copied in (False, True):
        (p, q), optimiser = copy.deepcopy(pair) if copied else pair
        for _ in range(2):
            for each in (p, q):
                each.grad = tensor([[1.0] * each.shape[1]])
            optimiser.step()
            if backend == "numpy":
                p.data[0, 0] = 9.0
            else:
                p.data.values[0] = 9.0
            p.touch()
        p.grad, q.grad = tensor([[1.0, 1.0]]), None
        optimiser.step()
        assert p.tolist()[0][0] == 8.0
        assert sum(map(len, optimiser.flat)) <= 2       # no parameter is kept twice


def test_a_copy_holds_no_numbers_twice(backend):
    p = tensor([[1.0] * 200], requires_grad=True)
    optimiser = SGD([p], lr=1.0)
    before = len(pickle.dumps(optimiser))
    p.grad = tensor([[1.0] * 200])
    optimiser.step()
    p.grad = None
    assert len(pickle.dumps(optimiser)) < before + 200


def test_a_gradient_too_large_to_be_squared_is_named(backend):
    """Also where each part of it is not."""
    with set_default_dtype("float64"):
        long = tensor([0.0] * 8192, requires_grad=True)
        long.grad = tensor([1.5e152] * 8192)
        with pytest.raises(FloatingPointError, match="the gradient of long.*too large"):
            clip_grad_norm([("long", long)], 1.0)
