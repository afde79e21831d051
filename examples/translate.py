"""Translate: an encoder reads a sentence, a decoder writes it in another language.

A grammar makes pairs of English and French sentences. The order of words differs (a green vase, un
vase vert), articles and adjectives take the gender of a noun that may be still to come, and "does
not carry" becomes "ne porte pas". Greedy choice against beam search; what every French word looks
at, drawn as an alignment.

The lecture says that a decoder has the encoder's structure plus masking (slide 18). The paper's has
a third part in each block, attention to what the encoder has read: without it the source does not
reach the target at all. Both are shown.
"""

from __future__ import annotations

from typing import Any, List, Tuple

import tinyformer as tf
from examples._page import Page, claim, heading, run
from tinyformer.arrays.stream import stream
from tinyformer.generation import beam_search
from tinyformer.models import EncoderDecoderConfig, EncoderDecoderModel
from tinyformer.nn import Decoder, Mask
from tinyformer.pictures import beside, table
from tinyformer.training import (AdamW, ExampleBatches, clip_grad_norm, pairs, seq2seq,
                                 warmup_cosine)
from tinyformer.viz import influence, who_sees_whom
from tinyformer.viz.attention import attention_weights

NOUNS = {"vase": ("vase", 0), "fish": ("poisson", 0), "rock": ("rocher", 0), "crane": ("grue", 1),
         "house": ("maison", 1), "table": ("table", 1)}
ADJECTIVES = {"green": ("vert", "verte"), "white": ("blanc", "blanche"),
              "heavy": ("lourd", "lourde"), "red": ("rouge", "rouge")}
ARTICLES = {"the": ("le", "la"), "a": ("un", "une")}
VERBS = {"carries": "porte", "sees": "voit", "breaks": "casse"}
BASE = {"carries": "carry", "sees": "see", "breaks": "break"}
PAD, BEGIN, END = 0, 1, 2
ENGLISH = ["[PAD]", "[BEGIN]", "[END]", *ARTICLES, *NOUNS, *ADJECTIVES, *VERBS, *BASE.values(),
           "does", "not"]
FRENCH = list(dict.fromkeys(
    ["[PAD]", "[BEGIN]", "[END]", *sum(ARTICLES.values(), ()), *(noun for noun, _ in
     NOUNS.values()), *sum(ADJECTIVES.values(), ()), *VERBS.values(), "ne", "pas"]))
LONGEST = 12


def one(of: Any) -> Any:
    """One of several, by the package's stream."""
    return list(of)[stream.integers(len(of), 1)[0]]


def phrase() -> Tuple[List[str], List[str]]:
    """Article, perhaps an adjective, noun; in French the adjective comes last."""
    article, noun, adjective = one(ARTICLES), one(NOUNS), one([None, *ADJECTIVES])
    french, gender = NOUNS[noun]
    there = [ARTICLES[article][gender], french]
    if adjective is None:
        return [article, noun], there
    return [article, adjective, noun], there + [ADJECTIVES[adjective][gender]]


def pair() -> Tuple[List[str], List[str]]:
    """A sentence in both languages, a third of them negated."""
    (actor, acteur), (thing, chose), verb = phrase(), phrase(), one(VERBS)
    if stream.integers(3, 1)[0]:
        return actor + [verb] + thing, acteur + [VERBS[verb]] + chose
    return (actor + ["does", "not", BASE[verb]] + thing,
            acteur + ["ne", VERBS[verb], "pas"] + chose)


def as_ids(english: List[str], french: List[str]) -> Tuple[List[int], List[int]]:
    """A pair as ids, the French one with its end."""
    return ([ENGLISH.index(word) for word in english],
            [FRENCH.index(word) for word in french] + [END])


