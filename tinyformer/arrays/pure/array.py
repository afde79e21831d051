"""A pure array: a flat row-major list of numbers, a shape and a kind.

Always contiguous: no strides, no views. The kinds are `bool`, `int`, `float` and `exact`; `exact`
holds any other number that knows + - * / (`fractions.Fraction`), so matrix products, sums and means
can be checked without rounding. Ints are Python's and do not overflow, where NumPy's int64 wraps
around.
"""

from __future__ import annotations

from math import prod
from operator import index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Set

Shape = tuple[int, ...]

RANK = {"bool": 0, "int": 1, "float": 2, "exact": 3}
NATIVE = {bool: "bool", int: "int", float: "float"}
SEQUENCES = (list, tuple, range)                # what nested numbers may be given in


class AxisError(ValueError, IndexError):
    """An axis that the array does not have; both a ValueError and an IndexError, as in NumPy."""


class Array:
    """Numbers in row-major order: `values[i * shape[1] + j]` is the element (i, j) of a matrix.

    The operators and the index brackets are given to the class by the modules that define what they
    do: `elementwise`, `products` and `indexing`.
    """

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
            raise ValueError("item() needs exactly one element; this array has "
                             f"{len(self.values)}, shape {self.shape}")
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

    def __iter__(self) -> Iterator["Array"]:
        whole: Any = self
        return (whole[row] for row in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.item())

    def _scalar(self) -> Any:
        if self.shape:
            raise TypeError(f"only an array without axes becomes a Python number, not one of shape "
                            f"{self.shape}; take .item() of a single element")
        return self.values[0]

    def __float__(self) -> float:
        return float(self._scalar())

    def __int__(self) -> int:
        return int(self._scalar())

    def __index__(self) -> int:
        if self.kind != "int":
            raise TypeError(f"only an int array is an index, not a {self.kind} one")
        return index(self._scalar())

    __hash__ = None  # type: ignore[assignment]     # == is elementwise: an array is no key

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        raise mixed_backends("python", "numpy")

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise mixed_backends("python", "numpy")


def give_operator(symbol: str, function: Callable[[Any, Any], Array]) -> None:
    """Make `function` the operator `symbol` of Array ("add" for __add__), and its reflected form.

    Anything that sets `__array_ufunc__ = None` is left to do the operation itself: NumPy's
    protocol, by which a tensor beside an array is not taken for a number.
    """
    def method(self: Array, other: Any) -> Any:
        if type(other) is not Array and getattr(other, "__array_ufunc__", True) is None:
            return NotImplemented
        return function(self, other)

    def reflected(self: Array, other: Any) -> Any:
        return function(other, self)

    setattr(Array, f"__{symbol}__", method)
    if symbol not in ("lt", "le", "gt", "ge", "eq", "ne"):         # these reflect each other
        setattr(Array, f"__r{symbol}__", reflected)


def mixed_backends(one: str, other: str) -> TypeError:
    """The error for arrays of two backends in one expression."""
    return TypeError(f"an array of the {one} backend met an array of the {other} backend: arrays "
                     "of two backends never mix. Make both under the same use_backend(...), or go "
                     "through .tolist()")


def is_foreign(value: Any) -> bool:
    """Whether a value is an array or a scalar of NumPy."""
    return hasattr(value, "__array_interface__")


