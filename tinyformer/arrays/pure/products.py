"""The matrix product: every element is the dot product of a row and a column.

`dots` is the hot loop of the whole pure engine, and the one place where the interpreter matters.
Measured per multiply-add: 11 to 17 ns for `math.sumprod` (CPython 3.12 and later), 24 to 40 ns for
`sum(map(mul, ...))`, 59 to 123 ns for index loops, which take 1.4 to 9 ns on PyPy. A call or a loop
for each element is dear when the rows are short, as the heads of a small model are: up to `SHORT`
elements the sum is written out, which takes 16 to 36 ns whatever the length, and 1.3 ns on PyPy.

PyPy compiles what it has run 1,000 to 1,600 times, and lowers its counts whenever much memory was
used. A training step runs most of its lines only a few times: after 700 steps of a small model only
half of them were compiled. Whoever starts PyPy can tell it to compile sooner and not to forget:

    pypy3 --jit decay=0,threshold=400,function_threshold=400,trace_eagerness=100 ...
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from math import prod
from operator import mul

from tinyformer.arrays.pure.array import Array, asarray, common_kind, convert, give_operator
from tinyformer.arrays.pure.layout import broadcast_shapes, columns_of, expand, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Tuple
    from tinyformer.arrays.pure.array import Shape
    Matrix = List[List[Any]]
    Reading = Callable[[List[Any], int], Matrix]

PYPY = sys.implementation.name == "pypy"

if PYPY:
    SHORT = 256                # up to this length of the rows the sum is written out

    def _long_dots(rows: Matrix, columns: Matrix) -> List[Any]:
        out = []
        for row in rows:
            for column in columns:
                total = row[0] * column[0]
                for k in range(1, len(row)):
                    total += row[k] * column[k]
                out.append(total)
        return out

elif hasattr(math, "sumprod"):
    SHORT = 15
    _sumprod = getattr(math, "sumprod")

    def _long_dots(rows: Matrix, columns: Matrix) -> List[Any]:
        return [_sumprod(row, column) for row in rows for column in columns]

else:
    SHORT = 127 if sys.version_info >= (3, 11) else 40     # 127: two rows are below 256 names

    def _long_dots(rows: Matrix, columns: Matrix) -> List[Any]:
        return [sum(map(mul, row, column)) for row in rows for column in columns]


@lru_cache(maxsize=None)
def _short_dots(length: int) -> Callable[[Matrix, Matrix], List[Any]]:
    """`dots` for rows of one length: [a0*b0+a1*b1 for a0,a1, in rows for b0,b1, in columns].

    PyPy is faster with indices: [a[0]*b[0]+a[1]*b[1] for a in rows for b in columns].
    """
    row, column = ("".join(f"{letter}{k}," for k in range(length)) for letter in "ab")
    total = "+".join(f"a{k}*b{k}" for k in range(length))
    if PYPY:
        row, column, total = "a", "b", "+".join(f"a[{k}]*b[{k}]" for k in range(length))
    function: Callable[[Matrix, Matrix], List[Any]] = eval(
        f"lambda rows, columns: [{total} for {row} in rows for {column} in columns]")
    return function


def dots(rows: Matrix, columns: Matrix) -> List[Any]:
    """The dot products of every row with every column, row by row; the rows must not be empty."""
    if rows and len(rows[0]) <= SHORT:
        return _short_dots(len(rows[0]))(rows, columns)
    return _long_dots(rows, columns)


def matmul(x: Any, y: Any) -> Array:
    """The matrix product over the last two axes; the axes before them broadcast.

    (..., N, K) @ (..., K, M) -> (..., N, M). An array with one axis counts as a row on the left and
    as a column on the right, and that axis is gone from the result. For bools, + is "or" and * is
    "and". Raises ValueError for axes that do not fit.
    """
    x, y = asarray(x), asarray(y)
    left, right, shape, kept = fitted(x.shape, y.shape)
    kind = common_kind("matmul", x.kind, y.kind)
    if not left[-1] * prod(shape):
        values = convert([0], kind) * prod(shape)
    elif right[:-2] == (1,) * len(right[:-2]):       # one matrix on the right serves all rows
        values = dots(rows_of(x.values, left[-1]), columns_of(y.values, right[-1]))
    else:
        first, second = shape[:-2] + left[-2:], shape[:-2] + right[-2:]
        values = paired(Array(expand(x.values, left, first), first, kind),
                        Array(expand(y.values, right, second), second, kind)).values
    return Array(convert(values, "bool") if kind == "bool" else values, kept, kind)


@lru_cache(maxsize=None)
def fitted(one: Shape, other: Shape) -> Tuple[Shape, Shape, Shape, Shape]:
    """Two shapes with the axes that a row or a column lacks, the shape of their product, and that
    shape without these axes."""
    if not one or not other:
        raise ValueError(f"matmul: needs at least one axis on each side, the shapes are {one} and "
                         f"{other}; to multiply by a number use *")
    left, right = (1,) * (len(one) == 1) + one, other + (1,) * (len(other) == 1)
    if left[-1] != right[-2]:
        raise ValueError(f"matmul: shapes {one} and {other} do not fit: {left[-1]} columns on the "
                         f"left, {right[-2]} rows on the right")
    leading = broadcast_shapes("matmul", left[:-2], right[:-2])
    ends = (left[-2:-1] if len(one) > 1 else ()) + (right[-1:] if len(other) > 1 else ())
    return left, right, leading + (left[-2], right[-1]), leading + ends


def paired(x: Array, y: Array, left: Reading = rows_of, right: Reading = columns_of) -> Array:
    """The products of the matrices of x and y in pairs; leading axes must be equal, no length 0.

    A matrix on the left is read by its rows, one on the right by its columns. Read the other way
    it is multiplied as its transpose, which is never made: x y^T is paired(x, y, rows_of, rows_of).
    """
    values: List[Any] = []
    for one, other in zip(matrices(x), matrices(y)):
        values += dots(left(one, x.shape[-1]), right(other, y.shape[-1]))
    height, width = x.shape[-2 if left is rows_of else -1], y.shape[-2 if right is rows_of else -1]
    return Array(values, x.shape[:-2] + (height, width), x.kind)


def matrices(x: Array) -> List[List[Any]]:
    """The numbers of each matrix of the last two axes."""
    return rows_of(x.values, x.shape[-2] * x.shape[-1])


give_operator("matmul", matmul)
