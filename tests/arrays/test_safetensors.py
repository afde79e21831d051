"""The container: files of the reference library read and written, and every way to be damaged
noticed."""
import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tinyformer.arrays import safetensors, xp
from tinyformer.arrays.safetensors import SafetensorsError, load, read_header, save

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "safetensors.json").read_text("utf-8"))


def container(header, data=b"", length=None):
    """A file: `header` as JSON (or as the bytes given), then `data`."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode("utf-8")
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def entry(shape=(2,), dtype="F32", begin=0, end=8):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def written(tmp_path, content):
    path = tmp_path / "file.safetensors"
    path.write_bytes(content)
    return path


def test_a_file_of_the_reference_library_reads(backend, tmp_path):
    tensors, metadata = load(written(tmp_path, bytes.fromhex(GOLDEN["hex"])))
    assert metadata == GOLDEN["metadata"]
    assert {name: array.tolist() for name, array in tensors.items()} == GOLDEN["values"]
    assert {name: list(array.shape) for name, array in tensors.items()} == GOLDEN["shapes"]


def test_writing_gives_what_the_reference_library_writes(backend, tmp_path):
    encoded = {}
    header = read_header(written(tmp_path, bytes.fromhex(GOLDEN["hex"])))
    for name, at in header.tensors.items():
        array = xp.asarray(GOLDEN["values"][name], dtype=xp.float64 if "F" in at.dtype else None)
        data = xp.to_bytes(xp.reshape(array, at.shape), at.dtype)
        encoded[name] = safetensors.Encoded(at.dtype, at.shape, data)
    safetensors.write(tmp_path / "ours", encoded, GOLDEN["metadata"])
    ours, theirs = (tmp_path / "ours").read_bytes(), bytes.fromhex(GOLDEN["hex"])
    assert len(ours) == len(theirs)
    (n,) = struct.unpack("<Q", theirs[:8])
    assert json.loads(ours[8:8 + n]).keys() == json.loads(theirs[8:8 + n]).keys()
    mine = read_header(tmp_path / "ours")
    for name, at in header.tensors.items():
        assert (mine.tensors[name].dtype, mine.tensors[name].shape) == (at.dtype, at.shape)
        assert ours[mine.tensors[name].begin:mine.tensors[name].end] == theirs[at.begin:at.end]


def test_arrays_and_metadata_come_back(backend, tmp_path):
    path = tmp_path / "file.safetensors"
    floats = xp.astype(xp.asarray([[1.0, -0.0], [1e30, 0.1]]), xp.default_float)
    tensors = {"w": floats, "ids": xp.asarray([[1, -2, 3]]), "mask": xp.asarray([True, False]),
               "scalar": xp.sum(floats * 0.0), "empty": xp.zeros((0, 4)), "é \"": xp.ones((1,))}
    save(path, tensors, {"k": "v", "é": "\x00\n"})
    back, metadata = load(path)
    assert metadata == {"k": "v", "é": "\x00\n"}
    assert {n: (a.tolist(), a.shape, a.dtype) for n, a in back.items()} == \
        {n: (xp.asarray(a).tolist(), xp.asarray(a).shape, a.dtype) for n, a in tensors.items()}


def test_every_tensor_lies_at_a_multiple_of_its_item_size(backend, tmp_path):
    tensors = {f"a{n}": xp.asarray([True] * n) for n in (1, 3, 5)}
    tensors.update({f"c{n}": xp.asarray([1] * n) for n in (1, 3)})
    tensors.update({f"b{n}": xp.ones((n,)) for n in (1, 2, 3)})
    save(tmp_path / "f", tensors)
    for at in read_header(tmp_path / "f").tensors.values():
        assert at.begin % safetensors.ITEM_SIZES[at.dtype] == 0


def test_floats_are_stored_in_the_dtype_asked_for(backend, tmp_path):
    tensors = {"w": xp.asarray([1.0, 1.0 + 2 ** -9]), "i": xp.asarray([7])}
    save(tmp_path / "f", tensors, dtype="BF16")
    header = read_header(tmp_path / "f")
    assert (header.tensors["w"].dtype, header.tensors["i"].dtype) == ("BF16", "I64")
    assert load(tmp_path / "f")[0]["w"].tolist() == [1.0, 1.0]


def test_a_file_without_tensors(backend, tmp_path):
    save(tmp_path / "f", {})
    assert load(tmp_path / "f") == ({}, {})


def test_saving_refuses_what_the_format_cannot_hold(backend, tmp_path):
    with pytest.raises(TypeError, match="text to text"):
        save(tmp_path / "f", {}, {"step": 3})
    with pytest.raises(ValueError, match="__metadata__"):
        save(tmp_path / "f", {"__metadata__": xp.ones((1,))})
    assert not list(tmp_path.iterdir())


EIGHT = b"\0" * 8
DEEP = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
DAMAGED = {     # name: (content, byte, words)
    "empty": (b"", 0, "ends after 0 bytes"),
    "seven bytes": (b"\x01" * 7, 7, "ends after 7 bytes"),
    "header longer than the file": (container({}, length=3), 0, "take 3 bytes, but only 2 follow"),
    "header of 4 GB": (container({}, length=4 << 30), 0, "4,294,967,296 bytes, but only 2 follow"),
    "header of 2**64 - 1": (container({}, length=2 ** 64 - 1), 0, "but only 2 follow"),
    "not an object": (container(b"[1, 2]"), 8, r"must begin with '{'"),
    "empty header": (container(b""), 8, r"must begin with '{'"),
    "a text file": (b"Dear reader, this is a letter and not a container.", 0, "but only 42 follow"),
    "not JSON": (container(b'{"a": }'), 14, "not JSON"),
    "not JSON after two-byte letters": (container('{"éé": }'.encode()), 17, "not JSON"),
    "not UTF-8": (container(b'{"\xff": 1}'), 10, "not UTF-8"),
    "nested too deeply": (container(DEEP), 8, "not one that a safetensors file can have"),
    "a number of 10,000 digits": (container(b'{"a": ' + b"9" * 10_000 + b"}"), None, "."),
    "twice the same tensor": (container(b'{"a": 1, "a": 2}'), 17, "'a' occurs twice"),
    "twice the same key": (container(b'{"a": {"dtype": "F32", "dtype": "I64"}}'), 31, "'dtype'"),
    "metadata not text": (container({"__metadata__": {"a": 1}}), 9, "must map names to texts"),
    "metadata not an object": (container({"__metadata__": 3}), 9, "must map names to texts"),
    "entry not an object": (container({"a": 3}), 9, "an entry has dtype, shape and data_offsets"),
    "entry without offsets": (container({"b": {"dtype": "F32", "shape": []}}), 9, "this one is"),
    "unknown dtype": (container({"a": entry(dtype="F33")}, EIGHT), 9, "unknown dtype 'F33'"),
    "dtype not text": (container({"a": entry(dtype=["F32"])}, EIGHT), 9, "unknown dtype"),
    "negative size": (container({"a": entry((-1, -2))}, EIGHT), 9, "not a list of sizes"),
    "size not whole": (container({"a": entry((2.0,))}, EIGHT), 9, "not a list of sizes"),
    "size a truth value": (container({"a": entry((True, 2))}, EIGHT), 9, "not a list of sizes"),
    "size beyond 64 bits": (container({"a": entry((0, 2 ** 40, 2 ** 40), end=0)}), 9, "of sizes"),
    "offsets reversed": (container({"a": entry(begin=8, end=0)}, EIGHT), 9, "said to be at bytes"),
    "offsets negative": (container({"a": entry(begin=-8, end=0)}, EIGHT), 9, "not two byte"),
    "three offsets": (container({"a": {**entry(), "data_offsets": [0, 4, 8]}}, EIGHT), 9,
                      "not two byte"),
    "shape and offsets disagree": (container({"a": entry((3,))}, EIGHT), 9,
                                   r"takes 12 bytes, but .* span 8"),
    "data missing": (container({"a": entry()}, EIGHT[:5]), 9, "truncated or damaged"),
    "overlap": (container({"a": entry(), "b": entry(begin=4, end=12)}, EIGHT + EIGHT[:4]), None,
                "'b' begins here, but tensor 'a' only ends"),
    "hole": (container({"a": entry(), "b": entry(begin=12, end=20)}, b"\0" * 20), None,
             "4 bytes between tensor 'a' and tensor 'b'"),
    "hole at the start": (container({"a": entry(begin=4, end=12)}, b"\0" * 12), None,
                          "4 bytes between the header and tensor 'a'"),
    "bytes left over": (container({"a": entry()}, EIGHT + b"!"), None, "1 bytes after tensor 'a'"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named_with_file_and_byte(tmp_path, name):
    content, position, words = DAMAGED[name]
    path = written(tmp_path, content)
    for read in (read_header, load):
        with pytest.raises(SafetensorsError, match=words) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}, byte ")
        if position is not None:
            assert f", byte {position}: " in str(caught.value)


def test_a_known_dtype_that_is_not_read_is_named(backend, tmp_path):
    path = written(tmp_path, container({"a": entry((8,), "F8_E4M3")}, EIGHT))
    assert read_header(path).tensors["a"].shape == (8,)
    with pytest.raises(SafetensorsError, match="F8_E4M3, which is not read"):
        load(path)


CLAIMS = """
import sys, resource
from tinyformer.arrays.safetensors import load, SafetensorsError
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
for path in sys.argv[1:]:
    try:
        load(path)
    except SafetensorsError:
        print("noticed")
