"""Arrays as bytes: little-endian and row-major, as files hold them."""

from __future__ import annotations

import struct
from math import copysign, inf, prod
from typing import Any, List

from tinyformer.arrays.pure.array import Array, Shape, asarray

FORMATS = {"F64": ("d", "float"), "F32": ("f", "float"), "F16": ("e", "float"), "BF16": ("H", "float"),
           "I64": ("q", "int"), "I32": ("i", "int"), "U8": ("B", "int"), "BOOL": ("?", "bool")}


def to_bytes(x: Any, dtype_name: str) -> bytes:
    """The elements in the file format `dtype_name`; what a short float cannot hold becomes inf."""
    x = asarray(x)
    letter = FORMATS[dtype_name][0]
    values: List[Any] = x.values
    if dtype_name == "BF16":
        values = [_to_bf16(value) for value in values]
    try:
        return struct.pack(f"<{len(values)}{letter}", *values)
    except OverflowError:
        return b"".join(_pack_careful(letter, value) for value in values)


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


def from_bytes(buffer: Any, dtype_name: str, shape: Shape) -> Array:
    """An array of `shape` from its bytes in the format `dtype_name`; BF16 and F16 widen to float."""
    letter, kind = FORMATS[dtype_name]
    values = list(struct.unpack(f"<{prod(shape)}{letter}", buffer))
    if dtype_name == "BF16":
        values = list(struct.unpack(f"<{len(values)}f", struct.pack(
            f"<{len(values)}I", *[value << 16 for value in values])))
    return Array(values, tuple(shape), kind)
