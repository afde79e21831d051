"""Who sees whom: which input positions can influence which outputs, by gradients.

For every output position t a random cotangent g is sent back to the input vectors x. Then

    |d(g . y_t) / d(x_s)|_max

is exactly 0 where x_s cannot influence y_t: a masked key has a weight of exactly 0, and nothing but
attention carries anything from one position to another. Where x_s can, it is not 0 but for a draw
of probability 0. (A cotangent of ones would be blind behind a layer norm or a softmax, whose
outputs have a constant sum.)

So the matrix is read from the computation itself, not from the mask that was meant.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

from tinyformer import functional as F
from tinyformer.arrays import xp
from tinyformer.arrays.stream import Stream
from tinyformer.autograd import Tensor, no_grad
from tinyformer.autograd.engine import backpropagate
from tinyformer.models import DecoderModel, EncoderDecoderModel, EncoderModel
from tinyformer.models.inputs import as_ids
from tinyformer.nn import Cache, Module
from tinyformer.pictures import Svg, flow, table


class Influence:
    """Of every output (a row) and every input (a column): the largest gradient, 0 for none.

    `sizes` are the gradients, `seen` says where they are not 0. Printed, it is a table of x (can
    influence) and . (cannot), as a `Mask` is; `picture()` draws the table, `flow()` the arrows.
    `split` is the number of inputs of a source, in front of those of the target.
    """

    def __init__(self, sizes: Sequence[Sequence[float]], inputs: Sequence[str] = (),
                 outputs: Sequence[str] = (), split: int = 0) -> None:
        self.sizes = [list(row) for row in sizes]
        self.inputs, self.outputs, self.split = list(inputs), list(outputs), split

    @property
    def seen(self) -> List[List[bool]]:
        """Of every output, which inputs can influence it."""
        return [[size != 0 for size in row] for row in self.sizes]

    def __str__(self) -> str:
        """One line per output, one column per input; with the names of both, if they have any."""
        wide = [max(1, len(name)) for name in self.inputs] or [1] * len(self.sizes[0])
        lead = max(map(len, self.outputs), default=0)
        rows = [["x" if seen else "." for seen in row] for row in self.seen]
        names = self.outputs or [""] * len(rows)
        if self.inputs:
            rows, names = [self.inputs] + rows, [""] + names
        lines = []
        for name, row in zip(names, rows):
            cells = [cell.ljust(width) for cell, width in zip(row, wide)]
            if self.split:
                cells.insert(self.split, "|")
            lines.append((name.ljust(lead) + "  " * bool(lead) + " ".join(cells)).rstrip())
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Influence of {len(self.sizes[0])} inputs on {len(self.sizes)} outputs:\n{self}"

    def picture(self, title: str = "who sees whom", note: str = "") -> Svg:
        """The table as cells, full where there is any influence."""
        cells = [[1.0 if seen else None for seen in row] for row in self.seen]
        return table(cells, title=title, row_names=self._outputs(), column_names=self._inputs(),
                     split=self.split, note=note)

    def flow(self, title: str = "who sees whom", chosen: Optional[int] = None,
             note: str = "") -> Svg:
        """The table as arrows, those into the output `chosen` heavy (Fig. 9.2 of the textbook)."""
        arrows = [(column, row) for row, cells in enumerate(self.seen)
                  for column, seen in enumerate(cells) if seen]
        return flow(self._inputs(), self._outputs(), arrows, title=title, chosen=chosen, note=note)

    def _repr_svg_(self) -> str:
        return str(self.picture())

    def _inputs(self) -> List[str]:
        return self.inputs or [str(place + 1) for place in range(len(self.sizes[0]))]

    def _outputs(self) -> List[str]:
        return self.outputs or [str(place + 1) for place in range(len(self.sizes))]


def influence(function: Callable[..., Tensor], *vectors: Any, inputs: Sequence[str] = (),
              outputs: Sequence[str] = (), seed: int = 0) -> Influence:
    """Which rows of `vectors` (B, S, D) can influence which rows of function(*vectors) (B, T, E).

    The columns are the rows of the first vectors, all rows of the batch one after the other, then
    those of the second, and so on. The random cotangents have a stream of their own, from `seed`;
    no gradient of anything else is touched. Raises ValueError for an output of another shape.
    """
    leaves = [Tensor(each.data if isinstance(each, Tensor) else each, requires_grad=True)
              for each in vectors]
    y = function(*leaves)
    if y.ndim != 3:
        raise ValueError(f"outputs must have the shape (B, T, E), a vector per position, not "
                         f"{y.shape}")
    stream, sizes = Stream(seed), []
    for row in range(y.shape[0]):
        for place in range(y.shape[1]):
            cotangent = xp.astype(stream.normal((y.shape[2],)), y.data.dtype)
            reached = backpropagate(y[row, place]._node, cotangent, retain_graph=True)
            gradients = {id(target): gradient for target, gradient in reached}
            sizes.append([size for leaf in leaves
                          for size in _largest(leaf, gradients.get(id(leaf)))])
    split = leaves[0].shape[0] * leaves[0].shape[1] if len(leaves) > 1 else 0
    return Influence(sizes, inputs, outputs, split)


def _largest(leaf: Tensor, gradient: Any) -> List[float]:
    """The largest gradient of each vector, the rows of the batch one after the other."""
    if gradient is None:                            # the output does not depend on it at all
        return [0.0] * (leaf.shape[0] * leaf.shape[1])
    return list(xp.reshape(xp.max(xp.abs(gradient), axis=-1), (-1,)).tolist())


def who_sees_whom(model: Module, ids: Any, target: Any = None, *, inputs: Sequence[str] = (),
                  outputs: Sequence[str] = (), stepwise: bool = False, seed: int = 0,
                  **options: Any) -> Influence:
    """Which input positions can influence which outputs of a model, dropout off.

    ids (B, T), or (T,) for one text. The outputs are the logits of a `DecoderModel`, the hidden
    vectors of an `EncoderModel`, and the logits at every position of `target` for an
    `EncoderDecoderModel`, where the columns are the source's and then the target's. `options` are
    those of the model: `mask`, `seen`, `segments`, `lengths`, `source_lengths`. With `stepwise` the
    tokens of a decoder go through a cache one by one, as in generation. Neither the weights nor
    their gradients change, nor does the random stream. Raises TypeError for other models.
    """
    texts = [as_ids(_batch(each)) for each in (ids, target) if each is not None]
    function, tables = _by_vectors(model, stepwise, options)
    if len(texts) != len(tables):
        raise ValueError(f"{type(model).__name__} reads {len(tables)} texts, {len(texts)} are "
                         "given: an encoder-decoder needs a target, the others take none")
    with _still(model):
        with no_grad():
            vectors = [tokens(text) for tokens, text in zip(tables, texts)]
        return influence(function, *vectors, inputs=inputs, outputs=outputs, seed=seed)


def _batch(ids: Any) -> Any:
    """One text as a batch of one."""
    ids = ids.data if isinstance(ids, Tensor) else xp.asarray(ids)
    return xp.expand_dims(ids, axis=0) if len(ids.shape) == 1 else ids


def _by_vectors(model: Any, stepwise: bool, options: Any) -> Tuple[Callable[..., Tensor], Any]:
    """The model as a function of its token vectors, and its tables of them."""
    if isinstance(model, EncoderModel) and not stepwise:
        return lambda x: model.encode(x, **options).hidden, [model.tokens]
    if isinstance(model, DecoderModel):
        if stepwise:
            return lambda x: _stepwise(model.scores, x, options), [model.tokens]
        return lambda x: model.scores(x, **options), [model.tokens]
    if isinstance(model, EncoderDecoderModel):
        lengths = options.pop("source_lengths", None)

        def both(source: Tensor, target: Tensor) -> Tensor:
            """The scores of the target from the vectors of both texts."""
            memory = model.encoded(source, lengths)

            def decoded(x: Tensor, **more: Any) -> Tensor:
                return model.decoded(x, memory, lengths, **more)

            return _stepwise(decoded, target, options) if stepwise else decoded(target, **options)

        return both, [model.tokens, model.target_tokens]
    raise TypeError("who_sees_whom looks into a DecoderModel, EncoderModel (not stepwise) or "
                    f"EncoderDecoderModel, not a {type(model).__name__}; `influence` takes any "
                    "function of vectors (B, T, D)")


class _GradedCache(Cache):
    """A cache through which gradients pass."""

    def extend(self, owner: Any, key: Tensor, value: Tensor) -> Tuple[Tensor, Tensor]:
        """As in `Cache`, with the graph kept."""
        if owner in self.pairs:
            key, value = (F.concat(pair, axis=2) for pair in zip(self.pairs[owner], (key, value)))
        self.pairs[owner] = key, value
        return key, value


def _stepwise(function: Callable[..., Tensor], x: Tensor, options: Any) -> Tensor:
    """function(x) token by token, through a cache."""
    seen = options.get("seen")
    cache = _GradedCache()
    steps = []
    for t in range(x.shape[1]):
        now = {} if seen is None else {"seen": xp.asarray(seen)[:, t:t + 1]}
        steps.append(function(x[:, t:t + 1], cache=cache, **{**options, **now}))
    return F.concat(steps, axis=1)


@contextlib.contextmanager
def _still(model: Module) -> Iterator[None]:
    """Inside, dropout is off and no parameter asks for a gradient."""
    asking = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with model.evaluating():
        for parameter in asking:
            parameter.requires_grad = False
        try:
            yield
        finally:
            for parameter in asking:
                parameter.requires_grad = True
