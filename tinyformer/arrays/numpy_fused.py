"""Faster bodies, in NumPy, of the computations that a transformer spends its time on.

Each has the name and the meaning of a plain function, where the formula is derived; here stands
only how it is done. Two ideas serve all of them. Results are written into arrays that are there
already (`out=`, `+=`), so that a formula of ten steps needs one or two arrays instead of ten. And
long arrays are worked through in pieces of `PIECE` numbers, all steps on one piece before the next:
a piece stays in the processor's cache, where a pass over it costs a third.
"""

from __future__ import annotations

import builtins

from tinyformer.arrays.numpy_backend import (
    abs, arange, divide, einsum, empty, erf, exp, float32, greater, log, matmul, max, maximum,
    multiply, scalars, sqrt, square, subtract, sum, unit, zeros)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, Tuple

PIECE = 1 << 17             # numbers: half a megabyte of float32, so that a few fit the cache
SHORT = 1 << 12             # numbers: below, the calls take longer than the arithmetic
LOWEST = -1e30              # as in `attention_weights`


def pieces(length: int, width: int = 1) -> Iterator[slice]:
    """Slices of `length` rows of `width` numbers, at most PIECE numbers each, but whole rows."""
    step = PIECE // (width or 1) or 1
    for start in range(0, length, step):
        yield slice(start, start + step)


def affine(rows: Any, w: Any, b: Any) -> Any:
    """`operations.products.affine`: the bias is added where the product stands."""
    y = matmul(rows, w.T)
    if b is not None:
        y += b
    return y


def gelu_tanh(a: Any) -> Tuple[Any, Any]:
    """`operations.elementwise.gelu_tanh`, with the constants 2 sqrt(2/pi) and 0.044715 times it."""
    return _value_and_slope(a, _gelu_tanh)


def gelu_exact(a: Any) -> Tuple[Any, Any]:
    """`operations.elementwise.gelu_exact`."""
    return _value_and_slope(a, _gelu_exact)


def _value_and_slope(a: Any, formula: Callable[..., None]) -> Tuple[Any, Any]:
    """The arrays y and slope that `formula(a, y, slope)` fills, piece by piece."""
    y, slope = empty(a.shape, a.dtype), empty(a.shape, a.dtype)
    flat, flat_y, flat_slope = a.reshape(-1), y.reshape(-1), slope.reshape(-1)
    for part in pieces(a.size):
        formula(flat[part], flat_y[part], flat_slope[part])
    return y, slope


DENSITY = 0.3989422804014327            # of the normal distribution at 0, 1 / sqrt(2 pi)
TWICE = 1.5957691216057308
CUBIC = TWICE * 0.044715


def _gelu_tanh(a: Any, y: Any, slope: Any) -> None:
    one, twice, cubic, steep = scalars(a.dtype, 1, TWICE, -CUBIC, 3 * CUBIC)
    square(a, out=slope)
    p = slope * cubic
    p -= twice
    p *= a
    exp(p, out=p)
    p += one
    divide(one, p, out=p)
    multiply(a, p, out=y)
    slope *= steep
    slope += twice
    rest = one - p
    rest *= y
    slope *= rest
    slope += p


def tanh_share(a: Any) -> Any:
    """`operations.elementwise.tanh_share`."""
    if not a.ndim or a.dtype.kind != "f":
        return NotImplemented
    one, twice, cubic = scalars(a.dtype, 1, TWICE, -CUBIC)
    p = a * a
    p *= cubic
    p -= twice
    p *= a
    exp(p, out=p)
    p += one
    return divide(one, p, out=p)


def _gelu_exact(a: Any, y: Any, slope: Any) -> None:
    if a.dtype == float32:
        _gelu_single(a, y, slope)
        return
    below = erf(a * 0.5 ** 0.5)
    below += 1
    below *= 0.5
    square(a, out=slope)
    slope *= -0.5
    exp(slope, out=slope)
    slope *= DENSITY
    slope *= a
    slope += below
    multiply(a, below, out=y)


