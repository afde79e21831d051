"""What all pages share: their options, where their pictures go, and how they claim something."""

from __future__ import annotations

import argparse
import os
from typing import Any, Callable, NamedTuple

import tinyformer as tf


class Page(NamedTuple):
    """How a page is run: its seed, the folder of its pictures, and its size: "mini" for the test
    suite, "default", or "full"."""

    seed: int = 0
    out: str = os.path.join("runs", "pages")
    size: str = "default"

    def pick(self, mini: Any, default: Any, full: Any) -> Any:
        """The one of three values that belongs to the size."""
        return {"mini": mini, "default": default, "full": full}[self.size]

    def save(self, picture: Any, name: str) -> None:
        """Write a picture into the folder and say where it is."""
        os.makedirs(self.out, exist_ok=True)
        path = os.path.join(self.out, name)
        picture.save(path)
        print(f"  drawn: {path}")


def claim(words: str, holds: Any) -> None:
    """Print what was shown; AssertionError if it was not."""
    if not holds:
        raise AssertionError(f"this does not hold: {words}")
    print(f"  holds: {words}")


def heading(words: str) -> None:
    """A line that says what comes next."""
    print(f"\n{words}")


def numbers(values: Any, digits: int = 4) -> str:
    """A row of numbers in print."""
    values = values.tolist() if hasattr(values, "tolist") else values
    return "(" + ", ".join(f"{value:.{digits}f}".rstrip("0").rstrip(".") for value in values) + ")"


def run(main: Callable[[Page], None], summary: str) -> None:
    """Run a page as the command line says."""
    parser = argparse.ArgumentParser(description=summary,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("python", "numpy"),
                        help="the engine (default: NumPy where it is installed)")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers (default: 0)")
    parser.add_argument("--out", metavar="DIR", default=Page().out,
                        help="the folder of the pictures (default: %(default)s)")
    parser.add_argument("--full", action="store_true", help="the longer version")
    given = parser.parse_args()
    # NumPy's libraries share small products among threads that then wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if given.backend:
        tf.use_backend(given.backend)
    tf.manual_seed(given.seed)
    main(Page(given.seed, given.out, "full" if given.full else "default"))
