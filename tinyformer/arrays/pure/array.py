"""A pure array: a flat row-major list of numbers, a shape and a kind.

Always contiguous: no strides, no views. The kinds are `bool`, `int`, `float` and `exact`; `exact` holds
any other number that knows + - * / (`fractions.Fraction`), so matrix products, sums and means can be
checked without rounding.
"""

from __future__ import annotations

from math import prod
from typing import Any, List, Sequence, Tuple

Shape = Tuple[int, ...]

RANK = {"bool": 0, "int": 1, "float": 2, "exact": 3}
CONVERT = {"bool": bool, "int": int, "float": float, "exact": lambda value: value}


class AxisError(ValueError, IndexError):
    """An axis that the array does not have; both a ValueError and an IndexError, as in NumPy."""


class Array:
    """Numbers in row-major order: `values[i * shape[1] + j]` is the element (i, j) of a matrix."""

    __slots__ = ("values", "shape", "kind")

    def __init__(self, values: List[Any], shape: Shape, kind: str) -> None:
        self.values = values
        self.shape = shape
        self.kind = kind

    @property
    def dtype(self) -> str:
        """The kind of the elements, under the standard's name of the property."""
        return self.kind

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return len(self.values)

    def item(self) -> Any:
        """The only element, as a Python number; ValueError if there is not exactly one."""
        if len(self.values) != 1:
            raise ValueError(f"item() needs exactly one element; this array has {len(self.values)}, "
                             f"shape {self.shape}")
        return self.values[0]

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a bare number for an array without axes."""
        nested: Any = self.values
        if not self.shape:
            return nested[0]
        for axis in range(len(self.shape) - 1, 0, -1):
            width, count = self.shape[axis], prod(self.shape[:axis])
            nested = [nested[i * width:(i + 1) * width] for i in range(count)]
        return list(nested)

    def __repr__(self) -> str:
        return f"Array({self.tolist()!r}, {self.kind})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.kind != "int":
            raise TypeError(f"only an int array with one element is an index, not {self.kind}")
        return int(self.item())

    def __getitem__(self, key: Any) -> "Array":
        return indexing.getitem(self, key)

    def __add__(self, other: Any) -> "Array":
        return elementwise.add(self, other)

    def __radd__(self, other: Any) -> "Array":
        return elementwise.add(other, self)

    def __sub__(self, other: Any) -> "Array":
        return elementwise.subtract(self, other)

    def __rsub__(self, other: Any) -> "Array":
        return elementwise.subtract(other, self)

    def __mul__(self, other: Any) -> "Array":
        return elementwise.multiply(self, other)

    def __rmul__(self, other: Any) -> "Array":
        return elementwise.multiply(other, self)

    def __truediv__(self, other: Any) -> "Array":
        return elementwise.divide(self, other)

    def __rtruediv__(self, other: Any) -> "Array":
        return elementwise.divide(other, self)

    def __pow__(self, other: Any) -> "Array":
        return elementwise.pow(self, other)

    def __rpow__(self, other: Any) -> "Array":
        return elementwise.pow(other, self)

    def __neg__(self) -> "Array":
        return elementwise.negative(self)

    def __matmul__(self, other: Any) -> "Array":
        return products.matmul(self, other)

    def __eq__(self, other: Any) -> "Array":  # type: ignore[override]
        return elementwise.equal(self, other)

    def __ne__(self, other: Any) -> "Array":  # type: ignore[override]
        return elementwise.not_equal(self, other)

    def __lt__(self, other: Any) -> "Array":
        return elementwise.less(self, other)

    def __le__(self, other: Any) -> "Array":
        return elementwise.less_equal(self, other)

    def __gt__(self, other: Any) -> "Array":
        return elementwise.greater(self, other)

    def __ge__(self, other: Any) -> "Array":
        return elementwise.greater_equal(self, other)

    def __and__(self, other: Any) -> "Array":
        return elementwise.logical_and(self, other)

    def __or__(self, other: Any) -> "Array":
        return elementwise.logical_or(self, other)

    def __invert__(self) -> "Array":
        return elementwise.logical_not(self)

    __hash__ = object.__hash__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        raise mixed_backends("python", "numpy")

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise mixed_backends("python", "numpy")


def mixed_backends(one: str, other: str) -> TypeError:
    """The error for arrays of two backends in one expression."""
    return TypeError(f"an array of the {one} backend met an array of the {other} backend: arrays of two "
                     "backends never mix. Make both under the same use_backend(...), or go through "
                     ".tolist()")


def kind_of(value: Any) -> str:
    """The kind of one Python number."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "float"
    if value is None or isinstance(value, (str, bytes, complex)):
        raise TypeError(f"{value!r} is not a number that an array can hold")
    return "exact"


