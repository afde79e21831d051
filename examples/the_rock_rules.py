"""The Rock rules: the lecture's block on three words, every intermediate value under its letter.

Slides 14 to 19 follow the third word, c, through one block. Here the block of the package does the
same, with its options set as the slides say, beside the slides' formulas written out in plain
Python. Where the slides and common code disagree, both are shown: c does not attend to itself;
dropout falls on the sum in the first half and on the branch in the second; the norm divides by
std + eps. The vectors are chosen so that a = (1, 0, 1, 0), b = (0, 1, 0, 1), c = (2, 0, 0, 0).
"""

from __future__ import annotations

import math
from typing import Any, Dict, List

import tinyformer as tf
from examples._page import Page, claim, heading, numbers, run
from tinyformer import functional as F, nn
from tinyformer.arrays import xp
from tinyformer.arrays.stream import stream
from tinyformer.pictures import table
from tinyformer.viz import influence

WORDS, IDS = ["The", "Rock", "rules"], [47, 30, 34]
X = {47: [1.0, 0.0, 0.0, 0.0], 30: [0.0, 1.0, 0.0, 0.0], 34: [1.0, 0.0, 0.0, 0.0]}
P = [[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]]
D_K, D_FF, EPS = 4, 8, 1e-5
OTHERS = [[i != j for j in range(3)] for i in range(3)]         # all but oneself


def dot(u: List[float], v: List[float]) -> float:
    """The inner product."""
    return sum(p * q for p, q in zip(u, v))


def attend(query: List[float], keys: List[List[float]]) -> List[float]:
    """Slide 14, piece by piece: scores, softmax, weighted sum of the keys themselves."""
    weights = [math.exp(dot(query, key) / math.sqrt(D_K)) for key in keys]
    alpha = [weight / sum(weights) for weight in weights]
    return [sum(a * key[i] for a, key in zip(alpha, keys)) for i in range(D_K)]


def normed(x: List[float], eps: float = EPS, less: int = 0, inside: bool = False) -> List[float]:
    """(x - mean) / (std + eps). `less` 1 takes the sample's std, `inside` sqrt(var + eps)."""
    mean = sum(x) / len(x)
    var = sum((each - mean) ** 2 for each in x) / (len(x) - less)
    divisor = math.sqrt(var + eps) if inside else math.sqrt(var) + eps
    return [(each - mean) / divisor for each in x]


def near(u: Any, v: Any, within: float = 1e-5) -> bool:
    """Whether two rows are equal to rounding."""
    return all(abs(p - q) < within for p, q in zip(u, v))


def lecture_block(dropout: float = 0.0) -> nn.Block:
    """The block of slide 14: one head, no projections, ReLU, the lecture's order and norm."""
    return nn.Block(D_K, 1, D_FF, dropout, std=0.5, out_std=0.5, norm="post", order="lecture",
                    norm_kind="lecture", eps=EPS, activation="relu", projections=False)


def whole_block(page: Page, inputs: tf.Tensor) -> nn.Block:
    """c through the block, by the package and by hand."""
    heading("1. Slide 14: c through the block; it attends to a and b, not to itself")
    block = lecture_block()
    block.notes = {}
    block(inputs, nn.Mask(OTHERS))
    notes: Dict[str, List[float]] = {name: value.tolist()[0][2]
                                     for name, value in block.notes.items()}
    block.notes = None
    a, b, c = inputs.tolist()[0]
    inner, outer = block.feed_forward.inner, block.feed_forward.outer
    hand = {"c_input": [x + p for x, p in zip(X[34], P[2])], "c_attn": attend(c, [a, b])}
    hand["c_alayer"] = [p + q for p, q in zip(hand["c_attn"], c)]
    hand["c_anorm"] = normed(hand["c_alayer"])
    wide = [max(dot(hand["c_anorm"], row) + bias, 0.0)
            for row, bias in zip(inner.weight.tolist(), inner.bias.tolist())]
    hand["c_ff"] = [dot(wide, row) + bias
                    for row, bias in zip(outer.weight.tolist(), outer.bias.tolist())]
    hand["c_fflayer"] = [p + q for p, q in zip(hand["c_anorm"], hand["c_ff"])]
    hand["c_out"] = normed(hand["c_fflayer"])
    for letter, values in hand.items():
        print(f"  {letter:<10}{numbers(values, 6)}")
    claim("the package's block gives the same for every letter",
          list(notes) == list(hand) and all(near(notes[name], hand[name]) for name in hand))
    claim("c_attn is (.731059, .268941, .731059, .268941)",
          near(notes["c_attn"], [.731059, .268941, .731059, .268941]))
    claim("c_out has mean 0 and standard deviation 1",
          abs(sum(notes["c_out"])) < 1e-5 and abs(dot(notes["c_out"], notes["c_out"]) - 4) < 1e-3)
    page.save(table(list(notes.values()), title="“rules” through the block of slide 14", digits=2,
                    row_names=list(notes), note="one row per letter, from the input up to c_out"),
              "the_rock_rules.svg")
    return block


