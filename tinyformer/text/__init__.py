"""Text to ids and back: normalising, splitting into words, and the models that cut words into
pieces.

Knows nothing of tensors, and needs nothing but the standard library.
"""

from __future__ import annotations

from .wordpiece import WordPiece

__all__ = ["WordPiece"]
