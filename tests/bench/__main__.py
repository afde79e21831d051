"""python3 -m tests.bench: the figures of the README, measured against whatever is installed.

Each figure is a median with its least and largest value; what is compared takes turns. PyTorch and
NumPy are measured where they are installed; nothing is installed unless --setup asks for it.
All of it takes about a quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import List

from tests.bench.measure import ROOT, THREADS, UNWANTED, Asked, Figure

for _name in THREADS:
    os.environ[_name] = "1"                     # before NumPy is imported
for _name in UNWANTED:
    os.environ.pop(_name, None)

from tests.bench import drawing, report  # noqa: E402
from tests.bench.parts import PARTS, installed, measured  # noqa: E402
from tests.bench.rows import ROWS  # noqa: E402

PEERS = ("numpy", "torch==2.13.0")
SETUP = "python3 -m tests.bench --setup"
README, PICTURES = ROOT / "README.md", ROOT / "examples" / "pictures"
PUBLISHED = ROOT / "tests" / "bench" / "figures.json"


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parts = "\n".join(f"  {name:<12}{what}" for name, (_, what) in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.bench", description=__doc__, epilog=f"parts:\n{parts}",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", choices=[[], *PARTS], metavar="PART",
                        help="what to measure (default: all parts)")
    parser.add_argument("--quick", action="store_true",
                        help="under a minute and without PyTorch; fails where a figure is worse "
                             "than twice its target")
    parser.add_argument("--python", nargs="+", metavar="PATH", default=[sys.executable],
                        help="the interpreters on which the pure backend is measured")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures")
    parser.add_argument("--read", metavar="FILE", type=Path,
                        help="take the figures of parts that are not named from this JSON")
    parser.add_argument("--draw", metavar="FOLDER", type=Path,
                        help="draw speed.svg and growth.svg there")
    parser.add_argument("--publish", action="store_true",
                        help="put the figures into README.md, its pictures and figures.json, in "
                             "the place of those that were measured before")
    parser.add_argument("--setup", metavar="FOLDER", nargs="?", const=".venv-bench",
                        help="make a virtual environment with the peers (default: .venv-bench), "
                             "and measure nothing")
    return parser.parse_args()


def setup(folder: str) -> None:
    """Install the peers in a virtual environment of their own."""
    where = Path(folder).resolve()
    venv.create(where, with_pip=True)
    python = str(where / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    subprocess.run([python, "-m", "pip", "install", *PEERS], check=True)
    shown = os.path.relpath(python, ROOT) if str(where).startswith(str(ROOT)) else python
    print(f"\nnow run:  {shown} -m tests.bench")


def run(given: argparse.Namespace) -> List[Figure]:
    """Measure, printing each figure when it is there."""
    asked = Asked(given.quick, installed("numpy", "torch"), given.python)
    chosen = given.part or ([] if given.read else list(PARTS))
    if given.quick:
        chosen = [part for part in chosen if any(row.quick for row in ROWS if row.part == part)]
    figures: List[Figure] = []
    if chosen:
        print(report.heading(), flush=True)
    begun = time.monotonic()
    try:
        for part in PARTS:
            for figure in measured(part, asked) if part in chosen else ():
                figures.append(figure)
                print(report.shown(figure), end="", flush=True)
    except KeyboardInterrupt:
        print("\nstopped: what was not measured stays as it was")
    if chosen:
        print(f"\n{(time.monotonic() - begun) / 60:.1f} minutes")
    if not given.quick and any("installed" in figure.missing for figure in figures):
        print(f"\nthe peers that are missing are had by:  {SETUP}")
    return figures


def write(figures: List[Figure], given: argparse.Namespace) -> None:
    """Put the figures where the command line wants them."""
    if given.publish:
        page = README.read_text(encoding="utf-8")
        README.write_text(report.with_table(page, figures), encoding="utf-8")
    for file in [given.json] + [PUBLISHED] * given.publish:
        if file:
            file.write_text(report.to_json(figures), encoding="utf-8")
    for folder in [given.draw] + [PICTURES] * given.publish:
        if folder:
            drawing.draw(figures, folder)


def main() -> int:
    """Measure, write and draw what is asked for; 1 where a figure says that something is wrong."""
    given = arguments()
    if given.setup:
        setup(given.setup)
        return 0
    figures = run(given)
    wrong = report.gate(figures) if given.quick else report.broken(figures)
    former: List[Figure] = []
    for file in [PUBLISHED] * given.publish + [given.read]:
        if file and file.exists():
            former = report.merged(former, report.from_json(file.read_text(encoding="utf-8")))
    write(report.merged(former, figures), given)
    for words in wrong:
        print(f"\nWRONG: {words}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
