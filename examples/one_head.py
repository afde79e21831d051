"""One attention head: what may be looked at, how much, and why the scores are divided by sqrt(d_k).

The letters of the founding text: H = X + P, Q = H W_Q, K = H W_K, V_h = H W_V,

    A = softmax_row(Q K^T / sqrt(d_k) + M),   O = A V_h

with d_k and d_v chosen freely; its example of two positions; and Figs. 9.2 and 9.3 of the textbook,
the first of them not drawn from the mask but read from gradients. The caption of Fig. 9.3 speaks of
setting the upper triangle to zero: it is the weight that becomes 0, the score is minus infinity.
Both are shown.
"""

from __future__ import annotations

import math
from typing import Any, List, Tuple

import tinyformer as tf
from examples._page import Page, claim, heading, numbers, run
from tinyformer import functional as F, nn
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.pictures import beside, table
from tinyformer.viz import influence

T, D, D_K, D_V = 5, 8, 3, 6


def draws(*shape: int) -> tf.Tensor:
    """Normal draws as a tensor."""
    return tf.tensor(xp.astype(stream.normal(shape), xp.default_float))


def softmax_of(scores: Any, mask: Any = None) -> tf.Tensor:
    """The weights of a table of scores, of those that the mask allows."""
    return F.masked_softmax(tf.tensor(scores), None if mask is None else mask.allowed)


def free_widths() -> Tuple[List[Any], List[Any]]:
    """Every letter of the formula with its shape; returns the scores and the weights."""
    heading("1. One head: T = 5, d = 8, and d_k = 3 need not be d_v = 6")
    x, p = draws(T, D), draws(T, D)
    w_q, w_k, w_v = (draws(D, width) * (0.5 / math.sqrt(D)) for width in (D_K, D_K, D_V))
    h = x + p
    q, k, v = h @ w_q, h @ w_k, h @ w_v
    scores = q @ k.mT * (1 / math.sqrt(D_K))
    a = softmax_of(scores.detach(), nn.Mask.causal(T))
    o = a @ v
    for name, value in (("H", h), ("Q", q), ("K", k), ("V_h", v), ("A", a), ("O", o)):
        print(f"  {name:<4}{value.shape}")
    claim("the shapes are (5, 3), (5, 3), (5, 6), (5, 5), (5, 6)",
          [each.shape for each in (q, k, v, a, o)] == [(5, 3), (5, 3), (5, 6), (5, 5), (5, 6)])
    fused = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    claim("the package's attention is this formula",
          float(xp.max(xp.abs(fused.data - o.data))) < 1e-5)
    claim("every row of A sums to 1", all(abs(sum(row) - 1) < 1e-6 for row in a.tolist()))
    steep = softmax_of([[1e4, -1e4, 0.0]]).tolist()[0]
    claim("also for scores of +-10,000", steep == [1.0, 0.0, 0.0])
    return scores.tolist(), a.tolist()


def why_sqrt_d_k(page: Page) -> None:
    """Products of random vectors grow with their width, and the softmax hardens."""
    heading("2. Why sqrt(d_k): q.k of normal draws has variance d_k, and the softmax of 8 hardens")
    print("   d_k   var(q.k)   mean largest weight: unscaled   scaled")
    found = []
    for width in (4, 16, 64, 256):
        count = page.pick(100, 1000, 4000)
        q, k = draws(count, 1, width), draws(count, 8, width)
        scores = (q @ k.mT).data
        largest = [float(xp.mean(xp.max(softmax_of(scores * scale).data, axis=-1)))
                   for scale in (1.0, 1 / math.sqrt(width))]
        found.append((float(xp.mean(scores * scores)) / width, *largest))
        print(f"  {width:>4} {found[-1][0] * width:>10.1f} {largest[0]:>30.2f} {largest[1]:>8.2f}")
    claim("the variance of q.k is d_k, within a fifth",
          all(abs(ratio - 1) < 0.2 for ratio, _, _ in found))
    claim("unscaled weights harden as the width grows, scaled ones do not",
          found[-1][1] > found[0][1] + 0.25 and abs(found[-1][2] - found[0][2]) < 0.06)