def train(page: Page, examples: List[Any], test: List[Any]) -> EncoderDecoderModel:
    """A small transformer as in the paper, on pairs of sentences; tested on the way as well."""
    tf.manual_seed(page.seed + 1)
    layers = page.pick(1, 1, 2)
    model = EncoderDecoderModel(EncoderDecoderConfig(
        len(ENGLISH), LONGEST, d_model=page.pick(16, 48, 64), n_layers=layers, n_heads=2,
        d_ff=page.pick(16, 96, 256), dropout=0.0, target_vocab_size=len(FRENCH), std=0.1))
    steps, peak = page.pick(20, 500, 1500), page.pick(0.01, 0.005, 0.003)
    optimiser, rate = AdamW(model.named_parameters(), lr=peak), warmup_cosine(peak, steps // 10,
                                                                              steps)
    batches = ExampleBatches(examples, page.pick(8, 32, 64), pairs, bucket=8)
    for step in range(1, steps + 1):
        loss = seq2seq(model, *next(batches), begin_id=BEGIN)
        loss.backward()
        clip_grad_norm(model.named_parameters(), 1.0)
        optimiser.step(rate(step))
        optimiser.zero_grad()
        if step in (1, steps // 10, steps):
            print(f"  step {step}: loss {loss.item():.3f}")
        if step == steps // 10:
            compare(model, test)
    return model


def written(model: EncoderDecoderModel, sources: List[List[int]], width: int) -> Tuple[Any, Any]:
    """The best translation of every source, without its end, and the logarithms of their p."""
    found = beam_search(model, [[BEGIN]] * len(sources), LONGEST - 1, end_id=END, width=width,
                        length_penalty=0.0, source=sources)
    return ([best[0].ids[:-1] for best in found], [best[0].log_probability for best in found])


def compare(model: EncoderDecoderModel, test: List[Any]) -> float:
    """Greedy choice and beam search on sentences that were not trained on: exact translations."""
    sources = [source for source, _ in test]
    results = {}
    for width in (1, 4):
        texts, logs = written(model, sources, width)
        exact = sum(text == target[:-1] for text, (_, target) in zip(texts, test)) / len(test)
        results[width] = exact, logs
        print(f"    {'greedy' if width == 1 else 'beam 4'}: {exact:.0%} exact, "
              f"mean ln p {sum(logs) / len(logs):.4f}")
    better = sum(beam > greedy + 1e-4 for greedy, beam in zip(results[1][1], results[4][1]))
    worse = sum(beam < greedy - 1e-4 for greedy, beam in zip(results[1][1], results[4][1]))
    print(f"    the beam found a likelier text for {better} of {len(test)}, a less likely one for "
          f"{worse}")
    claim("the beam's texts are likelier on the mean, or the same",
          sum(results[4][1]) >= sum(results[1][1]) - 1e-3)
    return results[1][0]


def alignment(page: Page, model: EncoderDecoderModel, english: List[str]) -> List[List[float]]:
    """What every French word looks at: the weights of the last cross-attention, mean of heads."""
    source = [ENGLISH.index(word) for word in english]
    (target,), _ = written(model, [source], 4)
    words = [FRENCH[token] for token in target] + ["[END]"]
    weights = attention_weights(model, lambda: model([source], [[BEGIN] + target]))
    name = [name for name in weights if "cross_attention" in name][-1]
    heads = weights[name][0]
    mean = [[sum(head[t][s] for head in heads) / len(heads) for s in range(len(source))]
            for t in range(len(words))]
    print(f"  {' '.join(english)} -> {' '.join(words[:-1])}")
    pictures = [table(cells, title=title, row_names=words, column_names=english, largest=1.0)
                for title, cells in [("all heads", mean)] + [
                    (f"head {number}", head) for number, head in enumerate(heads)]]
    page.save(beside(*pictures, title="Where each French word looks when it is written",
                     columns=3), "translate.svg")
    return mean


def without_cross_attention(model: EncoderDecoderModel) -> None:
    """Who sees whom, with the third part of a decoder's block and without."""
    heading("The lecture's decoder, the encoder's structure plus masking, never sees the source")
    source, target = [3, 5, 15], [BEGIN, 3, 7]
    vectors = [table(tf.tensor([ids])).detach() for table, ids in
               ((model.tokens, source), (model.target_tokens, target))]
    alone = Decoder(1, model.config.d_model, 2, 8, dropout=0.0)
    lecture = influence(lambda s, t: alone(t, Mask.causal(t.shape[1])), *vectors)
    paper = who_sees_whom(model, source, target)
    print("  without (slide 18)   with cross-attention (the paper)")
    for left, right in zip(str(lecture).split("\n"), str(paper).split("\n")):
        print(f"  {left:<21}{right}")
    claim("without: no source word reaches any target word",
          not any(any(row[:3]) for row in lecture.seen))
    claim("with: every source word reaches every target word, later target words do not",
          all(all(row[:3]) for row in paper.seen)
          and [row[3:] for row in paper.seen] == [[j <= i for j in range(3)] for i in range(3)])


def main(page: Page) -> None:
    """Make the pairs, train, translate what is new, draw."""
    drawn = [pair() for _ in range(page.pick(60, 3000, 6000))]
    held = {" ".join(english) for english, _ in drawn[:page.pick(10, 200, 400)]}
    examples = [as_ids(*each) for each in drawn if " ".join(each[0]) not in held]
    test = [as_ids(*each) for each in drawn[:len(held)]]
    heading(f"{len(examples)} pairs to learn from, {len(test)} others to translate")
    model = train(page, examples, test)
    exact = compare(model, test)
    heading("An alignment")
    mean = alignment(page, model, "the green vase does not carry a heavy house".split())
    without_cross_attention(model)
    heading("What was shown")
    claim("every French word looks somewhere: its weights sum to 1",
          all(abs(sum(row) - 1) < 1e-5 for row in mean))
    if page.size != "mini":
        looks = [row.index(max(row)) for row in mean]
        claim("vase, vert, maison and lourde look at vase, green, house and heavy, across the "
              "other order", [looks[place] for place in (1, 2, 7, 8)] == [2, 1, 8, 7])
        claim("nearly all new sentences are translated without a mistake", exact > 0.9)


if __name__ == "__main__":
    run(main, __doc__ or "")
