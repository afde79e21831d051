"""python3 -m tests.bench: the figures of the README, measured against whatever is installed.

    python3 -m tests.bench            all of them, a minute or two
    python3 -m tests.bench scalar     the pure engine against one node per number
    python3 -m tests.bench decoder    NumPy against PyTorch eager, one thread each
    python3 -m tests.bench start      what `import tinyformer` adds to the interpreter's own start

Each figure is a median with its least and largest value; ways that are compared are timed in turn.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from typing import Dict, List

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_name] = "1"                     # before NumPy is imported
for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_name, None)                 # these slow a current NumPy down

import tinyformer as tf  # noqa: E402
from tests.bench.measure import alternate, ratio, spread  # noqa: E402

CHILD = """
import gc, statistics, sys, time
import tinyformer
tinyformer.use_backend("python")
from tests.bench import scalar
way, collect, count = sys.argv[1], sys.argv[2] == "collect", int(sys.argv[3])
step = getattr(scalar, way)()
if not collect:
    gc.disable()
times = []
for number in range(count + 3):
    start = time.process_time()
    step()
    times.append(time.process_time() - start)
print(statistics.median(times[3:]) * 1000)
"""


def child(way: str, collect: str, count: int) -> float:
    """Median CPU milliseconds per step of one engine, in a process of its own."""
    words = [sys.executable, "-c", CHILD, way, collect, str(count)]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def scalar() -> None:
    """A training step of the 4,192-parameter model in both engines, one process each."""
    print(f"\npure engine, one step of a 4,192-parameter model, {sys.implementation.name} "
          f"{sys.version.split()[0]}, CPU ms")
    for collect, words in (("collect", "garbage collector on"), ("no", "garbage collector off")):
        times: Dict[str, List[float]] = {"scalar_step": [], "tensor_step": []}
        for _ in range(7):
            for way, count in (("scalar_step", 6), ("tensor_step", 40)):
                times[way].append(child(way, collect, count))
        print(f"  {words:<22} one node per number {spread(times['scalar_step'])}   "
              f"tinyformer {spread(times['tensor_step'])}   "
              f"ratio {spread(ratio(times, 'scalar_step', 'tensor_step'))}")


def decoder() -> None:
    """A training step of a decoder in NumPy and in PyTorch, in turn."""
    from tests.bench import decoder as model
    print("\ndecoder, one training step, float32, one thread, CPU ms")
    if not importlib.util.find_spec("numpy"):
        print("  NumPy is not installed")
        return
    tf.use_backend("numpy")
    for name, size in model.SIZES.items():
        ours, module = model.tinyformer_step(size)
        ways = {"tinyformer": ours}
        if importlib.util.find_spec("torch"):
            ways["torch"] = model.torch_step(size, module.state_dict())
            worst = max(abs(ways["tinyformer"]() - ways["torch"]()) for _ in range(20))
            assert worst < 1e-4, f"the losses differ by {worst}: not the same work"
        times = alternate(ways, rounds=60 if name == "a" else 15, warm_up=5)
        print(
            f"  size {name}: " + "   ".join(f"{way} {spread(each)}"
                                            for way, each in times.items()) +
            (f"   ratio {spread(ratio(times, 'tinyformer', 'torch'))}, losses equal to {worst:.0e}"
             if "torch" in ways else "   (PyTorch is not installed)"))


def start() -> None:
    """CPU milliseconds of a process that imports tinyformer, less those of one that does
    nothing."""
    print("\nimport tinyformer, CPU ms above the bare interpreter")
    for words in ("import tinyformer", "import tinyformer; tinyformer.tensor([1.0])"):
        _process(words)                         # so that the bytecode is there
        extra = []
        for _ in range(15):
            bare, with_ = (_process(code) for code in ("pass", words))
            extra.append(with_ - bare)
        print(f"  {words:<46} {spread(extra)}")


def _process(code: str) -> float:
    environment = {**os.environ, "TINYFORMER_BACKEND": "python"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    after = os.times()
    return (after.children_user + after.children_system - before.children_user
            - before.children_system) * 1000


def main() -> None:
    """Measure what the command line names."""
    parts = {"scalar": scalar, "decoder": decoder, "start": start}
    parser = argparse.ArgumentParser(prog="python3 -m tests.bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", choices=[[], *parts], help="default: all of them")
    chosen = parser.parse_args().part
    for name, part in parts.items():
        if not chosen or name in chosen:
            part()


if __name__ == "__main__":
    main()