# Q(u) e^(u^2/2) = t (c1 + t (c2 + ...)) with t = 1 / (u + 25/7), in the manner of Hastings, 1955:
# the coefficients make the largest error of Q for u >= 0 least, 1e-8, by weighted least squares.
FAR = 25 / 7
TAIL = (0.416145911, 0.860921786, 12.249972167, -38.557341342, 226.534941031, -219.569636745)


def _gelu_single(a: Any, y: Any, slope: Any) -> None:
    """GELU to the precision of float32, from the upper tail Q(u) = 1 - Phi(u) at u = |a|.

    With h = 1 for a > 0 and 0 else, Phi(a) = h - (2 h - 1) Q(u) on either side of 0. One
    exponential serves both Q and phi. At infinities it is nan where the plain body is.
    """
    zero, one, two, less, far, density, *tail = scalars(
        a.dtype, 0, 1, 2, -0.5, FAR, DENSITY, *TAIL)
    t = abs(a)
    t += far
    divide(one, t, out=t)
    q = t * tail.pop()
    while tail:
        q += tail.pop()
        q *= t
    square(a, out=slope)
    slope *= less
    exp(slope, out=slope)
    q *= slope
    below = greater(a, zero, out=y, casting="unsafe")
    side = multiply(below, two, out=t)
    side -= one
    q *= side
    below -= q
    slope *= density
    slope *= a
    slope += below
    y *= a


def normalised(rows: Any, gain: Any, shift: Any, eps: float) -> Tuple[Any, Any, Any]:
    """`operations.normalisation.normalised`; the sums of rows are products with ones."""
    if gain is not None and gain.dtype != rows.dtype \
            or shift is not None and shift.dtype != rows.dtype:
        return NotImplemented
    if rows.size < SHORT:
        return _short_normalised(rows, gain, shift, eps)
    y, normal = empty(rows.shape, rows.dtype), empty(rows.shape, rows.dtype)
    deviation, ones = empty((len(rows), 1), rows.dtype), unit(rows.shape[1], rows.dtype)[:, None]
    width, eps = scalars(rows.dtype, rows.shape[1], float(eps))
    for part in pieces(*rows.shape):
        x, centred, out, variance = rows[part], normal[part], y[part], deviation[part]
        mean = matmul(x, ones, out=variance)
        mean /= width
        subtract(x, mean, out=centred)
        multiply(centred, centred, out=out)
        matmul(out, ones, out=variance)
        variance /= width
        variance += eps
        sqrt(variance, out=variance)
        centred /= variance
        multiply(centred, 1 if gain is None else gain, out=out)
        if shift is not None:
            out += shift
    return y, normal, deviation


def _short_normalised(rows: Any, gain: Any, shift: Any, eps: float) -> Tuple[Any, Any, Any]:
    """The same for few numbers, as when text is written: most of the time is that of the calls."""
    ones = unit(rows.shape[1], rows.dtype)[:, None]
    width, eps = scalars(rows.dtype, rows.shape[1], float(eps))
    mean = matmul(rows, ones)
    mean /= width
    normal = rows - mean
    deviation = matmul(normal * normal, ones)
    deviation /= width
    deviation += eps
    sqrt(deviation, out=deviation)
    normal /= deviation
    y = normal if gain is None else normal * gain
    return y if shift is None else y + shift, normal, deviation


def layer_norm_vjp(g: Any, normal: Any, deviation: Any, gain: Any) -> Tuple[Any, Any, Any]:
    """`operations.normalisation.layer_norm_vjp`, where mean(h) and mean(h normal) are the products
    of g and of g normal with gain / D: h = g gain need not be there for them."""
    dx, width = empty(normal.shape, normal.dtype), normal.shape[1]
    share = (unit(width, normal.dtype) if gain is None else gain).reshape(width, 1) / width
    d_gain = zeros(normal.shape[1:], normal.dtype)
    for part in pieces(*normal.shape):
        here, n, out = g[part], normal[part], dx[part]
        product = multiply(here, n, out=out)
        d_gain += unit(len(n), n.dtype) @ product
        along = n * matmul(product, share)
        along += matmul(here, share)
        multiply(here, 1 if gain is None else gain, out=out)
        out -= along
        out /= deviation[part]
    return dx, d_gain, unit(len(g), g.dtype) @ g


