"""Charts: lines over one pair of axes, with horizontal levels to compare them with.

A chart is a pair of scales (data -> pixels) and layers drawn through them. Every line is named
where it ends, at the right edge, rather than in a legend: the eye does not have to travel, and
colour alone never carries the meaning. Names that would overlap are nudged apart and tied to their
line by a thin leader.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, List, Sequence, Tuple

from tinyformer.pictures import svg, ticks
from tinyformer.pictures.style import COLOURS, ground, sheet, text, text_width

Point = Tuple[float, float]

LINE_HEIGHT = 15
SHAPES = (".tf-name{font-weight:600}.tf-line{stroke-width:2;stroke-linejoin:round}"
          ".tf-faint{stroke-width:1;opacity:.22}.tf-grid{stroke-width:1}.tf-leader{stroke-width:.6}"
          ".tf-level{stroke-width:1.2;stroke-dasharray:5 4}"
          ".tf-dot,.tf-text.tf-name{fill:var(--ink)}.tf-text.tf-name,.tf-dot{stroke:none}")


@dataclass(frozen=True)
class Line:
    """One curve: its name and its (x, y) points in the order of x. A y that is not finite leaves a
    gap.

    With `mean_over` n > 1 the curve drawn is the mean of the last n points, and the points
    themselves stand faintly behind it: a loss of single batches is mostly noise.
    """

    label: str
    points: Sequence[Point]
    mean_over: int = 1


@dataclass(frozen=True)
class Scale:
    """Maps the data range `low..high` to the pixel range `start..end`, linearly or by logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int) -> List[float]:
        """Round numbers within the range."""
        return (ticks.log_ticks if self.log else ticks.linear_ticks)(self.low, self.high, most)