"""


def test_a_claim_costs_no_memory(tmp_path):
    """A header that claims 4 GB, and a tensor that claims as much, fail under a limit of memory."""
    resource = pytest.importorskip("resource")
    written(tmp_path, container({}, length=4 << 30))
    (tmp_path / "tensor").write_bytes(container({"a": entry((1 << 30,), end=4 << 30)}, EIGHT))
    assert resource
    done = subprocess.run([sys.executable, "-c", CLAIMS, str(tmp_path / "file.safetensors"),
                           str(tmp_path / "tensor")], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})
    assert done.stdout.split() == ["noticed", "noticed"], done.stderr


def test_a_header_beyond_the_limit_of_the_format_is_not_read(tmp_path):
    path = written(tmp_path, struct.pack("<Q", 150_000_000) + b"{")
    os.truncate(path, 200_000_000)          # a hole: it takes no room on the disk
    with pytest.raises(SafetensorsError, match="150,000,000 bytes, but the format allows at most"):
        read_header(path)


def test_any_truncation_and_any_changed_byte_of_the_header_is_read_or_refused(backend, tmp_path):
    """No damage escapes as another error, and no truncation passes."""
    save(tmp_path / "whole", {"w": xp.ones((2, 2)), "ids": xp.asarray([1, 2, 3])}, {"k": "v"})
    content = (tmp_path / "whole").read_bytes()
    for length in range(len(content)):
        with pytest.raises(SafetensorsError):
            load(written(tmp_path, content[:length]))
    draw = random.Random(0)
    (n,) = struct.unpack("<Q", content[:8])
    for _ in range(500):
        damaged = bytearray(content)
        damaged[draw.randrange(8 + n)] = draw.randrange(256)
        try:
            load(written(tmp_path, bytes(damaged)))
        except SafetensorsError:
            pass


def test_a_full_disk_leaves_the_previous_file_and_nothing_beside_it(backend, tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / "file.safetensors"
    save(path, {"w": xp.ones((4,))})
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match="nothing was saved, and what was there .* untouched"):
            save(path, {"w": xp.ones((100_000,))})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["file.safetensors"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failure_at_the_last_moment_leaves_the_previous_file(tmp_path, monkeypatch, failing):
    path = written(tmp_path, b"before")

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.os, failing, fail)
    with pytest.raises(OSError, match="No space left on device; nothing was saved") as caught:
        safetensors.replace_file(path, [b"after"])
    assert caught.value.errno == 28
    assert path.read_bytes() == b"before" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("refusals", [1, 3, 99])
def test_a_file_that_is_being_read_is_replaced_a_little_later(tmp_path, monkeypatch, refusals):
    path, replace, calls = written(tmp_path, b"before"), os.replace, []

    def busy(source, target):
        calls.append(target)
        if len(calls) <= refusals:
            raise PermissionError(13, "Access is denied")
        replace(source, target)

    monkeypatch.setattr(safetensors.os, "replace", busy)
    monkeypatch.setattr(safetensors.time, "sleep", lambda seconds: None)
    if refusals < 99:
        safetensors.replace_file(path, [b"after"])
        assert path.read_bytes() == b"after" and len(calls) == refusals + 1
    else:
        with pytest.raises(PermissionError, match="Access is denied; nothing was saved"):
            safetensors.replace_file(path, [b"after"])
        assert path.read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 1


def test_an_interruption_leaves_the_previous_file(tmp_path):
    path = written(tmp_path, b"before")

    def chunks():
        yield b"after"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        safetensors.replace_file(path, chunks())
    assert path.read_bytes() == b"before" and len(list(tmp_path.iterdir())) == 1


def test_the_bytes_reach_the_disk_before_the_name_changes(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(safetensors.os, "fsync", lambda fd: (calls.append("fsync"), fsync(fd)))
    monkeypatch.setattr(safetensors.os, "replace",
                        lambda a, b: (calls.append("replace"), replace(a, b)))
    safetensors.replace_file(tmp_path / "f", [b"x"])
    assert calls == ["fsync", "replace"]


def test_a_missing_folder_is_an_ordinary_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        safetensors.replace_file(tmp_path / "no" / "f", [b"x"])
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "no")
