"""Let a trained model write.

RUN is the name of a run in runs/, its folder, or a checkpoint file. The text goes on from PROMPT,
or begins afresh without one. Beyond the model's context the window slides: the oldest tokens are
forgotten.
"""

from __future__ import annotations

import argparse
import sys

from tinyformer import generation
from tinyformer.arrays.stream import manual_seed
from tinyformer.cli import runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `generate`."""
    parser.add_argument("model",
                        metavar="RUN",
                        help="a run in runs/, its folder, or a checkpoint file")
    parser.add_argument("prompt",
                        metavar="PROMPT",
                        nargs="?",
                        default="",
                        help="what the text begins with")
    parser.add_argument("--max-new-tokens", type=int, default=100, metavar="N", help="default 100")
    parser.add_argument(
        "--temperature",
        type=float,
        default=0.8,
        metavar="T",
        help="below 1 safer, above 1 wilder, 0 always the likeliest token (default 0.8)")
    parser.add_argument("--top-k", type=int, default=0, metavar="K",
                        help="choose among the K likeliest tokens (default 0: all)")
    parser.add_argument(
        "--top-p",
        type=float,
        default=1.0,
        metavar="P",
        help="choose among the likeliest tokens that together reach P (default 1: all)")
    parser.add_argument("--stop",
                        action="append",
                        default=[],
                        metavar="TEXT",
                        help="end before this text; may be given several times")
    parser.add_argument("--samples",
                        type=int,
                        default=1,
                        metavar="N",
                        help="how many texts (default 1)")
    parser.add_argument("--seed",
                        type=int,
                        default=0,
                        help="another seed, another text (default 0)")


def run(arguments: argparse.Namespace) -> int:
    """Print the samples, the prompt before each."""
    generation.check_sampling(arguments.temperature, arguments.top_k, arguments.top_p)
    if arguments.max_new_tokens < 1 or arguments.samples < 1:
        raise ValueError("--max-new-tokens and --samples must be at least 1")
    model, tokenizer, _ = runs.load_model(arguments.model)
    prompt = [tokenizer.cls_id] + tokenizer.encode_ids(arguments.prompt)
    if tokenizer.unk_id in prompt:
        print(
            "the vocabulary cannot spell all of the prompt; the model reads: "
            f"{tokenizer.decode(prompt, False)}",
            file=sys.stderr)
    manual_seed(arguments.seed)
    for number in range(arguments.samples):
        ids = generation.generate(model,
                                  prompt,
                                  arguments.max_new_tokens,
                                  temperature=arguments.temperature,
                                  top_k=arguments.top_k,
                                  top_p=arguments.top_p,
                                  slide=True,
                                  stop_ids={tokenizer.cls_id},
                                  stop_strings=arguments.stop,
                                  decode=tokenizer.decode)
        print(("\n" if number else "") + tokenizer.decode(prompt + ids), flush=True)
    return 0
