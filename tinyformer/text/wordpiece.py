"""WordPiece: BERT's tokenizer.

A word is cut from the left, always taking the longest piece that the vocabulary has; every piece
but the first is written with `##` in front. If at some point nothing fits, the whole word becomes
one `[UNK]`.

    snuffleupagus  ->  s ##nu ##ffle ##up ##ag ##us

Source: Devlin et al. 2018; google-research/bert `tokenization.py`; Schuster & Nakajima 2012 for the
idea.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from .corpus import Corpus, Progress, count_words
from .explain import greedy_explained
from .merges import Merge
from .normalise import Normaliser
from .report import Block
from .tokenizer import Allowed, Piece, Tokenizer
from .trace import Ancestry, Trace, ancestry
from .trainer import Plan, check_size, learn_vocabulary, limited
from .vocabulary import PathLike, read_vocab, write_vocab
from .words import Word, chunks, is_plain, split_plain, split_spans, split_words

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CLEANUPS = ("hf", "legacy", "none")
MAX_WORD = {"hf": 100, "google": 200}  # longer words are [UNK] (characters after normalising)


def spell(word: str) -> List[str]:
    """The first pieces of a word: its characters, all but the first with `##`.

    >>> spell("hug")
    ['h', '##u', '##g']
    """
    return [word[0]] + ["##" + char for char in word[1:]]


def join(left: str, right: str) -> str:
    """The piece that two neighbouring pieces make.

    >>> join("h", "##ug")
    'hug'
    """
    return left + right[2:]


def alphabet(words: Iterable[str]) -> List[str]:
    """Every character, then every character that goes on in a word; both sorted by code point.

    >>> alphabet(["hug"])
    ['g', 'h', 'u', '##g', '##u']
    """
    return (sorted({char for word in words for char in word}) +
            sorted({piece for word in words for piece in spell(word)[1:]}))


def tidy(text: str) -> str:
    """Take away the spaces before closing punctuation and around the apostrophes of English."""
    for spaced in (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're"):
        text = text.replace(spaced, spaced.strip())
    return text


class WordPiece(Tokenizer):
    """A vocabulary and the way to cut text with it.

    * `tokens`: the pieces; the place of a piece is its id. `[UNK]` must be among them.
    * `lowercase, strip_accents, handle_chinese_chars, profile`: see `Normaliser`. The profile
      "google" also knows no special tokens in text, cuts words of up to 200 characters ("hf": 100),
      and leaves the odd token of a truncated pair to the first text ("hf": to the longer one).
    * `special_tokens`: see `Tokenizer`. Those that are not in `tokens` are ignored.

    `WordPiece(t.tokens, **t.settings())` is a copy of `t`, so the two are all that a checkpoint
    needs.

    >>> tokenizer = WordPiece(["[UNK]", "[CLS]", "[SEP]", "en", "##code", "me", "!"])
    >>> tokenizer.encode_ids("Encode me!")
    [3, 4, 5, 6]
    >>> encoding = tokenizer.encode("Encode me!")
    >>> encoding
    Encoding(6 tokens: [CLS] en ##code me ! [SEP])
    >>> encoding.offsets, encoding.word_ids
    ([(0, 0), (0, 2), (2, 6), (7, 9), (9, 10), (0, 0)], [None, 0, 0, 1, 2, None])
    >>> tokenizer.decode(encoding.ids)
    'encode me!'
    """

    def __init__(self, tokens: Iterable[str], lowercase: bool = True,
                 strip_accents: Optional[bool] = None, handle_chinese_chars: bool = True,
                 profile: str = "hf", special_tokens: Sequence[str] = SPECIAL_TOKENS) -> None:
        super().__init__(tokens, special_tokens)
        if "[UNK]" not in self.vocab:
            raise ValueError(f"the vocabulary has no [UNK] among its {len(self.tokens)} pieces: "
                             "words that cannot be cut need it")
        self.normalise: Normaliser = Normaliser(lowercase, strip_accents, handle_chinese_chars,
                                                profile)
        self.odd_to_first = profile == "google"
        self.max_word = MAX_WORD[profile]
        self._unknown = self.vocab["[UNK]"]
        self._first: Dict[str, int] = {}  # pieces that begin a word
        self._next: Dict[str, int] = {}  # pieces that go on, without ##
        for i, token in enumerate(self.tokens):
            if token and token not in self.special_tokens:
                self._first[token] = i
                if token.startswith("##") and len(token) > 2:
                    self._next[token[2:]] = i
        self._longest = max(map(len, self.tokens))
        self.merges: List[Merge] = []  # what training learnt, if it was trained here
        self.trace: Optional[Trace] = None

    @classmethod
    def from_file(cls, path: PathLike, lowercase: bool = True, strip_accents: Optional[bool] = None,
                  handle_chinese_chars: bool = True, profile: str = "hf",
                  special_tokens: Sequence[str] = SPECIAL_TOKENS) -> "WordPiece":
        """The tokenizer of a `vocab.txt` (one piece a line); the rest as in the constructor."""
        return cls(read_vocab(path), lowercase, strip_accents, handle_chinese_chars, profile,
                   special_tokens)

    def save(self, path: PathLike) -> None:
        """Write the pieces as `vocab.txt`."""
        write_vocab(path, self.tokens)

    def settings(self) -> Dict[str, Any]:
        """Everything but the pieces, as JSON can hold it: arguments for the constructor."""
        return dict(self.normalise.settings(), special_tokens=list(self.special_tokens))

    @property
    def pad_id(self) -> int:
        """The id of `[PAD]`, which fills rows up."""
        return self.id_of("[PAD]")

    @property
    def unk_id(self) -> int:
        """The id of `[UNK]`, a word that the vocabulary cannot spell."""
        return self._unknown

    @property
    def cls_id(self) -> int:
        """The id of `[CLS]`, which begins a text."""
        return self.id_of("[CLS]")

    @property
    def sep_id(self) -> int:
        """The id of `[SEP]`, which ends a text."""
        return self.id_of("[SEP]")

    @property
    def mask_id(self) -> int:
        """The id of `[MASK]`, which hides a piece."""
        return self.id_of("[MASK]")

    def template(self) -> Tuple[str, str]:
        """`[CLS]` before the text, `[SEP]` after each text."""
        return "[CLS]", "[SEP]"

    def chunks(self, text: str) -> List[str]:
        """What stands between white space; a Chinese character by itself, if it is to be a word."""
        return chunks(text, self.normalise.handle_chinese_chars)

    def words(self, chunk: str) -> List[Word]:
        """Normalised, and every punctuation character by itself."""
        return split_spans(self.normalise.spans(chunk))

    def plain(self, text: str) -> Optional[Tuple[str, List[str]]]:
        """ASCII without controls: only lower-cased, so the words stand where they stood."""
        if not is_plain(text):
            return None
        text = text.lower() if self.normalise.lowercase else text
        return text, split_plain(text)

    def segment(self, word: str) -> List[Piece]:
        """Cut a normalised word, longest match first."""
        if len(word) > self.max_word:
            return [(self._unknown, 0, len(word))]
        pieces, start, table = [], 0, self._first
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = table.get(word[start:end])
                if piece is not None:
                    break
            else:
                return [(self._unknown, 0, len(word))]
            pieces.append((piece, start, end))
            start, table = end, self._next
        return pieces

    def candidates(self, word: str, start: int) -> Tuple[List[Tuple[str, Optional[int]]],
                                                         Optional[int]]:
        """What `segment` tries from `start` on: each candidate with its id (None: a miss).

        The last one is the hit, and where it ends is the second result; None if all missed.
        """
        table, mark = (self._next, "##") if start else (self._first, "")
        tried: List[Tuple[str, Optional[int]]] = []
        for end in range(min(len(word), start + self._longest), start, -1):
            tried.append((mark + word[start:end], table.get(word[start:end])))
            if tried[-1][1] is not None:
                return tried, end
        return tried, None

    def any_segmentation(self, word: str) -> Optional[List[str]]:
        """The fewest pieces that make up a word, greedy or not; None if there are none."""
        best: List[Optional[List[str]]] = [[]] + [None] * len(word)
        for start in range(len(word)):
            before = best[start]
            if before is None:
                continue
            table, mark = (self._next, "##") if start else (self._first, "")
            for end in range(start + 1, min(len(word), start + self._longest) + 1):
                so_far = best[end]
                if word[start:end] in table and (so_far is None or len(so_far) > len(before) + 1):
                    best[end] = before + [mark + word[start:end]]
        return best[-1]

    def explain_word(self, word: str) -> List[Block]:
        """The candidates of the greedy match, hit or miss."""
        return greedy_explained(self, word)

    def chunk_ids(self, chunk: str) -> Tuple[int, ...]:
        """The ids of a chunk, by the way through translation tables that keeps no spans."""
        ids: List[int] = []
        for word in split_words(self.normalise(chunk)):
            ids += self._spelled[word][0]
        return tuple(ids)

    def _special_pattern(self, allowed: Allowed) -> Optional["re.Pattern[str]"]:
        return super()._special_pattern(allowed and self.normalise.profile == "hf" and allowed)

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True,
               cleanup: str = "hf") -> str:
        """The text of `ids`: a space before every piece that does not begin with `##`.

        `cleanup` takes spaces away again: "hf" before closing punctuation, as `tokenizers` does;
        "legacy" also around apostrophes, as the pure-Python tokenizer of `transformers` does, which
        repairs "it ' s" and spoils quotations; "none" nothing. Case, accents and white space of the
        source are lost. Raises ValueError for an id outside the vocabulary.
        """
        if cleanup not in CLEANUPS:
            raise ValueError(f"unknown cleanup {cleanup!r}: choose one of {', '.join(CLEANUPS)}")
        parts: List[str] = []
        for token in self.checked_tokens(ids, skip_special_tokens):
            part = token if not parts else token[2:] if token.startswith("##") else " " + token
            parts.append(tidy(part) if cleanup == "hf" else part)
        return tidy("".join(parts)) if cleanup == "legacy" else "".join(parts)

    def ancestry(self, piece: str) -> Ancestry:
        """The tree of merges that made a piece, if this vocabulary was trained here."""
        return ancestry(piece, (merge[:3] for merge in self.merges), self.vocab)

    @classmethod
    def train(cls, texts: Corpus, vocab_size: int, *, min_frequency: int = 2,
              criterion: str = "count", limit_alphabet: Optional[int] = None,
              special_tokens: Sequence[str] = SPECIAL_TOKENS, lowercase: bool = True,
              strip_accents: Optional[bool] = None, handle_chinese_chars: bool = True,
              profile: str = "hf", trace: bool = False,
              progress: Progress = None) -> "WordPiece":
        """Learn at most `vocab_size` pieces from texts (str) and files (`os.PathLike`).

        First the special tokens, then the characters, then the merges, best first by `criterion`
        (see `merges`, which also states the tie rule), as long as the pair occurs `min_frequency`
        times. `limit_alphabet` keeps only the most frequent characters; words with others, which
        could only be `[UNK]`, are left out. `progress` is called now and then with a line of text.
        `trace=True` keeps what else could have been merged in `tokenizer.trace`.

        Raises ValueError for a corpus without words, and for a `vocab_size` that does not even hold
        the characters.
        """
        normalise = Normaliser(lowercase, strip_accents, handle_chinese_chars, profile)
        check_size(vocab_size)
        words = count_words(texts, lambda text: chunks(text, handle_chinese_chars),
                            lambda chunk: split_words(normalise(chunk)), progress)
        words = limited(words, limit_alphabet)
        plan = Plan(spell, join, vocab_size, special_tokens, criterion, min_frequency, trace,
                    progress)
        tokens, steps = learn_vocabulary(words, alphabet(words), plan)
        tokenizer = cls(tokens, **normalise.settings(), special_tokens=special_tokens)
        tokenizer.merges = [step.merge for step in steps]
        tokenizer.trace = Trace(criterion, steps) if trace else None
        return tokenizer
