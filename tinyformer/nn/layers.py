"""The layers that work on one position at a time."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Optional

from tinyformer import functional as F
from tinyformer.autograd import Tensor
from tinyformer.autograd.operations.dropout import check_probability
from tinyformer.nn import init
from tinyformer.nn.module import Module


class Linear(Module):
    """The affine map x W^T + b of the last axis: (..., d_in) -> (..., d_out).

    `weight` is (d_out, d_in), `bias` (d_out,). With a `std` the weights are drawn from N(0, std^2)
    and the bias is 0; without one both are drawn uniformly from +-1/sqrt(d_in), as in PyTorch.
    """

    def __init__(self, d_in: int, d_out: int, bias: bool = True,
                 std: Optional[float] = None) -> None:
        if std is None:
            bound = 1 / math.sqrt(d_in)
            self.weight = init.uniform((d_out, d_in), bound)
            self.bias = init.uniform((d_out,), bound) if bias else None
        else:
            self.weight = init.normal((d_out, d_in), std)
            self.bias = init.zeros((d_out,)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x (..., d_in) -> (..., d_out)."""
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The widths."""
        d_out, d_in = self.weight.shape
        return f"{d_in}, {d_out}" + ("" if self.bias is not None else ", bias=False")


class Embedding(Module):
    """A table of one vector per id: ids (...) -> (..., D).

    `weight` is (V, D), drawn from N(0, std^2).
    """

    def __init__(self, vocab_size: int, d_model: int, std: float = 1.0) -> None:
        self.weight = init.normal((vocab_size, d_model), std)

    def forward(self, ids: Any) -> Tensor:
        """The rows that the ids name; IndexError for an id outside the table."""
        return F.embedding(ids, self.weight)

    def extra_repr(self) -> str:
        """The shape of the table."""
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"


class LayerNorm(Module):
    """Each position brought to mean 0 and variance 1, times `weight`, plus `bias`: both (D,)."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        self.weight = init.ones((d_model,))
        self.bias = init.zeros((d_model,))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D)."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The width and the constant beside the variance."""
        return f"{self.weight.shape[0]}, eps={self.eps}"


class Dropout(Module):
    """In training, zeroes each element with probability `p` and scales the rest by 1 / (1 - p).

    Raises ValueError for a probability outside [0, 1].
    """

    def __init__(self, p: float = 0.1) -> None:
        check_probability(p)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape, in the same shape."""
        return F.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


TINY = 1e-30            # lost in any variance but 0, where the root has no derivative


class LectureNorm(Module):
    """(x - mean) / (std + eps) with the population's std and nothing to learn: slide 14.

    Three layers are called layer norm: this one, `LayerNorm` with sqrt(var + eps), and that of the
    Annotated Transformer, which divides the variance by n - 1.
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        self.d_model, self.eps = d_model, eps

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D)."""
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred * centred).mean(-1, keepdims=True)
        return centred / ((variance + TINY).sqrt() + self.eps)

    def extra_repr(self) -> str:
        """The width and the constant beside the deviation."""
        return f"{self.d_model}, eps={self.eps}"


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU in GPT-2's approximation by tanh."""
    return F.gelu(x, approximate="tanh")


NORMS = {"layer": LayerNorm, "lecture": LectureNorm}
ACTIVATIONS: Dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu, "gelu": F.gelu, "gelu_tanh": gelu_tanh}


def named(kind: str, name: str, table: Dict[str, Any]) -> Any:
    """What `table` has under a name; ValueError that lists the names for another."""
    if name not in table:
        raise ValueError(f"there is no {kind} {name!r}; there are {', '.join(table)}")
    return table[name]


class FeedForward(Module):
    """Two affine maps with an activation between, for each position alone: D -> F -> D.

    The only place of a block that is wider than D, and where most of its parameters are. `std` is
    that of the first weights, `out_std` of those that write into the residual stream. The
    activation is "relu", "gelu" or "gelu_tanh".
    """

    def __init__(self, d_model: int, d_ff: int, std: float = 0.02, out_std: float = 0.02,
                 activation: str = "gelu_tanh") -> None:
        self.activation = activation
        self.function = named("activation", activation, ACTIVATIONS)
        self.inner = Linear(d_model, d_ff, std=std)
        self.outer = Linear(d_ff, d_model, std=out_std)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D)."""
        return self.outer(self.function(self.inner(x)))

    def extra_repr(self) -> str:
        """The activation."""
        return self.activation
