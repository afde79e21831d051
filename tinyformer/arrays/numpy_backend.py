"""The NumPy backend: NumPy's own functions, which are the Array API, and a handful of extras.

This is the only file of the package that imports NumPy. What stands here is what the standard lacks
(a lookup of rows and its transpose, `erf`, raw random draws, bytes), what NumPy does differently
(the default dtype of new floats), and what measuring showed NumPy to do slowly.
"""

from __future__ import annotations

import builtins
import math
import operator
import warnings
from functools import lru_cache
from math import prod
from typing import Any, Callable, Dict, List

import numpy as np

if int(np.__version__.split(".")[0]) < 2:        # before the names that only NumPy 2 has
    raise ImportError(f"tinyformer needs NumPy 2.0 or later, this is {np.__version__}: upgrade it "
                      "with  python3 -m pip install --upgrade numpy,  or choose the backend "
                      "'python'")

from numpy import (abs, add, all, any, argmax, concat, cos, divide, einsum, empty, equal, exp,
                   expand_dims, float32, float64, greater, greater_equal, inf, int64, isfinite,
                   isnan, less, less_equal, log, logical_and, logical_not, logical_or, matmul,
                   maximum, min, minimum, multiply, nan, negative, not_equal, ones_like, pi, sin,
                   sqrt, square, squeeze, stack, subtract, tanh, zeros_like)
from numpy import bool as bool
from numpy import broadcast_to as broadcast_to
from numpy import ndarray as Array
from numpy.lib.array_utils import normalize_axis_index

from tinyformer.arrays.backend import xp
from tinyformer.arrays.memory import keep_freed_memory

# Floats follow IEEE silently, as in the pure backend. NumPy has one setting for everybody in a
# thread, so its own warnings (1 / 0, log(0)) are off there for the user's arrays as well. A new
# thread begins with warnings: the filter keeps quiet what this package does there.
np.seterr(all="ignore")
warnings.filterwarnings("ignore", ".* encountered in ", RuntimeWarning, r"tinyformer\.")

keep_freed_memory()

DEFAULT_FLOAT = "float32"
_KINDS = {"bool": "b", "integral": "iu", "real floating": "f"}


def asarray(obj: Any, dtype: Any = None) -> Any:
    """An array from numbers or nested sequences; Python floats take the default dtype.

    An array keeps its dtype, except that ints of other widths become int64. Raises ValueError for
    ragged rows and TypeError for what is not a number.
    """
    if dtype is None and type(obj) is Array and obj.dtype.kind == "f":
        return obj
    try:
        array = np.asarray(obj)
    except ValueError:
        raise ValueError(f"rows of unequal shape: an array needs equal rows, {obj!r:.80} has others"
                         ) from None
    kind = array.dtype.kind
    if kind not in "biuf" or kind == "u" and not isinstance(obj, np.ndarray):
        raise TypeError(f"{obj!r:.80} is not made of numbers that an array can hold")
    if dtype is None and array.dtype == float64 and not isinstance(obj, (np.ndarray, np.generic)):
        dtype = xp.default_float
    elif dtype is None and kind in "iu":
        dtype = int64
    return array if dtype is None or array.dtype == dtype else array.astype(dtype)


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether a dtype is of the standard's kind; NumPy takes long to find out."""
    letters = _KINDS.get(kind) if type(kind) is str else None
    return np.isdtype(dtype, kind) if letters is None else np.dtype(dtype).kind in letters


def astype(x: Any, dtype: Any) -> Any:
    """The same numbers in another dtype, copied."""
    return np.asarray(x).astype(dtype)


def zeros(shape: Any, dtype: Any = None) -> Any:
    """An array of zeros, of the default float dtype unless `dtype` says otherwise."""
    return np.zeros(shape, xp.default_float if dtype is None else dtype)


