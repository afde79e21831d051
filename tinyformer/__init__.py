"""A transformer framework from scratch, in pure Python: tensors, layers, models, training.

    >>> import tinyformer as tf
    >>> x = tf.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad.tolist()
    [2.0, 4.0, 6.0]

NumPy, where it is installed, is an optional faster engine under the same source.
"""

from __future__ import annotations

import importlib

from tinyformer import functional
from tinyformer.arrays import backend_name, set_default_dtype, use_backend
from tinyformer.arrays.stream import manual_seed
from tinyformer.autograd import Tensor, gradcheck, no_grad, tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"
__all__ = ["Tensor", "backend_name", "functional", "gradcheck", "manual_seed", "no_grad",
           "set_default_dtype", "tensor", "use_backend"]

_FLOORS = ("arrays", "autograd", "generation", "models", "nn", "pictures", "text", "training",
           "viz")


def __getattr__(name: str) -> Any:
    """The floors, imported when they are first asked for: `tinyformer.nn` and the others."""
    if name in _FLOORS:
        return importlib.import_module(f"tinyformer.{name}")
    raise AttributeError(f"module 'tinyformer' has no attribute {name!r}")
