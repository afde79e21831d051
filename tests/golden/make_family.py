"""Make family.json: what PyTorch and transformers give for blocks, models and heads, in float64.

Run by hand in an environment that has both; the tests do not need them. tests/parity makes cases of
its own with `torch_cases` and `transformers_cases`, live.
    python tests/golden/make_family.py
"""
import json
import sys
from importlib.metadata import version
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from make_layers import (B, D, F, H, S, T, V, attention_parameters, give, randn,  # noqa: E402
                         short, x_of)

ACTIVATIONS = {"relu": nn.functional.relu, "gelu": nn.functional.gelu}
LENGTHS = [T, 2]


def case(name, layer, settings, parameters, inputs, output, real=None, **more):
    """One case: the gradients are those of sum(output * cotangent), over `real` positions alone."""
    cotangent = randn(*output.shape)
    if real is not None:
        real = real.reshape(real.shape + (1,) * (output.ndim - real.ndim))
        output, cotangent = output * real, cotangent * real
    output.backward(cotangent)
    floats = {key: x for key, x in inputs.items() if x.requires_grad}
    return {"name": name, "layer": layer, "settings": settings,
            "parameters": {key: p.tolist() for key, p in parameters.items()},
            "inputs": {key: x.tolist() for key, x in inputs.items()},
            "real": None if real is None else real.tolist(),
            "output": short(output), "cotangent": cotangent.tolist(),
            "parameter_gradients": {key: short(p.grad) for key, p in parameters.items()},
            "input_gradients": {key: short(x.grad) for key, x in floats.items()}, **more}


def within(lengths, width):
    """(B, width), true for the first tokens of each row."""
    return torch.arange(width) < torch.tensor(lengths).reshape(-1, 1)


def hidden(allowed, queries):
    """A mask of PyTorch's, true where a query may not look, for each row and head."""
    keys = allowed.shape[-1]
    return ~allowed.expand(B, H, queries, keys).reshape(B * H, queries, keys)


def causal(n):
    """(n, n), true on and below the diagonal."""
    return torch.ones(n, n).tril().bool()


# PyTorch's own layers

def layer_parameters(layer, prefix=""):
    """nn.TransformerEncoderLayer or nn.TransformerDecoderLayer under our names."""
    ours = attention_parameters(layer.self_attn, f"{prefix}attention.")
    norms = [("attention_norm", layer.norm1), ("feed_forward_norm", layer.norm2)]
    if hasattr(layer, "multihead_attn"):
        ours.update(attention_parameters(layer.multihead_attn, f"{prefix}cross_attention."))
        norms = [norms[0], ("cross_norm", layer.norm2), ("feed_forward_norm", layer.norm3)]
    for name, part in norms + [("feed_forward.inner", layer.linear1),
                               ("feed_forward.outer", layer.linear2)]:
        ours[f"{prefix}{name}.weight"], ours[f"{prefix}{name}.bias"] = part.weight, part.bias
    return ours


def torch_layer(kind, norm, activation):
    """A layer of PyTorch's with random parameters."""
    return give(kind(D, H, F, dropout=0.0, batch_first=True, norm_first=norm == "pre",
                     layer_norm_eps=1e-3, activation=ACTIVATIONS[activation]), 0.5)


def block_cases():
    """Encoder and decoder layers in both norm orders, with causal, padding and memory masks."""
    allowed = causal(T) & within(LENGTHS, T).reshape(B, 1, 1, T)
    beside = within([S, 3], S).reshape(B, 1, 1, S)
    for norm in ("pre", "post"):
        for activation in ACTIVATIONS:
            settings = {"d_model": D, "n_heads": H, "d_ff": F, "dropout": 0.0, "norm": norm,
                        "activation": activation, "eps": 1e-3}
            layer, x = torch_layer(nn.TransformerEncoderLayer, norm, activation), x_of(B, T, D)
            yield case(f"encoder layer, {norm}-norm, {activation}", "Block", settings,
                       layer_parameters(layer), {"x": x},
                       layer(x, src_mask=hidden(within(LENGTHS, T).reshape(B, 1, 1, T), T)),
                       masks={"mask": within(LENGTHS, T).reshape(B, 1, 1, T).tolist()})
            layer, x = torch_layer(nn.TransformerDecoderLayer, norm, activation), x_of(B, T, D)
            memory = x_of(B, S, D)
            yield case(f"decoder layer, {norm}-norm, {activation}", "Block",
                       {**settings, "cross_attention": True}, layer_parameters(layer),
                       {"x": x, "memory": memory},
                       layer(x, memory, tgt_mask=hidden(allowed, T), memory_mask=hidden(beside, T)),
                       masks={"mask": allowed.tolist(), "memory_mask": beside.tolist()})


