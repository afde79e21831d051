"""Live comparison of WordPiece with Hugging Face `tokenizers`; skipped where it is not installed.

Equal means byte for byte: ids, tokens, offsets, word ids, type ids and masks. Two differences are
known and nothing else is forgiven:

* **Unicode tables.** The two sides know different editions of Unicode. The code points that differ
  are computed here, by trying every one, and must be those that `data/unicode_drift.json` lists for
  this Python's edition.
* **Reordered marks.** Where decomposing moves a combining mark past another, the reference loses
  track of offsets; here every mark keeps its own. Ids and tokens still agree.
"""

from __future__ import annotations

import json
import os
import random
import sys
import unicodedata
from pathlib import Path

import pytest

tokenizers = pytest.importorskip("tokenizers")

from tinyformer.text import WordPiece  # noqa: E402
from tinyformer.text.normalise import Normaliser, clean  # noqa: E402
from tinyformer.text.words import split_words  # noqa: E402

N_STRINGS = int(os.environ.get("TINYFORMER_PARITY_STRINGS", "20000"))  # for each configuration
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CONFIGURATIONS = {  # lowercase, strip_accents, handle_chinese_chars
    "uncased": (True, None, True), "cased": (False, None, True),
    "lower, keep accents": (True, False, True), "strip, keep case": (False, True, True),
    "no CJK": (True, None, False),
}
DRIFT = Path(__file__).parent / "data" / "unicode_drift.json"


def scalars():
    """Every code point but the surrogates, which the reference cannot be given."""
    return (code for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)


def words_of_reference(lowercase, strip_accents, cjk):
    normaliser = tokenizers.normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=cjk, strip_accents=strip_accents, lowercase=lowercase)
    splitter = tokenizers.pre_tokenizers.BertPreTokenizer()
    return lambda text: [w for w, _ in splitter.pre_tokenize_str(normaliser.normalize_str(text))]


@pytest.fixture(scope="module")
def drift():
    """The code points that the two sides treat differently by themselves, between two letters."""
    found = set()
    for options in ((True, None, True), (False, False, True)):
        theirs, normalise = words_of_reference(*options), Normaliser(*options)

        def differ(codes):
            text = " ".join(f"a{chr(code)}b" for code in codes)
            return theirs(text) != split_words(normalise(text))

        codes = list(scalars())
        for i in range(0, len(codes), 256):
            if differ(codes[i:i + 256]):
                found.update(code for code in codes[i:i + 256] if differ([code]))
    return found


def ranges(codes):
    """[[first, last], ...] of a set of numbers."""
    result = []
    for code in sorted(codes):
        if result and code == result[-1][1] + 1:
            result[-1][1] = code
        else:
            result.append([code, code])
    return result


def test_only_the_listed_code_points_differ(drift):
    listed = json.loads(DRIFT.read_text(encoding="utf-8"))
    edition = unicodedata.unidata_version
    if edition not in listed:
        pytest.skip(f"no list for Unicode {edition}: {len(drift)} code points differ")
    assert ranges(drift) == listed[edition]


def vocabulary(pool, generator):
    """A vocabulary over the pool: most characters, and words of two to four of them."""
    pieces = []
    for char in sorted(set("".join(pool))):
        pieces += [piece for piece in (char, "##" + char) if generator.random() < 0.9]
    common = "abcdehilnorst"
    for _ in range(1500):
        word = "".join(generator.choice(common if generator.random() < 0.8 else pieces)
                       for _ in range(generator.randint(2, 4))).replace("#", "")
        pieces += [word, "##" + word]
    return SPECIAL + [p for p in dict.fromkeys(pieces) if p.strip("#") and p == p.strip()]


def pool_without(drift):
    blocks = [(0x20, 0x7f)] * 6 + [(0xa0, 0x250)] * 3 + [
        (0, 0x20), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700), (0x900, 0xa00), (0xe00, 0xe80),
        (0x1100, 0x1200), (0x1e00, 0x2000), (0x2000, 0x2070), (0x2100, 0x2200), (0x3000, 0x3100),
        (0x4e00, 0x4e80), (0xac00, 0xad00), (0xe000, 0xe010), (0xf900, 0xf920), (0xfb00, 0xfb10),
        (0xfe00, 0xfe10),
        (0xff00, 0xff60), (0xfff0, 0x10000), (0x1d160, 0x1d180), (0x1f600, 0x1f620),
        (0x20000, 0x20010), (0x2a700, 0x2a710), (0x2b740, 0x2b750), (0x2ceb0, 0x2cec0),
        (0xe0020, 0xe0080)]
    return [[chr(code) for code in range(*block) if code not in drift] for block in blocks]


