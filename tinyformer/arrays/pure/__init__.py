"""The pure backend: arrays of Python numbers under the names of the Array API standard."""

from tinyformer.arrays.pure.array import (Array, arange, asarray, astype, full, isdtype, ones,
                                          ones_like, zeros, zeros_like)
from tinyformer.arrays.pure.elementwise import (abs, add, cos, divide, equal, erf, exp, greater,
                                                greater_equal, inf, isfinite, isnan, less,
                                                less_equal, log, logical_and, logical_not,
                                                logical_or, maximum, minimum, multiply, nan,
                                                negative, not_equal, pi, pow, sin, sqrt, square,
                                                subtract, tanh, where)
from tinyformer.arrays.pure.files import from_bytes, to_bytes
from tinyformer.arrays.pure.fused import fused
from tinyformer.arrays.pure.indexing import (scatter_add, scatter_add_rows, scatter_along_axis,
                                             take, take_along_axis, take_rows, with_item)
from tinyformer.arrays.pure.layout import (broadcast_to, concat, expand_dims, matrix_transpose,
                                           permute_dims, reshape, squeeze, stack)
from tinyformer.arrays.pure.products import matmul
from tinyformer.arrays.pure.randomness import Generator
from tinyformer.arrays.pure.reductions import all, any, argmax, max, mean, min, std, sum, var

DEFAULT_FLOAT = "float64"
bool, int64, float64, exact = "bool", "int", "float", "exact"
