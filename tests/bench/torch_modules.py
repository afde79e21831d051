"""The encoder and the encoder-decoder as a user of PyTorch would write them: of its own modules.

The models are `trained.encoder` and `trained.translation`; `state` are tinyformer's weights, put
under the names of PyTorch's layers.
"""

from __future__ import annotations

import functools
from typing import Any, Dict

import torch
from torch import nn
from torch.nn import functional as TF

from tests.bench import trained
from tests.bench.torch_decoder import training
from tests.bench.trained import Size, Step

State = Dict[str, Any]


class MaskedWords(nn.Module):
    """BERT's encoder without segments and the head that finds hidden words."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size["d_model"]
        self.tokens = nn.Embedding(size["vocab_size"], width)
        self.positions = nn.Embedding(size["max_len"], width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        layer = nn.TransformerEncoderLayer(width, size["n_heads"], 4 * width, dropout=0.0,
                                           activation="gelu", layer_norm_eps=1e-12,
                                           batch_first=True)
        self.stack = nn.TransformerEncoder(layer, size["n_layers"], enable_nested_tensor=False)
        self.transform = nn.Linear(width, width)
        self.head_norm = nn.LayerNorm(width, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(size["vocab_size"]))
        self.register_buffer("places", torch.arange(size["max_len"]))

    def forward(self, ids: Any) -> Any:
        """ids (B, T) -> logits (B, T, V)."""
        hidden = self.stack(self.norm(self.tokens(ids) + self.positions(self.places)))
        vectors = self.head_norm(TF.gelu(self.transform(hidden)))
        return TF.linear(vectors, self.tokens.weight, self.bias)


class Translation(nn.Module):
    """An encoder-decoder with one table of tokens for all, norms before each part."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width, length = size["d_model"], size["max_len"]
        self.tokens = nn.Embedding(size["vocab_size"], width)
        self.positions = nn.Embedding(length, width)
        options = dict(d_model=width, nhead=size["n_heads"], dim_feedforward=4 * width, dropout=0.0,
                       activation=functools.partial(TF.gelu, approximate="tanh"), batch_first=True,
                       norm_first=True)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**options),
                                             size["n_layers"], nn.LayerNorm(width),
                                             enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**options),
                                             size["n_layers"], nn.LayerNorm(width))
        self.register_buffer("places", torch.arange(length))
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, source: Any, before: Any) -> Any:
        """source ids (B, T), target ids (B, T) -> logits (B, T, V)."""
        places = self.positions(self.places)
        memory = self.encoder(self.tokens(source) + places)
        hidden = self.decoder(self.tokens(before) + places, memory, tgt_mask=self.causal,
                              tgt_is_causal=True)
        return TF.linear(hidden, self.tokens.weight)


def attention(state: State, ours: str, theirs: str) -> State:
    """The weights of one attention, the three projections as one matrix."""
    parts = ("query", "key", "value")
    return {f"{theirs}.{joined}_{kind}": torch.cat([state[f"{ours}.{part}.{kind}"]
                                                    for part in parts])
            for joined, kind in (("in_proj", "weight"), ("in_proj", "bias"))} | {
        f"{theirs}.out_proj.{kind}": state[f"{ours}.output.{kind}"] for kind in ("weight", "bias")}


def layer(state: State, ours: str, theirs: str, cross: bool) -> State:
    """The weights of one block."""
    found = attention(state, ours + "attention", theirs + "self_attn")
    names = {"attention_norm": "norm1", "feed_forward_norm": "norm2",
             "feed_forward.inner": "linear1", "feed_forward.outer": "linear2"}
    if cross:
        found.update(attention(state, ours + "cross_attention", theirs + "multihead_attn"))
        names.update(cross_norm="norm2", feed_forward_norm="norm3")
    return {**found, **plain(state, {ours + one: theirs + other for one, other in names.items()})}


def plain(state: State, names: Dict[str, str]) -> State:
    """Weights and biases under other names."""
    return {f"{theirs}.{kind}": state[f"{ours}.{kind}"] for ours, theirs in names.items()
            for kind in ("weight", "bias") if f"{ours}.{kind}" in state}


def encoder_state(state: State, size: Size) -> State:
    """tinyformer's weights for `MaskedWords`."""
    found = plain(state, {"encoder.tokens": "tokens", "encoder.positions.table": "positions",
                          "encoder.norm": "norm", "transform": "transform", "norm": "head_norm"})
    for n in range(size["n_layers"]):
        found.update(layer(state, f"encoder.stack.blocks.{n}.", f"stack.layers.{n}.", False))
    return {**found, "bias": state["bias"]}


def translation_state(state: State, size: Size) -> State:
    """tinyformer's weights for `Translation`."""
    found = plain(state, {"tokens": "tokens", "positions.table": "positions",
                          "encoder.norm": "encoder.norm", "decoder.norm": "decoder.norm"})
    for side in ("encoder", "decoder"):
        for n in range(size["n_layers"]):
            found.update(layer(state, f"{side}.blocks.{n}.", f"{side}.layers.{n}.",
                               side == "decoder"))
    return found


def loaded(model: nn.Module, state: State) -> nn.Module:
    """The model with these weights; every one of its own must be among them."""
    missing, unexpected = model.load_state_dict(state, strict=False)
    buffers = {name for name, _ in model.named_buffers()}
    assert set(missing) <= buffers and not unexpected, (missing, unexpected)
    return model


def step(kind: str, size: Size, state: State) -> Step:
    """A training step of the model `kind` from tinyformer's weights."""
    own = {name: torch.from_numpy(value.data.copy()) for name, value in state.items()}
    if kind == "encoder":
        model = loaded(MaskedWords(size), encoder_state(own, size))
        ids, targets = map(torch.tensor, trained.hidden_words(size))
        smoothing = 0.0
    else:
        model = loaded(Translation(size), translation_state(own, size))
        *ids, targets = map(torch.tensor, trained.pairs(size))
        smoothing = trained.SMOOTHING
    inputs = ids if isinstance(ids, list) else [ids]
    return training(lambda: TF.cross_entropy(
        model(*inputs).flatten(0, 1), targets.flatten(), ignore_index=trained.IGNORED,
        label_smoothing=smoothing), list(model.parameters()))
