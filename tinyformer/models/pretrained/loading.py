"""From a folder to a model."""

from __future__ import annotations

import os
import re
import sys
import warnings
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from tinyformer.arrays import safetensors, xp
from tinyformer.arrays.safetensors import Header
from tinyformer.models.encoder import EncoderModel, MaskedLanguageModel
from tinyformer.models.pretrained.configuration import (architecture_of, family_of, our_config,
                                                        read_json)
from tinyformer.models.pretrained.families import CONFIG, TOKENIZER, VOCABULARY, WEIGHTS
from tinyformer.models.pretrained.families import FLOATS, GPT2, LABELLED, Family, Head
from tinyformer.models.pretrained.tensors import Piece, pieces
from tinyformer.nn import Dropout, described
from tinyformer.text import WordPiece

PURE_BYTES = 32             # a parameter's float, 24 bytes, and a list's pointer to it
NEXT_SENTENCE = "cls.seq_relationship."


class Pretrained(NamedTuple):
    """A model, ready to be used: `tokenizer` is None where the folder has no vocab.txt; `labels`
    are the names of a classifier's classes, where config.json gives them."""

    model: Any
    tokenizer: Optional[WordPiece]
    labels: Tuple[str, ...]


def to_stderr(text: str) -> None:
    """Print a line about what goes on."""
    print(text, file=sys.stderr)


def load_pretrained(folder: Any, progress: Callable[[str], None] = to_stderr) -> Pretrained:
    """The model in `folder` with dropout off, its tokenizer, and the names of its classes.

    Encoders (BERT, MiniLM, DistilBERT) come as `EncoderModel`, or as `MaskedLanguageModel`,
    `SequenceClassifier`, `TokenClassifier` or `SpanClassifier` where the file has that head; GPT-2
    as `DecoderModel`. F16 and BF16 widen to the default dtype. No first weights are drawn. In pure
    Python `progress` is told how much memory the weights will take, before they are loaded.

    Raises FileNotFoundError where a file is missing, SafetensorsError for a damaged one, and
    ValueError for another kind of model, for contradictory or unknown keys in config.json, and for
    tensors that are missing, unexpected, of another shape or no floats: each with every name.
    """
    folder = os.fspath(folder)
    path = os.path.join(folder, CONFIG)
    given = read_json(path)
    header = safetensors.read_header(_weights_file(folder))
    try:
        family = family_of(given)
        names = _their_names(family, header)
        head = _head(family, given, names)
        labels = _labels(given) if head.model in LABELLED else ()
        model = _outlined(family, head, given, header, names)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    needed = pieces(family, head, model)
    _check_tensors(family, needed, names, header, type(model).__name__)
    tokenizer = _tokenizer(folder, getattr(model, "encoder", model).config.vocab_size)
    if xp.name == "python":
        count = model.n_parameters()
        size = count * PURE_BYTES / 1e6
        progress(f"{header.path}: {count:,} parameters, which take about "
                 f"{size:,.{0 if size >= 10 else 2}f} MB of memory in pure Python")
    with open(header.path, "rb") as file:
        for plain, piece in needed.items():
            data = safetensors.read_bytes(file, header, names[plain])
            piece.fill(safetensors.decode(header, names[plain], data))
    return Pretrained(model.eval(), tokenizer, labels)


def _weights_file(folder: str) -> str:
    """The path of model.safetensors. Raises FileNotFoundError that says what is there instead."""
    path = os.path.join(folder, WEIGHTS)
    if os.path.exists(path):
        return path
    there = sorted(os.listdir(folder))
    others = [name for name in there if name.endswith((".bin", ".h5", ".msgpack", ".ckpt", ".pt"))]
    why = "weights are read from a single safetensors file"
    if any(name.endswith(".safetensors.index.json") for name in there):
        why += ("; these are in several: in transformers, save_pretrained(folder, "
                "max_shard_size='100GB') makes one of them")
    elif others:
        why += (f", not from {others[0]}: in transformers, "
                "from_pretrained(folder).save_pretrained(folder) makes one")
    raise FileNotFoundError(f"{path} does not exist; {why}")


