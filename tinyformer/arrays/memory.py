"""Memory that is kept: why a training step need not ask the system for its arrays again and again.

Every step of a training run makes the same arrays as the step before. The C library of most Linux
systems (glibc) hands each freed block above a threshold back to the system, and the next step
faults it in again, page by page: a toy model spends up to half of its time there. Two settings of
`mallopt` raise the thresholds, so that freed memory stays in the process, ready for the next step.
The price is that memory once used is not given back before the process ends.

Set TINYFORMER_KEEP_MEMORY=0 to leave the C library as it is. Elsewhere (macOS, Windows, musl)
nothing is done.
"""

from __future__ import annotations

import os
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3        # the names of mallopt(3) for its parameters


def keep_freed_memory() -> bool:
    """Tell glibc to keep freed memory in the process; whether that was done."""
    if sys.platform != "linux" or os.environ.get("TINYFORMER_KEEP_MEMORY") == "0":
        return False
    import ctypes
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return bool(library.mallopt(TRIM_THRESHOLD, 2 ** 31 - 1)
                and library.mallopt(MMAP_THRESHOLD, 2 ** 30))
