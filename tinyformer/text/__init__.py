"""Text to ids and back: normalising, splitting into words, models that cut words into pieces.

Knows nothing of tensors, and needs nothing but the standard library. Reading order: `normalise`,
`words`, `wordpiece`, then `tokenizer` (the frame that all share) and `encoding`; `merges` and
`trainer` for learning pieces; `bpe` and `unigram` for the siblings; `explain` for why.
"""

from __future__ import annotations

from .bpe import BPE
from .encoding import Encoding, align_labels, detokenize
from .tokenizer import Tokenizer
from .unigram import Unigram
from .wordpiece import WordPiece

__all__ = ["BPE", "Encoding", "Tokenizer", "Unigram", "WordPiece", "align_labels", "detokenize"]
