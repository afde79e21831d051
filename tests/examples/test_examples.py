"""Every page runs at miniature size in both backends, and its claims can fail."""

from __future__ import annotations

import importlib
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from tinyformer import manual_seed

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = {"embedding_lookup": 2, "one_head": 2, "the_rock_rules": 1, "positions": 1,
         "masked_words": 1, "translate": 1}             # how many pictures each draws


def page(name):
    """A page as a module, from the folder beside the package."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module(f"examples.{name}")


def run(name, folder):
    manual_seed(0)
    page(name).main(page("_page").Page(0, str(folder), "mini"))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_what_it_claims(backend, name, tmp_path, capsys):
    run(name, tmp_path)
    assert capsys.readouterr().out.count("holds:") >= 3
    pictures = sorted(tmp_path.iterdir())
    assert len(pictures) == PAGES[name]
    for picture in pictures:
        root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
        assert float(root.get("width")) > 100 and float(root.get("height")) > 100


def test_every_page_is_listed_and_tested():
    listed = subprocess.run([sys.executable, "-m", "examples"], cwd=ROOT, capture_output=True,
                            text=True, check=True).stdout
    names = re.findall(r"^python3 -m examples\.(\w+) +\S", listed, re.MULTILINE)
    assert set(names) == set(PAGES) | {"two_engines", "sentence_meaning"}, \
        "a page without a miniature in the suite must be named here"


def test_a_page_runs_from_a_plain_clone(tmp_path):
    done = subprocess.run([sys.executable, "-m", "examples.embedding_lookup", "--backend", "python",
                           "--seed", "3", "--out", str(tmp_path / "new")], cwd=ROOT,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "new" / "embedding_lookup.svg").exists()


def test_a_claim_that_does_not_hold_ends_the_page(capsys):
    with pytest.raises(AssertionError, match="this does not hold: 1 is 2"):
        page("_page").claim("1 is 2", 1 == 2)
    page("_page").claim("1 is 1", True)
    assert capsys.readouterr().out == "  holds: 1 is 1\n"


def test_pages_notice_what_is_broken(monkeypatch, tmp_path):
    """A lookup that loses a row, a mask that leaks, a norm of another kind, a window that does not
    clip, a decoder that does not see its memory: each breaks the claim of a page."""
    from tinyformer import nn
    from tinyformer.autograd.operations import shaping
    from tinyformer.nn import masks, relative

    def broken(name, target, attribute, value):
        with monkeypatch.context() as patch:
            patch.setattr(target, attribute, value)
            with pytest.raises(AssertionError, match="does not hold"):
                run(name, tmp_path)

    take, scatter = shaping.xp.take_rows, shaping.xp.scatter_add_rows
    broken("embedding_lookup", shaping.xp, "take_rows", lambda table, ids: take(table * 2, ids))
    broken("embedding_lookup", shaping.xp, "scatter_add_rows",
           lambda rows, ids, g: scatter(rows, ids, g * 0.5))
    broken("one_head", masks, "causal_mask",
           lambda queries, keys: shaping.xp.ones((queries, keys), shaping.xp.bool))
    broken("the_rock_rules", nn.LectureNorm, "forward", lambda self, x: x)
    broken("positions", relative, "clipped",
           lambda query, key, window: relative.distances(query, key) * 0 + window)
    cross = nn.Block.forward
    broken("translate", nn.Block, "forward",
           lambda self, x, mask=None, memory=None, *rest: cross(
               self, x, mask, None if memory is None else memory * 0.0, *rest))
