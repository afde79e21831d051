"""One case of golden/family.json, run through the block or model of that name."""

from __future__ import annotations

import math
from typing import Any, Dict, List

from tinyformer import models, nn, set_default_dtype, tensor
from tinyformer.models import EncoderConfig, EncoderModel
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


def built(case: Dict[str, Any]) -> Module:
    """The block, model or head of a case with its parameters."""
    name, settings = case["layer"], dict(case["settings"])
    if hasattr(nn, name):
        made: Module = getattr(nn, name)(**settings)
    elif hasattr(models, name.replace("Model", "Config")) and name.endswith("Model"):
        made = getattr(models, name)(getattr(models, name.replace("Model", "Config"))(**settings))
    else:
        encoder = EncoderModel(EncoderConfig(**settings))
        made = getattr(models, name)(encoder, *case["arguments"])
    made.load_state_dict(case["parameters"])
    return made


def differences(case: Dict[str, Any]) -> List[str]:
    """Everything in which the one here and that of PyTorch or transformers differ, in float64."""
    with set_default_dtype("float64"):
        made = built(case)
        inputs = {name: tensor(values, requires_grad=name in case["input_gradients"])
                  for name, values in case["inputs"].items()}
        masks = {name: Mask(table) for name, table in case.get("masks", {}).items()}
        y = made(**inputs, **masks, **case.get("options", {}))
        y = getattr(y, "hidden", y)
        if case["real"] is not None:
            y = y * tensor(case["real"], dtype="float64")
        y.backward(tensor(case["cotangent"]))
    found = far_apart("output", y.tolist(), case["output"])
    parameters = dict(made.named_parameters())
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
