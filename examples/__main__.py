"""python3 -m examples: the pages that can be run, each with what it shows."""

from __future__ import annotations

import ast
import pathlib

for page in sorted(pathlib.Path(__file__).parent.glob("[a-z]*.py")):
    words = ast.get_docstring(ast.parse(page.read_text(encoding="utf-8"))) or ""
    summary = words.split("\n", 1)[0]
    print(f"python3 -m examples.{page.stem:<16} {summary}")
