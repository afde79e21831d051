"""Freed memory stays in the process on glibc, and a training step then asks for no new pages."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tinyformer.arrays.memory import keep_freed_memory

pytest.importorskip("numpy")
GLIBC = sys.platform == "linux" and platform.libc_ver()[0] == "glibc"
TRAINING = """
w = tf.tensor([[0.01] * 256] * 256, requires_grad=True)
x = tf.tensor([[1.0] * 256] * 256)

def step():
    h = x
    for _ in range(12):
        h = ((h @ w).tanh() * 2 + x).exp()
    h.sum().backward()
    w.grad = None
"""
# 36 MB each. glibc learns from what is freed and may come to keep smaller arrays by itself, as the
# heap happens to lie; what is above 32 MB it always gives back.
LARGE = """
x = tf.arrays.xp.ones((3000, 3000), tf.arrays.xp.float32)

def step():
    h = x
    for _ in range(3):
        h = h * 0.5 + x
"""
COUNT = """
import resource
import tinyformer as tf
tf.use_backend("numpy")
{}
for _ in range(5):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(steps: str, setting: str) -> int:
    """Page faults of ten warm steps in a process of their own."""
    environment = {**os.environ, "TINYFORMER_KEEP_MEMORY": setting,
                   "PYTHONPATH": str(Path(__file__).parents[2]), "OPENBLAS_NUM_THREADS": "1"}
    return int(subprocess.run([sys.executable, "-c", COUNT.format(steps)], env=environment,
                              check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(not GLIBC, reason="only glibc can be told to keep memory")
def test_a_warm_step_faults_no_pages_in():
    assert faults(TRAINING, "1") < 100
    assert faults(LARGE, "1") < 100 < 2000 < faults(LARGE, "0")


def test_it_can_be_left_alone(monkeypatch):
    monkeypatch.setenv("TINYFORMER_KEEP_MEMORY", "0")
    assert keep_freed_memory() is False