def ones(shape: Any, dtype: Any = None) -> Any:
    """An array of ones, of the default float dtype unless `dtype` says otherwise."""
    return np.ones(shape, xp.default_float if dtype is None else dtype)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """An array of one number."""
    return np.full(shape, fill_value, asarray(fill_value).dtype if dtype is None else dtype)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """The integers start, start + step, ... below stop; from 0 when only one bound is given.

    Raises TypeError for bounds that are no integers, ValueError for a step of 0.
    """
    start, stop = (0, start) if stop is None else (start, stop)
    start, stop, step = map(operator.index, (start, stop, step))
    if not step:
        raise ValueError("arange: the step must not be 0")
    bounds: Any = (start, stop, step)
    return np.arange(*bounds, dtype=int64 if dtype is None else dtype)


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition is true, else y; a Python number adopts the dtype of the other side."""
    if np.asarray(condition).dtype != bool:
        raise TypeError(f"where: the condition must be bool, not {np.asarray(condition).dtype}")
    if type(x) is float and type(y) in (bool, int, float):
        x = asarray(x)
    return np.where(condition, x, y)


def pow(x: Any, y: Any) -> Any:
    """x ** y. Squares and cubes of floats are products: NumPy's x ** 3 is a hundred times slower.

    As everywhere in NumPy, x ** 0.5 is the square root: -0.0 at -0.0 and nan at -inf.
    """
    if type(y) in (int, float) and y in (2, 3) and getattr(x, "dtype", None) in (float32, float64):
        return x * x if y == 2 else x * x * x
    return np.pow(x, y)


# What NumPy's functions do with an array, without what they spend on finding out that it is one.

def reshape(x: Any, shape: Any) -> Any:
    """The same elements in the same order under another shape; one length may be -1."""
    return x.reshape(shape) if type(x) is Array else np.reshape(x, shape)


def permute_dims(x: Any, axes: Any) -> Any:
    """Axis `axes[i]` of `x` becomes axis i of the result."""
    return x.transpose(axes) if type(x) is Array and axes else np.permute_dims(x, axes)


def matrix_transpose(x: Any) -> Any:
    """The last two axes exchanged; ValueError for fewer than two."""
    if type(x) is Array and x.ndim > 1:
        return x.swapaxes(-1, -2)
    return np.matrix_transpose(x)


def _constant(array: Any) -> Any:
    array.flags.writeable = False
    return array


@lru_cache(maxsize=64)
def unit(length: int, dtype: Any) -> Any:
    """The vector of ones, for products that are sums; nobody writes into it."""
    return _constant(np.ones(length, dtype))


@lru_cache(maxsize=256)
def scalars(dtype: Any, *numbers: float) -> Any:
    """Numbers as arrays without axes: NumPy needs about a microsecond more for a Python number,
    the time of a thousand elements."""
    return tuple(_constant(np.array(number, dtype)) for number in numbers)


def sum(x: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """The sum along the axes; a count of the true elements for a bool array.

    Of floats, sums over the last axis and over the first axes are products with ones, which are
    four to six times as fast as NumPy's own sums.
    """
    if type(x) is Array and x.ndim > 1 and x.dtype.kind == "f" and x.flags.c_contiguous and x.size:
        shape = x.shape
        if axis == 0 and len(shape) == 2 and not keepdims:
            return unit(shape[0], x.dtype) @ x
        if axis == -1 or axis == (-1,) or axis == x.ndim - 1:
            total = x.reshape(-1, shape[-1]) @ unit(shape[-1], x.dtype)
            return total.reshape(shape[:-1] + (1,) if keepdims else shape[:-1])
        first = 1 if axis == 0 else len(axis) if type(axis) is tuple else 0
        if 0 < first < x.ndim and (axis == 0 or axis == tuple(range(first))):
            total = unit(prod(shape[:first]), x.dtype) @ x.reshape(-1, prod(shape[first:]))
            return total.reshape((1,) * first + shape[first:] if keepdims else shape[first:])
    return np.add.reduce(x, axis=axis, keepdims=keepdims)


def max(x: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """The largest element along the axes; nan if any is nan, ValueError if there is none.

    Along the last axis it is read from where `argmax` says, which NumPy finds several times faster.
    """
    if type(x) is Array and axis == -1 and x.ndim > 1 and x.size > 4096 and x.flags.c_contiguous:
        shape = x.shape
        places = x.reshape(-1, shape[-1]).argmax(axis=-1)
        places += np.arange(0, x.size, shape[-1])
        return x.reshape(-1).take(places).reshape(shape[:-1] + (1,) if keepdims else shape[:-1])
    if type(x) is Array:
        return np.maximum.reduce(x, axis=axis, keepdims=keepdims)
    return np.max(x, axis=axis, keepdims=keepdims)


def _per_line(x: Any, total: Any) -> int:
    """How many elements of `x` were summed into each element of `total`."""
    return int(np.size(x) // np.size(total)) if np.size(total) else 0


def mean(x: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """The arithmetic mean along the axes; nan over no elements, without a warning."""
    total = sum(x, axis=axis, keepdims=keepdims)
    return total / _per_line(x, total)


def var(x: Any, axis: Any = None, correction: float = 0, keepdims: Any = False) -> Any:
    """The mean squared distance from the mean, divided by the count less `correction`."""
    distance = np.subtract(x, mean(x, axis, keepdims=True))
    total = sum(distance * distance, axis=axis, keepdims=keepdims)
    return total / builtins.max(_per_line(x, total) - correction, 0)


def std(x: Any, axis: Any = None, correction: float = 0, keepdims: Any = False) -> Any:
    """The square root of the variance."""
    return sqrt(var(x, axis, correction, keepdims))


_GRID = 128                    # the table of erf has this many points per unit
_EDGE = 6.0                    # beyond it erf is 1 to the last bit of a double
_ERF = np.array([math.erf(k / _GRID) for k in range(int(_EDGE * _GRID) + 2)])
_SLOPE = np.array([2 / math.sqrt(math.pi) * math.exp(-(k / _GRID) ** 2) for k in range(len(_ERF))])


def erf(x: Any) -> Any:
    """The error function, from a table of exact values and the Taylor series around the nearest.

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


