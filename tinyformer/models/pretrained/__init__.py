"""Weights from and to folders of the Hugging Face ecosystem: BERT, MiniLM, DistilBERT and GPT-2.

A folder holds config.json (sizes and options), model.safetensors (the weights) and, for encoders,
vocab.txt (the pieces of the tokenizer). `load_pretrained` reads what `transformers` writes, and
`save_pretrained` writes what it reads, so that a model can go on there. `families` says how the two
name the same things.

A folder comes from somewhere else: its configuration, and the name, shape and kind of every tensor
are held against what the model needs before memory is taken for any of them. No part of it can run.
"""

from tinyformer.models.pretrained.loading import Pretrained, load_pretrained
from tinyformer.models.pretrained.saving import save_pretrained

__all__ = ["Pretrained", "load_pretrained", "save_pretrained"]
