"""Arrays as bytes: little-endian and row-major, as files hold them."""

from __future__ import annotations

import struct
from math import copysign, inf, prod

from tinyformer.arrays.pure.array import Array, asarray, convert

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Tuple

FORMATS = {"F64": ("d", "float"), "F32": ("f", "float"), "F16": ("e", "float"),
           "BF16": ("H", "float"), "I64": ("q", "int"), "I32": ("i", "int"), "U8": ("B", "int"),
           "BOOL": ("?", "bool")}


def _format(dtype_name: str) -> Tuple[str, str]:
    """The letter that `struct` uses for a format, and the kind that it is read as."""
    if dtype_name not in FORMATS:
        raise ValueError(f"there is no file format {dtype_name!r}: choose from "
                         f"{', '.join(FORMATS)}")
    return FORMATS[dtype_name]


def to_bytes(x: Any, dtype_name: str) -> bytes:
    """The elements, little-endian and row-major, in the file format `dtype_name`.

    What a short float cannot hold becomes inf. Raises OverflowError for ints that a short int
    cannot hold, TypeError for floats that are to be ints or bools.
    """
    x = asarray(x)
    letter, kind = _format(dtype_name)
    loses = kind == "bool" if x.kind == "int" else kind != "float" and x.kind == "float"
    if loses or x.kind == "exact":
        raise TypeError(f"to_bytes: {x.kind} numbers are not stored as {dtype_name}; use astype "
                        "first")
    values: List[Any] = convert(x.values, kind, x.kind) if kind == "float" else x.values
    if dtype_name == "BF16":
        values = [_to_bf16(value) for value in values]
    try:
        return struct.pack(f"<{len(values)}{letter}", *values)
    except OverflowError:
        return b"".join(_pack_careful(letter, value) for value in values)
    except struct.error:
        raise OverflowError(f"to_bytes: a number between {min(values)} and {max(values)} does not "
                            f"fit {dtype_name}") from None


def _pack_careful(letter: str, value: float) -> bytes:
    try:
        return struct.pack("<" + letter, value)
    except OverflowError:
        return struct.pack("<" + letter, copysign(inf, value))


def _to_bf16(value: float) -> int:
    """The upper half of the float32, rounded to nearest, ties to even."""
    bits: int = struct.unpack("<I", _pack_careful("f", value))[0]
    if value != value:
        return 0x7FC0
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def from_bytes(buffer: Any, dtype_name: str, shape: Any) -> Array:
    """An array of `shape` from its bytes in the format `dtype_name`; BF16 and F16 widen to float.

    Raises ValueError for a buffer that is not as long as the shape asks.
    """
    letter, kind = _format(dtype_name)
    layout = struct.Struct(f"<{prod(shape)}{letter}")
    if memoryview(buffer).nbytes != layout.size:
        raise ValueError(f"from_bytes: {dtype_name} of shape {tuple(shape)} is {layout.size} "
                         f"bytes, not {memoryview(buffer).nbytes}")
    values = list(layout.unpack(buffer))
    if dtype_name == "BF16":
        values = list(struct.unpack(f"<{len(values)}f", struct.pack(
            f"<{len(values)}I", *[value << 16 for value in values])))
    return Array(values, tuple(shape), kind)
