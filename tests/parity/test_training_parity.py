"""Optimisers, clipping and the container against a living PyTorch and safetensors, on fresh
numbers."""

from __future__ import annotations

import random

import pytest

from tinyformer.arrays import safetensors as ours
from tinyformer.arrays import set_default_dtype, xp
from tinyformer.autograd import tensor
from tinyformer.training import optimisers
from tinyformer.training.optimisers import clip_grad_norm

torch = pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with")

SHAPES = [(3, 4), (4,), (2, 1, 3), ()]
SETTINGS = [
    ("SGD", dict(lr=0.1, momentum=0.7, weight_decay=0.2)),
    ("Adam", dict(lr=0.01, betas=(0.8, 0.97), eps=1e-3, weight_decay=0.2)),
    ("AdamW", dict(lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.2)),
]


def nested(shape, draw):
    if not shape:
        return draw.gauss(0, 1) * 10 ** draw.randint(-4, 1)
    return [nested(shape[1:], draw) for _ in range(shape[0])]


def numbers(values):
    return [x for each in values for x in numbers(each)] if isinstance(values, list) else [values]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name, settings", SETTINGS, ids=[name for name, _ in SETTINGS])
def test_thirty_steps_with_clipping_are_those_of_pytorch(backend, name, settings, seed):
    draw = random.Random(seed)
    with set_default_dtype("float64"):
        start = [nested(shape, draw) for shape in SHAPES]
        mine = [tensor(values, requires_grad=True) for values in start]
        theirs = [torch.tensor(values, dtype=torch.float64, requires_grad=True) for values in start]
        groups = [{"params": [p], **({} if p.ndim >= 2 else {"weight_decay": 0.0})} for p in theirs]
        one, other = (getattr(optimisers, name)(mine, **settings),
                      getattr(torch.optim, name)(groups, **settings))
        for _ in range(30):
            for p, q in zip(mine, theirs):
                gradient = nested(p.shape, draw)
                p.grad, q.grad = tensor(gradient), torch.tensor(gradient, dtype=torch.float64)
            length = float(torch.nn.utils.clip_grad_norm_(theirs, 5.0))
            assert clip_grad_norm(mine, 5.0) == pytest.approx(length, rel=1e-12)
            one.step()
            other.step()
        for p, q in zip(mine, theirs):     # PyTorch divides by the length plus 1e-6
            assert numbers(p.tolist()) == pytest.approx(numbers(q.tolist()), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_files_go_both_ways(backend, tmp_path, seed):
    theirs = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    draw = random.Random(seed)
    values = {f"layer {n}.é": nested(shape, draw) for n, shape in enumerate(SHAPES)}
    path = str(tmp_path / "file.safetensors")
    ours.save(path, {name: xp.asarray(each, dtype=xp.float64) for name, each in values.items()},
              {"note": "ü"})
    loaded = theirs.load_file(path)
    assert {name: each.tolist() for name, each in loaded.items()} == values
    for code, dtype in {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16,
                        "BF16": torch.bfloat16}.items():
        cast = {name: torch.tensor(each, dtype=torch.float64).to(dtype)
                for name, each in values.items()}
        theirs.save_file(cast, path, {"note": "ü"})
        back, metadata = ours.load(path)
        assert metadata == {"note": "ü"}
        assert {name: each.tolist() for name, each in back.items()} == \
            {name: each.double().tolist() for name, each in cast.items()}
        ours.save(path, back, dtype=code)
        again = theirs.load_file(path)
        assert all(torch.equal(again[name], each) and again[name].dtype == dtype
                   for name, each in cast.items())