def _integers(name: str, indices: Any) -> Any:
    """Indices as an int64 array; IndexError for what holds other numbers."""
    array = asarray(indices)
    if array.dtype != int64 and (array.size or isinstance(indices, np.ndarray)):
        raise IndexError(f"{name}: the indices must be ints, not {array.dtype}")
    return array.astype(int64, copy=False)


def take(x: Any, indices: Any, axis: int) -> Any:
    """The slices of `x` along an axis that integers name; their axes stand in its place."""
    return np.take(x, _integers("take", indices), axis)


def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Any:
    """For every position, the element of its line along `axis` that `indices` names there.

    The other axes of `x` and of `indices` broadcast together; IndexError where they do not.
    """
    return np.take_along_axis(np.asarray(x), _integers("take_along_axis", indices), axis)


def take_rows(table: Any, ids: Any) -> Any:
    """The rows of a table (V, ...) that integers of any shape name: ids (B, T) -> (B, T, ...)."""
    return np.asarray(table)[_integers("take_rows", ids)]


def scatter_add_rows(n_rows: int, ids: Any, rows: Any) -> Any:
    """A table of `n_rows` rows, zero but for `rows` added where `ids` points: a lookup transposed.

    ids (B, T), rows (B, T, ...) -> (n_rows, ...). Raises IndexError for an id beyond the table. The
    numbers are added one by one at their flat places: `np.add.at` is slow with whole rows.
    """
    ids, rows = _integers("scatter_add_rows", ids), np.asarray(rows)
    if rows.shape[:ids.ndim] != ids.shape or rows.dtype == bool:
        raise (TypeError if rows.dtype == bool else ValueError)(
            f"scatter_add_rows: ids {ids.shape} do not fit {rows.dtype} rows {rows.shape}")
    shape = (n_rows,) + rows.shape[ids.ndim:]
    out, width = np.zeros(prod(shape), rows.dtype), prod(shape[1:])
    if not rows.size:
        return out.reshape(shape)
    least, most = ids.min(), ids.max()
    if least < -n_rows or most >= n_rows:
        wrong = most if most >= n_rows else least
        raise IndexError(f"index {wrong} is out of bounds for axis 0 of length {n_rows}")
    np.add.at(out, (ids.reshape(-1, 1) * width + np.arange(width)).reshape(-1), rows.reshape(-1))
    return out.reshape(shape)


