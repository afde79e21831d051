"""The unigram language model: every piece has a probability, and a word is cut the likeliest way.

    P(segmentation) = product of p(piece)          hugs -> hug s, if p(hug) p(s) beats all others

So a word has many segmentations, each with its probability: the best one encodes (Viterbi), the n
best can be listed, and sampling gives a model varied views of the same text.

Source: Kudo 2018, "Subword Regularization"; SentencePiece for the marks at word beginnings and the
price of unknown characters.
"""

from __future__ import annotations

import random
import re
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from .corpus import Corpus, Progress, count_words
from .explain import lattice_explained
from .lattice import Lattice, Path
from .normalise import Normaliser
from .report import Block
from .tokenizer import Piece, Tokenizer
from .trainer import check_size
from .unigram_training import learn_pieces
from .vocabulary import PathLike, read_text, write_text
from .words import Word, chunks, word_of

MARK = "\u2581"  # ▁ stands for the white space before a word
UNKNOWN_PENALTY = 10.0  # nats below the least likely piece
BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>\Z")


class Unigram(Tokenizer):
    """Pieces with scores (log probabilities), and the way to cut text with them.

    * `pieces`: (token, score) in the order of the ids.
    * `unk_id`: the piece for characters that have none; neighbours become one. Without it (None)
      such a character is an error.
    * `byte_fallback`: spell unknown characters in the pieces `<0x00>` to `<0xFF>` instead.
    * `marker`: what a word begins with, `▁` in SentencePiece; it stands for the white space before.
    * `lowercase`: controls are deleted, nothing else is changed.

    >>> unigram = Unigram([("<unk>", 0.0), ("h", -2.5), ("u", -1.9), ("g", -2.2), ("ug", -2.4)])
    >>> unigram.encode("hug").tokens
    ['h', 'ug']
    >>> [(round(score, 1), tokens) for score, tokens in unigram.nbest("hug", 5)]
    [(-4.9, ['h', 'ug']), (-6.6, ['h', 'u', 'g'])]
    """

    def __init__(self, pieces: Iterable[Tuple[str, float]], *, unk_id: Optional[int] = 0,
                 byte_fallback: bool = False, marker: str = "", lowercase: bool = False,
                 special_tokens: Sequence[str] = ()) -> None:
        pieces = [(token, float(score)) for token, score in pieces]
        super().__init__((token for token, _ in pieces), special_tokens)
        if unk_id is not None and not 0 <= unk_id < len(self.tokens):
            raise ValueError(f"unk_id {unk_id} is outside the vocabulary of {len(self.tokens)} "
                             "pieces")
        self.scores = [score for _, score in pieces]
        self.unk_id, self.byte_fallback = unk_id, byte_fallback
        self.marker, self.lowercase = marker, lowercase
        self.normalise: Normaliser = Normaliser(lowercase, False, False)
        plain = [(token, i) for token, i in self.vocab.items() if token and i != unk_id
                 and token not in self.special_tokens
                 and not (byte_fallback and BYTE_TOKEN.match(token))]
        self._plain: Dict[str, int] = dict(plain)
        self._longest = max((len(token) for token in self._plain), default=1)
        self._arc_scores = list(self.scores)
        if unk_id is not None:
            self._arc_scores[unk_id] = min(self.scores) - UNKNOWN_PENALTY

    @classmethod
    def from_file(cls, path: PathLike, **settings: Any) -> "Unigram":
        """The tokenizer of a file with a piece, a tab and its score on each line."""
        pieces = []
        for number, line in enumerate(read_text(path).rstrip("\n").split("\n"), 1):
            token, tab, score = line.rstrip("\r").rpartition("\t")
            try:
                pieces.append((token, float(score)))
            except ValueError:
                raise ValueError(f"{path}, line {number}: {line!r} is not a piece, a tab and a "
                                 "number") from None
        return cls(pieces, **settings)

    def save(self, path: PathLike) -> None:
        """Write each piece, a tab and its score as a line."""
        write_text(path, "".join(f"{token}\t{score!r}\n"
                                 for token, score in zip(self.tokens, self.scores)))

    def settings(self) -> Dict[str, Any]:
        """Everything but pieces and scores, as JSON can hold it: arguments for the constructor."""
        return {"unk_id": self.unk_id, "byte_fallback": self.byte_fallback, "marker": self.marker,
                "lowercase": self.lowercase, "special_tokens": list(self.special_tokens)}

    def chunks(self, text: str) -> List[str]:
        """What stands between white space."""
        return chunks(text)

    def words(self, chunk: str) -> List[Word]:
        """One word, with the marker before it, which covers no source."""
        spans = self.normalise.spans(chunk)
        if not spans:
            return []
        place = spans[0][1]
        return [word_of([(char, place, place) for char in self.marker] + spans)]

    def lattice(self, word: str) -> Lattice:
        """All segmentations of a word. Raises ValueError for an unknown character without `unk_id`.

        Where no single character fits, the unknown piece does, for a price.
        """
        arcs, get = [], self._plain.get
        for start in range(len(word)):
            for end in range(start + 1, min(len(word), start + self._longest) + 1):
                piece = get(word[start:end])
                if piece is not None:
                    arcs.append((start, end, piece))
            if word[start] not in self._plain:
                if self.unk_id is None:
                    raise ValueError(f"{word[start]!r} at position {start} of the word {word!r} is "
                                     "not in the vocabulary, and there is no unk_id to stand for "
                                     "it")
                arcs.append((start, start + 1, self.unk_id))
        return Lattice(len(word), arcs, self._arc_scores)

    def segment(self, word: str) -> List[Piece]:
        """The likeliest segmentation."""
        return self._finish_path(word, self.lattice(word).best())

    def _finish_path(self, word: str, path: Path) -> List[Piece]:
        """Unknown characters as bytes, or neighbouring ones as one."""
        pieces: List[Piece] = []
        for start, end, piece in path:
            if piece != self.unk_id:
                pieces.append((piece, start, end))
            elif self.byte_fallback:
                pieces += [(self.id_of(f"<0x{byte:02X}>"), start, end)
                           for byte in word[start:end].encode("utf-8", "surrogateescape")]
            elif pieces and pieces[-1][0] == self.unk_id:
                pieces[-1] = (piece, pieces[-1][1], end)
            else:
                pieces.append((piece, start, end))
        return pieces

    def nbest(self, word: str, n: int) -> List[Tuple[float, List[str]]]:
        """The `n` best segmentations of a word (a text without white space): score and tokens."""
        (text, _, _), = self.words(word)
        return [(score, [self.token_of(piece, text[start:end]) for start, end, piece in path])
                for score, path in self.lattice(text).nbest(n)]

    def sample_ids(self, text: str, generator: random.Random, theta: float = 1.0) -> List[int]:
        """The ids of a text, each word cut at random, with probability proportional to P^theta.

        theta 0 takes any segmentation alike, a large theta the best one (Kudo 2018, equation 3).
        """
        ids = []
        for chunk in self.chunks(text):
            for word, _, _ in self.words(chunk):
                path = self.lattice(word).sample(theta, generator)
                ids += [piece for piece, _, _ in self._finish_path(word, path)]
        return ids

    def token_of(self, piece: int, text: str) -> str:
        """The token; for the unknown piece the text that is unknown."""
        return text if piece == self.unk_id else self.tokens[piece]

    def explain_word(self, word: str) -> List[Block]:
        """The best segmentations with their probabilities."""
        return lattice_explained(self, word)

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of `ids`: markers become spaces, byte pieces characters.

        Without a marker the ends of words are not recorded: pieces are just joined. Raises
        ValueError for an id outside the vocabulary.
        """
        data = b"".join(map(self._bytes_of, self.checked_tokens(ids, skip_special_tokens)))
        text = data.decode("utf-8", "replace")
        if not self.marker:
            return text
        return text.replace(self.marker, " ")[text.startswith(self.marker):]

    def _bytes_of(self, token: str) -> bytes:
        if self.byte_fallback and BYTE_TOKEN.match(token):
            return bytes([int(token[3:5], 16)])
        return token.encode("utf-8", "surrogatepass")

    @classmethod
    def train(cls, texts: Corpus, vocab_size: int, *, unk_token: str = "<unk>", marker: str = MARK,
              lowercase: bool = False, special_tokens: Sequence[str] = (), max_piece: int = 16,
              min_frequency: int = 2, progress: Progress = None) -> "Unigram":
        """Learn `vocab_size` pieces from texts (str) and files (`os.PathLike`): `unk_token`, the
        special tokens, then the pieces, likeliest first. How: see `unigram_training`.

        Raises ValueError for a corpus without words, and for a `vocab_size` below its characters.
        """
        check_size(vocab_size)
        blank = cls([(unk_token, 0.0)], marker=marker, lowercase=lowercase)
        words = count_words(texts, chunks, blank.word_texts, progress)
        first = [unk_token, *(token for token in special_tokens if token != unk_token)]
        learnt = learn_pieces(words, vocab_size - len(first), max_piece, min_frequency, progress)
        return cls([(token, 0.0) for token in first] + learnt, marker=marker, lowercase=lowercase,
                   special_tokens=first)