def stacks(norm):
    """Two encoder and two decoder layers, a last norm each where the norm stands before; their
    parameters under our names."""
    encoder = [torch_layer(nn.TransformerEncoderLayer, norm, "relu") for _ in range(2)]
    decoder = [torch_layer(nn.TransformerDecoderLayer, norm, "relu") for _ in range(2)]
    last = [give(nn.LayerNorm(D, eps=1e-3)) if norm == "pre" else nn.Identity() for _ in range(2)]
    parameters = {}
    for side, layers, end in (("encoder", encoder, last[0]), ("decoder", decoder, last[1])):
        for index, layer in enumerate(layers):
            parameters.update(layer_parameters(layer, f"{side}.blocks.{index}."))
        parameters.update({f"{side}.norm.{key}": p for key, p in end.named_parameters()})
    return encoder, decoder, last, parameters


def translated(parts, source, target, lengths):
    """The decoder's vectors, from vectors of source and target."""
    encoder, decoder, (encoder_end, decoder_end), _ = parts
    seen = within(lengths, source.shape[1]).reshape(B, 1, 1, -1)
    for layer in encoder:
        source = layer(source, src_mask=hidden(seen, source.shape[1]))
    memory, length = encoder_end(source), target.shape[1]
    for layer in decoder:
        target = layer(target, memory, tgt_mask=hidden(causal(length), length),
                       memory_mask=hidden(seen, length))
    return decoder_end(target)


def encoder_decoder_cases():
    """Two and two layers: of vectors, and the whole model with its tables shared and separate."""
    for norm in ("pre", "post"):
        options = {"norm": norm, "activation": "relu", "eps": 1e-3, "dropout": 0.0}
        parts, source, target = stacks(norm), x_of(B, S, D), x_of(B, T, D)
        yield case(f"2 + 2 layers, {norm}-norm", "EncoderDecoder",
                   {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": D, "n_heads": H,
                    "d_ff": F, **options}, parts[3], {"source": source, "target": target},
                   translated(parts, source, target, [S, 2]),
                   masks={"source_mask": within([S, 2], S).reshape(B, 1, 1, S).tolist()})
        shared = norm == "pre"
        parts, tokens, positions = stacks(norm), give(nn.Embedding(V, D)), give(nn.Embedding(S, D))
        other = tokens if shared else give(nn.Embedding(V + 2, D))
        output = tokens.weight if shared else give(nn.Linear(D, V + 2, bias=False)).weight
        parameters = {"tokens.weight": tokens.weight, "positions.table.weight": positions.weight,
                      **parts[3]}
        if not shared:
            parameters.update({"target_tokens.weight": other.weight, "output.weight": output})
        ids, written = torch.randint(0, V, (B, S)), torch.randint(0, V, (B, T))
        y = translated(parts, tokens(ids) + positions(torch.arange(S)),
                       other(written) + positions(torch.arange(T)), [S, 2]) @ output.T
        yield case(f"encoder-decoder, {norm}-norm, shared={shared}", "EncoderDecoderModel",
                   {"vocab_size": V, "max_len": S, "d_model": D, "n_heads": H, "d_ff": F,
                    "target_vocab_size": None if shared else V + 2, "tie_weights": shared,
                    **options}, parameters, {"source": ids, "target": written}, y,
                   options={"source_lengths": [S, 2]})


