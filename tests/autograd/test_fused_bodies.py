"""A backend's faster body of a computation gives what the plain one gives, which stays its oracle.

`BODIES` has, for every fusible function, operands of unequal and extreme sizes. Both bodies get
the same numbers, in float64; results are equal to 1e-12 of their largest number.
"""

from __future__ import annotations

import functools
import math
import sys
from typing import Any, Callable, Dict, List

import pytest

from tinyformer import functional as F
from tinyformer.arrays import set_default_dtype, use_backend, xp
from tinyformer.arrays.backend import MODULES, unfused
from tinyformer.arrays.stream import Stream
from tinyformer.autograd import Tensor
from tinyformer.autograd.operations import (attention, elementwise, normalisation, probabilities,
                                            products)
from tinyformer.nn import cache
from tinyformer.training import optimisers

Operands = List[Any]


def numbers(*shape: int, seed: int = 0) -> Any:
    """Normal numbers."""
    return Stream(seed).normal(shape)


def moments(keep: float = 0.99) -> Operands:
    p, g, m = (numbers(35, seed=seed) for seed in range(3))
    return [p, g, m, numbers(35, seed=3) ** 2, keep, 0.9, 0.999, 0.01, 1e-8]


def rows(count: int, width: int, **learned: bool) -> Callable[[], Operands]:
    """Rows for a norm, with the gain and the shift that there are."""
    return lambda: [numbers(count, width), numbers(width, seed=1) if learned.get("gain") else None,
                    numbers(width, seed=2) if learned.get("shift") else None, 1e-5]


def row_gradients(count: int, width: int, gain: bool) -> Callable[[], Operands]:
    return lambda: [numbers(count, width), numbers(count, width, seed=1),
                    numbers(count, 1, seed=2) ** 2 + 0.1, numbers(width, seed=3) if gain else None]


def looks(batch: int, heads: int, queries: int, keys: int, width: int, mask: str = "",
          dropped: bool = False) -> Operands:
    """Queries, keys and values, what is added to the scores, and the factors of dropout."""
    leading = (batch, heads) if batch else ()
    q, k, v = (numbers(*leading, length, w, seed=seed) for seed, (length, w) in enumerate(
        ((queries, width), (keys, width), (keys, width + 1))))
    shape = {"": None, "flat": (queries, keys), "padding": (batch, 1, 1, keys),
             "bias": (batch, heads, queries, keys)}[mask]
    added = None
    if shape is not None:
        added = numbers(*shape, seed=5)
        added = xp.where(added < -0.7, xp.full(shape, -math.inf), added)
        if mask == "bias":          # a query that may look nowhere, one far below the others
            rows = xp.reshape(xp.arange(queries), (queries, 1))
            added = xp.where(rows == 1, xp.full(shape, -math.inf), added) - xp.where(
                rows == 0, xp.full(shape, 900.0), xp.full(shape, 0.0))
    factors = xp.astype(numbers(*leading, queries, keys, seed=6) > 0, xp.float64) * 2.0
    return [q, k, v, added, factors if dropped else None]


def look_gradients(*sizes: int, scores_too: bool = False, **options: Any) -> Operands:
    q, k, v, added, factors = looks(*sizes, **options)
    weights, mixture = attention.attend.__wrapped__(  # type: ignore[attr-defined]
        q, k, v, added, factors)
    return [numbers(*mixture.shape, seed=7), q, k, v, weights, factors, mixture, scores_too]


def scores(count: int, width: int, smoothing: float) -> Callable[[], Operands]:
    return lambda: [numbers(count, width) * 30.0, classes(count, width), smoothing]


def score_gradients(count: int, width: int, smoothing: float) -> Callable[[], Operands]:
    return lambda: [numbers(count, 1), probabilities.softmax(
        Tensor(numbers(count, width, seed=1))).data, classes(count, width), smoothing]


def classes(count: int, width: int) -> Any:
    return xp.asarray([[each] for each in Stream(9).integers(width, count)], xp.int64)


