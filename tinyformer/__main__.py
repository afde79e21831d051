"""python3 -m tinyformer: the command line."""

from __future__ import annotations

import sys

from tinyformer.cli import main

if __name__ == "__main__":
    sys.exit(main())
