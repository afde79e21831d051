"""How all pictures look: their colours, their words, and one style sheet.

A picture paints its own ground and follows the reader's preference for light or dark
(`prefers-color-scheme`), so it is legible on any page.
"""
from __future__ import annotations

from typing import List

from tinyformer.pictures import svg

# The colours of Okabe and Ito (2008) that colour-blind readers can tell apart, as used on a light |
# a dark ground.
COLOURS = (("#0072b2", "#56b4e9"), ("#b84e00", "#ff9e4a"), ("#007a5a", "#2fd3a3"),
           ("#a84a83", "#e79cc8"), ("#8a6d00", "#f0e442"), ("#555555", "#bbbbbb"))

TEXT_SIZE = 12


def text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> svg.Markup:
    """Words at a place; `kind` is the class that styles them, `anchor` start, middle or end."""
    return svg.element("text", words, class_=f"tf-text {kind}", x=x, y=y,
                       text_anchor=None if anchor == "start" else anchor)


def text_width(words: str) -> float:
    """Roughly the pixels that `words` take: no font is at hand to measure, so a generous mean width
    is assumed."""
    return 0.6 * TEXT_SIZE * len(words)


def beside(*pictures: svg.Svg, title: str, columns: int = 0) -> svg.Svg:
    """Pictures side by side under one title, in rows of `columns` (0: all in one row)."""
    columns = columns or max(len(pictures), 1)
    placed: List[svg.Markup] = []
    across, down = 1.3 * text_width(title) + 28, 40.0
    for start in range(0, len(pictures), columns):
        row, left = pictures[start:start + columns], 0.0
        for picture in row:
            placed.append(svg.element("svg", picture, x=left, y=down, width=picture.width,
                                      height=picture.height))
            left += picture.width
        across, down = max(across, left), down + max(picture.height for picture in row)
    return svg.document(across, down, ground(across, down), text(14, 28, title, "tf-title"),
                        *placed, title=title, style=sheet())


def ground(width: float, height: float) -> svg.Markup:
    """What a picture stands on."""
    return svg.element("rect", class_="tf-ground", width=width, height=height)


def sheet(shapes: str = "") -> str:
    """The style sheet: the light colours, then the dark ones where the reader prefers them, then
    the `shapes` that a kind of picture adds."""
    def scheme(ground: str, ink: str, quiet: str, grid: str, dark: int) -> str:
        """The rules for one ground, light or dark."""
        colours = "".join(f".tf-{place}{{stroke:{pair[dark]};--ink:{pair[dark]}}}"
                          for place, pair in enumerate(COLOURS))
        return (f".tf-ground{{fill:{ground}}}.tf-text{{fill:{ink}}}.tf-text.tf-on{{fill:{ground}}}"
                f".tf-text.tf-quiet{{fill:{quiet}}}.tf-grid{{stroke:{grid}}}"
                f".tf-level,.tf-leader{{stroke:{quiet}}}{colours}")

    words = (f".tf-text{{font:{TEXT_SIZE}px system-ui,'Segoe UI',Helvetica,Arial,sans-serif}}"
             ".tf-title{font-size:15px;font-weight:600}")
    light = scheme("#ffffff", "#1a1a1a", "#5c5c5c", "#e3e3e3", 0)
    dark = scheme("#16181c", "#f0f0f0", "#a8adb5", "#33373d", 1)
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}{words}{shapes}"
