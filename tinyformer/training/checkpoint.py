"""A checkpoint: everything a run needs to go on as if it had never stopped, in one file.

The file is a safetensors container. Its tensors are the weights ("model.<name>") and what the
optimiser remembers ("optimiser.<kind>.<name>"). The rest (the number of the step, the schedule, the
state of the random numbers, the position in the data, the configuration, the vocabulary) is one
JSON object that travels as text in the container's metadata:

    format         "tinyformer checkpoint"; tells the file apart from other safetensors files
    version        of the arrangement described here
    state          the JSON object
    tensor_crc32   JSON: for each tensor, the CRC-32 of its dtype, its shape and its bytes
    crc32          the CRC-32 of the texts `state` and `tensor_crc32`

An edited or damaged file is noticed, and the error names the bytes. No part of the file can run.
"""

from __future__ import annotations

import binascii
import json
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional

from tinyformer.arrays import safetensors
from tinyformer.arrays.safetensors import Encoded, Header, SafetensorsError

FORMAT = "tinyformer checkpoint"
VERSION = 1


class CheckpointError(SafetensorsError):
    """A file that is no checkpoint, or one that was changed after it was saved."""


@dataclass
class Checkpoint:
    """What was saved: `state` is what JSON can hold, `arrays` has the names "model...." and
    "optimiser....": see `group`."""

    state: Dict[str, Any]
    arrays: Dict[str, Any]

    def group(self, name: str) -> Dict[str, Any]:
        """The arrays of "model" or of "optimiser", by what stands behind that word."""
        return {key[len(name) + 1:]: array for key, array in self.arrays.items()
                if key.startswith(name + ".")}


def save(path: Any, state: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a checkpoint to `path`, all of it or nothing: on an OSError the former file is intact.

    Raises TypeError or ValueError for a state that JSON cannot hold (nan and infinity included).
    """
    encoded = {name: safetensors.encode(array) for name, array in arrays.items()}
    texts = {"state": json.dumps(state, allow_nan=False, separators=(",", ":")),
             "tensor_crc32": json.dumps({name: _crc(each) for name, each in encoded.items()})}
    safetensors.write(path, encoded, {"format": FORMAT, "version": str(VERSION), **texts,
                                      "crc32": str(_text_crc(texts))})


def load(path: Any, prepare: Optional[Callable[[Dict[str, Any]], Any]] = None) -> Checkpoint:
    """Read the checkpoint at `path`, as arrays of the backend in use.

    `prepare(state)` is called before any array is made: it may choose that backend. The file is
    opened once, so state and arrays are of the same moment even where a run saves meanwhile.
    Raises SafetensorsError where the file is damaged, CheckpointError where it is no checkpoint, of
    a newer version, or changed since it was saved; OSError where it cannot be read.
    """
    with open(path, "rb") as file:
        header = safetensors.header_of(file, path)
        state = _state(header)
        if prepare:
            prepare(state)
        expected = json.loads(header.metadata["tensor_crc32"])
        if set(expected) != set(header.tensors):
            odd = sorted(set(expected) ^ set(header.tensors))
            raise CheckpointError(f"{path}: the tensors are not those that were saved; {odd[0]!r} "
                                  "is only in the list of checksums or only in the file")
        arrays: Dict[str, Any] = {}
        for name, entry in header.tensors.items():
            data = safetensors.read_bytes(file, header, name)
            crc = _crc(Encoded(entry.dtype, entry.shape, data))
            if crc != expected[name]:
                raise CheckpointError(
                    f"{path}, bytes {entry.begin:,} to {entry.end:,}: tensor {name!r} was changed "
                    f"after it was saved (its CRC-32 is {crc}, not {expected[name]}). Go back to a "
                    "copy")
            arrays[name] = safetensors.decode(header, name, data)
    return Checkpoint(state, arrays)


def read_state(path: Any) -> Dict[str, Any]:
    """The JSON part of the checkpoint at `path` alone, quick at any size. Raises as `load`."""
    return _state(safetensors.read_header(path))


def _state(header: Header) -> Dict[str, Any]:
    """The JSON part, once format, version and checksum are known to be right."""
    metadata, path = header.metadata, header.path
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is a safetensors file, but not a {FORMAT} (its metadata says format="
            f"{metadata.get('format')!r}); it may hold weights, but no state of a run")
    if metadata.get("version") != str(VERSION):
        raise CheckpointError(f"{path} is a {FORMAT} of version {metadata.get('version')!r}, this "
                              f"tinyformer reads version {VERSION}; use the one that wrote it")
    texts = {key: metadata.get(key, "") for key in ("state", "tensor_crc32")}
    if metadata.get("crc32") != str(_text_crc(texts)):
        raise CheckpointError(f"{path}, bytes 8 to {header.start:,}: the state in the header was "
                              f"changed after it was saved (its CRC-32 is {_text_crc(texts)}, not "
                              f"{metadata.get('crc32')}). Go back to a copy")
    state: Dict[str, Any] = json.loads(texts["state"])
    return state


def _crc(tensor: Encoded) -> int:
    """Of dtype and shape too, which stand apart in the header and could be changed alone."""
    described = f"{tensor.dtype} {list(tensor.shape)} ".encode("ascii")
    return binascii.crc32(tensor.data, binascii.crc32(described))


def _text_crc(texts: Mapping[str, str]) -> int:
    return binascii.crc32("\0".join(texts.values()).encode("utf-8", "surrogatepass"))
