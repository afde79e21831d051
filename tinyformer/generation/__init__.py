"""Text from a model: greedy choice, sampling and beam search."""

from tinyformer.generation.beam import Hypothesis, beam_search
from tinyformer.generation.sampling import check_sampling, choose
from tinyformer.generation.writing import generate

__all__ = ["Hypothesis", "beam_search", "check_sampling", "choose", "generate"]
