"""One token more, on bare arrays: what a decoder computes for a single new position of each text.

At one position the arrays are so small that a call of the model is spent on modules, tensors and
checks. `Stepper` does the arithmetic of that call alone, block by block, by the functions that the
operations themselves are made of; queries, keys and values are one product. It knows the commonest
model: a decoder with its norms before each half and its positions at the input. The model itself
is the oracle, and does all other work.
"""

from __future__ import annotations

import math

from tinyformer import functional as F
from tinyformer.arrays import xp
from tinyformer.autograd import Tensor
from tinyformer.autograd.engine import current_observer
from tinyformer.autograd.operations.elementwise import normal_share, tanh_share
from tinyformer.autograd.operations.normalisation import normalised
from tinyformer.autograd.operations.products import affine
from tinyformer.autograd.operations.shaping import check_ids
from tinyformer.models import DecoderModel
from tinyformer.nn import Cache, Decoder, Dropout, Embedding, LayerNorm, Linear, MultiHeadAttention
from tinyformer.nn.block import Block
from tinyformer.nn.layers import FeedForward, gelu_tanh
from tinyformer.nn.positions import Learned, Position, Sinusoidal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

# The modules that are computed here, each with its own way forward: a subclass, or a `forward` that
# somebody has put in its place, is left to the model.
FORWARDS: Dict[Any, Any] = {kind: kind.forward for kind in (
    DecoderModel, Decoder, Block, MultiHeadAttention, FeedForward, Linear, LayerNorm, Dropout,
    Embedding, Position, Learned, Sinusoidal)}
ACTIVATIONS = {F.relu: lambda a: xp.maximum(a, 0), F.gelu: lambda a: a * normal_share(a),
               gelu_tanh: lambda a: a * tanh_share(a)}


def knows(model: Any) -> bool:
    """Whether a model is one that `Stepper` computes, down to the last module."""
    return type(model) is DecoderModel and all(
        FORWARDS.get(type(module)) is type(module).forward and "forward" not in vars(module)
        for _, module in model.named_modules()) and all(map(_knows_block, model.stack.blocks))


def _knows_block(block: Any) -> bool:
    attention = block.attention
    projections: List[Any] = [attention.query, attention.key, attention.value]
    return (block.norm == "pre" and block.order == "paper" and attention.position is None
            and None not in projections and attention.output is not None
            and len({(part.weight.shape, part.bias is None) for part in projections}) == 1
            and block.attention_norm.bias is not None is not block.feed_forward_norm.bias
            and block.feed_forward.function in ACTIVATIONS)


class Stepper:
    """The scores behind one new token of each text, for a model that `knows` approves.

    The weights are those of the moment when the stepper is made.
    """

    def __init__(self, model: DecoderModel) -> None:
        self.model = model
        self.weights = [_weights_of(block) for block in model.stack.blocks]
        self.norm = _norm(model.stack.norm)
        self.output = _map(model.output or model.tokens)

    def is_seen(self) -> bool:
        """Whether the model trains, or somebody looks at values that only it would show."""
        return self.model.training or current_observer() is not None or any(
            block.notes is not None or block.attention.records is not None
            for block in self.model.stack.blocks)

    def __call__(self, ids: List[int], cache: Cache) -> Any:
        """ids (B,), the tokens behind those that the cache remembers -> scores (B, V)."""
        table, place = self.model.tokens.weight.data, len(cache)
        if not 0 <= min(ids) <= max(ids) < table.shape[0]:
            check_ids(xp.asarray(ids), table.shape[0])
        x = self._placed(table[ids], place)
        cache.follow(xp.asarray([[place]]), None)
        for block, (norm, joint, output, feed_norm, inner, outer) in zip(
                self.model.stack.blocks, self.weights):
            mixture = _look(block.attention, affine(normalised(x, *norm)[0], *joint), cache)
            x = x + affine(mixture, *output)
            h = affine(normalised(x, *feed_norm)[0], *inner)
            x = x + affine(ACTIVATIONS[block.feed_forward.function](h), *outer)
        return affine(normalised(x, *self.norm)[0], *self.output)

    def _placed(self, vectors: Any, place: int) -> Any:
        """The vectors of new tokens (B, D) at their position."""
        scheme = self.model.positions
        if type(scheme) is Learned and place < len(scheme.table.weight):
            return vectors + scheme.table.weight.data[place]
        whole = scheme.at_input(Tensor(xp.expand_dims(vectors, axis=1)), xp.asarray([[place]]))
        return xp.reshape(whole.data, vectors.shape)


def _look(attention: Any, joint: Any, cache: Cache) -> Any:
    """The mixed values (B, H K) of one query each, given queries, keys and values side by side."""
    rows, heads = joint.shape[0], attention.n_heads
    parts = xp.reshape(joint, (rows, 3, heads, 1, joint.shape[1] // (3 * heads)))
    keys, values = cache.grown(attention, parts[:, 1], parts[:, 2])
    scores = xp.matmul(parts[:, 0], xp.matrix_transpose(keys))
    e = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    mixture = xp.matmul(e, values) / xp.sum(e, axis=-1, keepdims=True)
    return xp.reshape(mixture, (rows, joint.shape[1] // 3))


def _weights_of(block: Block) -> Tuple[Any, ...]:
    """What one block needs: norms as (gain, shift, eps), maps as (w, b). The scale of the scores is
    in the map of the queries."""
    attention, feed_forward = block.attention, block.feed_forward
    maps = [_map(part) for part in (attention.query, attention.key, attention.value)]
    scale = math.sqrt(attention.n_heads / len(maps[0][0]))
    w, b = (None if first is None else [first * scale, *others] for first, *others in zip(*maps))
    joint = xp.concat(w), None if b is None else xp.concat(b)
    return (_norm(block.attention_norm), joint, _map(attention.output),
            _norm(block.feed_forward_norm), _map(feed_forward.inner), _map(feed_forward.outer))


def _norm(layer: Any) -> Tuple[Any, Any, float]:
    return layer.weight.data, layer.bias.data, layer.eps


def _map(layer: Any) -> Tuple[Any, Any]:
    bias = getattr(layer, "bias", None)
    return layer.weight.data, None if bias is None else bias.data
