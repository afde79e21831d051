"""The differentiable operations: each the forward value and the way back, side by side."""

from tinyformer.autograd.operations.attention import masked_softmax, scaled_dot_product_attention
from tinyformer.autograd.operations.dropout import dropout
from tinyformer.autograd.operations.elementwise import (
    add, compare, divide, exp, gelu, log, multiply, negative, pow, relu, sigmoid, sqrt, subtract,
    tanh, where)
from tinyformer.autograd.operations.normalisation import layer_norm
from tinyformer.autograd.operations.probabilities import cross_entropy, log_softmax, softmax
from tinyformer.autograd.operations.products import linear, matmul
from tinyformer.autograd.operations.reductions import max, mean, sum, var
from tinyformer.autograd.operations.shaping import (
    concat, embedding, getitem, permute, raw_key, reshape, stack)

__all__ = ["add", "compare", "concat", "cross_entropy", "divide", "dropout", "embedding", "exp",
           "gelu", "getitem", "layer_norm", "linear", "log", "log_softmax", "masked_softmax",
           "matmul", "max", "mean", "multiply", "negative", "permute", "pow", "raw_key", "relu",
           "reshape", "scaled_dot_product_attention", "sigmoid", "softmax", "sqrt", "stack",
           "subtract", "sum", "tanh", "var", "where"]
