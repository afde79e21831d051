"""From a model to a folder."""

from __future__ import annotations

import os
import warnings
from typing import Any, Dict, Optional, Sequence, Tuple

from tinyformer.arrays import safetensors
from tinyformer.models.pretrained.configuration import their_config, write_json
from tinyformer.models.pretrained.families import CONFIG, TOKENIZER, VOCABULARY, WEIGHTS
from tinyformer.models.pretrained.families import (BERT, DISTILBERT, FAMILIES, FLOATS, GPT2,
                                                   LABELLED, Family, Head)
from tinyformer.models.pretrained.tensors import pieces
from tinyformer.text import WordPiece


def save_pretrained(model: Any, folder: Any, tokenizer: Optional[WordPiece] = None,
                    labels: Sequence[str] = (), dtype: str = "F32") -> None:
    """Write a model that `transformers` has too, so that it opens there and goes on: config.json,
    model.safetensors in `dtype` ("F32", "F16", "BF16" or "F64") and, with a tokenizer, vocab.txt.

    The folder is made where there is none; files of these names are replaced. `labels` are the
    names of a classifier's classes. A pooler that a head does not use is left out, with a warning.
    Raises ValueError, before anything is written, for a model that `transformers` does not have,
    naming the options, and for a tokenizer, labels or a dtype that do not fit.
    """
    family, architecture, head = _class_there(model)
    config = getattr(model, "encoder", model).config
    pooler = getattr(config, "pooler", False) and head.pooler is not False
    values = {"architectures": [architecture], **their_config(family, config, pooler),
              **head.constants, **_vocabulary_keys(family, config, tokenizer),
              **_label_keys(model, tuple(labels))}
    if head.dropout is not None:
        values[head.dropout] = model.dropout.p
    if dtype not in FLOATS:
        raise ValueError(f"weights are saved as one of {', '.join(FLOATS)}, not as {dtype!r}")
    folder = os.fspath(folder)
    if tokenizer is not None and os.path.exists(os.path.join(folder, "tokenizer.json")):
        raise ValueError(f"{folder} holds the tokenizer.json of another tokenizer, which "
                         "transformers would read instead of this one: choose another folder")
    _warn_about_pooler(architecture, config, head)
    tensors = {piece.name: piece.array() for piece in pieces(family, head, model, pooler).values()}
    os.makedirs(folder, exist_ok=True)
    safetensors.save(os.path.join(folder, WEIGHTS), tensors, {"format": "pt"}, dtype)
    write_json(os.path.join(folder, CONFIG), values)
    if tokenizer is not None:
        tokenizer.save(os.path.join(folder, VOCABULARY))
        write_json(os.path.join(folder, TOKENIZER), _tokenizer_keys(tokenizer, config.max_len))


def _class_there(model: Any) -> Tuple[Family, str, Head]:
    """The family, the name and the head of the class that `transformers` has for a model."""
    config: Any = getattr(getattr(model, "encoder", model), "config", None)
    family = GPT2 if config is not None and not hasattr(config, "n_segments") else (
        BERT if getattr(config, "n_segments", 0) else DISTILBERT)
    for name, head in family.heads.items():
        if type(model) is head.model:
            if family is DISTILBERT and head.layers == {} and config.pooler:
                raise ValueError("transformers has no encoder with pooler=True and n_segments=0: "
                                 "make it with pooler=False (DistilBERT) or n_segments=1 (BERT)")
            return family, name, head
    known = {head.model.__name__ for family in FAMILIES.values() for head in family.heads.values()}
    raise ValueError(f"transformers has no model like {type(model).__name__}; those that it can "
                     f"open are {', '.join(sorted(known))}. A checkpoint "
                     "(tinyformer.training.checkpoint) can hold any model")


def _vocabulary_keys(family: Family, config: Any,
                     tokenizer: Optional[WordPiece]) -> Dict[str, Any]:
    """Which ids are special there. Padding is: its vector is not trained."""
    if tokenizer is not None:
        if tokenizer.vocab_size > config.vocab_size:
            raise ValueError(f"the tokenizer has {tokenizer.vocab_size:,} pieces, but the model "
                             f"has vectors for {config.vocab_size:,}")
        if tokenizer.settings()["profile"] != "hf":
            raise ValueError(f"the tokenizer has profile={tokenizer.settings()['profile']!r}, "
                             "which transformers does not have: make it with profile='hf'")
    keys = {"pad_token_id": None if tokenizer is None else tokenizer.vocab.get("[PAD]")}
    if family is GPT2:                  # there the last of the 50,257 unless it is said to be none
        end = 50_256 if config.vocab_size > 50_256 else None
        keys.update(bos_token_id=end, eos_token_id=end)
    return keys


def _label_keys(model: Any, labels: Tuple[str, ...]) -> Dict[str, Any]:
    """The names of the classes, LABEL_0, LABEL_1, ... unless given."""
    count = model.classifier.weight.shape[0] if type(model) in LABELLED else 0
    if labels and len(labels) != count:
        raise ValueError(f"{len(labels)} labels for a model of {count} classes")
    names = labels or tuple(f"LABEL_{number}" for number in range(count))
    if len(set(names)) < len(names):
        raise ValueError(f"two classes cannot have one name: {', '.join(names)}")
    return {"id2label": {str(number): name for number, name in enumerate(names)},
            "label2id": {name: number for number, name in enumerate(names)}} if names else {}


def _warn_about_pooler(architecture: str, config: Any, head: Head) -> None:
    """Say where `transformers` and the model differ about the pooler."""
    if getattr(config, "pooler", False) and head.pooler is False:
        warnings.warn(f"the pooler is not saved: {architecture} has none, and its head does not "
                      "use it", stacklevel=3)
    elif architecture == "BertModel" and not config.pooler:
        warnings.warn("this encoder has no pooler: open it with BertModel.from_pretrained(folder, "
                      "add_pooling_layer=False)", stacklevel=3)


def _tokenizer_keys(tokenizer: WordPiece, max_len: Optional[int]) -> Dict[str, Any]:
    settings = tokenizer.settings()
    return {"tokenizer_class": "BertTokenizer", "do_lower_case": settings["lowercase"],
            "strip_accents": settings["strip_accents"], "model_max_length": max_len,
            "tokenize_chinese_chars": settings["handle_chinese_chars"]}
