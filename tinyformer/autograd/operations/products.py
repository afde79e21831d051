"""Matrix products, where nearly all of a transformer's time goes."""

from __future__ import annotations

from math import prod

from tinyformer.arrays import xp
from tinyformer.arrays.backend import fusible
from tinyformer.autograd.operations.operands import as_tensor, check_broadcast, floats
from tinyformer.autograd.tensor import Tensor, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional


def matmul(x: Any, y: Any) -> Tensor:
    """The matrix product (..., N, K) @ (..., K, M) -> (..., N, M) over the last two axes.

    With Y = A B, the gradients are G B^T and A^T G: each is the product whose shapes fit. A tensor
    with one axis is a row on the left and a column on the right. Raises ValueError naming both
    shapes.
    """
    x, y = as_tensor(x), as_tensor(y)
    a, b = x.data, y.data
    if not a.shape or not b.shape or a.shape[-1] != b.shape[-2 if len(b.shape) > 1 else 0]:
        raise ValueError(f"matmul: shapes {x.shape} and {y.shape} do not fit: the last length on "
                         "the left must equal the last but one on the right")
    check_broadcast("matmul, all axes but the last two", a.shape[:-2], b.shape[:-2])
    rows = a if len(a.shape) > 1 else xp.expand_dims(a, axis=0)
    columns = b if len(b.shape) > 1 else xp.expand_dims(b, axis=1)

    def whole(g: Any) -> Any:
        """g with the axes that one-dimensional operands have lost."""
        g = g if len(b.shape) > 1 else xp.expand_dims(g, axis=-1)
        return g if len(a.shape) > 1 else xp.expand_dims(g, axis=-2)

    def left(g: Any) -> Any:
        gradient = xp.matmul(whole(g), xp.matrix_transpose(columns))
        return gradient if len(a.shape) > 1 else xp.squeeze(gradient, axis=-2)

    def right(g: Any) -> Any:
        gradient = xp.matmul(xp.matrix_transpose(rows), whole(g))
        return gradient if len(b.shape) > 1 else xp.squeeze(gradient, axis=-1)

    return record("matmul", xp.matmul(a, b), (x, left), (y, right))


@fusible
def affine(rows: Any, w: Any, b: Any) -> Any:
    """The rows X (N, D) mapped by w (F, D) and b, (F,) or None: X w^T + b, (N, F)."""
    y = xp.matmul(rows, xp.matrix_transpose(w))
    return y if b is None else y + b


def linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """x W^T + b, the affine map of the last axis: x (..., D), weight (F, D), bias (F,) -> (..., F).

    All leading axes are flattened to one, so that forward and backward are three plain products:
    Y = X W^T, dX = G W, dW = G^T X; and db is the sum of the rows of G.
    Raises ValueError naming the width of x and the shape of the weight.
    """
    x, weight = floats(x), floats(weight)
    w = weight.data
    if len(w.shape) != 2 or not x.data.shape or x.data.shape[-1] != w.shape[1]:
        raise ValueError(f"linear: x of shape {x.shape} does not fit a weight of shape "
                         f"{weight.shape} (out, in): the last length of x must be "
                         "the last of the weight")
    if bias is not None and bias.shape != w.shape[:1]:
        raise ValueError(f"linear: a bias of shape {bias.shape} does not fit a weight of shape "
                         f"{weight.shape} (out, in): it needs one number for each output")
    leading = tuple(x.data.shape[:-1])
    rows = xp.reshape(x.data, (prod(leading), w.shape[1]))
    y = affine(rows, w, None if bias is None else bias.data)
    width = w.shape[0]

    operands = (x, weight) if bias is None else (x, weight, bias)
    wanted = [each.requires_grad for each in operands]

    def vjp(g: Any) -> Any:
        """dX, dW and db, as far as they are wanted."""
        g = xp.reshape(g, (rows.shape[0], width))
        dx = xp.reshape(xp.matmul(g, w), leading + (w.shape[1],)) if wanted[0] else None
        dw = xp.matmul(xp.matrix_transpose(g), rows) if wanted[1] else None
        return (dx, dw) if bias is None else (dx, dw, xp.sum(g, axis=0) if wanted[2] else None)

    return record("linear", xp.reshape(y, leading + (width,)), (operands, vjp))
