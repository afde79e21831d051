"""Make safetensors.json: a small file as the `safetensors` library writes it, byte for byte, and
what it holds.

Run by hand in an environment that has torch and safetensors; the tests need neither.
    python tests/golden/make_safetensors.py
"""
import json
from importlib.metadata import version
from pathlib import Path

import torch
from safetensors.torch import save

FLOATS = [[0.0, 1.5, -2.25], [1e-3, 65504.0, float("inf")]]
TENSORS = {
    "f64": torch.tensor(FLOATS, dtype=torch.float64),
    "f32": torch.tensor(FLOATS, dtype=torch.float32),
    "f16": torch.tensor(FLOATS, dtype=torch.float16),
    "bf16": torch.tensor(FLOATS, dtype=torch.bfloat16),
    "i64": torch.tensor([2 ** 53 + 1, -1]),
    "i32": torch.tensor([2 ** 31 - 1, -5], dtype=torch.int32),
    "u8": torch.tensor([0, 255], dtype=torch.uint8), "bool": torch.tensor([True, False, True]),
    "scalar": torch.tensor(3.0), "none": torch.zeros(2, 0, 3),
    "ünïcode / \"quoted\"": torch.ones(1),
}
METADATA = {"format": "pt", "note": "ü \"q\" \n"}

if __name__ == "__main__":
    golden = {
        "made_with": {name: version(name) for name in ("torch", "safetensors")},
        "hex": save(TENSORS, METADATA).hex(),
        "metadata": METADATA,
        "values": {name: tensor.double().tolist() if tensor.is_floating_point() else tensor.tolist()
                   for name, tensor in TENSORS.items()},
        "shapes": {name: list(tensor.shape) for name, tensor in TENSORS.items()},
    }
    path = Path(__file__).with_name("safetensors.json")
    path.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
