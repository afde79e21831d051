"""One source on two engines that check each other.

The same seed gives the same weights, batches and dropout masks in pure Python and in NumPy, so two
runs in float64 show the same losses to the last few bits, although one adds numbers in lists and
the other in compiled loops. An error in either would have to be made twice, in the same way, to go
unseen.

Where NumPy is not installed the page compares the pure engine with itself, from the same seed.
"""

from __future__ import annotations

import importlib.util
from typing import List

import tinyformer as tf
from tinyformer import functional as F
from tinyformer.models import DecoderConfig, DecoderModel
from tinyformer.training import AdamW, TokenBatches, clip_grad_norm

SENTENCE = "the rock rules and the vase broke and the dawn broke and the news broke . "


def losses(backend: str, steps: int = 20) -> List[float]:
    """Train a character model on one sentence, dropout on, and return the loss of every step."""
    letters = sorted(set(SENTENCE))
    ids = [letters.index(letter) for letter in SENTENCE * 4]
    with tf.use_backend(backend), tf.set_default_dtype("float64"):
        tf.manual_seed(3)
        model = DecoderModel(
            DecoderConfig(len(letters), max_len=8, d_model=8, n_layers=2, n_heads=2, dropout=0.1))
        batches = TokenBatches(ids, batch_size=2, max_len=8)
        optimiser = AdamW(model.named_parameters(), lr=0.01)
        history = []
        for _ in range(steps):
            inputs, targets = next(batches)
            loss = F.cross_entropy(model(inputs), targets)
            loss.backward()
            clip_grad_norm(model.named_parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()
            history.append(loss.item())
    return history


def main() -> None:
    """Print the two histories side by side and their largest difference."""
    other = "numpy" if importlib.util.find_spec("numpy") else "python"
    one, two = losses("python"), losses(other)
    print(f"step  {'python':<20}  {other:<20}  difference")
    for step, (p, q) in enumerate(zip(one, two), start=1):
        print(f"{step:>4}  {p:.16f}    {q:.16f}    {abs(p - q):.1e}")
    assert max(abs(p - q) for p, q in zip(one, two)) < 1e-9, "the engines disagree"
    assert one[-1] < one[0], "nothing was learned"


if __name__ == "__main__":
    main()