def _cuts(q: Any, k: Any) -> Iterator[Tuple[slice, slice]]:
    """Pieces of attention: some rows of the batch, or some heads of one row."""
    batch, heads, queries, _ = q.shape
    keys = k.shape[2]
    for rows in pieces(batch, heads * queries * keys):
        for some in pieces(heads, queries * keys * min(rows.stop - rows.start, batch)):
            yield rows, some


def _alike(q: Any, k: Any, v: Any, added: Any) -> bool:
    """Whether all are (B, H, ...) of one batch, not empty, so that they can be cut into pieces, and
    what is added stretches to their scores, not they to it."""
    if q.ndim != 4 or not q.size or not q.shape[:2] == k.shape[:2] == v.shape[:2]:
        return False
    scores = (*q.shape[:3], k.shape[2])
    return added is None or added.ndim <= 4 and builtins.all(
        length in (1, whole) for length, whole in zip(added.shape[::-1], scores[::-1]))


def _stretched(array: Any, part: Tuple[slice, slice]) -> Any:
    """The piece of an array that is stretched to (B, H, T, S)."""
    if array.ndim < 4:
        return array
    return array[tuple(slice(None) if length == 1 else each
                       for each, length in zip(part, array.shape))]


def _laid(shape: Tuple[int, ...], dtype: Any) -> Any:
    """An empty array (B, H, T, K) that lies as (B, T, H, K), so that heads join without a copy."""
    batch, heads, length, width = shape
    return empty((batch, length, heads, width), dtype).transpose(0, 2, 1, 3)


def attention_weights(scores: Any) -> Any:
    """`operations.attention.attention_weights`."""
    lowest, one = scalars(scores.dtype, LOWEST, 1)
    largest = max(scores, -1, True)
    weights = scores - maximum(largest, lowest, out=largest)
    exp(weights, out=weights)
    total = sum(weights, -1, True)
    weights /= maximum(total, one, out=total)
    return weights


def attend(q: Any, k: Any, v: Any, added: Any, factors: Any) -> Any:
    """`operations.attention.attend`, some heads at a time: their scores stay in the cache.

    The largest score of a row is its own affair: one for many rows would be found faster, but what
    one query sees would then move the last bits of another.
    """
    if not _alike(q, k, v, added):
        return NotImplemented
    weights = empty((*q.shape[:3], k.shape[2]), q.dtype)
    mixture = _laid((*q.shape[:3], v.shape[3]), q.dtype)
    lowest, one = scalars(q.dtype, LOWEST, 1)
    for part in _cuts(q, k):
        scores = matmul(q[part], k[part].swapaxes(2, 3), out=weights[part])
        if added is not None:
            scores += _stretched(added, part)
        largest = max(scores, -1, True)
        scores -= maximum(largest, lowest, out=largest)
        exp(scores, out=scores)
        total = sum(scores, -1, True)
        scores /= maximum(total, one, out=total)
        matmul(scores if factors is None else scores * factors[part], v[part], out=mixture[part])
    return weights, mixture


def attend_vjp(g: Any, q: Any, k: Any, v: Any, weights: Any, factors: Any, mixture: Any,
               scores_too: bool) -> Any:
    """`operations.attention.attend_vjp`, with a sum over the width of a head in place of one over
    all keys: since dP = (g v^T) factors and O = (P factors) v, rowsum(dP P) = rowsum(g O)."""
    if not _alike(q, k, v, weights) or g.shape != mixture.shape or weights.ndim != 4:
        return NotImplemented
    dq, dk, dv = (_laid(each.shape, each.dtype) for each in (q, k, v))
    d_scores = empty(weights.shape, weights.dtype) if scores_too else None
    along = einsum("bhtk,bhtk->bht", g, mixture)[..., None]
    for part in _cuts(q, k):
        w, seen = weights[part], g[part]
        d = matmul(seen, v[part].swapaxes(2, 3), out=None if d_scores is None else d_scores[part])
        if factors is not None:
            d *= factors[part]
        d -= along[part]
        d *= w
        matmul(d, k[part], out=dq[part])
        matmul(d.swapaxes(2, 3), q[part], out=dk[part])
        mixed = w if factors is None else w * factors[part]
        matmul(mixed.swapaxes(2, 3), seen, out=dv[part])
    return (dq, dk, dv, d_scores) if scores_too else (dq, dk, dv)