def wide(*shape: int) -> Callable[[], Operands]:
    """Numbers up to where exp overflows, and both zeros."""
    return lambda: [xp.concat([numbers(*shape) * 20.0, xp.asarray(
        [[0.0, -0.0, 800.0, -800.0, 1e-300][:shape[1]]] * 2)])]


LARGE = 700                     # numbers, more than SMALL_PIECE
SMALL_PIECE = 64
# The plain function, and functions that make operands: several sizes, and every option.
BODIES: Dict[str, List[Any]] = {
    "adam_step": [optimisers.adam_step, moments, functools.partial(moments, 0.0)],
    "sum_of_squares": [optimisers.sum_of_squares, lambda: [numbers(3, 5)], lambda: [numbers(1)],
                       lambda: [xp.permute_dims(numbers(3, 5), (1, 0))]],
    "affine": [products.affine, lambda: [numbers(3, 4), numbers(5, 4, seed=1), numbers(5, seed=2)],
               lambda: [numbers(3, 4), numbers(5, 4, seed=1), None],
               lambda: [numbers(0, 4), numbers(5, 4, seed=1), numbers(5, seed=2)]],
    "gelu_tanh": [elementwise.gelu_tanh, wide(3, 5), wide(LARGE // 5, 5)],
    "gelu_exact": [elementwise.gelu_exact, wide(3, 5), wide(LARGE // 5, 5)],
    "tanh_share": [elementwise.tanh_share, wide(3, 5), lambda: [xp.asarray(0.5)]],
    "normalised": [normalisation.normalised, rows(3, 4, gain=True, shift=True), rows(3, 4),
                   rows(3, 4, gain=True), rows(2, 1, shift=True),
                   rows(1, 5, gain=True, shift=True), rows(1, 5), rows(1, 1),
                   rows(LARGE // 7, 7, gain=True), rows(LARGE // 7, 7, shift=True)],
    "layer_norm_vjp": [normalisation.layer_norm_vjp, row_gradients(3, 4, True),
                       row_gradients(3, 4, False), row_gradients(LARGE // 7, 7, True),
                       row_gradients(0, 4, True)],
    "attention_weights": [attention.attention_weights, lambda: [numbers(2, 3, 4) * 30.0],
                          lambda: [numbers(2, 3, 1)], lambda: [xp.full((2, 2), -math.inf)],
                          lambda: [numbers(200, 50)]],
    "attend": [attention.attend] + [
        functools.partial(looks, *sizes, mask=mask, dropped=dropped)
        for sizes in ((2, 3, 4, 5, 2), (1, 1, 2, 3, 1), (2, 3, 6, 7, 4), (0, 0, 3, 2, 2))
        for mask in ("", "flat", "padding", "bias") for dropped in (False, True)
        if sizes[0] or mask in ("", "flat")],
    "attend_vjp": [attention.attend_vjp] + [
        functools.partial(look_gradients, *sizes, mask=mask, dropped=dropped, scores_too=too)
        for sizes in ((2, 3, 4, 5, 2), (2, 3, 6, 7, 4), (0, 0, 3, 2, 2))
        for mask in ("", "flat") for dropped in (False, True) for too in (False, True)],
    "surprise": [probabilities.surprise, scores(3, 5, 0.0), scores(3, 5, 0.1),
                 scores(LARGE // 50, 50, 0.1)],
    "surprise_vjp": [probabilities.surprise_vjp, score_gradients(3, 5, 0.0),
                     score_gradients(3, 5, 0.1), score_gradients(LARGE // 50, 50, 0.1)],
}


def flat(result: Any) -> List[List[float]]:
    """The numbers of each array of a result."""
    parts = result if isinstance(result, (tuple, list)) else (result,)
    return [xp.reshape(xp.asarray(part), (-1,)).tolist() for part in parts]


def differs(one: Any, other: Any) -> float:
    """The largest distance, relative to the largest number."""
    worst = 0.0
    for these, those in zip(flat(one), flat(other)):
        assert len(these) == len(those)
        largest = max([abs(number) for number in those if abs(number) < 1e300] + [1.0])
        gaps = [abs(p - q) / largest for p, q in zip(these, those) if p != q]
        worst = max([worst] + [math.inf if gap != gap else gap for gap in gaps])
    return worst


def test_every_fused_body_is_tested(backend: str) -> None:
    assert set(xp.fused) <= {*BODIES, "laid_behind"}, MODULES[backend]


def test_what_is_laid_behind_stays_what_it_was(backend: str) -> None:
    """Piece after piece gives the whole, and what grows in one room disturbs nobody's earlier view
    of it, nor a second way to go on from the same beginning."""
    parts = [numbers(2, 3, length, 2, seed=length) for length in (1, 2, 1, 3, 1, 1, 5, 1)]
    whole, room, seen = parts[0], None, []
    for part in parts[1:]:
        room, whole = cache.laid_behind(whole, part, room)
        seen.append((whole, whole.tolist()))
    assert whole.tolist() == xp.concat(parts, axis=2).tolist()
    for former in (None, room):                 # a room that the first way has taken
        _, other = cache.laid_behind(seen[2][0], parts[0] * 2.0, former)
        for view, then in seen:
            assert view.tolist() == then
        assert other.tolist() == xp.concat([*parts[:4], parts[0] * 2.0], axis=2).tolist()
    room, first = cache.laid_behind(parts[0], parts[1], None)
    _, second = cache.laid_behind(first, parts[2], room)
    then = second.tolist()
    _, other = cache.laid_behind(first, parts[2] * 3.0, room)       # from where `second` went on
    assert second.tolist() == then != other.tolist()
    for misfit in (numbers(1, 3, 1, 2), numbers(2, 3, 1, 3)):
        with pytest.raises(ValueError):
            cache.laid_behind(whole, misfit, room)


def test_the_exact_gelu_in_single_precision(backend: str) -> None:
    """Value and slope against math.erf, to the precision of float32, and for large numbers."""
    if backend == "python":
        pytest.skip("the pure backend computes in float64")
    points = [each / 64 for each in range(-640, 641)]
    y, slope = elementwise.gelu_exact(xp.asarray(points, xp.float32))
    for a, value, steep in zip(points, y.tolist(), slope.tolist()):
        below = 0.5 * math.erfc(-a / math.sqrt(2))
        density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
        assert abs(value - a * below) < 3e-7 * max(1.0, abs(a))
        assert abs(steep - below - a * density) < 3e-7
    edges = xp.asarray([math.inf, -math.inf, math.nan], xp.float32)
    plain: Any = getattr(elementwise.gelu_exact, "__wrapped__")
    assert repr(flat(elementwise.gelu_exact(edges))) == repr(flat(plain(edges)))
    for body in (elementwise.gelu_exact, elementwise.gelu_tanh):
        y, slope = body(xp.asarray([1e15, -1e15, 1e18], xp.float32))
        assert slope.tolist() == [1.0, 0.0, 1.0] and y.tolist()[1] == 0.0


def test_the_length_of_many_numbers_is_exact_in_single_precision(backend: str) -> None:
    with set_default_dtype("float32" if backend == "numpy" else "float64"):
        count = 4_000_000 if backend == "numpy" else 4_000
        g = xp.full((count,), 0.1, xp.default_float)
        exact = count * g[0].item() ** 2
        assert abs(float(optimisers.sum_of_squares(g)) / exact - 1) < 1e-6


def test_unfused_holds_whatever_is_chosen_inside(backend: str) -> None:
    outside = dict(xp.fused)
    with unfused() as block:
        for change in (lambda: set_default_dtype("float64"), lambda: use_backend(backend), unfused):
            with change():  # type: ignore[attr-defined]
                assert not xp.fused
            assert not xp.fused
        with block:
            assert not xp.fused
    assert dict(xp.fused) == outside


def test_arrays_of_two_backends_are_named_as_ever() -> None:
    pytest.importorskip("numpy")
    with use_backend("python"):
        pure = Tensor([[1.0, 2.0]])
    with use_backend("numpy"):
        other = Tensor([[1.0, 2.0]])
        for call in (lambda: F.linear(pure, other), lambda: F.linear(other, pure)):
            with pytest.raises(TypeError, match="numpy.*python|python.*numpy"):
                call()


def test_a_mask_may_stretch_the_scores(backend: str) -> None:
    """One text, several masks: as many results."""
    with set_default_dtype("float64"):
        q = Tensor(numbers(1, 2, 3, 2))
        masks = Tensor(numbers(3, 1, 3, 3, seed=1) > -0.5)
        found = F.scaled_dot_product_attention(q, q, q, masks)
        assert found.shape == (3, 2, 3, 2)
        for row in range(3):
            alone = F.scaled_dot_product_attention(q, q, q, masks[row])
            assert differs(found.data[row], alone.data[0]) < 1e-12


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_a_fused_body_is_the_plain_one(backend: str, name: str, in_pieces: bool,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    function, *samples = BODIES[name]
    if name not in xp.fused or in_pieces and backend == "python":
        pytest.skip(f"the {backend} backend has no body of its own, or does all in one piece")
    if in_pieces:
        for limit in ("PIECE", "SHORT"):
            monkeypatch.setattr("tinyformer.arrays.numpy_fused." + limit, SMALL_PIECE)
    plain: Callable[..., Any] = function.__wrapped__
    with set_default_dtype("float64"):
        for sample in samples:
            expected = plain(*sample())
            found = xp.fused[name](*sample())
            if found is NotImplemented:         # left to the plain one
                continue
            assert [xp.asarray(each).shape for each in _parts(found)] == [
                xp.asarray(each).shape for each in _parts(expected)]
            assert differs(found, expected) < 1e-12


def test_a_wrong_body_is_found(backend: str) -> None:
    """The comparison can fail: a body that forgets one term is beyond the tolerance."""
    p, g, m, v, *rest = moments()
    right = optimisers.adam_step.__wrapped__(p, g, m, v, *rest)  # type: ignore[attr-defined]
    wrong = optimisers.adam_step.__wrapped__(p, g, m, v * 1.001, *rest)  # type: ignore
    assert differs(wrong, right) > 1e-9


def _parts(result: Any) -> Any:
    return result if isinstance(result, (tuple, list)) else (result,)


def test_moments_are_decayed_once_whatever_they_are(backend: str) -> None:
    """Of a negative second moment the root is nan; the first moment moves as ever."""
    with set_default_dtype("float64"):
        for former in ([-4.0, math.nan], [math.nan, -4.0]):
            p, g, m, v = map(xp.asarray, ([1.0] * 2, [1.0] * 2, [0.0] * 2, former))
            moved, first, second = optimisers.adam_step(p, g, m, v, 1.0, 0.9, 0.99, 0.1, 1e-8)
            assert all(map(math.isnan, moved.tolist()))
            assert first.tolist() == pytest.approx([0.1, 0.1])
            assert second.tolist()[former.index(-4.0)] == pytest.approx(-3.95)


def test_a_norm_of_mixed_dtypes_is_the_plain_one(backend: str) -> None:
    if backend == "python":
        pytest.skip("the pure backend has one dtype of floats")
    for count in (3, 2000):
        x, gain = xp.ones((count, 4), xp.float32), xp.ones((4,), xp.float64)
        for learned in ((gain, None), (None, gain)):
            assert normalisation.normalised(x, *learned, 1e-5)[0].dtype == xp.float64


def test_cross_entropy_keeps_no_logits(backend: str) -> None:
    """Between forward and backward the scores are the largest array that nobody needs."""
    if not hasattr(sys, "getrefcount"):
        pytest.skip("this Python does not count references")
    logits = F.linear(Tensor(numbers(3, 4), requires_grad=True), Tensor(numbers(5, 4)))
    held = logits.data.base if backend == "numpy" else logits.data.values   # by views as well
    before = sys.getrefcount(held)
    loss = F.cross_entropy(logits, Tensor([0, 1, 2]))
    after = sys.getrefcount(held)               # not within an assertion, which holds one more
    assert after == before and loss.requires_grad
