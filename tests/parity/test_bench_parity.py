"""The benchmark's peers in PyTorch do the same work: losses, gradients and texts are equal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tinyformer import use_backend

sys.path.insert(0, str(Path(__file__).parents[2]))
torch = pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with")
pytest.importorskip("numpy")

from tests.bench import decoder, encoders, generation, memory  # noqa: E402
from tests.bench.measure import Asked  # noqa: E402

ASKED = Asked(peers=("numpy", "torch"))


@pytest.fixture(autouse=True)
def numpy_backend():
    """NumPy's engine, and PyTorch's threads as they were."""
    threads = torch.get_num_threads()
    with use_backend("numpy"):
        yield
    torch.set_num_threads(threads)


def test_decoders_train_alike():
    found = {each.row: each for each in decoder.compare("tiny", ASKED, rounds=17)}
    assert found["losses tiny"].rounds == 20 and found["losses tiny"].median < 1e-6
    assert found["decoder tiny"].median > 0


def test_gradients_are_those_of_float64():
    (found,) = decoder.gradients(ASKED, ["tiny"])
    assert found.median < 1e-5


def test_encoders_train_alike_with_modules_of_pytorch():
    found = {each.row: each for each in encoders.measure(ASKED, ["tiny"])}
    for kind in ("encoder", "translation"):
        assert found[f"{kind} losses tiny"].median < 1e-6 and found[f"{kind} tiny"].median > 0


def test_all_caches_write_the_same():
    (found,) = generation.measure(ASKED, "tiny", 12, 1)
    assert found.median > 0


def test_memory_of_both_is_measured():
    (found,) = memory.peaks(ASKED, ["tiny"])
    assert found.median or found.missing
