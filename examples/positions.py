"""Positions: two questions to every scheme, the second answered by training short, testing long.

The lecture asks of a scheme of positions (slides 20 to 27): does the set of positions have to be
decided ahead of time? Does the scheme hinder generalisation to new positions? The first answer is
read from the constructor. For the second, one block learns to say the token two back, on texts of
4 to 16 tokens, and is then given texts of up to 64.

--full: seven schemes, three seeds; a lag of k needs a window of k + 1; and the copy task, where the
relative positions of Shaw et al. (2018) do not win.
"""

from __future__ import annotations

import inspect
import time
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import tinyformer as tf
from examples._page import Page, claim, heading, run
from tinyformer import functional as F, nn
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.autograd import no_grad
from tinyformer.models import DecoderConfig, DecoderModel
from tinyformer.pictures import Line, beside, line_chart
from tinyformer.training import AdamW, clip_grad_norm, warmup_cosine
from tinyformer.training.batches import IGNORED

SCHEMES = {"learned": ("absolute", nn.Learned), "sinusoidal": ("sinusoidal", nn.Sinusoidal),
           "relative": ("Shaw", nn.Relative), "rotary": ("rotary", nn.Rotary),
           "alibi": ("ALiBi", nn.ALiBi), "t5": ("T5", nn.T5Bias),
           "none": ("none", nn.Position)}
Found = Dict[int, Tuple[float, float]]
Rows = Tuple[List[List[int]], List[List[int]]]


class Sizes(NamedTuple):
    """Of an experiment: its task, its model, its training."""

    schemes: Sequence[str] = ("learned", "sinusoidal", "relative")
    seeds: int = 1
    symbols: int = 10
    lag: int = 2
    window: int = 4
    d_model: int = 64
    n_heads: int = 4
    trained: Tuple[int, int] = (4, 16)
    tested: Sequence[int] = (8, 12, 16, 20, 24, 32, 48, 64)
    steps: int = 600
    batch: int = 64
    rate: float = 0.003


FULL = Sizes(tuple(SCHEMES), seeds=3)
MINI = Sizes(("learned", "relative"), 1, 4, 1, 2, 8, 1, (3, 6), (4, 6, 12), 120, 8, 0.03)


def lagged(sizes: Sizes, rows: int, length: int) -> Rows:
    """Random symbols, and as targets the symbol `lag` back: nothing for the first ones."""
    drawn = stream.integers(sizes.symbols, rows * length)
    ids = [drawn[row * length:(row + 1) * length] for row in range(rows)]
    return ids, [[IGNORED] * sizes.lag + row[:length - sizes.lag] for row in ids]


def copied(sizes: Sizes, rows: int, length: int) -> Rows:
    """s SEP and then s again: the targets are those of the second half."""
    drawn, sep = stream.integers(sizes.symbols, rows * length), sizes.symbols
    halves = [drawn[row * length:(row + 1) * length] for row in range(rows)]
    return ([half + [sep] + half[:-1] for half in halves],
            [[IGNORED] * length + half for half in halves])


def accuracy(model: DecoderModel, ids: Any, targets: Any) -> Tuple[float, float]:
    """The shares of rows without a mistake, and of tokens that are right.

    The largest score at each place, given the right tokens before it, is what greedy choice would
    say, as long as it is right: so a row is exact here where it would be exact there.
    """
    with model.evaluating(), no_grad():
        chosen = xp.argmax(model(ids).data, axis=-1).tolist()
    right = [[a == b for a, b in zip(row, wanted) if b != IGNORED]
             for row, wanted in zip(chosen, targets)]
    return sum(map(all, right)) / len(right), sum(map(sum, right)) / sum(map(len, right))


