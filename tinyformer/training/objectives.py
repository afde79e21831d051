"""What a model is trained for: the loss of a batch, for each kind of model and task.

    causal_lm        the next token, from those before it               (GPT)
    masked_lm        the hidden words, from all the others              (BERT)
    seq2seq          each token of a target, from those before it and a source
    classification   a label for the whole
    tagging          a label for every token

All are means over what there is to predict. A target of -100 is none: padding, and whatever else
costs nothing, has no part in the mean, so that neither the loss nor any gradient knows how much a
batch was padded. With `reduction="sum"` they are sums instead. `functools.partial(objective,
model)` is the loss of a `Trainer`: the arguments are the batches of `batches` and `examples`.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from tinyformer import functional as F
from tinyformer.arrays import xp
from tinyformer.autograd import Tensor
from tinyformer.nn import Mask
from tinyformer.training.batches import IGNORED

Lengths = Optional[Sequence[int]]


def causal_lm(model: Any, ids: Any, targets: Any, lengths: Lengths = None, *,
              label_smoothing: float = 0.0, reduction: str = "mean") -> Tensor:
    """A `DecoderModel` reads ids (B, T); target t is the token behind position t.

    Padding stands behind a row, where none of the row's tokens can see it: `lengths` is there so
    that a batch fits, and changes nothing.
    """
    return F.cross_entropy(model(ids), targets, IGNORED, label_smoothing, reduction)


def masked_lm(model: Any, ids: Any, targets: Any, lengths: Lengths = None, segments: Any = None, *,
              mask: Optional[Mask] = None, label_smoothing: float = 0.0,
              reduction: str = "mean") -> Tensor:
    """A `MaskedLanguageModel` reads ids (B, T) with hidden words (see `examples.Masking`).

    Only what was chosen to be predicted counts. Where a batch has nothing chosen the loss is 0.
    """
    logits = model(ids, segments, lengths, mask)
    return F.cross_entropy(logits, targets, IGNORED, label_smoothing, reduction)


def tagging(model: Any, ids: Any, labels: Any, lengths: Lengths = None, segments: Any = None, *,
            mask: Optional[Mask] = None, label_smoothing: float = 0.0,
            reduction: str = "mean") -> Tensor:
    """A `TokenClassifier` reads ids (B, T); labels (B, T). Of a word of several pieces only one
    should have a label, the others -100."""
    logits = model(ids, segments, lengths, mask)
    return F.cross_entropy(logits, labels, IGNORED, label_smoothing, reduction)


def classification(model: Any, ids: Any, labels: Any, lengths: Lengths = None,
                   segments: Any = None, *, mask: Optional[Mask] = None,
                   label_smoothing: float = 0.0, reduction: str = "mean") -> Tensor:
    """A `SequenceClassifier` reads ids (B, T); labels (B,)."""
    logits = model(ids, segments, lengths, mask)
    return F.cross_entropy(logits, labels, IGNORED, label_smoothing, reduction)


def seq2seq(model: Any, source: Any, targets: Any, source_lengths: Lengths = None, *,
            begin_id: int, label_smoothing: float = 0.0, reduction: str = "mean") -> Tensor:
    """An `EncoderDecoderModel` reads source (B, S) and writes targets (B, T).

    What its decoder reads at t is target t - 1, at 0 the token `begin_id`, so that it predicts
    target t from those before it. Label smoothing s takes s of the probability from the right token
    and spreads it over all (0.1 in Vaswani et al., 2017, section 5.4). Raises ValueError for
    targets of -100 before a row's end.
    """
    before = shifted_right(targets, begin_id)
    return F.cross_entropy(model(source, before, source_lengths), targets, IGNORED,
                           label_smoothing, reduction)


def shifted_right(targets: Any, begin_id: int) -> Any:
    """What a decoder reads to predict targets (B, T): the same one place to the right.

    >>> shifted_right([[7, 8, 2], [9, 2, -100]], begin_id=1).tolist()
    [[1, 7, 8], [1, 9, 2]]
    """
    rows: List[List[int]] = []
    for number, row in enumerate(targets.tolist() if hasattr(targets, "tolist") else targets):
        length = row.index(IGNORED) if IGNORED in row else len(row)
        if any(target != IGNORED for target in row[length:]):
            raise ValueError(f"row {number} of the targets has {IGNORED} before its end: a decoder "
                             "must read every token that stands before another")
        rows.append([begin_id] + [max(target, 0) for target in row[:-1]])
    return xp.asarray(rows, xp.int64)