def scatter_add(shape: Any, key: Any, values: Any) -> Any:
    """Zeros of `shape` with `values` added where the key points: twice where it points twice."""
    values = np.asarray(values)
    out = np.zeros(shape, values.dtype)
    np.add.at(out, key, values)
    return out


def scatter_along_axis(shape: Any, indices: Any, values: Any, axis: int = -1) -> Any:
    """Zeros of `shape` with `values` added where `take_along_axis` would have read."""
    indices, axis = _integers("scatter_along_axis", indices), normalize_axis_index(axis, len(shape))
    if indices.ndim != len(shape):
        raise ValueError(f"indices of shape {indices.shape} name nothing along an axis of shape "
                         f"{shape}: they need as many axes")
    if builtins.any(n not in (1, shape[k]) for k, n in enumerate(indices.shape) if k != axis):
        raise IndexError(f"scatter_along_axis: indices {indices.shape} do not fit the shape "
                         f"{shape}")
    grid: List[Any] = list(np.ogrid[tuple(slice(length) for length in shape)])
    grid[axis] = indices
    return scatter_add(shape, tuple(grid), values)


def with_item(x: Any, key: Any, value: Any) -> Any:
    """A copy of `x` in which the elements that the key names are `value`."""
    out = np.array(x)
    out[key] = np.asarray(value)
    return out


_FORMATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
            "U8": "<u1", "BOOL": "?"}


def _format(dtype_name: str) -> Any:
    if dtype_name not in _FORMATS:
        raise ValueError(f"there is no file format {dtype_name!r}: choose from "
                         f"{', '.join(_FORMATS)}")
    return np.dtype(_FORMATS[dtype_name])


def to_bytes(x: Any, dtype_name: str) -> bytes:
    """The elements, little-endian and row-major, in the file format `dtype_name`.

    What a short float cannot hold becomes inf. Raises OverflowError for ints that a short int
    cannot hold, TypeError for floats that are to be ints or bools.
    """
    x, stored = np.asarray(x), _format(dtype_name)
    if dtype_name == "BF16":
        bits = np.ascontiguousarray(x, "<f4").view("<u4")    # the upper half, ties to even
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return np.where(np.isnan(x), 0x7FC0, rounded).astype("<u2").tobytes()
    if x.dtype.kind == "f" and stored.kind != "f" or stored.kind == "b" and x.dtype != bool:
        raise TypeError(f"to_bytes: {x.dtype} numbers are not stored as {dtype_name}; use astype "
                        "first")
    written = np.ascontiguousarray(x, stored)
    if stored.kind in "iu" and not np.array_equal(written, x.reshape(written.shape)):
        raise OverflowError(f"to_bytes: a number between {x.min()} and {x.max()} does not fit "
                            f"{dtype_name}")
    return written.tobytes()


def from_bytes(buffer: Any, dtype_name: str, shape: Any) -> Any:
    """An array of `shape` from its bytes in the format `dtype_name`; BF16 and F16 widen to float32.

    Raises ValueError for a buffer that is not as long as the shape asks.
    """
    stored, needed = _format(dtype_name), _format(dtype_name).itemsize * prod(shape)
    if memoryview(buffer).nbytes != needed:
        raise ValueError(f"from_bytes: {dtype_name} of shape {tuple(shape)} is {needed} bytes, not "
                         f"{memoryview(buffer).nbytes}")
    array: Any = np.frombuffer(buffer, stored).reshape(tuple(shape))
    if dtype_name == "BF16":
        return (array.astype("<u4") << 16).view("<f4").astype(float32)
    if dtype_name == "BOOL":
        return array.view("u1") != 0
    wide = {"F16": float32, "I32": int64, "U8": int64}.get(dtype_name, stored.newbyteorder("="))
    return array.astype(wide)


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
        """`n` integers below 65,536, uint16, to be compared rather than added up.

        Draws whole words of 32 bits, and nothing for none.
        """
        if n < 0:
            raise ValueError(f"bits16: cannot draw {n} numbers")
        buffer = self.draws.bytes(4 * ((n + 1) // 2)) if n else b""
        return np.frombuffer(buffer, "<u2")[:n]