def experiment(sizes: Sizes, scheme: str, seed: int,
               task: Callable[[Sizes, int, int], Rows] = lagged, n_layers: int = 1) -> Found:
    """Train on short texts, test on longer ones: (exact rows, right tokens) by length."""
    tf.manual_seed(seed)
    began = time.process_time()
    first, last = sizes.trained
    model = DecoderModel(DecoderConfig(
        sizes.symbols + 1, max_len=2 * max(sizes.tested), d_model=sizes.d_model, n_layers=n_layers,
        n_heads=sizes.n_heads, dropout=0.0, positions=scheme, window=sizes.window, std=0.1))
    optimiser = AdamW(model.named_parameters(), lr=sizes.rate)
    schedule = warmup_cosine(sizes.rate, max(sizes.steps // 12, 1), sizes.steps)
    for step in range(1, sizes.steps + 1):
        length = first + stream.integers(last - first + 1, 1)[0]
        ids, targets = task(sizes, sizes.batch, length)
        logits = model(ids).reshape(-1, sizes.symbols + 1)
        F.cross_entropy(logits, tf.tensor(targets).reshape(-1), ignore_index=IGNORED).backward()
        clip_grad_norm(model.named_parameters(), 1.0)
        optimiser.step(schedule(step))
        optimiser.zero_grad()
    found = {length: accuracy(model, *task(sizes, 4 * sizes.batch, length))
             for length in sizes.tested}
    print(f"  {SCHEMES[scheme][0]:<11} seed {seed}: " + "  ".join(
        f"{length} {exact:.2f}/{right:.2f}" for length, (exact, right) in found.items())
        + f"  ({time.process_time() - began:.0f} CPU s)", flush=True)
    return found


def draw(found: Dict[str, List[Found]], sizes: Sizes) -> Any:
    """Exact rows and right tokens by length, the means over the seeds."""
    def lines(kind: int) -> List[Line]:
        return [Line(SCHEMES[scheme][0], [
            (length, sum(run[length][kind] for run in runs) / len(runs)) for length in runs[0]])
            for scheme, runs in found.items()]

    border = [("trained up to here", sizes.trained[1])]
    return beside(*[line_chart(lines(kind), title=title, x_label="length of the text",
                               borders=border, width=430, height=300)
                    for kind, title in ((0, "share of texts without a mistake"),
                                        (1, "share of right tokens"))],
                  title=f"Say the token {sizes.lag} back: train on short texts, test on long ones")


def beyond_the_lecture(sizes: Sizes) -> None:
    """A lag of k needs a window of k + 1; and a task that relative positions do not win."""
    heading("A lag of k needs a window of k + 1: distance k shares its vector with all beyond.")
    for lag in (1, 2, 3):
        for window in (lag, lag + 1):
            print(f"  lag {lag}, window {window}:", end="")
            small = sizes._replace(lag=lag, window=window, steps=400, trained=(5, 16))
            exact = experiment(small, "relative", 0)
            if window > lag:
                claim("exact at every length", all(each > 0.95 for each, _ in exact.values()))
            else:
                claim("not exact even where it was trained", exact[16][0] < 0.5)
    heading("Copying s SEP s: the way back is as long as s, longer than a window of 8.")
    copy = sizes._replace(window=8, trained=(1, 10), tested=(8, 10, 11, 12, 15, 20), steps=1500)
    exact = {scheme: experiment(copy, scheme, 0, copied, 2)
             for scheme in ("sinusoidal", "alibi", "relative")}
    claim("where it was trained, Shaw is behind sinusoidal and ALiBi",
          exact["relative"][10][0] < min(exact["sinusoidal"][10][0], exact["alibi"][10][0]))


def main(page: Page) -> None:
    """The lecture's table, generated."""
    sizes = page.pick(MINI, Sizes(), FULL)
    heading("Trained on short texts, tested on long ones: length, exact texts/right tokens")
    found = {scheme: [experiment(sizes, scheme, page.seed + run) for run in range(sizes.seeds)]
             for scheme in sizes.schemes}
    page.save(draw(found, sizes), "positions.svg")
    longest, last = max(sizes.tested), sizes.trained[1]
    heading("scheme       1: fix positions in advance?       2: hinders generalisation to new?")
    for scheme, runs in found.items():
        name, kind = SCHEMES[scheme]
        fixed = "max_len" in inspect.signature(kind).parameters
        there, beyond = (sum(run[at][0] for run in runs) / len(runs) for at in (last, longest))
        second = "was not learned" if there < 0.9 else \
            "largely solved" if beyond > 0.9 else "yes"
        print(f"{name:<13}{'yes' if fixed else 'no':<36}{second:<17}"
              f"exact at {last}: {there:.2f}, at {longest}: {beyond:.2f}")
    heading("Why: the vectors of one word that enter the stack at places 0 and 20")
    for scheme in sizes.schemes:
        config = DecoderConfig(4, 32, d_model=8, n_heads=2, positions=scheme)
        x = tf.tensor([[[1.0] * 8] * 21])
        entering = config.input_positions().at_input(x, xp.reshape(xp.arange(21), (1, 21)))
        same = entering[0, 0].tolist() == entering[0, 20].tolist()
        print(f"  {SCHEMES[scheme][0]:<13}{'the same' if same else 'different'}")
        claim("position and word are added before attention in absolute and sinusoidal alone",
              same is (scheme not in ("learned", "sinusoidal")))
    if page.size == "full":
        beyond_the_lecture(sizes)
    heading("What was shown")
    beyond = [length for length in sizes.tested if length > last]
    for scheme in sizes.schemes:
        if scheme in ("learned", "sinusoidal"):
            name = SCHEMES[scheme][0]
            claim(f"{name}: exact where it was trained, on every seed",
                  all(run[last][0] >= 0.9 for run in found[scheme]))
            claim(f"{name}: no exact text at {beyond[0]} or beyond, on every seed",
                  all(run[length][0] <= 0.01 for run in found[scheme] for length in beyond))
    claim(f"Shaw with window {sizes.window}: exact from {last} to {longest}, on every seed",
          all(run[length][0] >= 0.99 for run in found["relative"]
              for length in sizes.tested if length >= last))


if __name__ == "__main__":
    run(main, __doc__ or "")
