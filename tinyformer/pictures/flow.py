"""Nodes and arrows: what flows from a row of inputs into a row of outputs above it.

As in Fig. 9.2 of the textbook, the arrows that lead into one chosen output are heavy, all others
faint.
"""
from __future__ import annotations

import math
from typing import List, Optional, Sequence, Tuple

from tinyformer.pictures import svg
from tinyformer.pictures.style import ground, sheet, text, text_width

SHAPES = (".tf-node{stroke-width:1.4}.tf-arrow{stroke-width:1.1;opacity:.35;fill:none}"
          ".tf-heavy{stroke-width:2.2;opacity:1}.tf-head{stroke:none;fill:var(--ink);opacity:.35}"
          ".tf-heavy.tf-head{opacity:1}.tf-name{font-weight:600}")
NODE = 30           # the height of a node, in pixels
RISE = 120          # from the inputs up to the outputs


def flow(inputs: Sequence[str], outputs: Sequence[str], arrows: Sequence[Tuple[int, int]], *,
         title: str, chosen: Optional[int] = None, note: str = "") -> svg.Svg:
    """`inputs` in a row, `outputs` in a row above, an arrow for each pair (input, output).

    The arrows into the output `chosen` are heavy. Raises ValueError for an arrow between nodes that
    are not there.
    """
    for source, target in arrows:
        if not (0 <= source < len(inputs) and 0 <= target < len(outputs)):
            raise ValueError(f"an arrow from input {source} to output {target}, but there are "
                             f"{len(inputs)} inputs and {len(outputs)} outputs")
    step = max([44.0] + [text_width(name) + 22 for name in (*inputs, *outputs)])
    width = max(28 + step * max(len(inputs), len(outputs)), text_width(title) * 1.2 + 28,
                text_width(note) + 28)
    up, down = 62.0, 62.0 + NODE + RISE
    height = down + NODE + (36 if note else 18)

    def middle(place: int, count: int) -> float:
        return width / 2 + (place - (count - 1) / 2) * step

    layers: List[str] = []
    for heavy in (False, True):                         # what is chosen lies on top
        layers += [_arrow((middle(source, len(inputs)), down),
                          (middle(target, len(outputs)), up + NODE), heavy)
                   for source, target in arrows if (target == chosen) is heavy]
    sources = {source for source, target in arrows if target == chosen}
    for names, y, lit in ((outputs, up, {chosen}), (inputs, down, sources)):
        layers += [_node(middle(place, len(names)), y, step - 12, name, place in lit)
                   for place, name in enumerate(names)]
    layers.append(text(14, height - 12, note, "tf-quiet"))
    return svg.document(width, height,
                        ground(width, height),
                        text(14, 26, title, "tf-title"), *layers, title=title, style=sheet(SHAPES))


def _node(x: float, y: float, width: float, name: str, lit: bool) -> svg.Markup:
    box = svg.element("rect", class_=f"tf-node tf-ground tf-{0 if lit else 5}",
                      x=x - width / 2, y=y, width=width, height=NODE, rx=6)
    return svg.Markup(box + text(x, y + NODE / 2 + 4, name, "tf-name" if lit else "tf-quiet",
                                 anchor="middle"))


def _arrow(start: Tuple[float, float], end: Tuple[float, float], heavy: bool) -> svg.Markup:
    """A straight line with a head at its end."""
    kind = ("tf-heavy " if heavy else "") + ("tf-0" if heavy else "tf-5")
    (x0, y0), (x1, y1) = start, end
    x1 += max(-NODE / 3, min(NODE / 3, (x0 - x1) / 9))          # heads that do not pile up
    length = math.hypot(x1 - x0, y1 - y0)
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    size = 8 if heavy else 6
    foot = (x1 - dx * size, y1 - dy * size)
    corners = [(x1, y1), (foot[0] - dy * size / 2, foot[1] + dx * size / 2),
               (foot[0] + dy * size / 2, foot[1] - dx * size / 2)]
    head = " ".join(f"{svg.number(x)},{svg.number(y)}" for x, y in corners)
    return svg.Markup(svg.path([start, foot], class_=f"tf-arrow {kind}")
                      + svg.element("polygon", class_=f"tf-head {kind}", points=head))