def _their_names(family: Family, header: Header) -> Dict[str, str]:
    """The names in the file by their names without a prefix; those that are no weights left out."""
    names: Dict[str, str] = {}
    for name in header.tensors:
        plain = family.canonical(name)
        if plain in names:
            raise ValueError(f"{header.path} has {names[plain]!r} and {name!r}, which are two "
                             "names of one tensor")
        if not re.fullmatch(family.ignored, plain):
            names[plain] = name
    unused = [plain for plain in names if plain.startswith(NEXT_SENTENCE)]
    if unused:
        warnings.warn(f"{header.path}: {', '.join(unused)} not loaded, as there is no head here "
                      "that predicts the next sentence", stacklevel=3)
    return {plain: name for plain, name in names.items() if plain not in unused}


def _head(family: Family, given: Mapping[str, Any], names: Mapping[str, str]) -> Head:
    """Which of their classes the tensors belong to; config.json decides between equals.

    A body without the head that config.json speaks of is taken as a body where that head only
    predicts masked words, as it is often handed on; with any other, its tensors are missing. Raises
    ValueError for a class that is not here, and for tensors of another than config.json says.
    """
    layers = {name.rpartition(".")[0] for name in names}
    body = next(iter(family.heads.values()))
    there = {name: head for name, head in family.heads.items()
             if layers & set(head.layers.values())}
    declared = architecture_of(given)
    if declared is not None and declared not in (*family.heads, *family.understood):
        raise ValueError(f"there is no class like {declared} here, only {', '.join(family.heads)}; "
                         "without architectures in the file, the tensors decide")
    head = family.heads.get(declared or "", body)
    if declared in there or not there:
        return body if not there and head.model is MaskedLanguageModel else head
    if head is not body:
        raise ValueError(f"architectures says {declared}, but the tensors of a head in the file "
                         f"are those of {' or '.join(there)}")
    return max(there.values(), key=lambda head: (
        sum(1 if layer in layers else -1 for layer in head.layers.values()),
        head.pooler == ("pooler.dense" in layers)))


def _outlined(family: Family, head: Head, given: Mapping[str, Any], header: Header,
              names: Mapping[str, str]) -> Any:
    """The model that config.json and the names of the tensors describe, without numbers."""
    fields = our_config(family, given)
    if isinstance(fields["n_layers"], int) and fields["n_layers"] > len(header.tensors):
        raise ValueError(f"{family.keys['n_layers']}={fields['n_layers']:,}, but {header.path} has "
                         f"only {len(header.tensors)} tensors")
    if family is not GPT2:
        fields["pooler"] = bool(head.pooler) or "pooler" in family.layers and any(
            name.startswith("pooler.dense.") for name in names)
        if head.model is MaskedLanguageModel and not given.get("tie_word_embeddings", True):
            raise ValueError("tie_word_embeddings=false, but masked words are scored with the "
                             "vectors of the tokens here")
    with described():
        model = _built(family, head, fields, _n_labels(given, header, names))
    dropout = {**family.defaults, **given}.get(head.dropout or "")
    if dropout is not None:
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)):
            raise ValueError(f"{head.dropout} must be a number, not {dropout!r}")
        model.dropout = Dropout(dropout)
    return model


def _built(family: Family, head: Head, fields: Mapping[str, Any], n_labels: int) -> Any:
    """Our class of a head, with a body of these options."""
    try:
        config: Any = family.config(**fields)
    except TypeError as error:
        raise ValueError(str(error)) from None
    if family is GPT2:
        return head.model(config)
    encoder = EncoderModel(config)
    if head.model is EncoderModel:
        return encoder
    return head.model(encoder, n_labels) if head.model in LABELLED else head.model(encoder)


