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
    shape = logits.data.shape           # the gradient needs no more of the scores than their shape
    _check_options(logits, targets, label_smoothing, reduction)
    classes = xp.reshape(targets.data, (-1, 1))
    ignored = classes == ignore_index
    classes = xp.where(ignored, 0, classes)
    _check_classes(classes, shape[-1], ignore_index)
    losses, p = surprise(xp.reshape(logits.data, (classes.size, shape[-1])), classes,
                         label_smoothing)
    share = 1 / max(classes.size - int(xp.sum(ignored)), 1) if reduction == "mean" else 1
    return record(
        "cross_entropy", xp.sum(xp.where(ignored, 0, losses)) * share,
        (logits, lambda g: xp.reshape(surprise_vjp(
            xp.where(ignored, 0, g * share), p, classes, label_smoothing), shape)),
        (targets, None))


def _check_options(logits: Tensor, targets: Tensor, label_smoothing: float, reduction: str) -> None:
    if not logits.shape or targets.shape != logits.shape[:-1]:
        raise ValueError(f"cross_entropy: targets of shape {targets.shape} do not fit "
                         f"logits of shape {logits.shape}: they must have all its axes "
                         "but the last, the classes")
    if not xp.isdtype(targets.data.dtype, "integral") and targets.size:
        raise TypeError(f"cross_entropy: targets must be integer classes, not {targets.dtype}")
    if not 0 <= label_smoothing <= 1:
        raise ValueError("cross_entropy: label_smoothing must lie in [0, 1], not "
                         f"{label_smoothing}")
    if reduction not in ("mean", "sum"):
        raise ValueError(f"cross_entropy: reduction is 'mean' or 'sum', not {reduction!r}")


def _check_classes(classes: Any, count: int, ignore_index: int) -> None:
    """IndexError for a class (N, 1) that is none of `count`."""
    if classes.size and not (0 <= xp.min(classes) and xp.max(classes) < count):
        wrong = next(each for [each] in classes.tolist() if not 0 <= each < count)
        raise IndexError(f"cross_entropy: target {wrong} is outside the {count} classes "
                         f"of the logits (and is not ignore_index, {ignore_index})")