def kind_of(value: Any) -> str:
    """The kind of one Python number; TypeError for anything else."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "float"
    if is_foreign(value):
        raise mixed_backends("numpy", "python")
    if isinstance(value, complex) or hasattr(value, "__array__") \
            or not (hasattr(value, "__mul__") and hasattr(value, "__truediv__")):
        raise TypeError(f"{value!r:.80} is not a number that an array can hold")
    return "exact"


def _exact(value: Any) -> Any:
    """An int or float as the Fraction that it is (int / int would be a float); others are exact."""
    if not isinstance(value, (int, float)):
        return value
    from fractions import Fraction
    return Fraction(value)


CONVERT: Dict[str, Callable[[Any], Any]] = {
    "bool": bool, "int": int, "float": float, "exact": _exact}


def convert(values: List[Any], kind: str, former: str = "") -> List[Any]:
    """The numbers in another kind; `former` is the kind that they have, where that is known."""
    if kind == former:
        return values
    if kind not in RANK:
        raise TypeError(f"there is no dtype {kind!r} in the python backend: choose from "
                        f"{', '.join(RANK)}")
    return list(map(CONVERT[kind], values))


def common_kind(name: str, first: str, second: str) -> str:
    """The kind of a result of two operands: the higher one. TypeError for float with exact."""
    if first == second:
        return first
    if {first, second} == {"float", "exact"}:
        raise TypeError(f"{name}: floats and exact numbers never mix, the result would be rounded; "
                        "convert one side with astype")
    return first if RANK[first] > RANK[second] else second


def asarray(obj: Any, dtype: Any = None) -> Array:
    """An array from a number, nested sequences of numbers or an array, which is returned as it is.

    The kind is the highest of the elements' kinds (bool < int < float < exact). Raises ValueError
    for ragged rows and TypeError for what is not a number.
    """
    if isinstance(obj, Array):
        return obj if dtype is None or dtype == obj.kind else astype(obj, dtype)
    if is_foreign(obj):
        raise mixed_backends("numpy", "python")
    values: List[Any] = []
    kinds: Set[str] = set()
    shape = _flatten(obj, values, kinds)
    types = set(map(type, values))
    if types <= NATIVE.keys():
        kinds.update(map(NATIVE.__getitem__, types))
    else:
        samples = dict(zip(map(type, values), values))      # one number of each type
        kinds.update(map(kind_of, samples.values()))
    kind = dtype or max(kinds, key=RANK.__getitem__, default="float")
    native = types <= NATIVE.keys() and kinds <= {kind}
    return Array(values if native else convert(values, kind), shape, kind)


def _flatten(obj: Any, values: List[Any], kinds: Set[str]) -> Shape:
    """Append the numbers of nested sequences to `values`; the shape of what was appended.

    The kinds of arrays among them are added to `kinds`, since an empty one shows no number.
    """
    if isinstance(obj, Array):
        values.extend(obj.values)
        kinds.add(obj.kind)
        return obj.shape
    if not isinstance(obj, SEQUENCES):
        values.append(obj)
        return ()
    if obj and not any(issubclass(each, (*SEQUENCES, Array)) for each in set(map(type, obj))):
        values.extend(obj)
        return (len(obj),)
    shapes = [_flatten(row, values, kinds) for row in obj]
    for position, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(f"rows of unequal shape: row 0 has shape {shapes[0]}, "
                             f"row {position} has {shape}; an array needs equal rows")
    return (len(shapes),) + (shapes[0] if shapes else ())


def as_shape(shape: Any) -> Shape:
    """A shape given as one length or as a sequence of lengths."""
    return tuple(map(index, shape)) if hasattr(shape, "__iter__") else (index(shape),)


def astype(x: Any, dtype: str) -> Array:
    """The same numbers in another kind, copied.

    Float to int cuts towards zero and raises for nan and inf; float to exact makes Fractions.
    """
    x = asarray(x)
    return Array(list(convert(x.values, dtype, x.kind)), x.shape, dtype)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of the standard's kind "bool", "integral", "real floating" or "numeric".

    `kind` may be a dtype itself, or a tuple of kinds of which one must fit.
    """
    if isinstance(kind, tuple):
        return any([isdtype(dtype, each) for each in kind])
    kinds = {"bool": ("bool",), "integral": ("int",), "signed integer": ("int",),
             "real floating": ("float",), "numeric": ("int", "float", "exact")}
    if kind not in kinds and kind not in RANK:
        raise ValueError(f"there is no dtype kind {kind!r}: choose from {', '.join(kinds)}")
    return dtype in kinds.get(kind, (kind,))


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Array:
    """An array of one number."""
    shape = as_shape(shape)
    if any(length < 0 for length in shape):
        raise ValueError(f"an axis cannot have a negative length: {shape}")
    kind = dtype or kind_of(fill_value)
    return Array(convert([fill_value], kind) * prod(shape), shape, kind)


def zeros(shape: Any, dtype: Any = None) -> Array:
    """An array of zeros, float unless `dtype` says otherwise."""
    return full(shape, 0, dtype or "float")


def ones(shape: Any, dtype: Any = None) -> Array:
    """An array of ones, float unless `dtype` says otherwise."""
    return full(shape, 1, dtype or "float")


def zeros_like(x: Any, dtype: Any = None) -> Array:
    """Zeros in the shape and kind of `x`."""
    x = asarray(x)
    return full(x.shape, 0, dtype or x.kind)


def ones_like(x: Any, dtype: Any = None) -> Array:
    """Ones in the shape and kind of `x`."""
    x = asarray(x)
    return full(x.shape, 1, dtype or x.kind)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Array:
    """The integers start, start + step, ... below stop; from 0 when only one bound is given.

    Raises TypeError for bounds that are no integers, ValueError for a step of 0.
    """
    start, stop = (0, start) if stop is None else (start, stop)
    return asarray(range(index(start), index(stop), index(step)), dtype or "int")