# transformers

def small_bert():
    """The configuration of a tiny BERT."""
    from transformers import BertConfig
    return BertConfig(vocab_size=V, hidden_size=D, num_hidden_layers=2, num_attention_heads=H,
                      intermediate_size=F, max_position_embeddings=T + 1, hidden_dropout_prob=0.0,
                      attention_probs_dropout_prob=0.0, layer_norm_eps=1e-3, pad_token_id=None,
                      attn_implementation="eager")


BERT_NAMES = [
    ("bert.", "encoder."), ("embeddings.word_embeddings", "tokens"),
    ("embeddings.position_embeddings", "positions.table"),
    ("embeddings.token_type_embeddings", "segments"), ("embeddings.LayerNorm", "norm"),
    ("encoder.layer.", "stack.blocks."), ("attention.self.", "attention."),
    ("attention.output.dense", "attention.output"),
    ("attention.output.LayerNorm", "attention_norm"), ("intermediate.dense", "feed_forward.inner"),
    ("output.dense", "feed_forward.outer"), ("output.LayerNorm", "feed_forward_norm"),
    ("pooler.dense", "pooler"), ("cls.predictions.transform.dense", "transform"),
    ("cls.predictions.transform.LayerNorm", "norm"), ("cls.predictions.bias", "bias"),
    ("qa_outputs", "classifier")]


def our_name(name):
    """The name here of a parameter of BERT's."""
    prefix = ""
    if name.startswith("bert."):
        prefix, name = "encoder.", name[len("bert."):]
    for theirs, ours in BERT_NAMES[1:]:
        name = name.replace(theirs, ours)
    return prefix + name


def bert_cases():
    """The encoder alone and under every head, with segments and padding."""
    import transformers
    ids, real = torch.randint(0, V, (B, T)), within(LENGTHS, T)
    segments = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 0]])
    settings = {"vocab_size": V, "max_len": T + 1, "d_model": D, "n_layers": 2, "n_heads": H,
                "d_ff": F, "dropout": 0.0, "eps": 1e-3}
    heads = {"EncoderModel": ("BertModel", "last_hidden_state", []),
             "MaskedLanguageModel": ("BertForMaskedLM", "logits", []),
             "SequenceClassifier": ("BertForSequenceClassification", "logits", [3]),
             "TokenClassifier": ("BertForTokenClassification", "logits", [3]),
             "SpanClassifier": ("BertForQuestionAnswering", "start_logits", [])}
    for ours, (theirs, output, arguments) in heads.items():
        configuration = small_bert()
        configuration.num_labels = 2 if ours == "SpanClassifier" else 3
        pooled = theirs in ("BertModel", "BertForSequenceClassification")
        options = {"add_pooling_layer": False} if ours == "EncoderModel" else {}
        net = give(getattr(transformers, theirs)(configuration, **options), 0.5).eval()
        if ours == "MaskedLanguageModel":
            net.tie_weights()
        found = net(ids, attention_mask=real.long(), token_type_ids=segments)
        y, counted = found[output], real
        if ours == "SpanClassifier":
            y, counted = torch.stack([found.start_logits, found.end_logits], dim=1), \
                torch.stack([real, real], dim=1)
        parameters = {our_name(name): p for name, p in net.named_parameters()}
        yield case(f"BERT, {theirs}", ours,
                   {**settings, "pooler": pooled and ours != "EncoderModel"},
                   parameters, {"ids": ids, "segments": segments}, y,
                   None if ours == "SequenceClassifier" else counted,
                   arguments=arguments, options={"lengths": LENGTHS})


class Columns:
    """A part of a matrix that GPT-2 keeps as (in, out), under our orientation."""

    def __init__(self, joint, begin, end):
        self.joint, self.begin, self.end = joint, begin, end

    def tolist(self):
        """The numbers."""
        return self._turned(self.joint).tolist()

    @property
    def grad(self):
        """The gradient."""
        return self._turned(self.joint.grad)

    def _turned(self, joint):
        part = joint[..., self.begin:self.end]
        return part.T if part.ndim == 2 else part