def line_chart(lines: Sequence[Line], *, title: str, x_label: str = "", y_label: str = "",
               levels: Sequence[Tuple[str, float]] = (), borders: Sequence[Tuple[str, float]] = (),
               log_x: bool = False, digits: int = 2, width: int = 760,
               height: int = 420) -> svg.Svg:
    """A chart of `lines`, with a dashed line across for each (name, y) of `levels` and one upright
    for each (name, x) of `borders`.

    Every line and level is named at the right edge together with its (last) value to `digits`
    places. `width` and `height` are in pixels. Raises ValueError where nothing finite is there to
    draw, or where `log_x` meets an x that is not above 0.
    """
    curves = [_running_mean(line.points, line.mean_over) for line in lines]
    names = _end_names(lines, curves, levels, digits)
    right = width - 16 - max(text_width(name) for _, name, _ in names)
    low, high = _y_range(lines, levels)
    y = Scale(low, high, height - 46, 64)
    y_marks = y.ticks(max(2, height // 60))
    left = 22 + max(text_width(ticks.label(mark)) for mark in y_marks)
    x = Scale(*_x_range(lines, log_x), left, right - 14, log_x)
    layers = [ground(width, height),
              text(14, 26, title, "tf-title"), text(14, 47, y_label, "tf-quiet"),
              text((left + right) / 2, height - 10, x_label, "tf-quiet", anchor="middle"),
              _grid(x, y, y_marks)]
    for place, (line, curve) in enumerate(zip(lines, curves)):
        if line.mean_over > 1:
            layers.append(_curve(line.points, x, y, place, "tf-faint"))
        layers.append(_curve(curve, x, y, place, "tf-line"))
    for _, level in levels:
        layers.append(_across(x, y(level), "tf-level"))
    for name, border in borders:
        layers += [svg.path([(x(border), y.start), (x(border), y.end - 14)], class_="tf-level"),
                   text(x(border) + 6, y.end - 5, name, "tf-quiet")]
    layers.append(_labels(names, x, y, right))
    return svg.document(width, height, *layers, title=title, style=sheet(SHAPES))


def _end_names(lines: Sequence[Line], curves: Sequence[Sequence[Point]],
               levels: Sequence[Tuple[str, float]], digits: int) -> List[Tuple[float, str, str]]:
    """What stands at the right edge: (y in data units, words, class of its colour)."""
    names = [(level, f"{name} {level:.{digits}f}", "tf-quiet") for name, level in levels]
    for place, (line, curve) in enumerate(zip(lines, curves)):
        seen = [y for _, y in curve if math.isfinite(y)]
        if seen:
            colour = f"tf-name tf-{place % len(COLOURS)}"
            names.append((seen[-1], f"{line.label} {seen[-1]:.{digits}f}", colour))
    if not names:
        raise ValueError(f"nothing to draw: none of the {len(lines)} lines has a finite point, and "
                         "there are no levels")
    return names


def _y_range(lines: Sequence[Line], levels: Sequence[Tuple[str, float]]) -> Tuple[float, float]:
    """The range that holds everything drawn, with a little air."""
    values = [y for line in lines for _, y in line.points if math.isfinite(y)]
    values += [y for _, y in levels]
    low, high = min(values), max(values)
    air = 0.04 * (high - low) or abs(high) / 2 or 1.0
    return low - air, high + air


def _x_range(lines: Sequence[Line], log: bool) -> Tuple[float, float]:
    """From the first x to the last, widened where they are the same."""
    values = [x for line in lines for x, _ in line.points] or [1.0, 2.0]
    low, high = min(values), max(values)
    if log and low <= 0:
        raise ValueError(f"a logarithmic x axis needs every x above 0, but one is {low}; leave "
                         "that point out")
    if low < high:
        return low, high
    return (low / 2, high * 2) if log else (low - 0.5, high + 0.5)


def _running_mean(points: Sequence[Point], count: int) -> List[Point]:
    """Each y replaced by the mean of the last `count` finite ones; the rest stays as it is."""
    out: List[Point] = []
    window: List[float] = []
    for x, y in points:
        if math.isfinite(y):
            window = (window + [y])[-count:]
            y = math.fsum(window) / len(window)
        out.append((x, y))
    return out


def _thin(points: Sequence[Tuple[float, float]]) -> List[Tuple[float, float]]:
    """At most four points in each column of pixels: its first, lowest, highest and last. The
    drawing is the same, the file does not grow with the length of the run."""
    columns: Dict[int, List[Tuple[float, float]]] = {}
    for point in points:
        columns.setdefault(int(point[0]), []).append(point)
    kept: List[Tuple[float, float]] = []
    for column in columns.values():
        ends = {0, len(column) - 1}
        ends.add(min(range(len(column)), key=lambda i: column[i][1]))
        ends.add(max(range(len(column)), key=lambda i: column[i][1]))
        kept += [column[i] for i in sorted(ends)]
    return kept


def _curve(points: Sequence[Point], x: Scale, y: Scale, place: int, kind: str) -> svg.Markup:
    """A curve with its gaps; a point that stands alone is drawn as a dot."""
    colour = f"tf-{place % len(COLOURS)}"
    runs: List[List[Tuple[float, float]]] = [[]]
    for px, py in points:
        if math.isfinite(py):
            runs[-1].append((x(px), y(py)))
        elif runs[-1]:
            runs.append([])
    drawn: List[str] = []
    for run in runs:
        if len(run) > 1:
            drawn.append(svg.path(_thin(run), class_=f"{kind} {colour}"))
        elif run:
            ((cx, cy),) = run
            drawn.append(svg.element("circle", class_=f"tf-dot {colour}", cx=cx, cy=cy, r=3))
    return svg.Markup("".join(drawn))


def _across(x: Scale, height: float, kind: str) -> svg.Markup:
    """A horizontal line through the whole plot."""
    return svg.element("line", class_=kind, x1=x.start, x2=x.end, y1=height, y2=height)


def _grid(x: Scale, y: Scale, y_marks: Sequence[float]) -> svg.Markup:
    """Thin horizontal lines with their values, and the values of x under the plot."""
    parts: List[str] = []
    for mark in y_marks:
        parts.append(_across(x, y(mark), "tf-grid"))
        parts.append(text(x.start - 8, y(mark) + 4, ticks.label(mark), "tf-quiet", anchor="end"))
    for mark in x.ticks(max(2, int(x.end - x.start) // 75)):
        at, foot = x(mark), y.start
        parts.append(svg.element("line", class_="tf-grid", x1=at, x2=at, y1=foot, y2=foot + 5))
        parts.append(text(at, foot + 19, ticks.label(mark), "tf-quiet", anchor="middle"))
    return svg.Markup("".join(parts))


def _labels(names: Sequence[Tuple[float, str, str]], x: Scale, y: Scale, left: float) -> svg.Markup:
    """The names at the right edge, nudged apart, each tied to its height by a leader."""
    names = sorted(names, key=lambda name: -name[0])
    heights = [y(value) for value, _, _ in names]
    places = nudge(heights, LINE_HEIGHT, y.end, y.start)
    parts: List[str] = []
    for (_, words, kind), height, place in zip(names, heights, places):
        parts.append(svg.path([(x.end + 1, height), (left - 3, place)], class_="tf-leader"))
        parts.append(text(left, place + 4, words, kind))
    return svg.Markup("".join(parts))


def nudge(heights: Sequence[float], gap: float, top: float, bottom: float) -> List[float]:
    """`heights` (ascending) moved as little as needed to lie at least `gap` apart between `top` and
    `bottom`.

    Heights that collide share one block that is centred on their mean; blocks that collide merge,
    until none does. With more heights than there is room for, the gap shrinks.

    >>> nudge([10, 12, 80], 10, 0, 100)
    [6.0, 16.0, 80.0]
    """
    if len(heights) > 1:
        gap = min(gap, (bottom - top) / (len(heights) - 1))
    blocks: List[Tuple[float, List[float]]] = []        # (first place, heights it holds)
    for height in heights:
        block = [height]
        while True:
            half = gap * (len(block) - 1) / 2
            start = min(max(sum(block) / len(block) - half, top), bottom - 2 * half)
            if not blocks or blocks[-1][0] + gap * len(blocks[-1][1]) <= start + 1e-9:
                break
            block = blocks.pop()[1] + block
        blocks.append((start, block))
    return [start + gap * i for start, block in blocks for i in range(len(block))]
