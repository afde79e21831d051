"""WordPiece: BERT's tokenizer.

A word is cut from the left, always taking the longest piece that the vocabulary has; every piece
but the first is written with `##` in front. If at some point nothing fits, the whole word becomes
one `[UNK]`.

    snuffleupagus  ->  s ##nu ##ffle ##up ##ag ##us

Source: Devlin et al. 2018; google-research/bert `tokenization.py`; Schuster & Nakajima 2012 for the
idea.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from .corpus import Corpus, Progress, count_words
from .merges import learn
from .normalise import Normaliser
from .vocabulary import PathLike, check_unique, read_vocab, write_vocab
from .words import chunks, split_words

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
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


class WordPiece:
    """A vocabulary and the way to cut text with it.

    * `tokens`: the pieces; the place of a piece is its id. `[UNK]` must be among them.
    * `lowercase, strip_accents, handle_chinese_chars, profile`: see `Normaliser`.
    * `special_tokens`: pieces that stand for themselves: `decode` leaves them out. Those that are
      not in `tokens` are ignored.

    `WordPiece(t.tokens, **t.settings())` is a copy of `t`, so the two are all that a checkpoint
    needs.

    >>> tokenizer = WordPiece(["[UNK]", "en", "##code", "me", "!"])
    >>> tokenizer.encode_ids("Encode me!")
    [1, 2, 3, 4]
    >>> tokenizer.decode([1, 2, 3, 4])
    'encode me!'
    """
    def __init__(self,
                 tokens: Iterable[str],
                 lowercase: bool = True,
                 strip_accents: Optional[bool] = None,
                 handle_chinese_chars: bool = True,
                 profile: str = "hf",
                 special_tokens: Sequence[str] = SPECIAL_TOKENS) -> None:
        self.tokens = list(tokens)
        check_unique(self.tokens, "piece")
        self.vocab: Dict[str, int] = {token: i for i, token in enumerate(self.tokens)}
        if "[UNK]" not in self.vocab:
            raise ValueError(
                f"the vocabulary has no [UNK] among its {len(self.tokens)} pieces: words that "
                "cannot be cut need it")
        self.special_tokens = tuple(token for token in special_tokens if token in self.vocab)
        self.normalise = Normaliser(lowercase, strip_accents, handle_chinese_chars, profile)
        self.max_word = MAX_WORD[profile]
        self._first = {
            token: i
            for token, i in self.vocab.items() if token and token not in self.special_tokens
        }
        self._next = {
            token[2:]: i
            for token, i in self._first.items() if len(token) > 2 and token.startswith("##")
        }
        self._longest = max(map(len, self.tokens))
        self._cache = _Cache(self._chunk_ids)

    @classmethod
    def from_file(cls, path: PathLike, lowercase: bool = True, **settings: Any) -> "WordPiece":
        """The tokenizer of a `vocab.txt` (one piece a line); `settings` as in the constructor."""
        return cls(read_vocab(path), lowercase=lowercase, **settings)

    def save(self, path: PathLike) -> None:
        """Write the pieces as `vocab.txt`."""
        write_vocab(path, self.tokens)

    def settings(self) -> Dict[str, Any]:
        """Everything but the pieces, as JSON can hold it: arguments for the constructor."""
        normalise = self.normalise
        return {
            "lowercase": normalise.lowercase, "strip_accents": normalise.strip_accents,
            "handle_chinese_chars": normalise.handle_chinese_chars, "profile": normalise.profile,
            "special_tokens": list(self.special_tokens)
        }

    @property
    def vocab_size(self) -> int:
        """The number of ids: the rows of an embedding."""
        return len(self.tokens)

    def _special(self, token: str) -> int:
        if token not in self.vocab:
            raise ValueError(f"the vocabulary has no {token} among its {len(self.tokens)} pieces")
        return self.vocab[token]

    @property
    def pad_id(self) -> int:
        """The id of `[PAD]`, which fills rows up."""
        return self._special("[PAD]")

    @property
    def unk_id(self) -> int:
        """The id of `[UNK]`, a word that the vocabulary cannot spell."""
        return self._special("[UNK]")

    @property
    def cls_id(self) -> int:
        """The id of `[CLS]`, which begins a text."""
        return self._special("[CLS]")

    @property
    def sep_id(self) -> int:
        """The id of `[SEP]`, which ends a text."""
        return self._special("[SEP]")

    @property
    def mask_id(self) -> int:
        """The id of `[MASK]`, which hides a piece."""
        return self._special("[MASK]")

    def segment(self, word: str) -> List[Tuple[int, int, int]]:
        """Cut a normalised word, longest match first: (id, start, end) of each piece."""
        if len(word) > self.max_word:
            return [(self.unk_id, 0, len(word))]
        pieces, start, table = [], 0, self._first
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = table.get(word[start:end])
                if piece is not None:
                    break
            else:
                return [(self.unk_id, 0, len(word))]
            pieces.append((piece, start, end))
            start, table = end, self._next
        return pieces

    def encode_ids(self, text: str) -> List[int]:
        """The ids of a text, without special tokens added. The fast way: what was cut once is
        remembered."""
        return list(chain.from_iterable(map(self._cache.__getitem__, chunks(text))))

    def _chunk_ids(self, chunk: str) -> Tuple[int, ...]:
        return tuple(piece for word in split_words(self.normalise(chunk))
                     for piece, _, _ in self.segment(word))

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of `ids`: a space before every piece, but none before `##` pieces and closing
        punctuation.

        Lower-cased and stripped text stays so, and the white space of the source is lost. Raises
        ValueError for an id outside the vocabulary.
        """
        text = ""
        for place, i in enumerate(ids):
            if not 0 <= i < len(self.tokens):
                raise ValueError(f"id {i} at position {place} is outside the vocabulary of "
                                 f"{len(self.tokens)} pieces")
            token = self.tokens[i]
            if skip_special_tokens and token in self.special_tokens:
                continue
            if text and token.startswith("##"):
                text += token[2:]
            else:
                text += " " * bool(text and token not in (".", "?", "!", ",")) + token
        return text

    @classmethod
    def train(cls,
              texts: Corpus,
              vocab_size: int,
              *,
              min_frequency: int = 2,
              criterion: str = "count",
              special_tokens: Sequence[str] = SPECIAL_TOKENS,
              lowercase: bool = True,
              progress: Progress = None,
              **settings: Any) -> "WordPiece":
        """Learn a vocabulary of at most `vocab_size` pieces from texts (str) and files
        (`os.PathLike`).

        The special tokens come first, then the characters, then the merges, best first by
        `criterion` (see `merges`, which also states the tie rule), as long as the pair occurs
        `min_frequency` times. `progress` is called now and then with a line of text. Raises
        ValueError for a corpus without words, and for a `vocab_size` that does not even hold the
        characters.
        """
        if isinstance(vocab_size, bool) or not isinstance(vocab_size, int):
            raise TypeError(f"vocab_size must be a whole number, not {vocab_size!r}")
        normalise = Normaliser(lowercase, **{k: settings[k] for k in settings})
        words = count_words(texts, chunks, lambda chunk: split_words(normalise(chunk)), progress)
        tokens = list(special_tokens) + [t for t in _alphabet(words) if t not in special_tokens]
        if vocab_size < len(tokens):
            raise ValueError(
                f"vocab_size {vocab_size} is below the {len(special_tokens)} special tokens and "
                f"{len(tokens) - len(special_tokens)} characters of the corpus: "
                f"{len(tokens)} at least")
        known = set(tokens)
        for merge in learn(words, spell, join, criterion,
                           min_frequency) if len(tokens) < vocab_size else ():
            if merge.piece not in known:
                known.add(merge.piece)
                tokens.append(merge.piece)
                if progress and len(tokens) % 100 == 0:
                    progress(f"{len(tokens):,} of {vocab_size:,} pieces, last {merge.piece} "
                             f"({merge.pair_count:,} times)")
            if len(tokens) >= vocab_size:
                break
        return cls(tokens, lowercase=lowercase, special_tokens=special_tokens, **settings)


def _alphabet(words: Iterable[str]) -> List[str]:
    """Every character, then every character that continues a word, with `##`; both in the order of
    code points."""
    characters = {char for word in words for char in word}
    following = {"##" + char for word in words for char in word[1:]}
    return sorted(characters) + sorted(following)


class _Cache(Dict[str, Tuple[int, ...]]):
    """Remembers what `function` makes of a chunk of text, up to `limit` of them; then it starts
    afresh.

    Chunks longer than `longest` characters are never kept, so memory is bounded.
    """
    def __init__(self, function: Any, limit: int = 1 << 17, longest: int = 64) -> None:
        super().__init__()
        self.function, self.limit, self.longest = function, limit, longest

    def __missing__(self, chunk: str) -> Tuple[int, ...]:
        ids: Tuple[int, ...] = self.function(chunk)
        if len(chunk) <= self.longest:
            if len(self) >= self.limit:
                self.clear()
            self[chunk] = ids
        return ids