def asarray(obj: Any, dtype: Any = None) -> Array:
    """An array from a number, nested sequences of numbers or an array, which is returned as it is.

    The kind is the highest of the elements' kinds (bool < int < float < exact). Raises ValueError for
    ragged rows and TypeError for what is not a number.
    """
    if isinstance(obj, Array):
        return obj if dtype is None or dtype == obj.kind else astype(obj, dtype)
    if hasattr(obj, "__array_interface__") or hasattr(obj, "__array_struct__"):
        raise mixed_backends("numpy", "python")
    values: List[Any] = []
    shape = _flatten(obj, values)
    kind = dtype or max((kind_of(value) for value in values), key=RANK.__getitem__, default="float")
    convert = CONVERT[kind]
    return Array([convert(value) for value in values], shape, kind)


def _flatten(obj: Any, values: List[Any]) -> Shape:
    """Append the numbers of nested sequences to `values`; the shape of what was appended."""
    if isinstance(obj, Array):
        values.extend(obj.values)
        return obj.shape
    if not isinstance(obj, (list, tuple, range)):
        values.append(obj)
        return ()
    shapes = [_flatten(row, values) for row in obj]
    for position, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(f"rows of unequal shape: row 0 has shape {shapes[0]}, "
                             f"row {position} has {shape}; an array needs equal rows")
    return (len(shapes),) + (shapes[0] if shapes else ())


def astype(x: Array, dtype: str) -> Array:
    """The same numbers in another kind; float to int cuts towards zero, to exact makes Fractions."""
    if dtype == "exact" and x.kind == "float":
        from fractions import Fraction
        return Array([Fraction(value) for value in x.values], x.shape, dtype)
    return Array(list(map(CONVERT[dtype], x.values)), x.shape, dtype)


def isdtype(dtype: Any, kind: str) -> bool:
    """Whether a dtype is of the standard's kind "bool", "integral", "real floating" or "numeric"."""
    kinds = {"bool": ("bool",), "integral": ("int",), "real floating": ("float",),
             "numeric": ("int", "float", "exact")}
    if kind not in kinds:
        raise ValueError(f"there is no dtype kind {kind!r}: choose from {', '.join(kinds)}")
    return dtype in kinds[kind]


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Array:
    """An array of one number."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(length < 0 for length in shape):
        raise ValueError(f"an axis cannot have a negative length: {shape}")
    kind = dtype or kind_of(fill_value)
    return Array([CONVERT[kind](fill_value)] * prod(shape), shape, kind)


def zeros(shape: Any, dtype: Any = None) -> Array:
    """An array of zeros, float unless `dtype` says otherwise."""
    return full(shape, 0, dtype or "float")


def ones(shape: Any, dtype: Any = None) -> Array:
    """An array of ones, float unless `dtype` says otherwise."""
    return full(shape, 1, dtype or "float")


def zeros_like(x: Array, dtype: Any = None) -> Array:
    """Zeros in the shape and kind of `x`."""
    return full(x.shape, 0, dtype or x.kind)


def ones_like(x: Array, dtype: Any = None) -> Array:
    """Ones in the shape and kind of `x`."""
    return full(x.shape, 1, dtype or x.kind)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Array:
    """The integers start, start + step, ... below stop; from 0 when only one bound is given."""
    start, stop = (0, start) if stop is None else (start, stop)
    return asarray(range(start, stop, step), dtype or "int")




# Array's operators are the functions of these modules, and they need Array: hence the last line.
from tinyformer.arrays.pure import elementwise, indexing, products  # noqa: E402
