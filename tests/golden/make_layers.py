"""Make layers.json: what PyTorch's own layers give, forward and backward, in float64.

Run by hand in an environment that has torch; the tests do not need it. tests/parity makes cases of
its own with `cases`, live.
    python tests/golden/make_layers.py
"""
import json
from importlib.metadata import version
from pathlib import Path

import torch
from torch import nn

B, T, S, D, H, F, V = 2, 4, 5, 6, 3, 10, 7


def randn(*shape):
    """Normal numbers with two decimals, which are short to write."""
    return torch.round(torch.randn(*shape), decimals=2)


def give(module, scale=1.0):
    """Every parameter of a module drawn anew, also gains and biases that begin as 1 and 0."""
    for parameter in module.parameters():
        parameter.data = torch.round(randn(*parameter.shape) * scale, decimals=2)
    return module


def short(x):
    """Numbers to 13 decimals: more than the tests ask for, and no longer than needed."""
    return torch.round(x, decimals=13).tolist()


def case(name, layer, settings, parameters, inputs, output, mask=None):
    """One case: the gradients are those of sum(output * cotangent)."""
    cotangent = randn(*output.shape)
    output.backward(cotangent)
    floats = {key: x for key, x in inputs.items() if x.requires_grad}
    return {"name": name, "layer": layer, "settings": settings,
            "parameters": {key: p.tolist() for key, p in parameters.items()},
            "inputs": {key: x.tolist() for key, x in inputs.items()},
            "mask": None if mask is None else mask.tolist(),
            "output": short(output), "cotangent": cotangent.tolist(),
            "parameter_gradients": {key: short(p.grad) for key, p in parameters.items()},
            "input_gradients": {key: short(x.grad) for key, x in floats.items()}}


def x_of(*shape):
    """An input."""
    return randn(*shape).requires_grad_()


def simple_cases():
    """Linear with and without bias, Embedding with repeated ids, LayerNorm, FeedForward."""
    for bias in (True, False):
        layer, x = give(nn.Linear(3, 2, bias=bias)), x_of(B, T, 3)
        yield case(f"Linear, bias={bias}", "Linear", {"d_in": 3, "d_out": 2, "bias": bias},
                   dict(layer.named_parameters()), {"x": x}, layer(x))
    table, ids = give(nn.Embedding(V, D)), torch.tensor([[2, 0, 2], [6, 2, 1]])
    yield case("Embedding", "Embedding", {"vocab_size": V, "d_model": D},
               dict(table.named_parameters()), {"ids": ids}, table(ids))
    norm, x = give(nn.LayerNorm(5, eps=1e-3)), x_of(B, T, 5)
    x.data[0, 0] = 3.0                                      # a position without variance
    yield case("LayerNorm", "LayerNorm", {"d_model": 5, "eps": 1e-3},
               dict(norm.named_parameters()), {"x": x}, norm(x))
    inner, outer, x = give(nn.Linear(D, F)), give(nn.Linear(F, D)), x_of(B, T, D)
    y = outer(nn.functional.gelu(inner(x), approximate="tanh"))
    parameters = {"inner.weight": inner.weight, "inner.bias": inner.bias,
                  "outer.weight": outer.weight, "outer.bias": outer.bias}
    yield case("FeedForward", "FeedForward", {"d_model": D, "d_ff": F}, parameters, {"x": x}, y)


class Part:
    """A parameter of a joint matrix: its numbers now, its gradient when there is one."""

    def __init__(self, joint, begin, end):
        self.joint, self.begin, self.end = joint, begin, end

    def tolist(self):
        """The numbers."""
        return self.joint[self.begin:self.end].tolist()

    @property
    def grad(self):
        """The gradient."""
        return self.joint.grad[self.begin:self.end]


def attention_parameters(layer, prefix=""):
    """nn.MultiheadAttention under our names: there query, key and value are one matrix."""
    parts = {}
    for index, kind in enumerate(("query", "key", "value")):
        for end, joint in (("weight", layer.in_proj_weight), ("bias", layer.in_proj_bias)):
            parts[f"{prefix}{kind}.{end}"] = Part(joint, index * D, (index + 1) * D)
    parts[f"{prefix}output.weight"] = layer.out_proj.weight
    parts[f"{prefix}output.bias"] = layer.out_proj.bias
    return parts


