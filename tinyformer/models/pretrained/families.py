"""How `transformers` names what is here: the keys of config.json, its classes, their tensors.

Three families of models are in both houses. Each is described by tables from our names to theirs,
read one way to save and the other way to load. In the names of layers `*` is the number of the
block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple, Type

from tinyformer.models.config import TransformerConfig
from tinyformer.models.decoder import DecoderConfig, DecoderModel
from tinyformer.models.encoder import (EncoderConfig, EncoderModel, MaskedLanguageModel,
                                       SequenceClassifier, SpanClassifier, TokenClassifier)

CONFIG, WEIGHTS, VOCABULARY = "config.json", "model.safetensors", "vocab.txt"
TOKENIZER = "tokenizer_config.json"
FLOATS = ("F64", "F32", "F16", "BF16")              # what weights are saved as
LABELLED = (SequenceClassifier, TokenClassifier)    # our classes that are made with n_labels

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu",       # theirs to ours
               "gelu_python": "gelu", "gelu_fast": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}

# Keys that any config.json may have and that change nothing that is computed here.
HARMLESS = set("""
    architectures model_type transformers_version _name_or_path name_or_path dtype torch_dtype
    torchscript attn_implementation _attn_implementation_autoset use_cache gradient_checkpointing
    chunk_size_feed_forward return_dict output_attentions output_hidden_states use_bfloat16
    tf_legacy_loss finetuning_task task_specific_params problem_type tokenizer_class prefix
    bos_token_id pad_token_id eos_token_id sep_token_id decoder_start_token_id id2label label2id
    num_labels _num_labels directionality model_max_length remove_invalid_values max_length
    min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature
    top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size
    encoder_no_repeat_ngram_size bad_words_ids num_return_sequences output_scores
    return_dict_in_generate forced_bos_token_id forced_eos_token_id
    exponential_decay_length_penalty suppress_tokens begin_suppress_tokens is_encoder_decoder
    cross_attention_hidden_size tie_encoder_decoder tie_word_embeddings output_past
    sentence_transformers sbert_ce_default_activation_function
