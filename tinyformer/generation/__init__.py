"""Text from a model: greedy choice and sampling."""

from tinyformer.generation.sampling import check_sampling, choose, generate

__all__ = ["check_sampling", "choose", "generate"]
