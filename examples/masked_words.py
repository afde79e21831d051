"""Masked words: an encoder fills blanks, and needs both sides of them.

A grammar makes sentences in which "crane" is a bird or a machine. What it did tells which, and so
does what it did it to, which stands to the right. The encoder is BERT's in miniature, trained as
BERT was: 15 % of the words are chosen, and of these 80 % hidden, 10 % replaced, 10 % left (Devlin
et al., 2019). Its twin is the same but for a causal mask: it reads what stands to the left alone
(section 9.2 of the textbook: that mask is the whole difference).
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Tuple

import tinyformer as tf
from examples._page import Page, claim, heading, run
from tinyformer.arrays.stream import Stream, stream
from tinyformer.autograd import no_grad
from tinyformer.models import EncoderConfig, EncoderModel, MaskedLanguageModel
from tinyformer.nn import Mask
from tinyformer.pictures import Line, Svg, beside, line_chart, table
from tinyformer.training import (AdamW, ExampleBatches, Masking, clip_grad_norm, masked_lm,
                                 warmup_cosine)
from tinyformer.viz import who_sees_whom

SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[MASK]"]
WORLDS = {"bird": (["crane", "heron", "gull"], ["caught", "ate", "swallowed"],
                   ["fish", "frog", "worm"]),
          "machine": (["crane", "digger", "forklift"], ["lifted", "moved", "dropped"],
                      ["beam", "block", "crate"])}
SIZES = ["big", "small", "old", "grey"]
WORDS = SPECIAL + ["the", "a"] + SIZES + sorted({word for world in WORLDS.values()
                                                for words in world for word in words})
ID = {word: number for number, word in enumerate(WORDS)}
LENGTH = 8                                          # [CLS] the old crane ate a fish [SEP]


def ids(words: str) -> List[int]:
    """A sentence as ids, between [CLS] and [SEP]."""
    return [ID[word] for word in f"[CLS] {words} [SEP]".split()]


def sentence() -> List[int]:
    """One sentence of the grammar."""
    def one(of: Any) -> Any:
        return of[stream.integers(len(of), 1)[0]]

    actors, deeds, things = WORLDS[one(["bird", "machine"])]
    return ids(f"{one(['the', 'a'])} {one(SIZES)} {one(actors)} {one(deeds)} "
               f"{one(['the', 'a'])} {one(things)}")


def floor(rows: List[List[int]], batch: Any) -> float:
    """The loss of guessing by how often each word occurs, on the words that a batch asks for."""
    counts = {word: 1 for word in range(len(WORDS))}
    for row in rows:
        for token in row[1:-1]:
            counts[token] += 1
    total = sum(counts.values())
    asked = [target for row in batch[1].tolist() for target in row if target >= 0]
    return sum(-math.log(counts[token] / total) for token in asked) / len(asked)


def train(page: Page, rows: List[List[int]], held_out: Any, mask: Optional[Mask], lines: List[Line],
          name: str) -> MaskedLanguageModel:
    """An encoder that learns to fill blanks; its held-out loss goes into `lines`."""
    tf.manual_seed(page.seed + 1)
    model = MaskedLanguageModel(EncoderModel(EncoderConfig(
        len(WORDS), LENGTH, d_model=page.pick(8, 32, 48), n_layers=page.pick(1, 2, 2), n_heads=2,
        d_ff=page.pick(8, 64, 128), dropout=0.0, n_segments=0, activation="relu",
        std=page.pick(0.2, 0.05, 0.05), pooler=False)))
    masking = Masking(len(WORDS), ID["[MASK]"], [ID[word] for word in SPECIAL])
    steps, peak = page.pick(60, 500, 1000), page.pick(0.03, 0.005, 0.003)
    batches = ExampleBatches(rows, page.pick(8, 48, 64), masking)
    optimiser, rate = AdamW(model.named_parameters(), lr=peak), warmup_cosine(peak, steps // 10,
                                                                              steps)
    points = []
    for step in range(steps + 1):
        if step % (steps // 10) == 0:
            with model.evaluating(), no_grad():
                points.append((step, masked_lm(model, *held_out, mask=mask).item()))
        if step < steps:
            masked_lm(model, *next(batches), mask=mask).backward()
            clip_grad_norm(model.named_parameters(), 1.0)
            optimiser.step(rate(step + 1))
            optimiser.zero_grad()
    lines.append(Line(name, points))
    print(f"  {name:<22} {points[0][1]:.3f} -> {points[-1][1]:.3f} nats a blank")
    return model


def filled(model: MaskedLanguageModel, words: str, mask: Optional[Mask]) -> Dict[str, float]:
    """The probability of every word at the [MASK] of a sentence."""
    row = ids(words)
    with model.evaluating(), no_grad():
        logits = model([row], mask=mask).tolist()[0][row.index(ID["[MASK]"])]
    largest = max(logits)
    weights = [math.exp(logit - largest) for logit in logits]
    return {word: weight / sum(weights) for word, weight in zip(WORDS, weights)}


def draw(model: MaskedLanguageModel, blanks: List[str], lines: List[Line], counting: float) -> Svg:
    """The losses, and what is likely at the blanks: deeds around a crane, actors before deeds."""
    actors = sorted({actor for world in WORLDS.values() for actor in world[0]})
    verbs = [verb for world in WORLDS.values() for verb in world[1]]
    pictures = [table([[filled(model, words, None)[word] for word in columns] for words in some],
                      title="probabilities at [MASK]", row_names=some, column_names=columns,
                      digits=2, largest=1.0)
                for some, columns in ((blanks[:2], verbs), (blanks[2:], actors))]
    chart = line_chart(lines, title="held-out loss", x_label="step", y_label="nats a blank",
                       levels=[("counting words", counting)], height=340)
    return beside(chart, *pictures, title="An encoder fills blanks", columns=1)


def main(page: Page) -> None:
    """Train both, compare them with counting, and let them fill the blanks around a crane."""
    rows = [sentence() for _ in range(page.pick(200, 2000, 4000))]
    test = [sentence() for _ in range(100)]
    masking = Masking(len(WORDS), ID["[MASK]"], [ID[word] for word in SPECIAL], stream=Stream(5))
    held_out = masking(test)
    chosen = [(token, was, target) for row, former, targets in zip(
        held_out[0].tolist(), test, held_out[1].tolist())
        for token, was, target in zip(row, former, targets) if target >= 0]
    hidden = sum(token == ID["[MASK]"] for token, _, _ in chosen)
    left = sum(token == was for token, was, _ in chosen)
    heading(f"Of {100 * (LENGTH - 2)} words {len(chosen)} were chosen: {hidden} hidden, {left} "
            f"left, {len(chosen) - hidden - left} replaced. Held-out loss before and after:")
    counting = floor(rows, held_out)
    print(f"  {'counting words':<22} {counting:.3f}")
    causal, lines = Mask.causal(LENGTH), []             # type: ignore[var-annotated]
    twin = train(page, rows, held_out, causal, lines, "reading to the left")
    model = train(page, rows, held_out, None, lines, "reading both sides")
    heading("What did the crane do? p(the verb of a bird), and the likeliest word")
    blanks = ["the old crane [MASK] a fish", "the old crane [MASK] a beam",
              "the old [MASK] ate a fish", "the old [MASK] moved a crate"]
    birds: Dict[Tuple[str, str], float] = {}
    for words in blanks[:2]:
        for name, one, mask in (("both sides", model, None), ("the left", twin, causal)):
            p = filled(one, words, mask)
            birds[words, name] = sum(p[verb] for verb in WORLDS["bird"][1])
            print(f"  {words:<36} {name:<11} {birds[words, name]:.2f}  {max(p, key=p.get)}")
    page.save(draw(model, blanks, lines, counting), "masked_words.svg")
    heading("Who sees whom, by gradients: the encoder, and its twin")
    seen = [str(who_sees_whom(one.encoder, ids(blanks[0]), mask=mask)).split("\n")
            for one, mask in ((model, None), (twin, causal))]
    for both, before in zip(*seen):
        print(f"  {both}     {before}")
    heading("What was shown")
    claim("about 80 % of the chosen words are hidden", 0.65 < hidden / len(chosen) < 0.95)
    judge(page, blanks, birds, lines, counting)


def judge(page: Page, blanks: List[str], birds: Dict[Tuple[str, str], float], lines: List[Line],
          counting: float) -> None:
    """What the losses and the words around the crane say, as claims."""
    claim("the encoder is far below counting", lines[1].points[-1][1] < counting - 0.5)
    claim("from the left alone there is no difference, to the last bit",
          birds[blanks[0], "the left"] == birds[blanks[1], "the left"])
    if page.size != "mini":
        claim("who reads both sides is below who reads one",
              lines[1].points[-1][1] < lines[0].points[-1][1] - 0.03)
        claim("a crane with a fish to its right is a bird, with a beam a machine",
              birds[blanks[0], "both sides"] > 0.9 and birds[blanks[1], "both sides"] < 0.1)


if __name__ == "__main__":
    run(main, __doc__ or "")
