"""Every test that takes `backend` runs once on each engine that this Python has."""

from __future__ import annotations

import importlib.util
from typing import Iterator

import pytest

from tinyformer.arrays import use_backend

BACKENDS = ["python"] + (["numpy"] if importlib.util.find_spec("numpy") else [])


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the backend in use, one after the other."""
    with use_backend(request.param):
        yield request.param
