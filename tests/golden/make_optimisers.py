"""Make optimisers.json: six steps of PyTorch's optimisers, from given values along given gradients,
in float64.

Run by hand in an environment that has torch; the tests do not need it.
    python tests/golden/make_optimisers.py
"""
import json
from importlib.metadata import version
from pathlib import Path

import torch

SETTINGS = [
    ("SGD", dict(lr=0.1)),
    ("SGD", dict(lr=0.1, momentum=0.9)),
    ("SGD", dict(lr=0.05, momentum=0.5, weight_decay=0.1)),
    ("Adam", dict(lr=0.01)),
    ("Adam", dict(lr=0.02, betas=(0.8, 0.95), eps=0.1, weight_decay=0.1)),
    ("AdamW", dict(lr=0.01)),
    ("AdamW", dict(lr=0.02, betas=(0.8, 0.95), eps=0.1, weight_decay=0.3)),
]
RATES = [1.0, 1.0, 0.5, 2.0, 1.0, 1.0]      # times lr: the rate changes from step to step


def run(name, settings, start, gradients):
    """The values after each step. The weight is decayed, the bias is not; at step 3 the bias has no
    gradient."""
    weight, bias = (torch.tensor(values, dtype=torch.float64, requires_grad=True)
                    for values in start)
    groups = [{"params": [weight]}, {"params": [bias], "weight_decay": 0.0}]
    optimiser = getattr(torch.optim, name)(groups, **settings)
    steps = []
    for rate, (of_weight, of_bias) in zip(RATES, gradients):
        for group in optimiser.param_groups:
            group["lr"] = settings["lr"] * rate
        weight.grad = torch.tensor(of_weight, dtype=torch.float64)
        bias.grad = None if of_bias is None else torch.tensor(of_bias, dtype=torch.float64)
        optimiser.step()
        steps.append([weight.tolist(), bias.tolist()])
    return steps


if __name__ == "__main__":
    torch.manual_seed(0)
    start = [torch.randn(2, 3).tolist(), torch.randn(3).tolist()]
    gradients = [[(torch.randn(2, 3) * 10.0 ** -k).tolist(), (torch.randn(3) * 10.0 ** -k).tolist()]
                 for k in (0, 1, 3, 0, 6, 1)]
    gradients[2][1] = None
    golden = {
        "made_with": {"torch": version("torch")},
        "start": start, "gradients": gradients, "rates": RATES,
        "runs": [{"name": name, "settings": settings,
                  "steps": run(name, settings, start, gradients)} for name, settings in SETTINGS],
    }
    path = Path(__file__).with_name("optimisers.json")
    path.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
