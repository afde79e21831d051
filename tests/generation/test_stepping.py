"""A step on bare arrays gives the scores of the model, and is taken where it may be."""

from __future__ import annotations

from typing import Any, List

import pytest

from tinyformer.arrays import set_default_dtype
from tinyformer.arrays.stream import Stream, manual_seed
from tinyformer.autograd import no_grad
from tinyformer.autograd.engine import observed
from tinyformer.generation import generate, stepping
from tinyformer.generation.scoring import Cached, Plain
from tinyformer.generation.stepping import Stepper, knows
from tinyformer.models import DecoderConfig, DecoderModel
from tinyformer.nn import LayerNorm, Linear
from tinyformer.nn.attention import recorded_attention

KNOWN = [dict(), dict(positions="sinusoidal"), dict(positions="none"), dict(activation="relu"),
         dict(activation="gelu", tie_weights=False), dict(n_heads=1, n_layers=1),
         dict(d_k=3, d_v=3)]
UNKNOWN = [dict(norm="post"), dict(positions="rotary"), dict(positions="alibi"),
           dict(positions="relative", window=2), dict(norm_kind="lecture"),
           dict(order="lecture", norm="post"), dict(d_k=3, d_v=5)]


@pytest.fixture(autouse=True)
def double() -> Any:
    with set_default_dtype("float64"):
        yield


def decoder(**options: Any) -> DecoderModel:
    manual_seed(3)
    sizes = dict(vocab_size=11, max_len=9, d_model=8, n_layers=2, n_heads=2)
    model = DecoderModel(DecoderConfig(**{**sizes, **options})).eval()  # type: ignore[arg-type]
    for number, (_, parameter) in enumerate(model.named_parameters()):
        parameter.data = Stream(number).normal(parameter.shape) * 0.5
    return model


def gap(model: DecoderModel, rows: int) -> float:
    """The largest difference from the scores of the whole texts, over every length."""
    texts: List[List[int]] = [[Stream(row).integers(11, 1)[0]] for row in range(rows)]
    cached, plain, worst = Cached(model), Plain(model), 0.0
    with no_grad():
        for step in range(9):
            for one, other in zip(cached(texts), plain(texts)):
                worst = max(worst, *(abs(p - q) for p, q in zip(one, other)))
            if step == 4:
                order = list(range(rows))[::-1]
                cached.select(order)
                texts = [texts[row] for row in order]
            texts = [text + [(7 * step + row) % 11] for row, text in enumerate(texts)]
    return worst


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> List[int]:
    """Grows by one with every step on bare arrays."""
    taken: List[int] = []
    sound = Stepper.__call__

    def call(self: Stepper, ids: List[int], cache: Any) -> Any:
        taken.append(len(ids))
        return sound(self, ids, cache)

    monkeypatch.setattr(Stepper, "__call__", call)
    return taken


@pytest.mark.parametrize("options", KNOWN, ids=str)
@pytest.mark.parametrize("rows", [1, 3])
def test_steps_are_the_model(backend: str, options: Any, rows: int, steps: List[int]) -> None:
    model = decoder(**options)
    assert knows(model)
    assert gap(model, rows) < 1e-10
    assert steps == [rows] * 8


class Louder(Linear):
    """A user's own map."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) * 2.0


def without_query_bias(model: DecoderModel) -> None:
    model.stack.blocks[0].attention.query.bias = None


def with_another_activation(model: DecoderModel) -> None:
    model.stack.blocks[1].feed_forward.function = lambda x: x


def with_a_forward_of_its_own(model: DecoderModel) -> None:
    layer = model.stack.blocks[1].attention
    layer.forward = lambda x, **rest: x * 0.5  # type: ignore[method-assign]


def with_a_subclass(model: DecoderModel) -> None:
    model.stack.blocks[0].feed_forward.outer = Louder(32, 8)


@pytest.mark.parametrize("change", [without_query_bias, with_another_activation,
                                    with_a_forward_of_its_own, with_a_subclass])
def test_models_with_other_parts_are_left_alone(backend: str, change: Any,
                                                steps: List[int]) -> None:
    model = decoder(d_ff=32)
    change(model)
    assert not knows(model)
    assert gap(model, 2) < 1e-10 and steps == []


def test_a_patched_layer_is_left_alone(backend: str, steps: List[int],
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LayerNorm, "forward", lambda self, x: x * 0.5)
    assert gap(decoder(), 2) < 1e-10 and steps == []


def test_training_and_wrong_ids_are_the_models(backend: str, steps: List[int]) -> None:
    model = decoder()
    cached = Cached(model)
    with no_grad():
        cached([[1]])
        with pytest.raises(IndexError, match="id -1"):
            cached([[1, -1]])
        model.train()
        cached = Cached(model)
        cached([[1]])
        cached([[1, 2]])
    assert steps == [1]


@pytest.mark.parametrize("options", UNKNOWN, ids=str)
def test_other_models_are_left_alone(backend: str, options: Any, steps: List[int]) -> None:
    model = decoder(**options)
    assert not knows(model)
    assert gap(model, 2) < 1e-10
    assert steps == []


def test_whoever_looks_sees_the_model(backend: str, steps: List[int]) -> None:
    model = decoder()
    with recorded_attention(model) as records:
        generate(model, [1], 3, temperature=0)
    assert [len(each) for each in records.values()] == [3, 3] and steps == []
    names: List[str] = []
    with observed(lambda name, data: names.append(name)):
        generate(model, [1], 3, temperature=0)
    assert names.count("cross_entropy") == 0 and names.count("layer_norm") == 15 and steps == []
    model.stack.blocks[1].notes = {}
    generate(model, [1], 3, temperature=0)
    assert steps == []
    model.stack.blocks[1].notes = None
    generate(model, [1], 3, temperature=0)
    assert steps == [1, 1]


def test_padding_is_left_to_the_model(backend: str, steps: List[int]) -> None:
    """Texts of unequal length are padded, and their cache says which keys are none."""
    model = decoder()
    together = generate(model, [[1], [2, 3]], 4, temperature=0)
    assert steps == []
    assert together == [generate(model, each, 4, temperature=0) for each in ([1], [2, 3])]


def test_new_weights_count_in_the_next_text(backend: str) -> None:
    model = decoder()
    before = generate(model, [1], 6, temperature=0)
    for name, parameter in model.named_parameters():
        parameter.data = parameter.data * -1.5
    after = generate(model, [1], 6, temperature=0)
    assert after == generate(model, [1], 6, temperature=0, use_cache=False) != before


BROKEN = [("_look", lambda attention, joint, cache: joint[:, :joint.shape[1] // 3]),
          ("normalised", lambda x, gain, shift, eps: sound_norm(x, None, None, eps)),
          ("affine", lambda rows, w, b: sound_affine(rows, w, None)),
          ("tanh_share", lambda a: a * 0 + 1)]
sound_norm, sound_affine = stepping.normalised, stepping.affine


@pytest.mark.parametrize("part, broken", BROKEN, ids=[name for name, _ in BROKEN])
def test_a_broken_step_is_noticed(part: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepping, part, broken)
    assert gap(decoder(), 2) > 1e-6
