"""Figures beside their targets: the printed table, JSON and back, the README's rows, the gate."""

from __future__ import annotations

import json
import os
import platform
import re
from importlib import metadata
from typing import Any, Dict, List, Sequence, Tuple

from tests.bench.measure import FAILED, Figure, number
from tests.bench.rows import BY_NAME, SIZES, this_python

HEAD = ("what", "figure", "least to largest", "target", "stretch", "met")
BEGIN, END = "<!-- table of tests.bench -->", "<!-- its end -->"
WIDTHS = (70, 8, 16, 8, 8, 7)


def met(figure: Figure) -> str:
    """Which of its targets a figure reaches, in a word."""
    row = BY_NAME[figure.row]
    if figure.median is None or row.target is None:
        return ""
    if row.reaches(figure.median, row.stretch):
        return "stretch"
    return "yes" if row.reaches(figure.median, row.target) else "NO"


def cells(figure: Figure) -> List[str]:
    """A figure as the cells of its row."""
    row = BY_NAME[figure.row]
    what = ", ".join(filter(None, (row.what, figure.where or row.where)))
    if figure.median is None or figure.least is None or figure.largest is None:
        return [what, "", figure.missing, row.asks(row.target), row.asks(row.stretch), ""]
    return [what, f"{number(figure.median)} {row.unit}".strip(),
            f"{number(figure.least)} to {number(figure.largest)}", row.asks(row.target),
            row.asks(row.stretch), met(figure)]


def line(parts: Sequence[str]) -> str:
    """Cells as a line of the printed table."""
    return "  ".join(part.ljust(width) for part, width in zip(parts, WIDTHS)).rstrip()


def shown(figure: Figure) -> str:
    """A figure as lines of the printed table, what is behind it below; nothing without a target."""
    if BY_NAME[figure.row].target is None:
        return ""
    return line(cells(figure)) + (f"\n    {figure.detail}" if figure.detail else "") + "\n"


def heading() -> str:
    """What stands above the printed table."""
    sizes = "\n".join(f"  size {name}: {size}" for name, size in SIZES.items())
    return (f"{', '.join(f'{key} {value}' for key, value in machine().items())}\n"
            f"ratios in one run, in turn; medians\n{sizes}\n\n{line(HEAD)}")


def machine() -> Dict[str, str]:
    """What the figures were taken on."""
    found = {"python": this_python(), "system": platform.system(), "machine": platform.machine(),
             "cores": str(os.cpu_count())}
    for name in ("numpy", "torch"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


def to_json(figures: Sequence[Figure]) -> str:
    """All figures with their targets."""
    rows = [json.dumps({**figure._asdict(), **asked(figure)}) for figure in figures]
    return (f'{{"machine": {json.dumps(machine())},\n"figures": [\n' + ",\n".join(rows)
            + "\n]}\n")


def asked(figure: Figure) -> Dict[str, Any]:
    """What the row of a figure says about it."""
    row = BY_NAME[figure.row]
    return {"what": row.what, "unit": row.unit, "target": row.target, "stretch": row.stretch,
            "at_least": row.at_least, "met": met(figure)}


def from_json(text: str) -> List[Figure]:
    """The figures that `to_json` wrote, without those of rows that are no more."""
    return [Figure(**{key: row[key] for key in Figure._fields})
            for row in json.loads(text)["figures"] if row["row"] in BY_NAME]


def merged(former: Sequence[Figure], new: Sequence[Figure]) -> List[Figure]:
    """Figures of an earlier run where there are no new ones, in the order of the table."""
    figures = {(figure.row, figure.where): figure for figure in former if not figure.missing}
    had = {row for row, _ in figures}
    figures.update({(figure.row, figure.where): figure for figure in new
                    if not figure.missing or figure.row not in had})
    order = {name: place for place, name in enumerate(BY_NAME)}
    return sorted(figures.values(), key=lambda figure: (order[figure.row], natural(figure.where)))


def natural(words: str) -> List[Tuple[bool, int, str]]:
    """Words in an order in which 3.9 stands before 3.11."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part)
            for part in re.split(r"(\d+)", words)]


def markdown(figures: Sequence[Figure]) -> str:
    """The figures that have a target as the table of the README; a line for all sizes and all
    interpreters of a row."""
    families: Dict[str, List[List[str]]] = {}
    for figure in figures:
        row = BY_NAME[figure.row]
        if figure.median is not None and row.target is not None:
            what, _, size = row.what.partition(", size ")
            families.setdefault(what, []).append([size or figure.where] + cells(figure)[1:])
    lines = [BEGIN, "| what | measured | least to largest | target (stretch) |",
             "|---|---|---|---|"]
    for what, rows in families.items():
        labels, measured, spread, target, stretch, _ = map(joined, zip(*rows))
        labels, goal, better = (words.replace("/ CPython ", "/ ").replace("/ <= ", "/ ").replace(
            "/ >= ", "/ ") for words in (labels, target, stretch))
        lines.append(f"| {what}{labels and ', '}{labels} | {measured.replace(' x', '')} | {spread} "
                     f"| {goal}{better and f' ({better[3:]})'} |")
    return "\n".join(lines + [END]).replace("<=", "≤").replace(">=", "≥")


def joined(column: Sequence[str]) -> str:
    """Cells of one line in one, once where they are all alike."""
    filled = [cell for cell in column if cell]
    return " / ".join(filled[:1] if len(set(filled)) == 1 else filled)


def with_table(page: str, figures: Sequence[Figure]) -> str:
    """A page whose table between the two marks is replaced. Raises ValueError where there is none.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} and {END} between which the table could stand")
    return before + markdown(figures) + after


def gate(figures: Sequence[Figure]) -> List[str]:
    """The figures that are worse than twice their targets, and those that failed, in words."""
    return failed(figures) + [
        f"{cells(figure)[0]}: {number(figure.median)}, target "
        f"{BY_NAME[figure.row].asks(BY_NAME[figure.row].target)}" for figure in figures
        if figure.median is not None and BY_NAME[figure.row].fails(figure.median)]


def broken(figures: Sequence[Figure]) -> List[str]:
    """The figures by which the others do not compare the same work, and those that failed."""
    return failed(figures) + [f"{cells(figure)[0]}: {number(figure.median)}" for figure in figures
                              if figure.median is not None and BY_NAME[figure.row].must
                              and met(figure) == "NO"]


def failed(figures: Sequence[Figure]) -> List[str]:
    """The figures whose measuring found something wrong, in words."""
    return [f"{cells(figure)[0]}: {figure.missing}" for figure in figures
            if figure.missing.startswith(FAILED)]
