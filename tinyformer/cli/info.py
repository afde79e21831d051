"""What is here: engine and versions, or what a run is made of.

Without RUN: the backend, the versions, the runs. With one: its settings, how far it got, and the
table of its parameters. With the name of a well-known model: its parts and their parameters.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform

import tinyformer
from tinyformer.arrays import backend_name
from tinyformer.cli import runs
from tinyformer.models import PRESETS, describe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `info`."""
    parser.add_argument("model",
                        metavar="RUN",
                        nargs="?",
                        help="a run in runs/, its folder, a checkpoint file, or one of "
                        + ", ".join(PRESETS))


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    if arguments.model in PRESETS:
        print(describe(arguments.model))
        return 0
    if arguments.model:
        return _about_run(arguments.model)
    print(f"tinyformer   {tinyformer.__version__}")
    print(f"Python       {platform.python_implementation()} {platform.python_version()}")
    print(f"NumPy        {_numpy_version()}")
    print(f"backend      {backend_name()}")
    known = sorted(os.listdir(runs.RUNS)) if os.path.isdir(runs.RUNS) else []
    print(f"runs         {', '.join(known) or 'none yet: python3 -m tinyformer train'}")
    return 0


def _numpy_version() -> str:
    if not importlib.util.find_spec("numpy"):
        return "not installed (an optional accelerator: python3 -m pip install 'numpy>=2.0')"
    from importlib.metadata import version
    return version("numpy")


def _about_run(path: str) -> int:
    model, tokenizer, state = runs.load_model(path)
    print(
        f"checkpoint   {runs.checkpoint_file(path)}, step {state['step']:,} of {state['steps']:,}")
    print("trained with " + ", ".join(state["environment"].values()))
    print(f"vocabulary   {tokenizer.vocab_size:,} pieces")
    for name, value in state["extra"]["settings"].items():
        print(f"{name:<12} {', '.join(value) if isinstance(value, (list, tuple)) else value}")
    print(f"\n{model}")
    return 0
