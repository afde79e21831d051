"""Make autograd.json: values and gradients of the operations as PyTorch computes them in float64.

Run by hand in an environment that has torch; the tests need none.
    python tests/golden/make_autograd.py
"""
import json
from importlib.metadata import version
from pathlib import Path
from random import Random


def numbers(random, *shape):
    """Nested lists of random floats with three decimals."""
    if not shape:
        return round(random.uniform(-2, 2), 3)
    return [numbers(random, *shape[1:]) for _ in range(shape[0])]


def cases(seed=1706):
    """Name -> the operation, its tensors that require a gradient, and everything else."""
    r = Random(seed)
    nowhere = "-inf"                            # JSON has no infinity
    return {
        "softmax": ("softmax", [numbers(r, 2, 3)], {"axis": -1}),
        "softmax, axis 0, large": ("softmax", [[[1000.0, 0.0], [1001.0, 1.0]]], {"axis": 0}),
        "log_softmax": ("log_softmax", [numbers(r, 2, 3)], {"axis": 1}),
        "log_softmax, far apart": ("log_softmax", [[[800.0, -800.0, 0.0]]], {"axis": -1}),
        "cross_entropy": ("cross_entropy", [numbers(r, 3, 4)], {"targets": [1, 3, 0]}),
        "cross_entropy, ignored": ("cross_entropy", [numbers(r, 4, 3)],
                                   {"targets": [2, -100, 0, -100]}),
        "cross_entropy, smoothed": ("cross_entropy", [numbers(r, 3, 4)],
                                    {"targets": [1, 3, 0], "label_smoothing": 0.1}),
        "cross_entropy, all": ("cross_entropy", [numbers(r, 4, 3)],
                               {"targets": [2, 1, 0, 1], "label_smoothing": 0.3,
                                "ignore_index": 1, "reduction": "sum"}),
        "layer_norm": ("layer_norm", [numbers(r, 2, 2, 4), numbers(r, 4), numbers(r, 4)],
                       {"normalized_shape": [4], "eps": 1e-5}),
        "layer_norm, two axes": (
            "layer_norm", [numbers(r, 2, 2, 3), numbers(r, 2, 3), numbers(r, 2, 3)],
            {"normalized_shape": [2, 3], "eps": 1e-3}),
        "gelu": ("gelu", [[-30.0, -3.0, -0.5, 0.0, 0.1, 2.0, 30.0]], {"approximate": "none"}),
        "gelu, tanh": ("gelu", [[-30.0, -3.0, -0.5, 0.0, 0.1, 2.0, 30.0]], {"approximate": "tanh"}),
        "linear": ("linear", [numbers(r, 2, 2, 3), numbers(r, 4, 3), numbers(r, 4)], {}),
        "embedding": ("embedding", [numbers(r, 4, 2)], {"ids": [[1, 3], [1, 1]]}),
        "sigmoid": ("sigmoid", [[-40.0, -1.0, 0.0, 3.0]], {}),
        "variance": ("var", [numbers(r, 2, 3)], {"axis": 1}),
        "power": ("pow", [[0.0, 2.0, 0.0, 1.5], [2.0, 3.0, 1.0, -0.5]], {}),
        "attention": (
            "attention", [numbers(r, 2, 3, 2), numbers(r, 2, 4, 2), numbers(r, 2, 4, 3)], {}),
        "attention, causal": (
            "attention", [numbers(r, 3, 2) for _ in range(3)], {"is_causal": True}),
        "attention, masked, scaled": (
            "attention", [numbers(r, 2, 2), numbers(r, 3, 2), numbers(r, 3, 2)],
            {"attn_mask": [[True, False, True], [False, True, False]], "scale": 0.3}),
        "attention, float mask": (
            "attention",
            [numbers(r, 2, 2), numbers(r, 3, 2), numbers(r, 3, 2), numbers(r, 2, 3)], {}),
        "attention, minus infinity": (
            "attention", [numbers(r, 2, 2), numbers(r, 3, 2), numbers(r, 3, 2),
                          [[0.0, nowhere, 0.5], [nowhere, 1.0, nowhere]]], {}),
    }


def floats(values):
    """Nested lists of floats, "-inf" among them."""
    return [floats(each) for each in values] if isinstance(values, list) else float(values)


def by_tinyformer(name, tensors, options):
    """The operation in tinyformer."""
    import tinyformer.functional as F
    options = dict(options)
    if name == "cross_entropy":
        return F.cross_entropy(tensors[0], options.pop("targets"), **options)
    if name == "layer_norm":
        return F.layer_norm(tensors[0], options["normalized_shape"], *tensors[1:], options["eps"])
    if name == "embedding":
        return F.embedding(options["ids"], tensors[0])
    if name in ("var", "pow"):
        return getattr(tensors[0], name)(*tensors[1:], **options)
    return getattr(F, {"attention": "scaled_dot_product_attention"}.get(name, name))(
        *tensors, **options)


def by_torch(name, tensors, options):
    """The operation in PyTorch."""
    import torch
    import torch.nn.functional as F
    options = dict(options)
    for key in ("targets", "ids", "attn_mask"):
        if key in options:
            options[key] = torch.tensor(options[key])
    if name in ("softmax", "log_softmax"):
        return getattr(F, name)(tensors[0], dim=options["axis"])
    if name == "cross_entropy":
        return F.cross_entropy(tensors[0], options.pop("targets"), **options)
    if name == "layer_norm":
        return F.layer_norm(tensors[0], options["normalized_shape"], *tensors[1:], options["eps"])
    if name == "embedding":
        return F.embedding(options["ids"], tensors[0])
    if name == "var":
        return tensors[0].var(dim=options["axis"])
    if name in ("pow", "sigmoid"):
        return getattr(torch, name)(*tensors)
    return {"attention": F.scaled_dot_product_attention, "linear": F.linear,
            "gelu": F.gelu}[name](*tensors, **options)


def measure(name, tensors, options):
    """Value, cotangent and gradients of a case in PyTorch."""
    import torch
    leaves = [torch.tensor(floats(each), dtype=torch.float64, requires_grad=True)
              for each in tensors]
    value = by_torch(name, leaves, options)
    random = Random(7)
    weights = torch.tensor([random.gauss(0, 1) for _ in range(value.numel())],
                           dtype=torch.float64).reshape(value.shape)
    value.backward(weights)
    return {"operation": name, "tensors": tensors, "options": options, "value": value.tolist(),
            "cotangent": weights.tolist(), "gradients": [leaf.grad.tolist() for leaf in leaves]}


if __name__ == "__main__":
    golden = {"made_with": {"torch": version("torch")},
              "cases": {name: measure(*case) for name, case in cases().items()}}
    text = json.dumps(golden, indent=None, separators=(",", ":")).replace('},"', '},\n"')
    Path(__file__).with_name("autograd.json").write_text(text + "\n", encoding="utf-8")
