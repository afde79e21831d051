"""One case of golden/layers.json, run through the layer of that name: forward and all gradients."""

from __future__ import annotations

import math
from typing import Any, Dict, List

from tinyformer import models, nn, set_default_dtype, tensor
from tinyformer.nn import Mask, Module


def numbers(nested: Any) -> List[float]:
    """Nested lists as one list."""
    return [x for part in nested for x in numbers(part)] if isinstance(nested, list) else [nested]


def far_apart(what: str, got: Any, expected: Any, tolerance: float = 1e-10) -> List[str]:
    """The name and the largest difference, if two nested lists differ; else nothing."""
    ours, theirs = numbers(got), numbers(expected)
    if len(ours) != len(theirs):
        return [f"{what}: {len(ours)} numbers, {len(theirs)} expected"]
    worst = max(abs(p - q) if math.isfinite(p) else math.inf for p, q in zip(ours, theirs))
    return [f"{what}: off by {worst}"] if worst > tolerance else []


def layer_of(case: Dict[str, Any]) -> Module:
    """The layer or model with the parameters of the case."""
    settings = dict(case["settings"])
    if case["layer"] == "DecoderModel":
        layer: Module = models.DecoderModel(models.DecoderConfig(**settings))
    else:
        layer = getattr(nn, case["layer"])(**settings)
    layer.load_state_dict(case["parameters"])
    return layer


def differences(case: Dict[str, Any]) -> List[str]:
    """Everything in which the layer here and the one in PyTorch differ, in float64."""
    with set_default_dtype("float64"):
        layer = layer_of(case)
        inputs = {name: tensor(values, requires_grad=name != "ids")
                  for name, values in case["inputs"].items()}
        options = {} if case["mask"] is None else {"mask": Mask(case["mask"])}
        y = layer(*inputs.values(), **options)
        y.backward(tensor(case["cotangent"]))
    found = far_apart("output", y.tolist(), case["output"])
    parameters = dict(layer.named_parameters())
    if set(parameters) != set(case["parameters"]):
        found.append(f"other parameters: {set(parameters) ^ set(case['parameters'])}")
    for name, expected in case["parameter_gradients"].items():
        found += far_apart(f"gradient of {name}", gradient(parameters[name]), expected)
    for name, expected in case["input_gradients"].items():
        found += far_apart(f"gradient of {name}", gradient(inputs[name]), expected)
    return found


def gradient(x: Any) -> Any:
    """The gradient as nested lists; an empty list where there is none."""
    return [] if x.grad is None else x.grad.tolist()
