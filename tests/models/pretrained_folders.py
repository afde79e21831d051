"""What the tests of pretrained folders share: the golden ones, and copies of them with changes."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
from pathlib import Path

from tinyformer.arrays import safetensors
from tinyformer.arrays.safetensors import Encoded

GOLDEN = Path(__file__).parents[1] / "golden" / "pretrained"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
IDS, SEGMENTS, LENGTHS = (EXPECTED[name] for name in ("ids", "segments", "lengths"))
OUTPUTS = EXPECTED["outputs"]


@contextlib.contextmanager
def little_memory():
    """Asserts that no more than 2 MB were taken inside, on a Python that can tell."""
    if importlib.util.find_spec("_tracemalloc") is None:
        yield
        return
    import tracemalloc
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def outputs_of(name, model):
    """What a model computes of the golden ids, by the names of the golden outputs."""
    if name.startswith("gpt2"):
        seen = [[place < n for place in range(len(IDS[0]))] for n in LENGTHS]
        return {"logits": model(IDS, seen=seen)}
    segments = SEGMENTS if name.split("-")[0] == "bert" else None
    out = model(IDS, segments, LENGTHS)
    if not isinstance(out, tuple):
        return {"logits": out}
    return {"hidden": out.hidden, **({} if out.pooled is None else {"pooled": out.pooled})}


def difference(name, model, expected=None):
    """The largest between what a model computes and what is expected, padding left out."""
    expected, largest = expected or OUTPUTS[name], 0.0
    computed = outputs_of(name, model)
    assert set(computed) == set(expected)
    for key, rows in expected.items():
        for b, (ours, theirs) in enumerate(zip(computed[key].tolist(), rows)):
            flat = list(pairs(ours, theirs, by_token=len(ours) == len(IDS[0]), length=LENGTHS[b]))
            largest = max(largest, *(abs(x - y) for x, y in flat))
    return largest


def pairs(ours, theirs, by_token, length):
    """The numbers of one row of a batch side by side, those of real tokens."""
    if not isinstance(ours, list):
        yield ours, theirs
    elif len(ours) == 2 and isinstance(ours[0], list) and len(ours[0]) == len(IDS[0]):
        for side in (0, 1):                                             # spans: (2, T)
            yield from pairs(ours[side], theirs[side], True, length)
    else:
        assert len(ours) == len(theirs)
        for x, y in list(zip(ours, theirs))[:length if by_token else None]:
            yield from pairs(x, y, False, length)


def tensors_of(folder):
    """The tensors in a folder's file, still as bytes, by name."""
    path = Path(folder) / "model.safetensors"
    header = safetensors.read_header(path)
    with open(path, "rb") as file:
        return {name: Encoded(entry.dtype, entry.shape,
                              safetensors.read_bytes(file, header, name))
                for name, entry in header.tensors.items()}


def changed(tmp_path, name, tensors=None, config=None, without=()):
    """A copy of a golden folder: `tensors` makes new tensors of its own, `config` adds keys (or,
    where None is given for one, takes it away)."""
    folder = tmp_path / name
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(GOLDEN / name, folder)
    if tensors is not None:
        safetensors.write(folder / "model.safetensors", tensors(tensors_of(folder)))
    if config is not None:
        path = folder / "config.json"
        keys = {**json.loads(path.read_text(encoding="utf-8")), **config}
        keys = {key: value for key, value in keys.items() if key not in without}
        path.write_text(json.dumps(keys), encoding="utf-8")
    return folder
