"""Layer normalisation: each position brought to mean 0 and variance 1, then scaled and shifted."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

from tinyformer.arrays import xp
from tinyformer.autograd.operations.operands import floats
from tinyformer.autograd.tensor import Tensor, record


def layer_norm_vjp(g: Any, normal: Any, deviation: Any, axes: Any) -> Any:
    """The gradient of x given g, the gradient of normal = (x - mean) / deviation.

    Moving x along a constant changes nothing, since the mean follows; nor does moving it along
    `normal` itself, since the deviation follows. So those two components are taken out of g: dx =
    (g - mean(g) - normal mean(g normal)) / deviation.
    """
    along = xp.mean(g * normal, axis=axes, keepdims=True)
    return (g - xp.mean(g, axis=axes, keepdims=True) - normal * along) / deviation


def layer_norm(x: Tensor, normalized_shape: Union[int, Sequence[int]],
               weight: Optional[Tensor] = None, bias: Optional[Tensor] = None,
               eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes (Ba, Kiros and Hinton, 2016).

    `normalized_shape` are the lengths of the last axes, as in PyTorch; the variance is the biased
    one, divided by n. weight and bias have that shape. Raises ValueError where they or x do not.
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    x = floats(x)
    weight = None if weight is None else floats(weight)
    bias = None if bias is None else floats(bias)
    _check_shapes(shape, x, weight, bias)
    axes = tuple(range(-len(shape), 0))
    centred = x.data - xp.mean(x.data, axis=axes, keepdims=True)
    deviation = xp.sqrt(xp.mean(centred * centred, axis=axes, keepdims=True) + eps)
    normal = centred / deviation
    gain = None if weight is None else weight.data
    y = normal if gain is None else normal * gain
    edges: Any = [(x, lambda g: layer_norm_vjp(
        g if gain is None else g * gain, normal, deviation, axes))]
    if weight is not None:
        edges.append((weight, lambda g: g * normal))
    if bias is not None:
        y = y + bias.data
        edges.append((bias, lambda g: g))
    return record("layer_norm", y, *edges)


def _check_shapes(shape: Tuple[int, ...], x: Tensor, weight: Optional[Tensor],
                  bias: Optional[Tensor]) -> None:
    for name, operand in (("x", x), ("weight", weight), ("bias", bias)):
        if operand is None:
            continue
        found = operand.shape[-len(shape):] if name == "x" else operand.shape
        if not shape or found != shape:
            raise ValueError(f"layer_norm: {name} has shape {operand.shape}, which does not fit "
                             f"normalized_shape {shape}")
