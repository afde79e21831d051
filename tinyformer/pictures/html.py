"""One self-contained HTML page from a list of blocks: headings, tables, cut words, trees.

A block is a tuple whose first entry says what it is; whoever explains something makes blocks, and
need not know how they are drawn:

    ("heading", text)
    ("text", text)
    ("table", header, rows)             rows of texts; the cells "hit" and "miss" are coloured
    ("pieces", [(piece, source), ...])  a word, cut
    ("tree", tree)                      (label, left, right), or a label alone

No script, no file beside it, nothing from the network; every text is escaped.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, Sequence, Tuple

from tinyformer.pictures.svg import Markup, element

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem }
table { border-collapse: collapse; margin: .4rem 0 }
th, td { text-align: left; padding: .1rem .8rem .1rem 0; vertical-align: top;
         border-bottom: 1px solid #ddd; font-family: ui-monospace, monospace; font-size: 13px }
th { color: #666; font-weight: normal }
.hit { color: #17692e; font-weight: bold } .miss { color: #a12622 }
.piece { display: inline-block; padding: .1rem .45rem; margin: .1rem; border-radius: .25rem;
         background: #e4ecf7; font-family: ui-monospace, monospace }
.piece:nth-child(even) { background: #f7ead9 }
ul.tree, ul.tree ul { list-style: none; border-left: 1px solid #bbb; padding-left: 1rem; margin: 0 }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #1b1b1b } th, td { border-color: #444 } th { color: #aaa }
  .hit { color: #7fd195 } .miss { color: #f0908a }
  .piece { background: #2c3c52 } .piece:nth-child(even) { background: #54422c }
}
"""


class Page(Markup):
    """The text of an HTML file. It shows itself in notebooks and can be saved."""

    def _repr_html_(self) -> str:
        return str(self)

    def save(self, path: str) -> None:
        """Write the page to `path` (UTF-8)."""
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(self)


def page(title: str, blocks: Sequence[Tuple[Any, ...]]) -> Page:
    """The blocks, one under the other, as a page with a title. Raises ValueError for an unknown
    kind of block, naming those there are.

    >>> text = page("Why", [("heading", "a < b"), ("pieces", [("##x", "x")])])
    >>> "<h2>a &lt; b</h2>" in text, '<span class="piece" title="x">##x</span>' in text
    (True, True)
    """
    head = element("head", element("meta", charset="utf-8"),
                   element("meta", name_="viewport", content="width=device-width"),
                   element("title", title), element("style", Markup(STYLE)))
    body = element("body", element("h1", title), *map(_block, blocks))
    return Page("<!DOCTYPE html>\n" + element("html", head, body, lang="en") + "\n")


def _block(block: Tuple[Any, ...]) -> Markup:
    kind, *content = block
    if kind not in _DRAWN:
        raise ValueError(f"unknown kind of block {kind!r}: there are {', '.join(_DRAWN)}")
    return _DRAWN[kind](*content)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    lines = [element("tr", *(element("th", _filled(cell)) for cell in header))]
    lines += [element("tr", *map(_cell, row)) for row in rows]
    return element("table", *lines)


def _cell(text: str) -> Markup:
    return element("td", _filled(text), class_=text if text in ("hit", "miss") else None)


def _filled(text: str) -> str:
    return text or "\xa0"  # HTML has no empty elements of the form <td/>


def _pieces(pieces: Sequence[Tuple[str, str]]) -> Markup:
    return element("p", *(element("span", _filled(piece), class_="piece", title=source)
                          for piece, source in pieces))


def _tree(tree: Any) -> Markup:
    return element("ul", _branch(tree), class_="tree")


def _branch(tree: Any) -> Markup:
    if isinstance(tree, str):
        return element("li", _filled(tree))
    label, left, right = tree
    return element("li", label, element("ul", _branch(left), _branch(right)))


_DRAWN: Dict[str, Callable[..., Markup]] = {
    "heading": lambda text: element("h2", _filled(text)),
    "text": lambda text: element("p", _filled(text)),
    "table": _table,
    "pieces": _pieces,
    "tree": _tree,
}