def two_positions() -> None:
    """The arithmetic example: all scores 0, values (2, 0) and (0, 4)."""
    heading("3. Two positions, all scores 0, values (2, 0) and (0, 4)")
    v, causal = tf.tensor([[2.0, 0.0], [0.0, 4.0]]), nn.Mask.causal(2)
    for name, scores, mask, wanted in (
            ("causal", [[0.0, 0.0], [0.0, 0.0]], causal, [[2, 0], [1, 2]]),
            ("without a mask", [[0.0, 0.0], [0.0, 0.0]], None, [[1, 2], [1, 2]]),
            ("causal, last scores (0, ln 3)", [[0.0, 0.0], [0.0, math.log(3)]], causal,
             [[2, 0], [0.5, 3]]),
            ("the same, masked score 99", [[0.0, 99.0], [0.0, math.log(3)]], causal,
             [[2, 0], [0.5, 3]])):
        a = softmax_of(scores, mask)
        o = (a @ v).tolist()
        print(f"  {name:<30} A = {', '.join(map(numbers, a.tolist())):<28}"
              f" O = {', '.join(map(numbers, o))}")
        claim("as worked by hand", all(abs(p - q) < 1e-6 for row, want in zip(o, wanted)
                                       for p, q in zip(row, want)))
    print("  The mask decides who may be looked at, the scores decide how much.")


def figure_9_3(page: Page, scores: List[Any], weights: List[Any]) -> None:
    """Scores with and without the mask, and what a score of 0 would do."""
    heading("4. Fig. 9.3: the masked score is minus infinity, the weight is 0")
    allowed = nn.Mask.causal(T).allowed.tolist()
    masked = [[score if may else -math.inf for score, may in zip(*rows)]
              for rows in zip(scores, allowed)]
    zeroed = [[score if may else 0.0 for score, may in zip(*rows)]
              for rows in zip(scores, allowed)]
    wrong = softmax_of(zeroed).tolist()
    future = [[place for place, may in enumerate(row) if not may] for row in allowed]
    leak = [sum(row[place] for place in places) for row, places in zip(wrong, future)]
    print(f"  weight on the future, with scores of minus infinity: {numbers([0.0] * T)}")
    print(f"  weight on the future, with scores of 0:              {numbers(leak, 2)}")
    claim("with minus infinity it is exactly 0, in every row",
          all(row[place] == 0.0 for row, places in zip(weights, future) for place in places))
    claim("with zeros every row but the last looks ahead", all(part > 0 for part in leak[:-1]))
    q, k = ([f"{letter}{place + 1}" for place in range(T)] for letter in "qk")
    page.save(beside(*[table(cells, title=title, row_names=q, column_names=k, digits=1)
                       for title, cells in (
                           ("(a) masked: −∞ above", masked), ("(b) unmasked", scores),
                           ("weights of (a)", weights), ("if 0 stood there instead", wrong))],
                     title="Fig. 9.3: the scores q·k, and what becomes of them", columns=2),
              "figure_9_3.svg")


def figure_9_2(page: Page) -> None:
    """Information flow with and without a mask, from gradients, in one and the same block."""
    heading("5. Fig. 9.2: who can influence whom in one block, read from gradients")
    block = nn.Block(D, 1, 2 * D, dropout=0.0)
    x = draws(1, T, D)
    causal = influence(lambda h: block(h, nn.Mask.causal(T)), x)
    both = influence(block, x)
    for left, right in zip(str(causal).split("\n"), str(both).split("\n")):
        print(f"  {left}      {right}")
    claim("(a) causal: token 3 sees 1 to 3", causal.seen == [[j <= i for j in range(T)]
                                                             for i in range(T)])
    claim("(b) bidirectional: everyone sees everyone, the mask is all that differs",
          both.seen == [[True] * T] * T)
    page.save(beside(causal.flow("(a) causal", 2), both.flow("(b) bidirectional", 2),
                     title="Fig. 9.2: what token 3 can know"), "figure_9_2.svg")


def no_explanation() -> None:
    """One weight, one coordinate are no explanation."""
    heading("6. A weight alone explains nothing")
    v = tf.tensor([[1.0, 2.0], [1.0, 2.0]])
    one, other = tf.tensor([[0.9, 0.1]]) @ v, tf.tensor([[0.2, 0.8]]) @ v
    print(f"  equal values (1, 2): weights (0.9, 0.1) give {numbers(one.tolist()[0])}, "
          f"weights (0.2, 0.8) give {numbers(other.tolist()[0])}")
    claim("different weights, the same output",
          all(abs(p - q) < 1e-6 for p, q in zip(one.tolist()[0], other.tolist()[0])))


def main(page: Page) -> None:
    """The six parts."""
    scores, weights = free_widths()
    why_sqrt_d_k(page)
    two_positions()
    figure_9_3(page, scores, weights)
    figure_9_2(page)
    no_explanation()


if __name__ == "__main__":
    run(main, __doc__ or "")
