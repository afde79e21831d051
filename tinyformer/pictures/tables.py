"""Tables of numbers as coloured cells: heat maps, masks, alignments.

The sign of a number chooses the colour and its size the strength, against the largest number of the
table. A cell that is None is empty: nothing is there, rather than 0. Minus infinity, the score of a
key that may not be seen, is grey: it is no number that a strength could show.
"""
from __future__ import annotations

import math
from typing import List, Optional, Sequence

from tinyformer.pictures import svg
from tinyformer.pictures.style import ground, sheet, text, text_width

Cell = Optional[float]

SHAPES = (".tf-cell{stroke:none;fill:var(--ink)}.tf-frame{fill:none;stroke-width:1}"
          ".tf-number{font-size:11px}.tf-split{stroke-width:1.5;fill:none}")


def table(rows: Sequence[Sequence[Cell]], *, title: str, row_names: Sequence[str] = (),
          column_names: Sequence[str] = (), digits: Optional[int] = None, note: str = "",
          largest: Optional[float] = None, split: int = 0, cell: int = 0) -> svg.Svg:
    """The cells of `rows`, named at the left and on top, the numbers in them to `digits` places.

    `largest` is the number of the full colour (by default the largest size in the table); `split`
    draws a line behind so many columns; `cell` is the width of a cell in pixels. `note` stands
    under the table. Raises ValueError for rows of unequal lengths or names that do not fit.
    """
    _check(rows, row_names, column_names)
    width = cell or (26 if digits is None else max(34, 7 * (digits + 4)))
    height = max(26, width // 2 + 6) if digits is not None else width
    left = 28 + max([text_width(name) for name in row_names], default=0)
    steep = any(text_width(name) > width - 2 for name in column_names)
    top = 44 + _head(column_names, steep)
    full = largest or max([abs(value) for row in rows for value in row
                           if value is not None and math.isfinite(value)], default=0) or 1.0
    columns = len(rows[0]) if rows else 0
    layers: List[str] = []
    for r, row in enumerate(rows):
        for c, value in enumerate(row):
            layers.append(_cell(left + c * width, top + r * height, width, height, value, full,
                                digits))
    right, bottom = left + columns * width, top + len(rows) * height
    layers += [text(left - 8, top + r * height + height / 2 + 4, name, "tf-quiet", anchor="end")
               for r, name in enumerate(row_names)]
    layers += [_column_name(left + (c + .5) * width, top - 8, name, steep)
               for c, name in enumerate(column_names)]
    if split:
        at = left + split * width
        layers.append(svg.path([(at, top - 4), (at, bottom + 4)], class_="tf-split tf-5"))
    layers.append(text(14, bottom + 24, note, "tf-quiet"))
    slant = 0.71 * text_width(column_names[-1]) if steep else 0
    across = max(right + slant, text_width(title) * 1.2, text_width(note)) + 16
    down = bottom + (36 if note else 14)
    return svg.document(across, down,
                        ground(across, down),
                        text(14, 26, title, "tf-title"), *layers, title=title, style=sheet(SHAPES))


def _check(rows: Sequence[Sequence[Cell]], row_names: Sequence[str],
           column_names: Sequence[str]) -> None:
    widths = sorted({len(row) for row in rows})
    if len(widths) > 1:
        raise ValueError(f"the rows of a table are equally long, these have {widths} cells")
    for kind, names, count in (("row", row_names, len(rows)),
                               ("column", column_names, widths[0] if widths else 0)):
        if names and len(names) != count:
            raise ValueError(f"{len(names)} {kind} names for {count} {kind}s")


def _head(names: Sequence[str], steep: bool) -> float:
    """The pixels that the names of the columns need above the table."""
    if not names:
        return 0
    return 18 if not steep else 14 + 0.71 * max(map(text_width, names))


def _column_name(x: float, y: float, name: str, steep: bool) -> svg.Markup:
    if not steep:
        return text(x, y, name, "tf-quiet", anchor="middle")
    place = f"translate({svg.number(x)} {svg.number(y)}) rotate(-45)"
    return svg.element("g", text(0, 0, name, "tf-quiet"), transform=place)


def _cell(x: float, y: float, width: float, height: float, value: Cell, full: float,
          digits: Optional[int]) -> svg.Markup:
    """One cell: its colour, its frame, its number."""
    box = dict(x=x + .5, y=y + .5, width=width - 1, height=height - 1)
    parts = [svg.element("rect", class_="tf-frame tf-grid", **box)]
    strength = 0.0
    if value is not None and not math.isfinite(value):
        parts.append(svg.element("rect", class_="tf-cell tf-5", opacity="0.25", **box))
    elif value:
        strength = min(abs(value) / full, 1.0)
        parts.append(svg.element("rect", class_=f"tf-cell tf-{0 if value > 0 else 1}",
                                 opacity=f"{0.02 + 0.98 * strength:.3f}", **box))
    if value is not None and digits is not None:
        words = f"{round(value, digits) or 0.0:.{digits}f}" if math.isfinite(value) else \
            f"{value}".replace("inf", "∞")
        parts.append(text(x + width / 2, y + height / 2 + 4, words.replace("-", "−"),
                          f"tf-number {'tf-on' if strength > .55 else ''}".strip(),
                          anchor="middle"))
    return svg.Markup("".join(parts))
