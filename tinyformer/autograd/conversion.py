"""Numbers on their way into tensors and out of them, where a gradient would be lost in silence."""

from __future__ import annotations

from tinyformer.arrays import xp
from tinyformer.arrays.backend import has_numpy
from tinyformer.autograd.engine import is_grad_enabled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional
    from tinyformer.autograd.tensor import Tensor


def check_not_in_graph(tensor: Tensor) -> None:
    """RuntimeError if a new tensor made of this one would be cut off from its graph."""
    if tensor._node is not None and is_grad_enabled():
        raise RuntimeError(f"a new tensor made of the result of {tensor._node} would be cut off "
                           "from its graph, and no gradient would pass: use the result as it is, "
                           "or .detach() it")


def check_bare(tensor: Tensor) -> None:
    """RuntimeError if the numbers of this tensor would lose its gradient."""
    if tensor._requires_grad:
        raise RuntimeError("this tensor requires a gradient, which an array cannot carry on: "
                           "assigning it into an array is not supported, use stack(...) or "
                           "concat(...) to build a tensor; or .detach() for the bare numbers")


def numbers(data: Any) -> Any:
    """Nested sequences with numbers in the place of tensors."""
    if isinstance(data, (list, tuple)):
        return [numbers(part) for part in data]
    if hasattr(data, "requires_grad"):
        check_bare(data)
        return data.tolist()
    return data


def to_numpy(tensor: Tensor, dtype: Any, copy: Optional[bool]) -> Any:
    """The array of a tensor as NumPy's; ImportError without NumPy.

    `copy` is that of NumPy's protocol: True for an array of its own, False for the tensor's memory
    or a ValueError, None for its memory where that can be had.
    """
    if not has_numpy():
        raise ImportError("numpy() needs NumPy, which this Python does not have; use .tolist()")
    from tinyformer.arrays import numpy_backend
    if isinstance(tensor.data, numpy_backend.Array) and dtype in (None, tensor.data.dtype):
        return tensor.data.copy() if copy else tensor.data
    if copy is False:
        raise ValueError(f"a tensor of dtype {tensor.dtype} in the {xp.name} backend cannot be "
                         f"seen as an array of dtype {dtype or tensor.dtype} without a copy")
    if isinstance(tensor.data, numpy_backend.Array):
        return numpy_backend.astype(tensor.data, dtype)
    exact = tensor.dtype == "exact"
    data = xp.astype(tensor.data, xp.float64) if exact else tensor.data
    own = numpy_backend.float64 if exact else getattr(numpy_backend, tensor.dtype)
    return numpy_backend.asarray(data.tolist(), dtype or own)


def dtype_of(name: str) -> Any:
    """The backend's dtype of a name; ValueError if it has none."""
    dtypes = {"float32", "float64", "int64", "bool", "exact"}
    if name not in dtypes or not hasattr(xp, name):
        raise ValueError(f"the {xp.name} backend has no dtype {name!r}; it has "
                         f"{', '.join(sorted(each for each in dtypes if hasattr(xp, each)))}")
    return getattr(xp, name)
