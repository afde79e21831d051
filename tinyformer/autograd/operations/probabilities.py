"""From scores to probabilities, and from probabilities to a loss."""

from __future__ import annotations

from tinyformer.arrays import xp
from tinyformer.arrays.backend import fusible
from tinyformer.autograd.operations.operands import as_tensor, floats
from tinyformer.autograd.tensor import Tensor, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Tuple


def softmax_vjp(g: Any, y: Any, axis: int = -1) -> Any:
    """The gradient of the scores given g, the gradient of y = softmax(scores).

    dy_i/dx_j = y_i (delta_ij - y_j), so the product with g is y_j (g_j - sum_i g_i y_i).
    """
    return y * (g - xp.sum(g * y, axis=axis, keepdims=True))


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """y_i = exp(x_i) / sum_j exp(x_j) along an axis: at least 0, with sum 1.

    The largest score is subtracted first, which changes nothing in the ratio and keeps exp finite.
    """
    x = floats(x)
    e = xp.exp(x.data - xp.max(x.data, axis=axis, keepdims=True))
    y = e / xp.sum(e, axis=axis, keepdims=True)
    return record("softmax", y, (x, lambda g: softmax_vjp(g, y, axis)))


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """y_i = x_i - ln sum_j exp(x_j), the logarithm of softmax without its underflow.

    dy_i/dx_j = delta_ij - p_j with p = softmax(x), so the gradient is g - p sum_i g_i.
    """
    x = floats(x)
    shifted = x.data - xp.max(x.data, axis=axis, keepdims=True)
    y = shifted - xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True))
    return record("log_softmax", y,
                  (x, lambda g: g - xp.exp(y) * xp.sum(g, axis=axis, keepdims=True)))


@fusible
def surprise(rows: Any, classes: Any, smoothing: float) -> Tuple[Any, Any]:
    """-sum_k q_k ln p_k of each row of scores (N, V), as (N, 1), and p = softmax(rows), (N, V).

    q is 1 - s on the class (N, 1) of the row plus s / V everywhere, s the smoothing. With z the
    scores less their largest, ln p_k = z_k - ln sum exp(z), and since q sums to 1 the loss is
    ln sum exp(z) - (1 - s) z_class - s mean(z).
    """
    shifted = rows - xp.max(rows, axis=-1, keepdims=True)
    e = xp.exp(shifted)
    total = xp.sum(e, axis=-1, keepdims=True)
    losses = xp.log(total) - (1 - smoothing) * xp.take_along_axis(shifted, classes, axis=-1)
    if smoothing:
        losses = losses - smoothing * xp.mean(shifted, axis=-1, keepdims=True)
    return losses, e / total


@fusible
def surprise_vjp(g: Any, p: Any, classes: Any, smoothing: float) -> Any:
    """The gradient of the scores: (p - q) g, with g (N, 1) that of the losses."""
    gradient = p * g + xp.scatter_along_axis(p.shape, classes, g * (smoothing - 1), axis=-1)
    return gradient - g * (smoothing / p.shape[-1]) if smoothing else gradient


def cross_entropy(logits: Tensor, targets: Any, ignore_index: int = -100,
                  label_smoothing: float = 0.0, reduction: str = "mean") -> Tensor:
    """-ln of the probability that softmax(logits) gives to the targets, in nats.

    logits (..., V), targets integers (...); the mean over the targets that are not `ignore_index`,
    or with reduction="sum" their sum. If all are ignored the loss is 0 and so is its gradient. With
    label smoothing s a target is 1 - s on its class plus s / V on every class (Szegedy et al.,
    2016, section 7).

    With q that distribution and p = softmax(logits), the loss of one row is -sum_k q_k ln p_k and
    its gradient p - q, see `surprise`. Raises ValueError for shapes that do not fit, IndexError for
    a target outside V.
    """
    logits, targets = floats(logits), as_tensor(targets)
    scores, classes = logits.data, targets.data
    _check_targets(logits, classes, ignore_index, label_smoothing, reduction)
    shape = scores.shape                # the gradient needs no more of the scores than their shape
    rows = xp.reshape(scores, (classes.size, shape[-1]))
    classes = xp.reshape(classes, (-1, 1))
    counted = xp.astype(classes != ignore_index, rows.dtype)
    classes = xp.where(classes == ignore_index, xp.zeros_like(classes), classes)

    losses, p = surprise(rows, classes, label_smoothing)
    weights = counted if reduction == "sum" else counted / max(float(xp.sum(counted)), 1.0)
    picked = xp.where(counted > 0, losses, xp.zeros_like(losses))
    return record(
        "cross_entropy", xp.sum(picked * weights),
        (logits, lambda g: xp.reshape(
            surprise_vjp(weights * g, p, classes, label_smoothing), shape)),
        (targets, None))


def _check_targets(logits: Tensor, classes: Any, ignore_index: int, label_smoothing: float,
                   reduction: str) -> None:
    if not logits.shape or tuple(classes.shape) != logits.shape[:-1]:
        raise ValueError(f"cross_entropy: targets of shape {tuple(classes.shape)} do not fit "
                         f"logits of shape {logits.shape}: they must have all its axes "
                         "but the last, the classes")
    if not xp.isdtype(classes.dtype, "integral") and classes.size:
        raise TypeError("cross_entropy: targets must be integer classes, not "
                        f"{Tensor(classes).dtype}")
    if not 0 <= label_smoothing <= 1:
        raise ValueError("cross_entropy: label_smoothing must lie in [0, 1], not "
                         f"{label_smoothing}")
    if reduction not in ("mean", "sum"):
        raise ValueError(f"cross_entropy: reduction is 'mean' or 'sum', not {reduction!r}")
    inside = xp.logical_and(classes >= 0, classes < logits.shape[-1])
    if not xp.all(xp.logical_or(inside, classes == ignore_index)):
        wrong = next(each for each in xp.reshape(classes, (-1,)).tolist()
                     if each != ignore_index and not 0 <= each < logits.shape[-1])
        raise IndexError(f"cross_entropy: target {wrong} is outside the {logits.shape[-1]} classes "
                         f"of the logits (and is not ignore_index, {ignore_index})")