def random_text(generator, pool, drift):
    parts = []
    for _ in range(generator.randint(0, 14)):
        kind = generator.random()
        if kind < 0.04:
            parts.append(generator.choice(SPECIAL + ["[mask]", "[SEP", "##", "[unused5]"]))
        elif kind < 0.08:
            code = generator.randrange(0x110000)
            parts.append("" if code in drift or 0xD800 <= code < 0xE000 else chr(code))
        elif kind < 0.1:
            parts.append("a" * generator.randint(98, 103))
        elif kind < 0.3:
            parts.append(generator.choice(" \t\n\r  "))
        elif kind < 0.6:
            parts.append("".join(generator.choices("abcdehilnorstABCE", k=generator.randint(1, 6))))
        else:
            parts.append(generator.choice(generator.choice(pool)))
    return "".join(parts)


def reorders(text):
    """Whether decomposing the cleaned text moves marks, and not only splits characters."""
    cleaned = "".join(map(clean, text))
    one_by_one = "".join(unicodedata.normalize("NFD", char) for char in cleaned)
    return one_by_one != unicodedata.normalize("NFD", cleaned)


def fields(encoding):
    return (encoding.ids, encoding.tokens, encoding.word_ids, encoding.type_ids,
            encoding.attention_mask, encoding.special_tokens_mask, encoding.sequence_ids)


@pytest.fixture(scope="module", params=sorted(CONFIGURATIONS))
def both(request, drift):
    lowercase, strip_accents, cjk = CONFIGURATIONS[request.param]
    generator = random.Random(request.param)
    pool = pool_without(drift)
    tokens = vocabulary(["".join(block) for block in pool], generator)
    ours = WordPiece(tokens, lowercase, strip_accents, cjk)
    theirs = tokenizers.BertWordPieceTokenizer(
        vocab={token: i for i, token in enumerate(tokens)}, lowercase=lowercase,
        strip_accents=strip_accents, handle_chinese_chars=cjk)
    return ours, theirs._tokenizer, lambda: random_text(generator, pool, drift)


def test_random_strings(both):
    ours, theirs, text = both
    moved = 0
    texts = [text() for _ in range(N_STRINGS)]
    for text, right in zip(texts, theirs.encode_batch(texts)):
        encoding = ours.encode(text)
        assert fields(encoding) == fields(right), text
        assert ours.encode_ids(text) == right.ids[1:-1], text
        if encoding.offsets != right.offsets:
            assert ours.normalise.strips and reorders(text), text
            moved += 1
    assert moved < N_STRINGS / 50


def test_random_pairs_truncated_and_padded(both):
    ours, theirs, text = both
    generator = random.Random(7)
    compared = 0
    for _ in range(N_STRINGS // 20):
        first, second = text(), text() if generator.random() < 0.7 else None
        how = dict(max_length=generator.randint(4, 16), stride=generator.choice((0, 0, 1, 2)))
        strategy = generator.choice(("longest_first", "only_first", "only_second"))
        side = generator.choice(("left", "right"))
        if how["stride"] >= how["max_length"] - (2 if second is None else 3):
            continue  # refused here at once; there only when something is cut
        try:
            theirs.enable_truncation(strategy=strategy, direction=side, **how)
            right = theirs.encode(first, second)
        except BaseException:  # the reference panics in places: only that we refuse too matters
            with pytest.raises(ValueError):
                ours.encode(first, second, truncation=strategy, truncation_side=side,
                            return_overflow=True, **how)
            continue
        finally:
            theirs.no_truncation()
        windows = [right, *right.overflowing]
        if any(len(window.ids) > how["max_length"] for window in windows):
            continue  # a text that was cut to nothing is one over-long window there, none here
        encoding = ours.encode(first, second, truncation=strategy, truncation_side=side,
                               return_overflow=True, **how)
        assert [fields(e) for e in [encoding, *encoding.overflow]] == list(map(fields, windows)), (
            first, second, how, strategy, side)
        compared += 1
    assert compared > N_STRINGS / 80


def test_random_batches_padded(both):
    ours, theirs, text = both
    generator = random.Random(8)
    for _ in range(N_STRINGS // 100):
        texts = [text() for _ in range(generator.randint(1, 4))]
        length = generator.choice((None, 5, 20))
        multiple, side = generator.choice((None, 8)), generator.choice(("left", "right"))
        theirs.enable_padding(direction=side, length=length, pad_to_multiple_of=multiple,
                              pad_id=ours.pad_id)
        right = theirs.encode_batch(texts)
        theirs.no_padding()
        encodings = ours.encode_batch(texts, padding=length or "longest", padding_side=side,
                                      pad_to_multiple_of=multiple)
        assert [fields(e) for e in encodings] == list(map(fields, right))


def test_random_words(both):
    ours, theirs, text = both
    for _ in range(N_STRINGS // 20):
        words = text().split(" ") or [""]
        right = theirs.encode(words, is_pretokenized=True)
        encoding = ours.encode_words(words)
        assert fields(encoding) == fields(right), words


def test_random_ids_decode(both):
    ours, theirs, _ = both
    generator = random.Random(9)
    for _ in range(N_STRINGS // 20):
        ids = [generator.randrange(ours.vocab_size) for _ in range(generator.randint(0, 9))]
        for skip in (True, False):
            assert ours.decode(ids, skip) == theirs.decode(ids, skip_special_tokens=skip), ids
