"""Tensor, the differentiable operations, and the checker of their gradients."""

from tinyformer.autograd.tensor import Tensor, record, tensor
from tinyformer.autograd.engine import is_grad_enabled, no_grad
from tinyformer.autograd.gradcheck import gradcheck

__all__ = ["Tensor", "gradcheck", "is_grad_enabled", "no_grad", "record", "tensor"]