def masks(queries, keys):
    """Every kind of mask by name, true where a query may look, and no row that may look nowhere."""
    causal = torch.ones(queries, keys).tril(keys - queries).bool()
    padding = (torch.arange(keys) < torch.tensor([[keys], [2]])).reshape(B, 1, 1, keys)
    heads = torch.rand(1, H, queries, keys) < 0.5
    own = torch.rand(B, H, queries, keys) < 0.3
    heads[..., 0], own[..., 1] = True, True
    return {"none": None, "causal": causal, "padding": padding, "both": causal & padding,
            "one per head": heads, "one per row and head": own}


def attention_cases():
    """Attention to itself and to a longer memory, under every kind of mask."""
    for where, keys in (("itself", T), ("memory", S)):
        for kind, mask in masks(T, keys).items():
            layer = give(nn.MultiheadAttention(D, H, batch_first=True), 0.5)
            inputs = {"x": x_of(B, T, D)}
            if where == "memory":
                inputs["memory"] = x_of(B, keys, D)
            memory = inputs.get("memory", inputs["x"])
            hidden = None if mask is None else ~mask.expand(B, H, T, keys).reshape(B * H, T, keys)
            y, _ = layer(inputs["x"], memory, memory, attn_mask=hidden, need_weights=False)
            yield case(f"MultiHeadAttention to {where}, mask: {kind}", "MultiHeadAttention",
                       {"d_model": D, "n_heads": H}, attention_parameters(layer), inputs, y, mask)


def encoder_layer():
    """PyTorch's block with the norm before each half."""
    return give(nn.TransformerEncoderLayer(
        D, H, F, dropout=0.0, batch_first=True, norm_first=True,
        activation=lambda x: nn.functional.gelu(x, approximate="tanh")), 0.5)


def block_parameters(block, prefix=""):
    """nn.TransformerEncoderLayer under our names."""
    ours = attention_parameters(block.self_attn, f"{prefix}attention.")
    for name, layer in (("attention_norm", block.norm1), ("feed_forward_norm", block.norm2),
                        ("feed_forward.inner", block.linear1),
                        ("feed_forward.outer", block.linear2)):
        ours[f"{prefix}{name}.weight"], ours[f"{prefix}{name}.bias"] = layer.weight, layer.bias
    return ours


def block_cases():
    """The block alone, with a causal mask."""
    block, x = encoder_layer(), x_of(B, T, D)
    mask = masks(T, T)["causal"]
    yield case("Block", "Block", {"d_model": D, "n_heads": H, "d_ff": F, "dropout": 0.0},
               block_parameters(block), {"x": x}, block(x, src_mask=~mask), mask)


def model_cases():
    """The whole model, tied and not, and with padding as well."""
    for tie, padded in ((True, False), (False, True)):
        tokens, positions = give(nn.Embedding(V, D)), give(nn.Embedding(T + 2, D))
        blocks, norm = [encoder_layer(), encoder_layer()], give(nn.LayerNorm(D))
        output = give(nn.Linear(D, V, bias=False))
        parameters = {"tokens.weight": tokens.weight, "positions.table.weight": positions.weight,
                      "stack.norm.weight": norm.weight, "stack.norm.bias": norm.bias}
        for index, block in enumerate(blocks):
            parameters.update(block_parameters(block, f"stack.blocks.{index}."))
        if tie:
            output.weight = tokens.weight
        else:
            parameters["output.weight"] = output.weight
        ids = torch.randint(0, V, (B, T))
        padding = masks(T, T)["padding"] if padded else None
        allowed = masks(T, T)["causal"] if padding is None else masks(T, T)["causal"] & padding
        hidden = ~allowed.expand(B, H, T, T).reshape(B * H, T, T)
        x = tokens(ids) + positions(torch.arange(T))
        for block in blocks:
            x = block(x, src_mask=hidden)
        settings = {"vocab_size": V, "max_len": T + 2, "d_model": D, "n_layers": 2, "n_heads": H,
                    "d_ff": F, "dropout": 0.0, "tie_weights": tie}
        yield case(f"DecoderModel, tied={tie}, padding={padded}", "DecoderModel", settings,
                   parameters, {"ids": ids}, output(norm(x)), padding)


def cases(seed):
    """All cases, drawn from a seed, in float64."""
    torch.manual_seed(seed)
    former = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return [*simple_cases(), *attention_cases(), *block_cases(), *model_cases()]
    finally:
        torch.set_default_dtype(former)


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in cases(0))
    made_with = json.dumps({"torch": version("torch")})
    path = Path(__file__).with_name("layers.json")
    path.write_text(f'{{"made_with": {made_with}, "cases": [\n{lines}\n]}}\n', encoding="utf-8")