def gpt2_parameters(net):
    """GPT2LMHeadModel under our names."""
    body = net.transformer
    ours = {"tokens.weight": body.wte.weight, "positions.table.weight": body.wpe.weight,
            "stack.norm.weight": body.ln_f.weight, "stack.norm.bias": body.ln_f.bias}
    for index, block in enumerate(body.h):
        parts = {"attention.output": (block.attn.c_proj, 0, D),
                 "feed_forward.inner": (block.mlp.c_fc, 0, F),
                 "feed_forward.outer": (block.mlp.c_proj, 0, D)}
        for place, kind in enumerate(("query", "key", "value")):
            parts[f"attention.{kind}"] = (block.attn.c_attn, place * D, (place + 1) * D)
        for name, (layer, begin, end) in parts.items():
            for kind, joint in (("weight", layer.weight), ("bias", layer.bias)):
                ours[f"stack.blocks.{index}.{name}.{kind}"] = Columns(joint, begin, end)
        for name, norm in (("attention_norm", block.ln_1), ("feed_forward_norm", block.ln_2)):
            ours[f"stack.blocks.{index}.{name}.weight"] = norm.weight
            ours[f"stack.blocks.{index}.{name}.bias"] = norm.bias
    return ours


def gpt2_cases():
    """GPT-2 without padding, and with padding on either side."""
    from transformers import GPT2Config, GPT2LMHeadModel
    everything = within([T, T], T)
    for side, real in (("none", everything), ("right", within(LENGTHS, T)),
                       ("left", within(LENGTHS, T).flip(1))):
        net = give(GPT2LMHeadModel(GPT2Config(
            vocab_size=V, n_positions=T, n_embd=D, n_layer=2, n_head=H, n_inner=F, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, layer_norm_epsilon=1e-3,
            attn_implementation="eager")), 0.5).eval()
        net.tie_weights()
        ids = torch.randint(0, V, (B, T))
        places = (real.long().cumsum(1) - 1).clamp(min=0)
        y = net(ids, attention_mask=real.long(), position_ids=places).logits
        yield case(f"GPT-2, padding: {side}", "DecoderModel",
                   {"vocab_size": V, "max_len": T, "d_model": D, "n_layers": 2, "n_heads": H,
                    "d_ff": F, "dropout": 0.0, "eps": 1e-3},
                   gpt2_parameters(net), {"ids": ids}, y, real,
                   options={} if side == "none" else {"seen": real.tolist()})


def in_float64(seed, *makers):
    """All cases of some makers, drawn from a seed."""
    torch.manual_seed(seed)
    former = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return [each for maker in makers for each in maker()]
    finally:
        torch.set_default_dtype(former)


def torch_cases(seed):
    """Those that need PyTorch alone."""
    return in_float64(seed, block_cases, encoder_decoder_cases)


def transformers_cases(seed):
    """Those that need transformers as well."""
    return in_float64(seed, bert_cases, gpt2_cases)


def t5_buckets():
    """T5's bucket of every distance from -150 to 150, both ways and one way, in three sizes."""
    from transformers.models.t5.modeling_t5 import T5Attention
    distances = torch.arange(-150, 151)
    return [{"n_buckets": n, "max_distance": reach, "bidirectional": both, "first": -150,
             "buckets": T5Attention._relative_position_bucket(
                 distances, bidirectional=both, num_buckets=n, max_distance=reach).tolist()}
            for n, reach in ((32, 128), (8, 20), (16, 100)) for both in (True, False)]


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(each, separators=(",", ":"))
                       for each in torch_cases(0) + transformers_cases(0))
    made_with = json.dumps({name: version(name) for name in ("torch", "transformers")})
    path = Path(__file__).with_name("family.json")
    path.write_text(f'{{"made_with": {made_with},\n"t5_buckets": {json.dumps(t5_buckets())},\n'
                    f'"cases": [\n{lines}\n]}}\n', encoding="utf-8")
