"""Live comparison of BPE, Unigram and the trainers with Hugging Face `tokenizers`.

Skipped where it is not installed.
"""

from __future__ import annotations

import os
import random
import sys
import unicodedata

import pytest

tokenizers = pytest.importorskip("tokenizers")

from tokenizers import models, pre_tokenizers, trainers  # noqa: E402

from tinyformer.text import BPE, Unigram, WordPiece  # noqa: E402
from tinyformer.text.bytelevel import byte_word, split_bytes  # noqa: E402

N = int(os.environ.get("TINYFORMER_PARITY_STRINGS", "20000")) // 10


def random_words(generator):
    letters = generator.choice(("ab", "abc", "abcdef"))
    return {"".join(generator.choices(letters, k=generator.randint(1, 7))):
            generator.randint(1, 500) for _ in range(generator.randint(2, 5))}


def without_ties(words, **options):
    """A vocabulary trained here, or None if any merge was decided by a tie rule."""
    corpus = [f"{word} " * n for word, n in words.items()]
    tokenizer = WordPiece.train(corpus, 200, special_tokens=["[UNK]"], trace=True, **options)
    return None if any(step.tied for step in tokenizer.trace.steps) else tokenizer.tokens


def test_training_without_ties():
    """The same pieces, the merges in the same order (the reference shuffles the characters)."""
    generator, compared = random.Random(1), 0
    for _ in range(4000):
        words, floor = random_words(generator), generator.randint(1, 3)
        ours = without_ties(words, min_frequency=floor)
        if ours is None:
            continue
        theirs = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        theirs.train_from_iterator(
            [f"{word} " * n for word, n in words.items()], trainers.WordPieceTrainer(
                vocab_size=200, special_tokens=["[UNK]"], show_progress=False, min_frequency=floor))
        vocab = sorted(theirs.get_vocab(), key=theirs.get_vocab().get)
        assert set(vocab) == set(ours), words
        first = sum(len(token.replace("##", "")) == 1 for token in ours) + 1
        assert vocab[first:] == ours[first:], words
        compared += 1
    assert compared > 50


def text(generator):
    pool = "ab zé漢0²'st ll\n\t \u3000\x85!_-\u0301\U0001f600"
    return "".join(generator.choice(pool) for _ in range(generator.randint(0, 16)))


def test_words_of_gpt2():
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    generator = random.Random(2)
    for _ in range(N):
        sample = text(generator)
        theirs = [word for word, _ in splitter.pre_tokenize_str(sample)]
        assert [byte_word(chunk)[0] for chunk in split_bytes(sample)] == theirs, sample


def test_classes_of_gpt2():
    """Every code point, between letters and digits: the same words, but for newer characters."""
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    codes = [c for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000
             and unicodedata.category(chr(c)) != "Cn"]

    def differ(part):
        sample = "".join(f"a{chr(c)}1 {chr(c)}\n" for c in part)
        theirs = [word for word, _ in splitter.pre_tokenize_str(sample)]
        return [byte_word(chunk)[0] for chunk in split_bytes(sample)] != theirs

    different = [c for i in range(0, len(codes), 256) if differ(codes[i:i + 256])
                 for c in codes[i:i + 256] if differ([c])]
    assert len(different) < len(codes) / 50, len(different)
    assert not any(c < 0x500 or 0x3040 <= c < 0x9F00 for c in different), list(map(hex, different))


@pytest.mark.parametrize("byte_level", [True, False])
def test_bpe(byte_level):
    generator = random.Random(3)
    corpus = [text(generator) for _ in range(300)]
    ours = BPE.train(corpus, 400, byte_level=byte_level, suffix="", unk_token="<unk>",
                     min_frequency=1)
    theirs = tokenizers.Tokenizer(models.BPE(ours.vocab, ours.pairs, unk_token="<unk>"))
    theirs.pre_tokenizer = (pre_tokenizers.ByteLevel(add_prefix_space=False) if byte_level
                            else pre_tokenizers.WhitespaceSplit())
    for _ in range(N):
        sample = text(generator).replace("\x85", "")  # deleted here, white space there
        encoding, right = ours.encode(sample), theirs.encode(sample)
        assert (encoding.ids, encoding.tokens, encoding.offsets, encoding.word_ids) == (
            right.ids, right.tokens, right.offsets, right.word_ids), sample


def test_unigram():
    generator = random.Random(4)
    for _ in range(N // 20):
        pieces = sorted({"".join(generator.choices("abc", k=generator.randint(1, 4)))
                         for _ in range(12)})
        vocab = [("<unk>", 0.0)] + [(piece, -generator.uniform(0.5, 7)) for piece in pieces]
        ours = Unigram(vocab)
        theirs = tokenizers.Tokenizer(models.Unigram(vocab, unk_id=0))
        theirs.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        for _ in range(20):
            sample = "".join(generator.choices("aaabbccdé ", k=generator.randint(0, 12)))
            encoding, right = ours.encode(sample), theirs.encode(sample)
            assert (encoding.ids, encoding.tokens, encoding.offsets) == (
                right.ids, right.tokens, right.offsets), (vocab, sample)