def piecewise_and_matrix(inputs: tf.Tensor) -> None:
    """Slide 15 compares the two ways of writing it; they differ in one summand."""
    heading("2. Slide 15: piecewise against softmax(Q K^T / sqrt(d_k)) V")
    a, b, c = inputs.tolist()[0]
    matrix = F.scaled_dot_product_attention(inputs, inputs, inputs).tolist()[0][2]
    apart = F.scaled_dot_product_attention(inputs, inputs, inputs, OTHERS).tolist()[0][2]
    for name, row in (("piecewise over a and b", attend(c, [a, b])), ("matrix form", matrix),
                      ("matrix form, c left out of its own sum", apart),
                      ("piecewise over a, b and c", attend(c, [a, b, c]))):
        print(f"  {name:<40}{numbers(row, 6)}")
    claim("they agree once c is left out of its own sum, or once it is in both",
          near(apart, attend(c, [a, b])) and near(matrix, attend(c, [a, b, c])))
    claim("as they are usually written they differ", not near(matrix, attend(c, [a, b]), 0.1))


def three_norms() -> None:
    """Three layers with one name, on one vector, with an eps that can be seen."""
    heading("3. Three layers are called layer norm: eps = 0.1")
    x = [2.731059, .268941, .731059, .268941]
    kinds = {"lecture: std + eps": normed(x, 0.1), "PyTorch: sqrt(var + eps)":
             normed(x, 0.1, inside=True), "Annotated: sample's std + eps": normed(x, 0.1, less=1)}
    for name, row in kinds.items():
        print(f"  {name:<31}{numbers(row, 6)}")
    firsts = [row[0] for row in kinds.values()]
    claim("their first coordinates are 1.549632, 1.625248 and 1.358311",
          near(firsts, [1.549632, 1.625248, 1.358311]))
    ours = [nn.LectureNorm(4, 0.1)(tf.tensor(x)), nn.LayerNorm(4, 0.1)(tf.tensor(x))]
    claim("the package has the first two under two names",
          near(ours[0].tolist(), kinds["lecture: std + eps"])
          and near(ours[1].tolist(), kinds["PyTorch: sqrt(var + eps)"]))


def dropout_twice(inputs: tf.Tensor) -> None:
    """Dropout(c_attn + c_input), but c_anorm + Dropout(c_ff)."""
    heading("4. Dropout on the sum in the first half, on the branch in the second: p = 0.5")
    counts = {}
    for name, block in (("lecture", lecture_block(0.5)), ("paper", nn.Block(
            D_K, 1, D_FF, 0.5, norm="post", attention_dropout=0.0, projections=False))):
        zeros = {"c_alayer": 0, "c_fflayer": 0}
        for _ in range(20):
            block.notes = {}
            block(inputs + 0.3)
            for letter, way in (("c_alayer", "c_input"), ("c_fflayer", "c_anorm")):
                pairs = zip(*(block.notes[name].reshape(-1).tolist() for name in (letter, way)))
                zeros[letter] += sum(value == 0.0 != around for value, around in pairs)
        counts[name] = zeros
        print(f"  {name:<8} of 240 numbers that went around, became 0: in c_alayer "
              f"{zeros['c_alayer']}, in c_fflayer {zeros['c_fflayer']}")
    claim("only the lecture's c_alayer has zeros: there the way around is dropped as well",
          counts["lecture"]["c_alayer"] > 60 and counts["lecture"]["c_fflayer"] == 0
          and set(counts["paper"].values()) == {0})


def who_mixes(block: nn.Block, inputs: tf.Tensor) -> None:
    """Slide 17: heads; slide 14: attention is the only step between columns; slide 18: stacking."""
    heading("5. Only attention joins the columns; from gradients, x where one word reaches another")
    parts = {"attention": block.attention, "norm": block.attention_norm,
             "feed-forward": block.feed_forward, "block": block}
    seen = {name: str(influence(part, inputs)).split("\n") for name, part in parts.items()}
    print("  " + "".join(f"{name:<16}" for name in seen))
    for line in zip(*seen.values()):
        print("  " + "".join(f"{row:<16}" for row in line))
    alone = ["x . .", ". x .", ". . x"]
    claim("norm and feed-forward leave every column to itself",
          seen["norm"] == seen["feed-forward"] == alone and seen["block"] == ["x x x"] * 3)
    heading("6. Heads with W = 1 are the head without W; two blocks are a stack of two")
    head = nn.MultiHeadAttention(D_K, 1)
    identity = [[float(i == j) for j in range(D_K)] for i in range(D_K)]
    head.load_state_dict({f"{name}.{kind}": identity if kind == "weight" else [0.0] * D_K
                          for name in ("query", "key", "value", "output")
                          for kind in ("weight", "bias")})
    claim("one head with identities is slide 14's attention",
          head(inputs).tolist() == nn.MultiHeadAttention(D_K, 1, projections=False)(
              inputs).tolist())
    stack = nn.Stack(2, D_K, 1, D_FF, 0.0, norm="post", order="lecture", norm_kind="lecture")
    claim("c_out is the next c_input",
          stack(inputs).tolist() == stack.blocks[1](stack.blocks[0](inputs)).tolist())


def main(page: Page) -> None:
    """The three words, and what happens to them."""
    table_of_words = xp.astype(stream.normal((48, D_K)), xp.default_float).tolist()
    for token, row in X.items():
        table_of_words[token] = row
    inputs = tf.tensor([[[x + p for x, p in zip(table_of_words[token], place)]
                         for token, place in zip(IDS, P)]])
    heading("0. c_input = x34 + p3: word vector and position vector, added")
    for word, token, row in zip(WORDS, IDS, inputs.tolist()[0]):
        print(f"  {word:<6} x{token} + p{IDS.index(token) + 1} = {numbers(row)}")
    block = whole_block(page, inputs)
    piecewise_and_matrix(inputs)
    three_norms()
    dropout_twice(inputs)
    who_mixes(block, inputs)


if __name__ == "__main__":
    run(main, __doc__ or "")
