"""The safetensors container: named arrays in one file, with nothing in it that could run.

A file is three parts, one after the other (https://github.com/huggingface/safetensors):

    8 bytes   n, the length of the header, a little-endian unsigned integer
    n bytes   the header, JSON: {"name": {"dtype": "F32", "shape": [2, 3],
              "data_offsets": [0, 24]}, ..., "__metadata__": {"key": "text"}}, padded with spaces
    the rest  the elements, little-endian and row-major, at their offsets, without gap or overlap

A file comes from somewhere else, so nothing in it is believed: every number is held against the
size of the file before any memory is taken for it, and whatever does not fit raises
`SafetensorsError`, which names the file, the byte, what stands there and what should. Saving never
leaves half a file: the new one is written beside the old and takes its place in one step.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import time
from dataclasses import dataclass
from math import prod
from typing import Any, BinaryIO, Dict, Iterable, List, Mapping, NoReturn, Optional, Tuple

from tinyformer.arrays.backend import xp

# Bytes an element. The backends read and write the first eight; the others are known, to say so.
ITEM_SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1,
              "I8": 1, "I16": 2, "U16": 2, "U32": 4, "U64": 8, "F8_E4M3": 1, "F8_E5M2": 1, "C64": 8}
READABLE = tuple(ITEM_SIZES)[:8]
LONGEST_HEADER = 100_000_000        # the format's own limit
METADATA = "__metadata__"
PATIENCE = (0.01, 0.05, 0.2, 0.5)   # seconds between tries to replace a file that is being read


class SafetensorsError(ValueError):
    """A file that is no safetensors file, or a damaged one."""


@dataclass(frozen=True)
class Entry:
    """Where a tensor lies: `begin` and `end` are byte positions in the whole file."""

    dtype: str
    shape: Tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """What a file says it holds: its tensors in the order of their bytes, and its metadata. The
    elements begin at byte `start`."""

    path: str
    start: int
    tensors: Dict[str, Entry]
    metadata: Dict[str, str]


@dataclass(frozen=True)
class Encoded:
    """A tensor as bytes, ready to be written."""

    dtype: str
    shape: Tuple[int, ...]
    data: bytes


def read_header(path: Any) -> Header:
    """What is in the file at `path`: names, dtypes, shapes and positions, without reading any
    element.

    Every bound is checked here. Raises SafetensorsError for a damaged or foreign file, OSError for
    one that cannot be opened.
    """
    with open(path, "rb") as file:
        return header_of(file, path)


def load(path: Any) -> Tuple[Dict[str, Any], Dict[str, str]]:
    """All tensors of the file at `path`, as arrays of the backend in use, and its metadata.

    F16 and BF16 widen to the backend's narrowest float. Raises as `read_header` does, and
    SafetensorsError for a dtype that is not one of F64 F32 F16 BF16 I64 I32 U8 BOOL.
    """
    with open(path, "rb") as file:
        header = header_of(file, path)
        return ({name: decode(header, name, read_bytes(file, header, name))
                 for name in header.tensors}, header.metadata)


def save(path: Any, tensors: Mapping[str, Any], metadata: Optional[Mapping[str, str]] = None,
         dtype: Optional[str] = None) -> None:
    """Write arrays (and texts about them) to `path`, replacing the file there as a whole.

    `dtype` is a name of the format ("F32", "BF16", ...) for the floats; without it each array keeps
    its own. Raises TypeError for metadata that is not text, OSError where the disk fails: then the
    previous file is untouched.
    """
    write(path, {name: encode(array, dtype) for name, array in tensors.items()}, metadata)


def encode(array: Any, dtype: Optional[str] = None) -> Encoded:
    """`array` as bytes, floats in the format `dtype` (by default that of the array itself)."""
    if xp.isdtype(array.dtype, "bool"):
        kind = "BOOL"
    elif xp.isdtype(array.dtype, "integral"):
        kind = "I64"
    elif xp.isdtype(array.dtype, "real floating"):
        kind = dtype or ("F64" if array.dtype == xp.float64 else "F32")
    else:
        raise TypeError(f"an array of dtype {array.dtype} cannot be saved, only bool, int, float")
    return Encoded(kind, tuple(array.shape), xp.to_bytes(array, kind))


def decode(header: Header, name: str, data: bytes) -> Any:
    """The array that the bytes `data` of the tensor `name` stand for."""
    entry = header.tensors[name]
    if entry.dtype not in READABLE:
        _fail(header.path, entry.begin, f"tensor {name!r} is of dtype {entry.dtype}, which is not "
              f"read here (only {' '.join(READABLE)}); convert the file first")
    return xp.from_bytes(data, entry.dtype, entry.shape)


def read_bytes(file: BinaryIO, header: Header, name: str) -> bytes:
    """The bytes of the tensor `name`, from the open file that `header` was read from."""
    entry = header.tensors[name]
    file.seek(entry.begin)
    data = file.read(entry.end - entry.begin)
    if len(data) != entry.end - entry.begin:
        _fail(header.path, entry.begin + len(data), f"the file ended in the middle of tensor "
              f"{name!r}; it shrank while it was being read")
    return data


def write(path: Any, tensors: Mapping[str, Encoded],
          metadata: Optional[Mapping[str, str]] = None) -> None:
    """Write encoded tensors: wide elements first, so that each lies at a multiple of its size."""
    contents: Dict[str, Any] = {}
    if metadata:
        if any(not isinstance(text, str) for pair in metadata.items() for text in pair):
            raise TypeError("safetensors metadata maps text to text; turn other values into JSON")
        contents[METADATA] = dict(metadata)
    names = sorted(tensors, key=lambda name: (-ITEM_SIZES[tensors[name].dtype], name))
    position = 0
    for name in names:
        if name == METADATA:
            raise ValueError(f"a tensor cannot be called {METADATA!r}: the format keeps that name")
        tensor = tensors[name]
        end = position + len(tensor.data)
        contents[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape),
                          "data_offsets": [position, end]}
        position = end
    text = json.dumps(contents, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    if len(text) > LONGEST_HEADER:
        raise ValueError(f"the header would take {len(text):,} bytes, the format allows "
                         f"{LONGEST_HEADER:,}; save less metadata")
    blocks = [tensors[name].data for name in names]
    replace_file(path, [struct.pack("<Q", len(text)), text, *blocks])


def replace_file(path: Any, chunks: Iterable[bytes]) -> None:
    """Write `chunks` as the file at `path`, all of it or nothing.

    They go to a temporary file beside it, down to the disk, and `os.replace` puts that in its place
    in one step. On any failure (OSError: the disk is full; an interruption) the file that was there
    before is untouched and the temporary one is removed.
    """
    partial = f"{os.fspath(path)}.partial"
    try:
        with open(partial, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        _replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(partial)
        if isinstance(error, OSError):
            raise OSError(error.errno, f"{error.strerror}; nothing was saved, and what was there "
                          "before is untouched", os.fspath(path)) from error
        raise


def _replace(source: Any, target: Any) -> None:
    """os.replace, with patience: Windows refuses it while somebody has the target open."""
    for seconds in PATIENCE:
        try:
            return os.replace(source, target)
        except PermissionError:
            time.sleep(seconds)
    os.replace(source, target)


def _fail(path: str, position: int, what: str) -> NoReturn:
    raise SafetensorsError(f"{path}, byte {position}: {what}")


def header_of(file: BinaryIO, path: Any) -> Header:
    """The header of a file that is open already, every number in it held against the size of the
    file; as `read_header`, but what is then read from `file` is sure to belong to it."""
    path = os.fspath(path)
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size < 8:
        _fail(path, size, f"the file ends after {size} bytes; a safetensors file begins with 8 "
              "bytes that give the length of its header")
    (length,) = struct.unpack("<Q", file.read(8))
    if length > size - 8:
        _fail(path, 0, f"the header is said to take {length:,} bytes, but only {size - 8:,} "
              "follow; the file is truncated or is no safetensors file")
    if length > LONGEST_HEADER:
        _fail(path, 0, f"the header is said to take {length:,} bytes, but the format allows at "
              f"most {LONGEST_HEADER:,}")
    raw = file.read(length)
    contents = _parse(raw, path)
    metadata = contents.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        _fail(path, _find(raw, METADATA), f"{METADATA} must map names to texts")
    start = 8 + length
    tensors: Dict[str, Entry] = {}
    for name, entry in contents.items():
        try:
            tensors[name] = _entry(entry, start, size)
        except ValueError as error:
            _fail(path, _find(raw, name), f"tensor {name!r}: {error}")
    return Header(path, start, _in_order(tensors, start, size, path), metadata)


def _parse(raw: bytes, path: str) -> Dict[str, Any]:
    """The header as a dict. Names that occur twice are refused: which of the two counts?"""
    if not raw.startswith(b"{"):
        _fail(path, 8, f"the header must begin with '{{', this one begins with {raw[:8]!r}; the "
              "file is no safetensors file")

    def unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        """The pairs of one JSON object as a dict, unless a name occurs twice."""
        found: Dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                second = _find(raw, name, _find(raw, name) - 7)
                _fail(path, second, f"the name {name!r} occurs twice")
            found[name] = value
        return found

    try:
        contents: Dict[str, Any] = json.loads(raw.decode("utf-8"), object_pairs_hook=unique)
        return contents
    except UnicodeDecodeError as error:
        _fail(path, 8 + error.start, f"the header is not UTF-8 ({error.reason})")
    except json.JSONDecodeError as error:
        _fail(path, 8 + len(error.doc[:error.pos].encode("utf-8")),
              f"the header is not JSON ({error.msg})")
    except SafetensorsError:
        raise
    except (ValueError, RecursionError) as error:       # thousands of digits, deep nesting
        _fail(path, 8, f"the header is not one that a safetensors file can have ({error})")


def _find(raw: bytes, name: str, start: int = 0) -> int:
    """The byte of the file where `name` stands in the header, or where the header begins."""
    for ensure_ascii in (False, True):
        quoted = json.dumps(name, ensure_ascii=ensure_ascii).encode("utf-8", "surrogatepass")
        place = raw.find(quoted, start)
        if place >= 0:
            return 8 + place
    return 8


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2 ** 63


def _entry(entry: Any, start: int, size: int) -> Entry:
    """One tensor's entry of the header, checked on its own; the data lies at `start` to `size`."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"an entry has dtype, shape and data_offsets, this one is {entry!r:.80}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ITEM_SIZES:
        raise ValueError(f"unknown dtype {dtype!r:.40}; known are {' '.join(ITEM_SIZES)}")
    if not isinstance(shape, list) or not all(map(_is_count, shape)) or not _is_count(
            prod(n for n in shape if n) * ITEM_SIZES[dtype]):
        raise ValueError(f"the shape {shape!r:.80} is not a list of sizes")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise ValueError(f"data_offsets {offsets!r:.80} are not two byte positions")
    begin, end = start + offsets[0], start + offsets[1]
    if not begin <= end <= size:
        raise ValueError(f"its data is said to be at bytes {begin:,} to {end:,}, but the data of "
                         f"the file is at bytes {start:,} to {size:,}; it is truncated or damaged")
    needed = prod(shape) * ITEM_SIZES[dtype]
    if end - begin != needed:
        raise ValueError(f"shape {shape!r:.80} of {dtype} takes {needed:,} bytes, but data_offsets "
                         f"{offsets} span {end - begin:,}")
    return Entry(dtype, tuple(shape), begin, end)


def _in_order(tensors: Dict[str, Entry], start: int, size: int, path: str) -> Dict[str, Entry]:
    """The entries in the order of their bytes, which must cover the data exactly once."""
    position, before = start, "the header"
    ordered = dict(sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)))
    for name, entry in ordered.items():
        if entry.begin < position:
            _fail(path, entry.begin, f"tensor {name!r} begins here, but {before} only ends at byte "
                  f"{position}: they overlap")
        if entry.begin > position:
            _fail(path, position, f"{entry.begin - position} bytes between {before} and tensor "
                  f"{name!r} belong to nothing")
        position, before = entry.end, f"tensor {name!r}"
    if position != size:
        _fail(path, position, f"{size - position} bytes after {before} belong to nothing")
    return ordered
