"""The NumPy backend: NumPy's own functions, which are the Array API, and a handful of extras.

This is the only file of the package that imports NumPy. What stands here is what the standard lacks
(a lookup of rows and its transpose, `erf`, raw random draws, bytes), what NumPy does differently (the
default dtype of new floats), and what measuring showed NumPy to do slowly.
"""

from __future__ import annotations

import math
from math import prod
from typing import Any, List, Sequence, Tuple

import numpy as np
from numpy import (abs, add, all, any, argmax, concat, cos, divide, equal, exp, expand_dims,
                   float32, float64, greater, greater_equal, inf, int64, isdtype, isfinite, isnan, less,
                   less_equal, log, logical_and, logical_not, logical_or, matmul, matrix_transpose, max,
                   maximum, min, minimum, multiply, nan, negative, not_equal, ones_like, permute_dims, pi,
                   reshape, sin, sqrt, square, squeeze, stack, std, subtract, sum, take, take_along_axis,
                   tanh, zeros_like)
from numpy import bool as bool
from numpy import ndarray as Array

from tinyformer.arrays.backend import xp

if np.lib.NumpyVersion(np.__version__) < "2.0.0":
    raise ImportError(f"tinyformer needs NumPy 2.0 or later, this is {np.__version__}: upgrade it with  "
                      "python3 -m pip install --upgrade numpy,  or choose the backend 'python'")

np.seterr(all="ignore")        # floats follow IEEE silently, in the pure backend as well

DEFAULT_FLOAT = "float32"


def asarray(obj: Any, dtype: Any = None) -> Any:
    """An array from numbers or nested sequences; Python floats take the default dtype.

    Raises ValueError for ragged rows and TypeError for what is not a number.
    """
    if isinstance(obj, np.ndarray):
        return obj if dtype is None or obj.dtype == dtype else obj.astype(dtype)
    array = np.asarray(obj)
    if array.dtype.kind not in "bif" and dtype is None:
        raise TypeError(f"{obj!r:.80} is not made of numbers that an array can hold")
    if dtype is None and array.dtype == float64 and not isinstance(obj, np.generic):
        dtype = xp.default_float
    return array if dtype is None else array.astype(dtype)


def astype(x: Any, dtype: Any) -> Any:
    """The same numbers in another dtype."""
    return np.asarray(x).astype(dtype)


def zeros(shape: Any, dtype: Any = None) -> Any:
    """An array of zeros, of the default float dtype unless `dtype` says otherwise."""
    return np.zeros(shape, dtype or xp.default_float)


def ones(shape: Any, dtype: Any = None) -> Any:
    """An array of ones, of the default float dtype unless `dtype` says otherwise."""
    return np.ones(shape, dtype or xp.default_float)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """An array of one number."""
    if dtype is None and isinstance(fill_value, float):
        dtype = xp.default_float
    return np.full(shape, fill_value, dtype)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """The integers start, start + step, ... below stop; from 0 when only one bound is given."""
    start, stop = (0, start) if stop is None else (start, stop)
    return np.arange(start, stop, step, dtype or int64)


def broadcast_to(x: Any, shape: Any) -> Any:
    """`x` stretched to `shape`; ValueError where it does not broadcast."""
    return np.broadcast_to(x, shape)


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition is true, else y; Python numbers adopt the dtype of the other side."""
    if np.asarray(condition).dtype != bool:
        raise TypeError(f"where: the condition must be bool, not {np.asarray(condition).dtype}")
    return np.where(condition, x, y)


def pow(x: Any, y: Any) -> Any:
    """x ** y. Small whole powers are products: NumPy's x ** 3 takes a hundred times as long."""
    if type(y) in (int, float) and y in (2, 3) and not isinstance(x, (int, float)):
        return x * x if y == 2 else x * x * x
    return np.pow(x, y)


