"""Layer normalisation: each position brought to mean 0 and variance 1, then scaled and shifted."""

from __future__ import annotations

from math import prod

from tinyformer.arrays import xp
from tinyformer.arrays.backend import fusible
from tinyformer.autograd.operations.operands import floats
from tinyformer.autograd.tensor import Tensor, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Sequence, Tuple, Union


@fusible
def normalised(rows: Any, gain: Any, shift: Any, eps: float) -> Tuple[Any, Any, Any]:
    """y = normal * gain + shift of rows (N, D), with normal = (x - mean) / deviation; returns y,
    normal (N, D) and deviation (N, 1). `gain` and `shift` are (D,), or None."""
    centred = rows - xp.mean(rows, axis=-1, keepdims=True)
    deviation = xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + eps)
    normal = centred / deviation
    y = normal if gain is None else normal * gain
    return y if shift is None else y + shift, normal, deviation


@fusible
def layer_norm_vjp(g: Any, normal: Any, deviation: Any, gain: Any) -> Tuple[Any, Any, Any]:
    """The gradients of x, gain and shift, given g (N, D), that of y = normal * gain + shift.

    gain and shift serve every row, so that theirs are sums over the rows, of g normal and of g. The
    gradient of `normal` is h = g gain. Moving x along a constant changes nothing, since the mean
    follows; nor does moving it along `normal` itself, since the deviation follows. So those two
    components are taken out: dx = (h - mean(h) - normal mean(h normal)) / deviation.
    """
    h = g if gain is None else g * gain
    along = xp.mean(h * normal, axis=-1, keepdims=True)
    dx = (h - xp.mean(h, axis=-1, keepdims=True) - normal * along) / deviation
    return dx, xp.sum(g * normal, axis=0), xp.sum(g, axis=0)


def layer_norm(x: Tensor, normalized_shape: Union[int, Sequence[int]],
               weight: Optional[Tensor] = None, bias: Optional[Tensor] = None,
               eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes (Ba, Kiros and Hinton, 2016).

    `normalized_shape` are the lengths of the last axes, as in PyTorch; the variance is the biased
    one, divided by n. weight and bias have that shape. Raises ValueError where they or x do not.
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    x = floats(x)
    weight, bias = [None if each is None else floats(each) for each in (weight, bias)]
    _check_shapes(shape, x, weight, bias)
    whole, width = x.data.shape, prod(shape)
    gain, shift = [None if each is None else xp.reshape(each.data, (width,))
                   for each in (weight, bias)]
    y, normal, deviation = normalised(xp.reshape(x.data, (-1, width)), gain, shift, eps)
    operands = tuple(each for each in (x, weight, bias) if each is not None)

    def vjp(g: Any) -> Any:
        """dx and the gradients of weight and bias, as far as there are any."""
        dx, *rest = layer_norm_vjp(xp.reshape(g, normal.shape), normal, deviation, gain)
        return (xp.reshape(dx, whole), *(xp.reshape(each, shape) for each, given in
                                         zip(rest, (gain, shift)) if given is not None))

    return record("layer_norm", xp.reshape(y, whole), (operands, vjp))


def _check_shapes(shape: Tuple[int, ...], x: Tensor, weight: Optional[Tensor],
                  bias: Optional[Tensor]) -> None:
    for name, operand in (("x", x), ("weight", weight), ("bias", bias)):
        if operand is None:
            continue
        found = operand.shape[-len(shape):] if name == "x" else operand.shape
        if not shape or found != shape:
            raise ValueError(f"layer_norm: {name} has shape {operand.shape}, which does not fit "
                             f"normalized_shape {shape}")
