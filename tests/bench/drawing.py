"""The pictures of the README: bars by engine, and how time and memory grow with the text."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from tests.bench.measure import Figure
from tests.bench.rows import BY_NAME, SIZES
from tinyformer.pictures import Bar, Line, Svg, bars, beside, line_chart

Found = Dict[str, Figure]


def draw(figures: Sequence[Figure], folder: Path) -> None:
    """Write speed.svg and growth.svg, as far as their figures are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in (("speed", speed(figures)), ("growth", growth(figures))):
        if picture is not None:
            picture.save(str(folder / f"{name}.svg"))
            print(f"drawn: {folder / f'{name}.svg'}")


def speed(figures: Sequence[Figure]) -> Optional[Svg]:
    """The time of a step by engine, NumPy above and pure Python below."""
    parts = [picture for picture in (numpy_bars(figures), pure_bars(figures)) if picture]
    if not parts:
        return None
    return beside(*parts, title="The time of one training step, by engine", columns=1)


def numpy_bars(figures: Sequence[Figure]) -> Optional[Svg]:
    """PyTorch, tinyformer and the products alone at every size, as parts of PyTorch's time."""
    found: Found = {figure.row: figure for figure in figures if figure.median is not None}
    groups: List[Tuple[str, List[Bar]]] = []
    for size, words in SIZES.items():
        names = {"tinyformer": f"decoder {size}",
                 "its matrix products alone": f"products of torch {size}"}
        if all(row in found for row in names.values()):
            groups.append((f"size {size}: {words}", [Bar("PyTorch eager", 1.0)] + [
                bar(name, found[row]) for name, row in names.items()]))
    if not groups:
        return None
    return bars(groups, title="NumPy backend, float32, one thread",
                x_label="time of a step, PyTorch's being 1",
                note="Bars are medians of runs in turn, lines reach from the least to the largest.")


def pure_bars(figures: Sequence[Figure]) -> Optional[Svg]:
    """A step of the smallest GPT in both engines, by interpreter."""
    kinds = ("scalar time", "scalar time without collector", "pure time")
    groups: Dict[str, List[Bar]] = {}
    for figure in figures:
        if figure.row in kinds and figure.median is not None:
            groups.setdefault(figure.where, []).append(bar(BY_NAME[figure.row].what, figure))
    if not groups:
        return None
    return bars(list(groups.items()), digits=1, title="Pure backend, 4,192 parameters, one name",
                x_label="milliseconds of a step", first=("one node per number", "tinyformer"))


def bar(name: str, figure: Figure) -> Bar:
    """A figure as a bar."""
    assert figure.median is not None and figure.least is not None and figure.largest is not None
    return Bar(name, figure.median, (figure.least, figure.largest))


def growth(figures: Sequence[Figure]) -> Optional[Svg]:
    """Time per token and memory of steps by the length of the text, with and without attention."""
    charts = []
    for row, title, unit in (
            ("token time", "Time per token: flat, and attention a straight line", "microseconds"),
            ("step memory", "Memory of a step: a straight line, and attention a parabola", "MB")):
        lines = [Line(name, points(figures, row + ending)) for name, ending in (
            ("all of it", ""), ("without attention", " without attention"))]
        if all(line.points for line in lines):
            charts.append(line_chart(lines, title=title, x_label="tokens in a text", y_label=unit,
                                     digits=0, width=560, height=360))
    if not charts:
        return None
    return beside(*charts, title="How a training step grows with its texts")


def points(figures: Sequence[Figure], row: str) -> List[Tuple[float, float]]:
    """The figures of a row by the number of tokens."""
    return sorted((float(figure.where.split()[0]), figure.median) for figure in figures
                  if figure.row == row and figure.median is not None)
