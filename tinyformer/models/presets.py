"""Well-known sizes by name, and models that are described without one weight being there.

    >>> describe("bert-base-cased").n_parameters()
    108310272
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Type, Union

from tinyformer.models.config import TransformerConfig
from tinyformer.models.decoder import DecoderConfig, DecoderModel
from tinyformer.models.encoder import EncoderConfig, EncoderModel
from tinyformer.models.encoder_decoder import EncoderDecoderConfig, EncoderDecoderModel
from tinyformer.nn import Module, described
from tinyformer.nn.layers import named

# BERT: Devlin et al., 2019; GPT-2: Radford et al., 2019; transformer-base: Vaswani et al., 2017,
# table 3; XLM-R with the numbers that the textbook gives (Jurafsky and Martin, section 9.2).
PRESETS: Mapping[str, TransformerConfig] = {
    "bert-base-cased": EncoderConfig(28_996, max_len=512, d_model=768, n_layers=12, n_heads=12),
    "bert-base-uncased": EncoderConfig(30_522, max_len=512, d_model=768, n_layers=12, n_heads=12),
    "xlm-roberta-large": EncoderConfig(250_000, max_len=512, d_model=1024, n_layers=24, n_heads=16,
                                       eps=1e-5, n_segments=1, pooler=False),
    "gpt2": DecoderConfig(50_257, max_len=1024, d_model=768, n_layers=12, n_heads=12),
    "transformer-base": EncoderDecoderConfig(37_000, max_len=None, d_model=512, n_layers=6,
                                             n_heads=8, positions="sinusoidal", norm="post",
                                             activation="relu"),
}

MODELS: Dict[Type[TransformerConfig], Any] = {
    EncoderConfig: EncoderModel, DecoderConfig: DecoderModel,
    EncoderDecoderConfig: EncoderDecoderModel}


def preset(name: str) -> Any:
    """The configuration of that name; ValueError that lists the names for another."""
    return named("preset", name, dict(PRESETS))


def describe(what: Union[str, TransformerConfig]) -> Module:
    """The model of a preset or a configuration, of which every part has its shape but no numbers.

    Printed, it is the tree of its parts with the parameters of each counted, at any size, in no
    memory to speak of. Computing with it raises TypeError.
    """
    config = preset(what) if isinstance(what, str) else what
    with described():
        model: Module = MODELS[type(config)](config)
    return model
