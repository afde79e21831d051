"""What an operation is given: tensors, numbers and arrays made into tensors that fit each other."""

from __future__ import annotations

from tinyformer.arrays import xp
from tinyformer.autograd.tensor import Tensor, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Tuple


def as_tensor(x: Any) -> Tensor:
    """A tensor as it is; anything else made into one."""
    return x if isinstance(x, Tensor) else Tensor(x)


def is_float(x: Tensor) -> bool:
    """Whether the elements are floats, or exact numbers, which count as such."""
    dtype = x._data.dtype
    return dtype in ("float", "exact") if type(dtype) is str else dtype.kind == "f"


def is_bool(x: Tensor) -> bool:
    """Whether the elements are bools."""
    dtype = x._data.dtype
    return dtype == "bool" if type(dtype) is str else dtype.kind == "b"


def pair(name: str, x: Any, y: Any) -> Tuple[Tensor, Tensor]:
    """Two operands as tensors of one dtype whose shapes broadcast.

    A Python number adopts the dtype of the tensor beside it; integers beside floats become floats.
    Raises ValueError naming the operation and both shapes.
    """
    if not isinstance(x, Tensor):
        y = as_tensor(y)
        x = _beside(x, y)
    elif not isinstance(y, Tensor):
        y = _beside(y, x)
    if x.data.dtype != y.data.dtype:
        x, y = _one_dtype(x, y)
    if x._data.shape != y._data.shape:
        check_broadcast(name, x._data.shape, y._data.shape)
    return x, y


def check_broadcast(name: str, one: Any, two: Any) -> None:
    """ValueError naming the operation and two shapes that do not broadcast."""
    if one != two and any(p != q and 1 not in (p, q) for p, q in zip(one[::-1], two[::-1])):
        raise ValueError(f"{name}: shapes {tuple(one)} and {tuple(two)} do not broadcast: from the "
                         "right, each pair of lengths must be equal or one of them 1")


def broadcast_shape(one: Any, two: Any) -> Tuple[int, ...]:
    """The shape to which two shapes that broadcast are stretched."""
    longer, shorter = (one, two) if len(one) >= len(two) else (two, one)
    extra = len(longer) - len(shorter)
    return tuple(longer[:extra]) + tuple(q if p == 1 else p
                                         for p, q in zip(longer[extra:], shorter))


def _beside(value: Any, tensor: Tensor) -> Tensor:
    """A number in the dtype of the tensor that it meets; other things as their own dtype."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):      # a NumPy scalar
        value = value.item()
    if type(value) is float and is_float(tensor) or type(value) is int and not is_bool(tensor):
        return wrap(xp.asarray(value, tensor._data.dtype))
    return Tensor(value)


def _one_dtype(x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]:
    """Integers and bools take the dtype of the floats beside them; two float dtypes clash later."""
    if is_float(x) and not is_float(y):
        return x, Tensor(xp.astype(y.data, x.data.dtype))
    if is_float(y) and not is_float(x):
        return Tensor(xp.astype(x.data, y.data.dtype)), y
    if is_bool(x) or is_bool(y):
        return Tensor(xp.astype(x.data, xp.int64)), Tensor(xp.astype(y.data, xp.int64))
    return x, y


def floats(x: Any) -> Tensor:
    """A tensor of floats; integers are converted to the default dtype."""
    x = x if isinstance(x, Tensor) else Tensor(x)
    return x if is_float(x) else Tensor(xp.astype(x.data, xp.default_float))
