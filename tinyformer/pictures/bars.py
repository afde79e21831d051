"""Bars: how large some things are, in groups, on one axis that begins at 0.

A bar that is twice as long stands for twice as much; an axis that began elsewhere would lie. Each
bar is named at its left and has its value at its right. Where a value was measured several times, a
thin line across the end of the bar reaches from the least to the largest.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

from tinyformer.pictures import svg, ticks
from tinyformer.pictures.charts import Scale
from tinyformer.pictures.style import COLOURS, ground, sheet, text, text_width

SHAPES = (".tf-bar{stroke:none;fill:var(--ink)}.tf-grid{stroke-width:1}"
          ".tf-range{stroke-width:1.4}.tf-group{font-weight:600}")
BAR, GAP, AIR = 18, 4, 16           # pixels: of a bar, between bars, between groups


@dataclass(frozen=True)
class Bar:
    """One bar: its name, its length, and the least and largest of the values that it stands for."""

    name: str
    value: float
    spread: Optional[Tuple[float, float]] = None


def bars(groups: Sequence[Tuple[str, Sequence[Bar]]], *, title: str, x_label: str = "",
         digits: int = 2, note: str = "", first: Sequence[str] = (),
         width: int = 760) -> svg.Svg:
    """Groups (name, bars), one below the other; bars of one name have one colour in all groups.

    Names take the colours in the order in which they come, but for the names in `first`, which take
    the first ones. Values are written to `digits` places, `note` stands under the axis, `width` is
    in pixels.
    Raises ValueError where there are no bars, and for values below 0.
    """
    every = [bar for _, group in groups for bar in group]
    _check(every)
    names = list(dict.fromkeys([*first, *(bar.name for bar in every)]))
    words = [f"{bar.value:,.{digits}f}" for bar in every]
    left = 30 + max(text_width(bar.name) for bar in every)
    most = max([bar.value for bar in every] + [bar.spread[1] for bar in every if bar.spread]) or 1.0
    x = Scale(0.0, most, left, width - 24 - max(map(text_width, words)))
    heights = [AIR + 20 + len(group) * (BAR + GAP) for _, group in groups]
    foot = 40 + sum(heights) + 8
    layers: List[str] = [_grid(x, 46, foot)]
    top = 40.0
    for (name, group), height in zip(groups, heights):
        layers.append(text(14, top + AIR + 10, name, "tf-group"))
        for place, bar in enumerate(group):
            layers.append(_bar(bar, x, top + AIR + 20 + place * (BAR + GAP), digits,
                               names.index(bar.name) % len(COLOURS)))
        top += height
    height = foot + (60 if note else 42)
    layers += [text((x.start + x.end) / 2, foot + 36, x_label, "tf-quiet", anchor="middle"),
               text(14, foot + 56, note, "tf-quiet")]
    across = max(width, 1.25 * text_width(title) + 28, text_width(note) + 28)
    return svg.document(across, height, ground(across, height), text(14, 26, title, "tf-title"),
                        *layers, title=title, style=sheet(SHAPES))


def _check(every: Sequence[Bar]) -> None:
    if not every:
        raise ValueError("there is nothing to draw: no group has a bar")
    for bar in every:
        if not all(value >= 0 for value in (bar.value, *(bar.spread or ()))):
            raise ValueError(f"a bar begins at 0, but {bar.name!r} has {bar.value}, spread "
                             f"{bar.spread}: draw what can be negative as a line")


def _grid(x: Scale, top: float, foot: float) -> svg.Markup:
    """Thin upright lines at round values, with the values below."""
    parts: List[str] = []
    for mark in x.ticks(max(2, int(x.end - x.start) // 75)):
        at = x(mark)
        parts += [svg.element("line", class_="tf-grid", x1=at, x2=at, y1=top, y2=foot),
                  text(at, foot + 17, ticks.label(mark), "tf-quiet", anchor="middle")]
    return svg.Markup("".join(parts))


def _bar(bar: Bar, x: Scale, top: float, digits: int, colour: int) -> svg.Markup:
    """A bar between its name and its value."""
    parts: List[str] = [
        text(x.start - 8, top + BAR / 2 + 4, bar.name, "tf-quiet", anchor="end"),
        svg.element("rect", class_=f"tf-bar tf-{colour}", x=x.start, y=top,
                    width=max(x(bar.value) - x.start, 1), height=BAR, rx=2)]
    end = x(bar.value)
    if bar.spread:
        low, high = map(x, bar.spread)
        middle = top + BAR / 2
        parts += [svg.element("rect", class_="tf-ground", x=low, y=middle - 2, width=high - low,
                              height=4),
                  svg.path([(low, middle), (high, middle)], class_="tf-range tf-level")]
        end = max(end, high)
    parts.append(text(end + 8, top + BAR / 2 + 4, f"{bar.value:,.{digits}f}", "tf-value"))
    return svg.Markup("".join(parts))
