"""SVG primitives: a picture is nested elements, an element is a name, some attributes and its
children.

There is one rule: **plain strings are text and are escaped, `Markup` is markup and is kept.**
`element` returns `Markup`, so calls nest, and no label can ever break the picture, whatever
characters a reader puts in it:

>>> element("g", element("text", "a < b & c", x=1.5, font_size=12), id="labels")
'<g id="labels"><text x="1.5" font-size="12">a &lt; b &amp; c</text></g>'
"""
from __future__ import annotations

import re
from typing import Optional, Sequence, Tuple, Union

# XML 1.0 (section 2.2) forbids these characters even in escaped form; a picture that held one would
# not open at all.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}

Number = Union[int, float]
Attribute = Union[str, int, float, None]


class Markup(str):
    """A string that is already SVG: nesting it in another element keeps it as it is."""


class Svg(Markup):
    """A whole picture: the text of an SVG file. It shows itself in notebooks and can be saved.

    `width` and `height` are its size in pixels.
    """

    width: Number
    height: Number

    def _repr_svg_(self) -> str:
        return str(self)

    def save(self, path: str) -> None:
        """Write the picture to `path` (UTF-8)."""
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(self)


def escape(text: str) -> str:
    """`text` as XML character data, safe between tags and inside quotes.

    Characters that no XML file may hold (control characters, lone surrogates) become U+FFFD, the
    replacement character.
    """
    return "".join(_ESCAPES.get(c, c) for c in _FORBIDDEN.sub("\ufffd", text))


def number(value: Number) -> str:
    """A coordinate in the shortest form good to a hundredth of a pixel: 3.0 -> "3", 2.345678 ->
    "2.35".

    Raises ValueError for nan and infinity: a viewer would drop the element without a word.
    """
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"{value} cannot be drawn; leave points that are not finite out of the "
                         "picture")
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def element(name: str, *children: str, **attributes: Attribute) -> Markup:
    """One element. Plain strings among `children` are escaped, `Markup` is nested.

    In attribute names `_` stands for `-` (`font_size=12`) and a trailing `_` is dropped
    (`class_="line"`); an attribute whose value is None is left out. Numbers are written by
    `number`.
    """
    opening = name
    for key, value in attributes.items():
        if value is not None:
            text = escape(value) if isinstance(value, str) else number(value)
            opening += f' {key.rstrip("_").replace("_", "-")}="{text}"'
    inner = "".join(c if isinstance(c, Markup) else escape(c) for c in children)
    return Markup(f"<{opening}>{inner}</{name}>" if inner else f"<{opening}/>")


def path(points: Sequence[Tuple[Number, Number]], **attributes: Attribute) -> Markup:
    """A line through `points` (x, y), in pixels, not filled unless `fill` says so."""
    steps = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    attributes.setdefault("fill", "none")
    return element("path", d=f"M{steps}", **attributes)


def document(width: Number, height: Number, *children: str, title: str,
             style: Optional[str] = None) -> Svg:
    """A complete SVG of `width` x `height` pixels that scales to whatever room it is given.

    `title` is what screen readers say and what a pointer shows. `style` is CSS; its class names are
    shared with every other picture on the same page, so give them a prefix.
    """
    head = element("title", title)
    if style is not None:
        head = Markup(head + element("style", style))
    body = "".join(c if isinstance(c, Markup) else escape(c) for c in children)
    picture = Svg(element("svg", Markup(head + body), xmlns="http://www.w3.org/2000/svg",
                          width=width, height=height, role="img",
                          viewBox=f"0 0 {number(width)} {number(height)}"))
    picture.width, picture.height = width, height
    return picture