def laid_behind(old: Any, new: Any, room: Any) -> Any:
    """`nn.cache.laid_behind`: a room twice as long as needed, so that seldom anything is copied."""
    start, end = old.shape[2], old.shape[2] + new.shape[2]
    if old.dtype != new.dtype or old.shape[:2] != new.shape[:2] or old.shape[3] != new.shape[3]:
        return NotImplemented
    if room is None or old.base is not room.array or room.filled != start \
            or end > room.array.shape[2]:
        room = Room(old, end)
    room.array[:, :, start:end] = new
    room.filled = end
    return room, room.array[:, :, :end]


class Room:
    """Memory for twice as many positions as are needed; `filled` says how many are taken, so that
    of two who go on from one beginning the second finds the place taken."""

    def __init__(self, old: Any, needed: int) -> None:
        batch, heads, length, width = old.shape
        self.array = empty((batch, heads, 2 * needed, width), old.dtype)
        self.array[:, :, :length] = old
        self.filled = length


def surprise(rows: Any, classes: Any, smoothing: float) -> Tuple[Any, Any]:
    """`operations.probabilities.surprise`."""
    losses, p = empty((len(rows), 1), rows.dtype), empty(rows.shape, rows.dtype)
    for part in pieces(*rows.shape):
        z, out = p[part], losses[part]
        subtract(rows[part], max(rows[part], -1, True), out=z)
        multiply(z.reshape(-1).take(_places(z, classes[part])), smoothing - 1, out=out)
        if smoothing:
            out -= sum(z, -1, True) * (smoothing / z.shape[1])
        exp(z, out=z)
        total = sum(z, -1, True)
        z /= total
        out += log(total)
    return losses, p


def surprise_vjp(g: Any, p: Any, classes: Any, smoothing: float) -> Any:
    """`operations.probabilities.surprise_vjp`."""
    gradient = p * g
    if smoothing:
        gradient -= g * (smoothing / p.shape[1])
    gradient.reshape(-1)[_places(p, classes)] -= g * (1 - smoothing)
    return gradient


def _places(rows: Any, classes: Any) -> Any:
    """Where the classes (N, 1) of the rows (N, V) stand among all their numbers."""
    return classes + arange(len(rows)).reshape(-1, 1) * rows.shape[1]


def adam_step(p: Any, g: Any, m: Any, v: Any, keep: float, b1: float, b2: float, scale: float,
              shift: float) -> Tuple[Any, Any, Any]:
    """`training.optimisers.adam_step`, m and v written over."""
    moved = empty(p.shape, p.dtype)
    keep_one, new_one, keep_two, new_two = scalars(p.dtype, b1, 1 - b1, b2, 1 - b2)
    for part in pieces(len(p)):
        x, one, two = moved[part], m[part], v[part]
        one *= keep_one
        one += multiply(g[part], new_one, out=x)
        two *= keep_two
        multiply(g[part], g[part], out=x)
        x *= new_two
        two += x
        sqrt(two, out=x)
        x += shift
        divide(one, x, out=x)
        if keep:
            x *= -scale / keep              # keep (p - x / keep): no array for keep p
            x += p[part]
            x *= keep
        else:
            x *= -scale
    return moved, m, v


def sum_of_squares(g: Any) -> Any:
    """`training.optimisers.sum_of_squares`, products of the numbers with themselves.

    A product of equal numbers in single precision loses 7e-7 over 4,096 of them and 2e-5 over
    100,000; so 4,096 are taken at a time, and added up in double precision.
    """
    flat = g.reshape(-1)
    return builtins.sum(float(part.dot(part)) for part in (
        flat[start:start + 4096] for start in range(0, flat.size, 4096)))


fused: Dict[str, Callable[..., Any]] = {each.__name__: each for each in (
    affine, gelu_tanh, gelu_exact, tanh_share, normalised, layer_norm_vjp, attention_weights,
    attend, attend_vjp, laid_behind, surprise, surprise_vjp, adam_step, sum_of_squares)}