def _labels(given: Mapping[str, Any]) -> Tuple[str, ...]:
    """The names of the classes in config.json, in order; none where it gives none."""
    labels = given.get("id2label") or {}
    if not isinstance(labels, dict) or not all(isinstance(text, str) for text in labels.values()):
        raise ValueError(f"id2label must give numbers of classes their names, not {labels!r:.80}")
    numbers = [str(number) for number in range(len(labels))]
    if set(labels) != set(numbers):
        raise ValueError(f"id2label must name the classes 0 to {len(labels) - 1}, not "
                         f"{', '.join(labels):.80}")
    count = given.get("num_labels", len(labels))
    if labels and count != len(labels):
        raise ValueError(f"num_labels={count!r} contradicts id2label, which names {len(labels)}")
    return tuple(labels[number] for number in numbers)


def _n_labels(given: Mapping[str, Any], header: Header, names: Mapping[str, str]) -> int:
    """The number of classes: as config.json says, or else as many as the file has."""
    said = len(_labels(given)) or given.get("num_labels")
    if said is not None:
        if isinstance(said, bool) or not isinstance(said, int) or said < 1:
            raise ValueError(f"num_labels must be a whole number of at least 1, not {said!r}")
        return said
    entry = header.tensors.get(names.get("classifier.weight", ""))
    return entry.shape[0] if entry is not None and entry.shape else 2


def _check_tensors(family: Family, needed: Mapping[str, Piece], names: Mapping[str, str],
                   header: Header, model: str) -> None:
    """ValueError with the name of every tensor that is missing, unexpected or does not fit."""
    problems: List[str] = []
    for plain, piece in needed.items():
        if plain not in names:
            problems.append(f"{piece.name}: missing, shape {piece.shape} needed")
            continue
        entry = header.tensors[names[plain]]
        if entry.shape != piece.shape:
            problems.append(f"{names[plain]}: shape {entry.shape} given, {piece.shape} needed")
        if entry.dtype not in FLOATS:
            problems.append(f"{names[plain]}: {entry.dtype} given, one of {', '.join(FLOATS)} "
                            "needed")
    for plain, name in names.items():
        original = names.get(family.tied.get(plain, ""))
        if plain in needed:
            continue
        if original is None:
            problems.append(f"{name}: unexpected, {model} has no such tensor")
        elif not _equal(header, name, original):
            problems.append(f"{name}: not equal to {original}, although one tensor serves as both "
                            "in this model")
    if problems:
        raise ValueError(f"{header.path} does not fit the {model} that {CONFIG} describes; nothing "
                         "was loaded:\n  " + "\n  ".join(problems))


def _equal(header: Header, one: str, other: str) -> bool:
    """Whether two tensors of a file are the same, bit for bit."""
    first, second = header.tensors[one], header.tensors[other]
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return False
    with open(header.path, "rb") as file:
        return (safetensors.read_bytes(file, header, one)
                == safetensors.read_bytes(file, header, other))


def _tokenizer(folder: str, vocab_size: int) -> Optional[WordPiece]:
    """The tokenizer of vocab.txt, as tokenizer_config.json sets it; None where there is none."""
    path, settings = os.path.join(folder, VOCABULARY), os.path.join(folder, TOKENIZER)
    if not os.path.exists(path):
        return None
    given = read_json(settings) if os.path.exists(settings) else {}
    options: Dict[str, Any] = {}
    for ours, theirs, default in (("lowercase", "do_lower_case", True),
                                  ("strip_accents", "strip_accents", None),
                                  ("handle_chinese_chars", "tokenize_chinese_chars", True)):
        options[ours] = given.get(theirs, default)
        if options[ours] is not default and not isinstance(options[ours], bool):
            raise ValueError(f"{settings}: {theirs} must be true or false, not {options[ours]!r}")
    tokenizer = WordPiece.from_file(path, **options)
    if tokenizer.vocab_size > vocab_size:
        raise ValueError(f"{path} has {tokenizer.vocab_size:,} pieces, but the model has vectors "
                         f"for {vocab_size:,}")
    return tokenizer
