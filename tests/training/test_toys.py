"""The toy tasks of `tests/bench/toys.py` in miniature: what each can and cannot do, in both
backends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import toys  # noqa: E402


@pytest.mark.parametrize("name", sorted(toys.TOYS))
def test_what_only_a_right_transformer_can_do(name, backend):
    found = toys.TOYS[name](toys.MINI[name])
    for each in found:
        assert each.reached, f"{each.what}: {each.value} (chance {each.chance})"


def test_a_language_model_of_characters(backend, tmp_path, capsys):
    """In miniature: after 40 steps it knows more than how frequent each character is."""
    path = tmp_path / "text.txt"
    path.write_text("the rock rules the sea. the sea rules the rock. " * 20, encoding="utf-8")
    size = {"d_model": 8, "n_layers": 1, "n_heads": 1, "std": 0.2, "max_len": 12, "batch": 4,
            "steps": 40, "lr": 0.03, "aim": 2.0}
    found, = toys.characters(size, str(path))
    assert found.reached, f"{found.value} nats"
    assert "unigram 2.3" in capsys.readouterr().out
