"""config.json: which model a folder holds, and with which options; both ways.

A key that is not known could change what is computed, so it is refused; so is one that is known to.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

from tinyformer.models.config import TransformerConfig
from tinyformer.models.pretrained.families import ACTIVATIONS, FAMILIES, HARMLESS, PLAIN, Family
from tinyformer.text.vocabulary import read_text, write_text

LONGEST = 10_000_000            # bytes


def family_of(given: Mapping[str, Any]) -> Family:
    """The family of the model that a config.json describes, by its `model_type`, or by its
    `architectures` where it has none. Raises ValueError for one that is not here."""
    declared, kind = architecture_of(given), given.get("model_type")
    if kind is None:
        kind = next((name for name, family in FAMILIES.items() if declared in family.heads), None)
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ValueError(f"no model here is a {kind!r} (model_type; architectures: {declared!r}); "
                         f"those that are read are {', '.join(FAMILIES)}")
    family = FAMILIES[kind]
    if declared is not None and not declared.startswith(family.stem):
        raise ValueError(f"model_type says {kind!r}, but architectures says {declared!r}")
    return family


def architecture_of(given: Mapping[str, Any]) -> Optional[str]:
    """Their name of the class that saved a folder, where config.json has one."""
    names = given.get("architectures")
    if not names:
        return None
    if not isinstance(names, list) or not isinstance(names[0], str):
        raise ValueError(f"architectures is a list of names of classes, not {names!r:.80}")
    return str(names[0])


def our_config(family: Family, given: Mapping[str, Any]) -> Dict[str, Any]:
    """The fields of our configuration that a config.json says.

    Raises ValueError that lists every key that is unknown, that contradicts another, or that asks
    for what is not computed here.
    """
    problems = _odd_keys(family, given)
    values = {**family.defaults, **given}
    for alias, key in family.aliases.items():
        if alias in given and given.get(key, given[alias]) != given[alias]:
            problems.append(f"{alias}={given[alias]!r} contradicts {key}={given[key]!r}")
        elif alias in given:
            values[key] = given[alias]
    fields = {ours: values[theirs] for ours, theirs in family.keys.items()}
    if not isinstance(fields["activation"], str) or fields["activation"] not in ACTIVATIONS:
        problems.append(f"{family.keys['activation']}={fields['activation']!r} is no activation "
                        f"here; there are {', '.join(ACTIVATIONS)}")
    for name, value in fields.items():
        if name in ("dropout", "attention_dropout", "eps", "std") and (
                isinstance(value, bool) or not isinstance(value, (int, float))):
            problems.append(f"{family.keys[name]} must be a number, not {value!r}")
        elif name == "tie_weights" and not isinstance(value, bool):
            problems.append(f"{family.keys[name]} must be true or false, not {value!r}")
    if problems:
        raise ValueError("; ".join(problems))
    fields["activation"] = ACTIVATIONS[fields["activation"]]
    return {**family.fixed, **fields}


def _odd_keys(family: Family, given: Mapping[str, Any]) -> List[str]:
    known = {*HARMLESS, *PLAIN, *family.defaults, *family.idle, *family.aliases}
    problems = [f"{key!r} is unknown; what it asks for could not be honoured (remove it from the "
                "file if it changes nothing)" for key in given if key not in known]
    return problems + [f"{key}={given[key]!r} is not computed here, only {allowed[0]!r}"
                       for key, allowed in PLAIN.items()
                       if key in given and given[key] not in allowed]


def their_config(family: Family, config: TransformerConfig, pooler: bool) -> Dict[str, Any]:
    """The keys of config.json that say our configuration; `pooler`: whether that is saved too.

    Raises ValueError that names the options which their models do not have.
    """
    width = config.d_model // config.n_heads
    problems = [f"{name}={getattr(config, name)!r} (there it is {value!r})"
                for name, value in family.fixed.items() if getattr(config, name) != value
                and (name != "pooler_activation" or pooler)]
    problems += [f"{name}={getattr(config, name)} (there it is d_model / n_heads)"
                 for name in ("d_k", "d_v") if getattr(config, name) not in (None, width)
                 or config.d_model % config.n_heads]
    if problems:
        raise ValueError(f"transformers has no such model: of its families {family.model_type} is "
                         f"the nearest, but this model has {', '.join(problems)}. A checkpoint "
                         "(tinyformer.training.checkpoint) can hold any model")
    values = {theirs: getattr(config, ours) for ours, theirs in family.keys.items()}
    key = family.keys["activation"]
    values[key] = next(theirs for theirs, ours in ACTIVATIONS.items() if ours == values[key])
    return {"model_type": family.model_type, **values}


def _unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} occurs twice")
    return found


def read_json(path: str) -> Dict[str, Any]:
    """The object in a JSON file. Raises ValueError for a file that is none."""
    if os.path.isfile(path) and os.path.getsize(path) > LONGEST:
        raise ValueError(f"{path} is {os.path.getsize(path):,} bytes long: too long for what it "
                         "should be")
    text = read_text(path)
    try:
        values = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON that can be used: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold an object of keys and values, not {values!r:.40}")
    return values


def write_json(path: str, values: Mapping[str, Any]) -> None:
    """Write an object, all of it or nothing."""
    write_text(path, json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
