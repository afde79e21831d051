"""The operations of neural networks on tensors, under the names of torch.nn.functional."""

from tinyformer.autograd.operations import (
    concat, cross_entropy, dropout, embedding, gelu, layer_norm, linear, log_softmax,
    masked_softmax, matmul, relu, scaled_dot_product_attention, sigmoid, softmax, stack, where)

__all__ = ["concat", "cross_entropy", "dropout", "embedding", "gelu", "layer_norm", "linear",
           "log_softmax", "masked_softmax", "matmul", "relu", "scaled_dot_product_attention",
           "sigmoid", "softmax", "stack", "where"]