""".split())

# Keys that would change what is computed; only these values are what is computed here.
PLAIN: Mapping[str, Tuple[Any, ...]] = {
    "is_decoder": (False,), "add_cross_attention": (False,), "pruned_heads": ({}, None),
    "position_embedding_type": ("absolute",), "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,), "tie_weights_": (True,)}


@dataclass(frozen=True)
class Head:
    """One of their classes: our class, and of its layers those that are no part of the body.

    `pooler` says whether the body has one; None: either way. `dropout` is the key of the dropout
    that our class has as `.dropout`, `constants` what its config.json must say besides.
    """

    model: Any
    layers: Mapping[str, str] = field(default_factory=dict)
    pooler: Optional[bool] = False
    dropout: Optional[str] = None
    constants: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Family:
    """Models of one `model_type`.

    `keys` are the names of our fields, `defaults` the values of theirs where config.json has none,
    `aliases` their other names for some, `idle` more keys of no effect; `fixed` are our fields that
    they do not let choose. `layers` are those of the body, whose names have `prefix` before them in
    classes with a head. `transposed` are layers whose weights lie (in, out). `tied` are tensors
    that may be there as a second copy of another, `ignored` those that are no weights.
    `understood` are classes whose tensors are read as those of another.
    """

    model_type: str
    config: Type[TransformerConfig]
    prefix: str
    stem: str
    keys: Mapping[str, str]
    defaults: Mapping[str, Any]
    fixed: Mapping[str, Any]
    layers: Mapping[str, str]
    heads: Mapping[str, Head]
    tied: Mapping[str, str]
    ignored: str
    understood: Tuple[str, ...] = ()
    idle: Tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    transposed: Tuple[str, ...] = ()

    def their_name(self, head: Head, name: str) -> Tuple[str, bool]:
        """Their name of our parameter, without prefix, and whether it belongs to the body."""
        layer, _, kind = name.rpartition(".")
        if layer in head.layers:
            return f"{head.layers[layer]}.{kind}", False
        layer = layer[len("encoder."):] if layer.startswith("encoder.") else layer
        number = re.search(r"\.(\d+)\.", layer)
        if number is None:
            return f"{self.layers[layer]}.{kind}", True
        theirs = self.layers[layer.replace(number.group(), ".*.", 1)]
        return f"{theirs.replace('*', number.group(1))}.{kind}", True

    def canonical(self, name: str) -> str:
        """The name of a tensor in a file without its prefix, and with what is now called weight and
        bias instead of gamma and beta."""
        name = name[len(self.prefix):] if name.startswith(self.prefix) else name
        for former, now in ((".gamma", ".weight"), (".beta", ".bias")):
            if name.endswith(former):
                return name[:-len(former)] + now
        return name


def _blocks(theirs: str, layers: Mapping[str, str]) -> Dict[str, str]:
    return {f"stack.blocks.*.{ours}": f"{theirs}.*.{name}" for ours, name in layers.items()}


_POST: Dict[str, Any] = {"positions": "learned", "norm": "post", "order": "paper",
                         "norm_kind": "layer"}
_ENCODER_SIZES = {"vocab_size": "vocab_size", "max_len": "max_position_embeddings",
                  "std": "initializer_range"}
_EMBEDDINGS = {"tokens": "embeddings.word_embeddings", "norm": "embeddings.LayerNorm",
               "positions.table": "embeddings.position_embeddings"}

BERT = Family(
    "bert", EncoderConfig, "bert.", "Bert",
    keys={**_ENCODER_SIZES, "d_model": "hidden_size", "n_layers": "num_hidden_layers",
          "n_heads": "num_attention_heads", "d_ff": "intermediate_size",
          "dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob",
          "activation": "hidden_act", "eps": "layer_norm_eps", "n_segments": "type_vocab_size"},
    defaults={"vocab_size": 30_522, "max_position_embeddings": 512, "hidden_size": 768,
              "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
              "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
              "hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2,
              "initializer_range": 0.02},
    fixed={**_POST, "pooler_activation": "tanh"},
    layers={**_EMBEDDINGS, "segments": "embeddings.token_type_embeddings", "pooler": "pooler.dense",
            **_blocks("encoder.layer", {
                "attention.query": "attention.self.query", "attention.key": "attention.self.key",
                "attention.value": "attention.self.value",
                "attention.output": "attention.output.dense",
                "attention_norm": "attention.output.LayerNorm",
                "feed_forward.inner": "intermediate.dense", "feed_forward.outer": "output.dense",
                "feed_forward_norm": "output.LayerNorm"})},
    heads={
        "BertModel": Head(EncoderModel, pooler=None),
        "BertForMaskedLM": Head(MaskedLanguageModel, {
            "transform": "cls.predictions.transform.dense", "": "cls.predictions",
            "norm": "cls.predictions.transform.LayerNorm"}),
        "BertForSequenceClassification": Head(SequenceClassifier, {"classifier": "classifier"},
                                              True, "classifier_dropout"),
        "BertForTokenClassification": Head(TokenClassifier, {"classifier": "classifier"},
                                           dropout="classifier_dropout"),
        "BertForQuestionAnswering": Head(SpanClassifier, {"classifier": "qa_outputs"})},
    tied={"cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
          "cls.predictions.decoder.bias": "cls.predictions.bias"},
    ignored=r"embeddings\.(position_ids|token_type_ids)",
    understood=("BertForPreTraining", "BertForNextSentencePrediction"),
    idle=("classifier_dropout", "pooler_fc_size", "pooler_num_attention_heads",
          "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"))

DISTILBERT = Family(
    "distilbert", EncoderConfig, "distilbert.", "DistilBert",
    keys={**_ENCODER_SIZES, "d_model": "dim", "n_layers": "n_layers", "n_heads": "n_heads",
          "d_ff": "hidden_dim", "dropout": "dropout", "attention_dropout": "attention_dropout",
          "activation": "activation"},
    defaults={"vocab_size": 30_522, "max_position_embeddings": 512, "dim": 768, "n_layers": 6,
              "n_heads": 12, "hidden_dim": 3072, "dropout": 0.1, "attention_dropout": 0.1,
              "activation": "gelu", "seq_classif_dropout": 0.2, "initializer_range": 0.02},
    fixed={**_POST, "pooler_activation": "relu", "n_segments": 0, "eps": 1e-12},
    layers={**_EMBEDDINGS, **_blocks("transformer.layer", {
        "attention.query": "attention.q_lin", "attention.key": "attention.k_lin",
        "attention.value": "attention.v_lin", "attention.output": "attention.out_lin",
        "attention_norm": "sa_layer_norm", "feed_forward.inner": "ffn.lin1",
        "feed_forward.outer": "ffn.lin2", "feed_forward_norm": "output_layer_norm"})},
    heads={
        "DistilBertModel": Head(EncoderModel),
        "DistilBertForMaskedLM": Head(MaskedLanguageModel, {
            "transform": "vocab_transform", "norm": "vocab_layer_norm", "": "vocab_projector"}),
        "DistilBertForSequenceClassification": Head(SequenceClassifier, {
            "encoder.pooler": "pre_classifier", "classifier": "classifier"}, True,
            "seq_classif_dropout"),
        "DistilBertForTokenClassification": Head(TokenClassifier, {"classifier": "classifier"}),
        "DistilBertForQuestionAnswering": Head(SpanClassifier, {"classifier": "qa_outputs"},
                                               constants={"qa_dropout": 0.0})},
    tied={"vocab_projector.weight": "embeddings.word_embeddings.weight"},
    ignored=r"embeddings\.position_ids",
    idle=("seq_classif_dropout", "qa_dropout", "sinusoidal_pos_embds"),
    aliases={"hidden_size": "dim", "num_attention_heads": "n_heads",
             "num_hidden_layers": "n_layers"})

GPT2 = Family(
    "gpt2", DecoderConfig, "transformer.", "GPT2",
    keys={"vocab_size": "vocab_size", "max_len": "n_positions", "d_model": "n_embd",
          "n_layers": "n_layer", "n_heads": "n_head", "d_ff": "n_inner", "dropout": "resid_pdrop",
          "attention_dropout": "attn_pdrop", "activation": "activation_function",
          "eps": "layer_norm_epsilon", "std": "initializer_range",
          "tie_weights": "tie_word_embeddings"},
    defaults={"vocab_size": 50_257, "n_positions": 1024, "n_embd": 768, "n_layer": 12,
              "n_head": 12, "n_inner": None, "resid_pdrop": 0.1, "embd_pdrop": 0.1,
              "attn_pdrop": 0.1, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
              "initializer_range": 0.02, "tie_word_embeddings": True},
    fixed={**_POST, "norm": "pre"},
    layers={"tokens": "wte", "positions.table": "wpe", "stack.norm": "ln_f", **_blocks("h", {
        "attention.query": "attn.c_attn", "attention.key": "attn.c_attn",
        "attention.value": "attn.c_attn", "attention.output": "attn.c_proj",
        "attention_norm": "ln_1", "feed_forward.inner": "mlp.c_fc",
        "feed_forward.outer": "mlp.c_proj", "feed_forward_norm": "ln_2"})},
    heads={"GPT2LMHeadModel": Head(DecoderModel, {"output": "lm_head"}, None, "embd_pdrop")},
    tied={"lm_head.weight": "wte.weight"},
    ignored=r"h\.\d+\.attn\.(bias|masked_bias)",
    understood=("GPT2Model",),
    idle=("embd_pdrop", "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout",
          "summary_proj_to_labels", "summary_type", "summary_use_proj"),
    aliases={"hidden_size": "n_embd", "num_attention_heads": "n_head", "n_ctx": "n_positions",
             "num_hidden_layers": "n_layer", "max_position_embeddings": "n_positions"},
    transposed=("c_attn.weight", "c_proj.weight", "c_fc.weight"))

FAMILIES = {family.model_type: family for family in (BERT, DISTILBERT, GPT2)}
