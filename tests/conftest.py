"""Every test that takes `backend` runs once on each engine that this Python has."""

from __future__ import annotations

import importlib.util
import signal
from typing import Iterator

import pytest

from tinyformer.arrays import use_backend

# A shell lets what it starts in the background ignore Ctrl-C, and processes hand that on: the tests
# of interruptions need it heard.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

BACKENDS = ["python"] + (["numpy"] if importlib.util.find_spec("numpy") else [])


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the backend in use, one after the other."""
    with use_backend(request.param):
        yield request.param
