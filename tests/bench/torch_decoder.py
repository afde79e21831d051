"""The decoder as one would write it by hand in PyTorch: its operations, its fused attention, AdamW.

The model is `trained.decoder`, with the same weights: pre-norm blocks, learned positions, scores by
the token vectors themselves. Queries, keys and values come from one product.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch.nn import functional as TF

import tinyformer as tf
from tests.bench import trained
from tests.bench.trained import Size, Step
from tinyformer.models import DecoderConfig, DecoderModel
from tinyformer.nn.init import described

Weights = Dict[str, Any]
Pair = Tuple[Any, Any]
PARTS = ("query", "key", "value")


def tensors(state: Dict[str, Any], dtype: Any = torch.float32) -> Weights:
    """Weights of tinyformer's as PyTorch's own."""
    return joined({name: torch.from_numpy(value.data.copy()).to(dtype)
                   for name, value in state.items()})


def joined(weights: Weights) -> Weights:
    """The weights to train, by their names; the three projections of a block are one, "joined"."""
    found: Weights = {}
    for name, weight in weights.items():
        part = name.split(".")[-2]
        if part == "query":
            three = [weights[name.replace("query", other)] for other in PARTS]
            found[name.replace("query", "joined")] = torch.cat(three).requires_grad_()
        elif part not in PARTS:
            found[name] = weight.requires_grad_()
    return found


def adamw(parameters: List[Any]) -> Any:
    """AdamW that decays matrices alone, as PyTorch comes."""
    groups = [{"params": [p for p in parameters if p.ndim > 1], "weight_decay": trained.DECAY},
              {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=trained.LR)


def training(loss: Callable[[], Any], parameters: List[Any], threads: int = 1) -> Step:
    """A function that trains one step and returns the loss."""
    torch.set_num_threads(threads)
    optimiser = adamw(parameters)

    def step() -> float:
        optimiser.zero_grad()
        value = loss()
        value.backward()
        optimiser.step()
        return float(value.item())

    return step


class Decoder:
    """The model as a function of its weights."""

    def __init__(self, weights: Weights, size: Size) -> None:
        self.weights, self.size = weights, size
        self.names = [f"stack.blocks.{number}." for number in range(size["n_layers"])]

    def linear(self, x: Any, name: str) -> Any:
        """x W^T + b."""
        return TF.linear(x, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def norm(self, x: Any, name: str) -> Any:
        """Layer norm."""
        return TF.layer_norm(x, (self.size["d_model"],), self.weights[name + ".weight"],
                             self.weights[name + ".bias"])

    def heads(self, h: Any, name: str) -> List[Any]:
        """Queries, keys and values (B, H, T, K)."""
        split = (h.shape[0], h.shape[1], self.size["n_heads"], -1)
        three = self.linear(h, name + "attention.joined").chunk(3, -1)
        return [part.view(split).transpose(1, 2) for part in three]

    def block(self, x: Any, name: str, past: Optional[Callable[..., Pair]] = None) -> Any:
        """One block; `past` puts the keys and values of earlier tokens before those of this one."""
        h = self.norm(x, name + "attention_norm")
        query, key, value = self.heads(h, name)
        if past is not None:
            key, value = past(name, key, value)
        mixed = TF.scaled_dot_product_attention(query, key, value, is_causal=past is None)
        mixed = mixed.transpose(1, 2).reshape(h.shape)
        x = x + self.linear(mixed, name + "attention.output")
        h = self.linear(self.norm(x, name + "feed_forward_norm"), name + "feed_forward.inner")
        return x + self.linear(TF.gelu(h, approximate="tanh"), name + "feed_forward.outer")

    def __call__(self, ids: Any, start: int = 0, past: Optional[Callable[..., Pair]] = None) -> Any:
        """ids (B, T) that begin at position `start` -> logits (B, T, V)."""
        places = self.weights["positions.table.weight"][start:start + ids.shape[1]]
        x = TF.embedding(ids, self.weights["tokens.weight"]) + places
        for name in self.names:
            x = self.block(x, name, past)
        scores = self.weights.get("output.weight", self.weights["tokens.weight"])
        return TF.linear(self.norm(x, "stack.norm"), scores)


def loss_of(size: Size, weights: Weights) -> Callable[[], Any]:
    """The loss on the texts of `trained`."""
    model = Decoder(weights, size)
    ids, targets = map(torch.tensor, trained.texts(size))
    return lambda: TF.cross_entropy(model(ids).flatten(0, 1), targets.flatten())


def step(size: Size, state: Dict[str, Any], threads: int = 1) -> Step:
    """A training step from tinyformer's weights."""
    weights = tensors(state)
    return training(loss_of(size, weights), list(weights.values()), threads)


def random_step(size: str, threads: int = 1) -> Step:
    """The same in a process where tinyformer computes nothing: PyTorch draws the weights."""
    tf.use_backend("python")
    with described():
        state = DecoderModel(DecoderConfig(**trained.options(trained.SIZES[size]))).state_dict()
    drawn = {}
    for name, outline in state.items():
        start = torch.ones if name.endswith("norm.weight") else torch.zeros
        drawn[name] = start(outline.shape) if outline.ndim == 1 else 0.02 * torch.randn(
            outline.shape)
    weights = joined(drawn)
    return training(loss_of(trained.SIZES[size], weights), list(weights.values()), threads)


def gradients(size: Size, state: Dict[str, Any], dtype: str) -> Dict[str, Any]:
    """The gradients of the loss as float64 tensors, by tinyformer's names."""
    weights = tensors(state, getattr(torch, dtype))
    loss_of(size, weights)().backward()
    found = {}
    for name, weight in weights.items():
        grad = weight.grad.double()
        if ".joined." in name:
            found.update({name.replace("joined", part): chunk
                          for part, chunk in zip(PARTS, grad.chunk(3))})
        else:
            found[name] = grad
    return found
