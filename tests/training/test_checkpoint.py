"""Checkpoints: what goes in comes out, and no change of a byte goes unnoticed."""
import builtins
import json
import os
import random
import struct

import pytest

from tinyformer.arrays import safetensors, set_default_dtype, xp
from tinyformer.training import checkpoint
from tinyformer.training.checkpoint import CheckpointError

STATE = {"step": 7, "rate": 0.1 + 0.2, "vocabulary": ["[UNK]", "é", "猫", "\x00", "\ud800"],
         "none": None, "nested": {"random": [2 ** 32 - 1, 0]}}


@pytest.fixture
def arrays(backend):
    with set_default_dtype("float64"):
        yield {"model.w": xp.asarray([[0.1, -0.0], [1e-300, 2.0]]),
               "model.b.c": xp.asarray([0.5, 0.25]),
               "optimiser.first.w": xp.asarray([[1.0, 2.0], [3.0, 4.0]]),
               "optimiser.n": xp.asarray([3, 4])}


def as_lists(arrays):
    return {name: array.tolist() for name, array in arrays.items()}


def test_everything_comes_back_exactly(arrays, tmp_path):
    checkpoint.save(tmp_path / "c", STATE, arrays)
    back = checkpoint.load(tmp_path / "c")
    assert back.state == STATE == checkpoint.read_state(tmp_path / "c")
    assert as_lists(back.arrays) == as_lists(arrays)
    assert str(back.arrays["model.w"].tolist()[0][1]) == "-0.0"
    assert set(back.group("model")) == {"w", "b.c"}
    assert set(back.group("optimiser")) == {"first.w", "n"}


def test_a_float32_array_stays_float32(backend, tmp_path):
    if backend == "python":
        pytest.skip("the pure backend has float64 only")
    values = xp.asarray([0.1, 1e-30], dtype=xp.float32)
    checkpoint.save(tmp_path / "c", {}, {"model.w": values})
    back = checkpoint.load(tmp_path / "c").arrays["model.w"]
    assert back.dtype == xp.float32 and back.tolist() == values.tolist()


def test_it_is_a_safetensors_file_that_others_can_read(arrays, tmp_path):
    checkpoint.save(tmp_path / "c", STATE, arrays)
    tensors, metadata = safetensors.load(tmp_path / "c")
    assert set(tensors) == set(arrays) and metadata["format"] == "tinyformer checkpoint"
    assert json.loads(metadata["state"])["step"] == 7


def test_a_changed_byte_of_a_tensor_is_named_with_its_range(arrays, tmp_path):
    path = tmp_path / "c"
    checkpoint.save(path, STATE, arrays)
    entry = safetensors.read_header(path).tensors["model.b.c"]
    content = bytearray(path.read_bytes())
    content[entry.begin + 3] ^= 1
    path.write_bytes(content)
    words = f"bytes {entry.begin:,} to {entry.end:,}: tensor 'model.b.c' was changed after it was"
    with pytest.raises(CheckpointError, match=words) as caught:
        checkpoint.load(path)
    assert str(path) in str(caught.value)
    assert checkpoint.read_state(path) == STATE


def test_an_edited_state_is_noticed(arrays, tmp_path):
    path = tmp_path / "c"
    checkpoint.save(path, STATE, arrays)
    content = path.read_bytes()
    assert content.count(b'\\"step\\":7') == 1
    path.write_bytes(content.replace(b'\\"step\\":7', b'\\"step\\":8'))
    for read in (checkpoint.load, checkpoint.read_state):
        with pytest.raises(CheckpointError, match="bytes 8 to .* state in the header was changed"):
            read(path)


def test_no_changed_byte_anywhere_goes_unnoticed(arrays, tmp_path):
    """Other than in the padding, and in the names of keys that nobody reads."""
    path = tmp_path / "c"
    checkpoint.save(path, STATE, arrays)
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    draw = random.Random(4)
    for _ in range(400):
        damaged = bytearray(content)
        place = draw.randrange(len(content))
        damaged[place] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            back = checkpoint.load(path)
        except safetensors.SafetensorsError:
            continue
        assert place < 8 + length, place
        assert back.state == STATE
        assert as_lists(back.arrays) == as_lists(arrays)


def test_every_truncation_is_noticed(arrays, tmp_path):
    path = tmp_path / "c"
    checkpoint.save(path, STATE, arrays)
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(safetensors.SafetensorsError, match="byte"):
            checkpoint.load(path)


def test_a_tensor_taken_out_or_relabelled_is_noticed(arrays, tmp_path):
    path = tmp_path / "c"
    checkpoint.save(path, STATE, arrays)
    tensors, metadata = safetensors.load(path)
    safetensors.save(path, {n: a for n, a in tensors.items() if n != "model.w"}, metadata)
    with pytest.raises(CheckpointError, match="'model.w' is only"):
        checkpoint.load(path)
    encoded = {name: safetensors.encode(array) for name, array in tensors.items()}
    was = encoded["model.w"]
    encoded["model.w"] = safetensors.Encoded("I64", was.shape, was.data)
    safetensors.write(path, encoded, metadata)
    with pytest.raises(CheckpointError, match="tensor 'model.w' was changed"):
        checkpoint.load(path)


def test_a_foreign_file_and_a_newer_one_are_told_apart(arrays, tmp_path):
    path = tmp_path / "c"
    safetensors.save(path, arrays, {"format": "pt"})
    with pytest.raises(CheckpointError, match="not a tinyformer .*format='pt'.*no state of a run"):
        checkpoint.load(path)
    safetensors.save(path, arrays)
    with pytest.raises(CheckpointError, match="format=None"):
        checkpoint.read_state(path)
    checkpoint.save(path, STATE, arrays)
    tensors, metadata = safetensors.load(path)
    safetensors.save(path, tensors, {**metadata, "version": "2"})
    with pytest.raises(CheckpointError, match="version '2', this tinyformer reads version 1"):
        checkpoint.load(path)


@pytest.mark.skipif(os.name == "nt", reason="Windows replaces no open file")
def test_a_run_that_saves_meanwhile_does_not_look_like_damage(arrays, tmp_path, monkeypatch):
    path = tmp_path / "c"
    checkpoint.save(path, STATE, arrays)
    real, opened = open, []

    def open_and_save(name, *rest, **options):
        file = real(name, *rest, **options)
        if name == path:
            opened.append(name)
            monkeypatch.undo()
            checkpoint.save(path, {"step": 8}, {"model.w": xp.asarray([9.0])})
        return file

    monkeypatch.setattr(builtins, "open", open_and_save)
    back = checkpoint.load(path)
    assert opened and back.state == STATE and as_lists(back.arrays) == as_lists(arrays)
    assert checkpoint.load(path).state == {"step": 8}


def test_the_state_is_shown_before_any_array_is_made(arrays, tmp_path, monkeypatch):
    checkpoint.save(tmp_path / "c", STATE, arrays)
    calls, decode = [], safetensors.decode
    monkeypatch.setattr(safetensors, "decode", lambda *rest: (calls.append(1), decode(*rest))[1])
    checkpoint.load(tmp_path / "c", calls.append)
    assert calls == [STATE] + [1] * len(arrays)


@pytest.mark.parametrize("state", [{"x": float("nan")}, {"x": {1, 2}}, {"x": object()}])
def test_what_json_cannot_hold_is_refused_and_the_former_file_kept(arrays, tmp_path, state):
    path = tmp_path / "c"
    checkpoint.save(path, STATE, arrays)
    before = path.read_bytes()
    with pytest.raises((TypeError, ValueError)):
        checkpoint.save(path, state, arrays)
    assert path.read_bytes() == before
