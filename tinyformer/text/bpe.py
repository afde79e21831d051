"""Byte-pair encoding: pieces by replaying, on every word, the merges that were learnt.

    hugs:  h u g s  ->  h ug s  ->  hug s  ->  hugs          merges: u g, h ug, hug s

At every step the pair that was learnt first is joined (the leftmost, if it stands there twice),
until no neighbours are a known pair. Two kinds:

* character-level (Sennrich et al. 2016): words between white space; the last piece of a word ends
  in `</w>`, so that decoding knows where words end;
* byte-level (Radford et al. 2019, GPT-2): words of bytes, see `bytelevel`. Nothing is ever unknown.
"""

from __future__ import annotations

import heapq
import json
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from .bytelevel import BYTES, byte_word, split_bytes, to_bytes
from .corpus import Corpus, Progress, count_words
from .explain import merges_explained
from .normalise import Normaliser
from .report import Block
from .tokenizer import Piece, Tokenizer
from .trace import Ancestry, Trace, ancestry
from .trainer import Plan, check_size, learn_vocabulary, limited
from .vocabulary import PathLike, read_text, write_text
from .words import Word, chunks, word_of

Pair = Tuple[str, str]


class BPE(Tokenizer):
    """A vocabulary, the merges in the order they were learnt, and the way to cut text with them.

    * `tokens`, `special_tokens`: see `Tokenizer`.
    * `merges`: pairs of pieces. Each must make a piece of the vocabulary.
    * `byte_level`: bytes as GPT-2 has them, instead of characters.
    * `unk_token`: stands for a character that the vocabulary does not have; neighbours become one
      if `fuse_unk`. Without it such a character is an error.
    * `suffix`: what the last piece of a word ends in, such as `</w>`.
    * `lowercase`: for character-level; controls are deleted, nothing else is changed.

    >>> bpe = BPE(["h", "u", "g", "s", "ug", "hug"], [("u", "g"), ("h", "ug")])
    >>> bpe.encode("hugs hug").tokens
    ['hug', 's', 'hug']
    """

    def __init__(self, tokens: Iterable[str], merges: Iterable[Sequence[str]], *,
                 byte_level: bool = False, unk_token: Optional[str] = None, fuse_unk: bool = False,
                 suffix: str = "", lowercase: bool = False,
                 special_tokens: Sequence[str] = ()) -> None:
        super().__init__(tokens, special_tokens)
        self.byte_level, self.suffix = byte_level, suffix
        self.unk_token, self.fuse_unk = unk_token, fuse_unk
        self.lowercase = lowercase
        self.unk_id = None if unk_token is None else self.id_of(unk_token)
        self.pairs: List[Pair] = [(left, right) for left, right in merges]
        self.ranks: Dict[Pair, int] = {}
        for rank, (left, right) in enumerate(self.pairs):
            if left + right not in self.vocab:
                raise ValueError(f"merge {rank}, {left!r} + {right!r}, makes {left + right!r}, "
                                 f"which is not among the {len(self.tokens)} pieces")
            self.ranks.setdefault((left, right), rank)
        self.normalise = None if byte_level else Normaliser(lowercase, False, False)
        self.trace: Optional[Trace] = None

    @classmethod
    def from_files(cls, vocab: PathLike, merges: PathLike, *, byte_level: bool = True,
                   special_tokens: Sequence[str] = ("<|endoftext|>", ), **settings: Any) -> "BPE":
        """The tokenizer of a `vocab.json` (piece to id) and a `merges.txt` (a pair a line)."""
        return cls(read_vocab_json(vocab), read_merges(merges), byte_level=byte_level,
                   special_tokens=special_tokens, **settings)

    def save(self, vocab: PathLike, merges: PathLike) -> None:
        """Write `vocab.json` and `merges.txt`."""
        write_text(vocab, json.dumps(self.vocab, ensure_ascii=False))
        lines = [f"{left} {right}\n" for left, right in self.pairs]
        write_text(merges, "#version: 0.2\n" + "".join(lines))

    def settings(self) -> Dict[str, Any]:
        """Everything but the pieces, as JSON can hold it: arguments for the constructor."""
        return {"merges": [list(pair) for pair in self.pairs], "byte_level": self.byte_level,
                "unk_token": self.unk_token, "fuse_unk": self.fuse_unk, "suffix": self.suffix,
                "lowercase": self.lowercase, "special_tokens": list(self.special_tokens)}

    def chunks(self, text: str) -> List[str]:
        """GPT-2's words, or what stands between white space."""
        return split_bytes(text) if self.byte_level else chunks(text)

    def words(self, chunk: str) -> List[Word]:
        """One word: its bytes, or its characters."""
        if self.normalise is None:
            word = byte_word(chunk)
        else:
            word = word_of(self.normalise.spans(chunk))
        return [word] if word[0] else []

    def spell(self, word: str) -> List[str]:
        """The first pieces of a word: its characters, the last one with the suffix."""
        return list(word[:-1]) + [word[-1] + self.suffix]

    def segment(self, word: str) -> List[Piece]:
        """Replay the merges on a word. Raises ValueError for a character without a piece."""
        pieces: List[Piece] = []
        for symbol, start, end in replay(self.spell(word), self.ranks):
            end = min(end, len(word))
            known = self.vocab.get(symbol, self.unk_id)
            if known is None:
                raise ValueError(f"{symbol!r} at position {start} of the word {word!r} is not in "
                                 "the vocabulary, and there is no unk_token to stand for it")
            if pieces and self.fuse_unk and known == self.unk_id == pieces[-1][0]:
                pieces[-1] = (known, pieces[-1][1], end)
            else:
                pieces.append((known, start, end))
        return pieces

    def explain_word(self, word: str) -> List[Block]:
        """The merges, in the order they are made."""
        return merges_explained(self, word)

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of `ids`. Bytes that are not UTF-8 become U+FFFD (`decode_bytes` keeps them).

        Without byte level and without a suffix the ends of words are not recorded: pieces are just
        joined. Raises ValueError for an id outside the vocabulary.
        """
        if self.byte_level:
            return self.decode_bytes(ids, skip_special_tokens).decode("utf-8", "replace")
        text = "".join(self.checked_tokens(ids, skip_special_tokens))
        return text.replace(self.suffix, " ").rstrip(" ") if self.suffix else text

    def decode_bytes(self, ids: Iterable[int], skip_special_tokens: bool = True) -> bytes:
        """The bytes of `ids`, exactly (byte-level only)."""
        if not self.byte_level:
            raise ValueError("decode_bytes needs a byte-level vocabulary")
        return b"".join(token.encode("utf-8") if token in self.special_tokens else to_bytes(token)
                        for token in self.checked_tokens(ids, skip_special_tokens))

    def encode_bytes(self, data: bytes) -> List[int]:
        """The ids of any bytes, UTF-8 or not; `decode_bytes` gives them back (byte-level only)."""
        if not self.byte_level:
            raise ValueError("encode_bytes needs a byte-level vocabulary")
        return self.encode_ids(data.decode("utf-8", "surrogateescape"), allow_special=False)

    def ancestry(self, piece: str) -> Ancestry:
        """The tree of merges that made a piece."""
        return ancestry(piece, ((a, b, a + b) for a, b in self.pairs), self.vocab)

    @classmethod
    def train(cls, texts: Corpus, vocab_size: int, *, byte_level: bool = False,
              suffix: Optional[str] = None, criterion: str = "count", min_frequency: int = 2,
              limit_alphabet: Optional[int] = None, special_tokens: Sequence[str] = (),
              unk_token: Optional[str] = None, lowercase: bool = False, trace: bool = False,
              progress: Progress = None) -> "BPE":
        """Learn at most `vocab_size` pieces from texts (str) and files (`os.PathLike`).

        First the special tokens (`unk_token` among them, if there is one), then the characters, or
        the 256 bytes, then the merges; the rest as in `WordPiece.train`. The suffix is `</w>`
        unless told, and none at byte level.
        """
        check_size(vocab_size)
        suffix = ("" if byte_level else "</w>") if suffix is None else suffix
        if unk_token is not None and unk_token not in special_tokens:
            special_tokens = (unk_token, *special_tokens)
        settings: Dict[str, Any] = dict(byte_level=byte_level, suffix=suffix, lowercase=lowercase,
                                        special_tokens=special_tokens)
        blank = cls(special_tokens, [], **settings)
        words = count_words(texts, blank.chunks, blank.word_texts, progress)
        words = limited(words, limit_alphabet)
        plan = Plan(blank.spell, str.__add__, vocab_size, special_tokens, criterion, min_frequency,
                    trace, progress)
        alphabet = BYTES if byte_level else {piece for word in words for piece in blank.spell(word)}
        tokens, steps = learn_vocabulary(words, sorted(alphabet), plan)
        merges = [(step.merge.left, step.merge.right) for step in steps]
        tokenizer = cls(tokens, merges, unk_token=unk_token, **settings)
        tokenizer.trace = Trace(criterion, steps) if trace else None
        return tokenizer


def replay(symbols: Sequence[str], ranks: Dict[Pair, int]) -> List[Tuple[str, int, int]]:
    """Join neighbours until none are a known pair: (piece, start, end), counted in first symbols.

    A heap holds the pairs by rank, then place; links lead over symbols that were swallowed. A word
    of n symbols takes O(n log n).
    """
    texts: List[Optional[str]] = list(symbols)
    after = list(range(1, len(texts) + 1))
    before = list(range(-1, len(texts) - 1))
    heap = [(ranks[pair], i, pair) for i, pair in enumerate(zip(symbols, symbols[1:]))
            if pair in ranks]
    heapq.heapify(heap)

    def push(left: int, right: int) -> None:
        """Queue the merge of two neighbours, if they have one."""
        if left >= 0 and right < len(texts):
            pair = (texts[left], texts[right])
            if pair in ranks:
                heapq.heappush(heap, (ranks[pair], left, pair))

    while heap:
        _, left, pair = heapq.heappop(heap)
        right = after[left]
        if right == len(texts) or (texts[left], texts[right]) != pair:
            continue  # one of the two was joined with another neighbour meanwhile
        texts[left], texts[right] = pair[0] + pair[1], None
        after[left] = after[right]
        if after[left] < len(texts):
            before[after[left]] = left
        push(before[left], left)
        push(left, after[left])
    return [(text, i, after[i]) for i, text in enumerate(texts) if text is not None]


def read_vocab_json(path: PathLike) -> List[str]:
    """The pieces of a `vocab.json`, in the order of their ids.

    Raises ValueError unless it is an object of pieces with the ids 0, 1, 2, ... each once.
    """
    try:
        vocab = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(vocab, dict) or not vocab:
        raise ValueError(f"{path} must hold one object that gives every piece its id")
    by_id = {i: piece for piece, i in vocab.items()}
    for i in range(len(vocab)):
        if i not in by_id:
            raise ValueError(f"{path} has {len(vocab)} pieces, but none with the id {i}")
    return [by_id[i] for i in range(len(vocab))]


def read_merges(path: PathLike) -> List[Pair]:
    """The pairs of a `merges.txt`, first learnt first. Raises ValueError for any other line."""
    pairs = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        line = line.rstrip("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, space, right = line.partition(" ")
        if not left or not right or " " in right:
            raise ValueError(f"{path}, line {number}: {line!r} is not two pieces with a space "
                             "between")
        pairs.append((left, right))
    return pairs
