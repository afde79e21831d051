"""Configurations: frozen records that print, compare and go through JSON and back unchanged."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Type, TypeVar

from tinyformer.nn import (ALiBi, Disentangled, Learned, Position, Relative, Rotary, Sinusoidal,
                           T5Bias)
from tinyformer.nn.block import check_options
from tinyformer.nn.layers import named

C = TypeVar("C", bound="Config")
POSITIONS = ("learned", "sinusoidal", "relative", "rotary", "alibi", "t5", "disentangled", "none")


@dataclasses.dataclass(frozen=True)
class Config:
    """The base of all configurations."""

    def to_dict(self) -> Dict[str, Any]:
        """The fields by name, as JSON can hold them."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls: Type[C], values: Mapping[str, Any]) -> C:
        """The configuration with these fields.

        Raises ValueError that lists the names which it does not have, and those which are missing.
        """
        fields = dataclasses.fields(cls)
        known = [field.name for field in fields]
        problems = [f"{name!r} is unknown" for name in values if name not in known]
        problems += [f"{field.name!r} is missing" for field in fields
                     if field.name not in values and field.default is dataclasses.MISSING]
        if problems:
            raise ValueError(f"{cls.__name__}: {', '.join(problems)}; it has {', '.join(known)}")
        return cls(**values)

    def whole(self, *names: str, least: int = 1) -> None:
        """ValueError if one of the fields is not a whole number of at least `least`."""
        for name in names:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, not "
                                 f"{value!r}")


@dataclasses.dataclass(frozen=True)
class TransformerConfig(Config):
    """What all models have: sizes, dropout, the scheme of positions, and the options of the block.

    `d_ff` is 4 d_model, `d_k` and `d_v` d_model / n_heads, and `attention_dropout` is `dropout`
    unless given. `max_len` may be None for every scheme of positions but "learned". `window` is the
    reach of "relative" and "disentangled". The other options are those of `nn.Block`. Raises
    ValueError for sizes that are not whole numbers of at least 1, heads that do not divide d_model,
    a dropout outside [0, 1), names that do not exist, and options that contradict each other.
    """

    vocab_size: int
    max_len: Optional[int]
    d_model: int = 64
    n_layers: int = 2
    n_heads: int = 4
    d_ff: Optional[int] = None
    dropout: float = 0.1
    attention_dropout: Optional[float] = None
    positions: str = "learned"
    window: int = 8
    norm: str = "pre"
    order: str = "paper"
    norm_kind: str = "layer"
    eps: float = 1e-5
    activation: str = "gelu_tanh"
    d_k: Optional[int] = None
    d_v: Optional[int] = None
    std: float = 0.02

    def __post_init__(self) -> None:
        self.whole("vocab_size", "d_model", "n_layers", "n_heads")
        for name, value in (("d_ff", 4 * self.d_model), ("attention_dropout", self.dropout)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        self.whole("d_ff", *(name for name in ("max_len", "d_k", "d_v")
                             if getattr(self, name) is not None))
        if self.d_model % self.n_heads and (self.d_k is None or self.d_v is None):
            raise ValueError(f"d_model={self.d_model} cannot be shared by n_heads={self.n_heads}: "
                             "it must be a multiple, or d_k and d_v be given")
        for name in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), not {getattr(self, name)}")
        for name in ("eps", "std"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be at least 0, not {getattr(self, name)}")
        check_options(self.norm, self.order, self.norm_kind, self.activation)
        self._check_positions()

    def _check_positions(self) -> None:
        named("scheme of positions", self.positions, dict.fromkeys(POSITIONS))
        if self.positions == "learned" and self.max_len is None:
            raise ValueError("learned positions need a max_len: they have a vector for each")
        width = self.d_k or self.d_model // self.n_heads
        if self.positions == "rotary" and width % 2:
            raise ValueError("rotary positions turn pairs of coordinates: heads of width "
                             f"{width} are odd, choose an even d_k or d_model / n_heads")
        self.whole("window", least=0 if self.positions == "relative" else 1)

    def input_positions(self) -> Position:
        """The scheme that acts on the vectors which enter the stack."""
        if self.positions == "learned":
            return Learned(self.max_len or 0, self.d_model, self.std)
        return Sinusoidal() if self.positions == "sinusoidal" else Position()

    def attention_positions(self, causal: bool) -> Optional[Callable[[], Position]]:
        """What makes the scheme of each block's attention, or None. All blocks share that of T5."""
        width = self.d_model // self.n_heads
        d_k, d_v = self.d_k or width, self.d_v or width
        if self.positions == "t5":
            shared = T5Bias(self.n_heads, bidirectional=not causal, std=self.std)
            return lambda: shared
        return {"rotary": Rotary, "alibi": lambda: ALiBi(self.n_heads),
                "relative": lambda: Relative(self.window, d_k, d_v, self.std),
                "disentangled": lambda: Disentangled(self.d_model, self.n_heads, d_k, self.window,
                                                     self.std)}.get(self.positions)

    def block_options(self) -> Dict[str, Any]:
        """The options of `nn.Block` by name."""
        names: Tuple[str, ...] = ("norm", "order", "norm_kind", "eps", "activation",
                                  "attention_dropout", "d_k", "d_v")
        return {name: getattr(self, name) for name in names}