def mean(x: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """The arithmetic mean along the axes; nan over no elements, without a warning."""
    total = sum(x, axis=axis, keepdims=keepdims)
    count = np.size(x) // np.size(total) if np.size(total) else 1
    return total / count if np.size(x) else total / 0


def var(x: Any, axis: Any = None, correction: float = 0.0, keepdims: Any = False) -> Any:
    """The mean squared distance from the mean, divided by the count less `correction`."""
    distance = x - mean(x, axis, keepdims=True)
    total = sum(distance * distance, axis=axis, keepdims=keepdims)
    count = np.size(x) // np.size(total) if np.size(total) else 0
    return total / total.dtype.type(count - correction if count > correction else 0)


_GRID = 128                    # the table of erf has this many points per unit
_EDGE = 6.0                    # beyond it erf is 1 to the last bit of a double
_ERF = np.array([math.erf(k / _GRID) for k in range(int(_EDGE * _GRID) + 2)])
_SLOPE = np.array([2 / math.sqrt(math.pi) * math.exp(-(k / _GRID) ** 2) for k in range(len(_ERF))])


def erf(x: Any) -> Any:
    """The error function, from a table of exact values and the Taylor series around the nearest one.

    With c the grid point and d = x - c, erf(x) = erf(c) + 2/sqrt(pi) exp(-c^2) (d - c d^2 +
    (4c^2 - 2) d^3/6 - (8c^3 - 12c) d^4/24 + (16c^4 - 48c^2 + 12) d^5/120 - ...), the Hermite
    polynomials; |d| is at most 1/256, so that six terms reach the precision of a double.
    """
    x = np.asarray(x)
    size = np.minimum(np.abs(x), _EDGE).astype(float64)
    nearest = np.nan_to_num(np.rint(size * _GRID)).astype(np.intp)
    c = nearest / _GRID
    d = size - c
    square_c = c * c
    terms = d / 720 * c * (-32 * square_c * square_c + 160 * square_c - 120)
    terms = d * (terms + (16 * square_c * square_c - 48 * square_c + 12) / 120)
    terms = d * (terms - c * (8 * square_c - 12) / 24)
    terms = d * (terms + (4 * square_c - 2) / 6)
    terms = d * (1 + d * (terms - c))
    value = np.copysign(_ERF[nearest] + _SLOPE[nearest] * terms, x)
    return value if x.dtype.kind != "f" else value.astype(x.dtype)


def take_rows(table: Any, ids: Any) -> Any:
    """The rows of a table (V, ...) that integers of any shape name: ids (B, T) -> (B, T, ...)."""
    ids = np.asarray(ids, int64)
    if ids.size and (ids.min() < -len(table) or ids.max() >= len(table)):
        raise IndexError(f"row {ids.max() if ids.max() >= len(table) else ids.min()} is out of bounds for "
                         f"a table of {len(table)} rows")
    return table[ids]


def scatter_add_rows(n_rows: int, ids: Any, rows: Any) -> Any:
    """A table of `n_rows` rows, zero but for `rows` added where `ids` points: the transpose of a lookup.

    The rows are sorted by id and each run is summed at once, which is twice as fast as `np.add.at`.
    """
    ids = np.asarray(ids, int64)
    out = np.zeros((n_rows,) + rows.shape[ids.ndim:], rows.dtype)
    if not rows.size:
        return out
    flat = ids.reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    found = ordered[starts]
    if found[0] < -n_rows or found[-1] >= n_rows:
        raise IndexError(f"row {found[-1] if found[-1] >= n_rows else found[0]} is out of bounds for a "
                         f"table of {n_rows} rows")
    summed = np.add.reduceat(rows.reshape(flat.shape + out.shape[1:])[order], starts)
    np.add.at(out, found, summed)           # not `=`: -1 and the last id are one row
    return out


def scatter_add(shape: Tuple[int, ...], key: Any, values: Any) -> Any:
    """Zeros of `shape` with `values` added where the key points: twice where it points twice."""
    values = np.asarray(values)
    out = np.zeros(shape, values.dtype)
    np.add.at(out, key, values)
    return out


def scatter_along_axis(shape: Tuple[int, ...], indices: Any, values: Any, axis: int = -1) -> Any:
    """Zeros of `shape` with `values` added where `take_along_axis` would have read."""
    indices = np.asarray(indices)
    grid = list(np.ogrid[tuple(slice(length) for length in indices.shape)])
    grid[axis] = indices
    return scatter_add(shape, tuple(grid), values)


def with_item(x: Any, key: Any, value: Any) -> Any:
    """A copy of `x` in which the elements that the key names are `value`."""
    out = np.array(x)
    out[key] = value
    return out


_FORMATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
            "U8": "<u1", "BOOL": "?"}


def to_bytes(x: Any, dtype_name: str) -> bytes:
    """The elements, little-endian and row-major, in the file format `dtype_name`."""
    if dtype_name != "BF16":
        return np.ascontiguousarray(x, _FORMATS[dtype_name]).tobytes()
    bits = np.ascontiguousarray(x, "<f4").view("<u4")        # the upper half, ties to even
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype("<u2").tobytes()


def from_bytes(buffer: Any, dtype_name: str, shape: Sequence[int]) -> Any:
    """An array of `shape` from its bytes in the format `dtype_name`; BF16 and F16 widen to float32."""
    stored = np.frombuffer(buffer, _FORMATS[dtype_name], prod(shape)).reshape(tuple(shape))
    if dtype_name == "BF16":
        return (stored.astype("<u4") << 16).view("<f4").astype(float32)
    wide = {"F16": float32, "I32": int64, "U8": int64}.get(dtype_name, stored.dtype.newbyteorder("="))
    return stored.astype(wide)


class Generator:
    """MT19937 at a state of 625 integers: 624 words and the position among them."""

    def __init__(self, state: List[int]) -> None:
        self.bits = np.random.MT19937()
        self.bits.state = {"bit_generator": "MT19937",
                           "state": {"key": np.array(state[:624], np.uint32), "pos": state[624]}}
        self.draws = np.random.Generator(self.bits)

    def state(self) -> List[int]:
        """The 625 integers from which the draws go on."""
        state: Any = self.bits.state["state"]
        return [int(word) for word in state["key"]] + [int(state["pos"])]

    def uniform(self, n: int) -> Any:
        """`n` numbers in [0, 1) with 53 random bits each, float64."""
        return self.draws.random(n)

    def bits16(self, n: int) -> Any:
        """`n` integers below 65,536; draws whole words of 32 bits, and nothing for none."""
        buffer = self.draws.bytes(4 * ((n + 1) // 2)) if n else b""
        return np.frombuffer(buffer, "<u2")[:n]


__all__ = [name for name in globals() if not name.startswith("_") and name not in ("np",)]
