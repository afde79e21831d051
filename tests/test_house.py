"""The house keeps its laws (house.py), and each law complains about a source that breaks it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from house import (PACKAGE, ROOT, SOURCES, TOP_LEVEL, code_lines, complaints,  # noqa: E402
                   descriptions, floors, replaces, sizes, strangers, text_files, third_parties,
                   tracked, unread, young_syntax)

PAGES = {path: source for path, source in SOURCES.items() if path.startswith("examples/")}
LOADERS = {path for path in PACKAGE if path.startswith("tinyformer/models/pretrained/")}


@pytest.mark.parametrize("law", [floors, third_parties, descriptions])
def test_laws_of_the_package(law):
    assert complaints(law, PACKAGE) == []


@pytest.mark.parametrize("law", [text_files, replaces, young_syntax])
def test_laws_of_all_sources(law):
    assert complaints(law, SOURCES) == []


def test_what_is_read_is_short():
    assert complaints(sizes, {**PACKAGE, **PAGES}) == []


def test_examples_need_nothing_but_the_package():
    assert [each for each in complaints(third_parties, PAGES)
            if not each.endswith(("imports examples", "imports examples._page",
                                  "imports tests"))] == []


@pytest.mark.parametrize("rooms, most", [
    (("tinyformer/arrays/pure/",), 1050),
    (("tinyformer/autograd/", "tinyformer/nn/", "tinyformer/models/"), 2500)])
def test_the_core_can_be_read_in_one_sitting(rooms, most):
    counts = {path: len(code_lines(source)) for path, source in PACKAGE.items()
              if path.startswith(rooms) and path not in LOADERS}
    assert len(counts) > 8 and sum(counts.values()) <= most, counts


def test_the_top_level_holds_only_what_a_newcomer_expects():
    names = tracked()
    assert strangers(names) == [] and TOP_LEVEL <= set(names)


def test_the_reading_order_names_every_file():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    if "## Reading order" not in readme:
        pytest.skip("the README has no heading 'Reading order' yet")
    assert unread(readme, PACKAGE) == []


def test_importing_the_package_imports_no_numpy_and_little_of_ours():
    code = ("import sys; before = set(sys.modules); import tinyformer; "
            "print(*(set(sys.modules) - before))")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE,
                          check=True)
    modules = done.stdout.decode("utf-8").split()
    ours = [name for name in modules if name.split(".")[0] == "tinyformer"]
    assert "tinyformer.autograd.tensor" in ours and len(ours) <= 60
    assert not [name for name in modules if name.split(".")[0] == "numpy"]
    assert "tinyformer.arrays.pure" not in ours, "no backend is chosen before one is needed"


def test_importing_the_package_imports_none_of_the_slow_standard_modules():
    code = ("import sys; before = set(sys.modules); import tinyformer; tinyformer.tensor([1.0]); "
            "print(*(set(sys.modules) - before))")
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, stdout=subprocess.PIPE,
                          env={**os.environ, "TINYFORMER_BACKEND": "python"}, check=True)
    modules = set(done.stdout.decode("utf-8").split())
    slow = {"ast", "ctypes", "dataclasses", "enum", "hashlib", "inspect", "json", "pathlib", "re",
            "shutil", "subprocess", "tempfile", "threading", "traceback", "typing"}
    assert "tinyformer.arrays.pure.products" in modules and not modules & slow
    assert len(modules) <= 75, "a newcomer adds about half a millisecond to every start"


HERE = "tinyformer/nn/x.py"
FUTURE = '"""m"""\nfrom __future__ import annotations\n'
LONG = "def f():\n" + "    x = 1\n" * 40
BROKEN = [
    (floors, HERE, "from tinyformer.models import Config"),
    (floors, HERE, "import tinyformer.training.loop"),
    (floors, HERE, "def f():\n    from tinyformer import generation"),
    (floors, HERE, "from tinyformer import tensor"),
    (floors, HERE, "from ..models import config"),
    (floors, HERE, "import importlib\nimportlib.import_module('tinyformer.cli')"),
    (floors, "tinyformer/text/x.py", "from tinyformer.arrays import xp"),
    (floors, "tinyformer/assign/x.py", "import tinyformer.arrays"),
    (floors, "tinyformer/attic/x.py", ""),
    (third_parties, HERE, "import numpy as np"),
    (third_parties, HERE, "def f():\n    from torch import nn"),
    (third_parties, HERE, "from importlib import import_module\nimport_module('numpy')"),
    (third_parties, "tinyformer/arrays/numpy_backend.py", "import scipy.special"),
    (text_files, HERE, "open('f')"),
    (text_files, HERE, "open('f', 'w')"),
    (text_files, HERE, "import io\nio.open('f', mode='r')"),
    (text_files, HERE, "path.open('a')"),
    (text_files, HERE, "path.open()"),
    (text_files, HERE, "path.read_text()"),
    (text_files, HERE, "path.write_text('x')"),
    (text_files, HERE, "os.fdopen(3, 'w')"),
    (text_files, HERE, "NamedTemporaryFile('w')"),
    (replaces, HERE, "os.rename('a', 'b')"),
    (replaces, HERE, "path.rename('b')"),
    (replaces, HERE, "path.replace('b')"),
    (replaces, HERE, "shutil.move('a', 'b')"),
    (sizes, HERE, "x = 1\n" * 301),
    (sizes, HERE, LONG),
    (sizes, HERE, "class C:\n" + "\n".join("    " + line for line in LONG.split("\n"))),
    (descriptions, HERE, "x = 1"),
    (descriptions, HERE, '"""m"""\nclass C:\n    pass'),
    (descriptions, HERE, '"""m"""\ndef f() -> None:\n    pass'),
    (descriptions, HERE, '"""m"""\ndef f(x) -> None:\n    """d"""'),
    (descriptions, HERE, '"""m"""\ndef f(x: int):\n    """d"""'),
    (descriptions, HERE, '"""m"""\ndef f(*x, y: int) -> None:\n    """d"""'),
    (descriptions, HERE, '"""m"""\nclass C:\n    """d"""\n    def f(self) -> None:\n        pass'),
    (descriptions, HERE, '"""m"""\nclass C:\n    """d"""\n    def __init__(self, x) -> None: pass'),
    (young_syntax, HERE, FUTURE + "match x:\n    case 1:\n        pass"),
    (young_syntax, HERE, FUTURE + "try:\n    pass\nexcept* ValueError:\n    pass"),
    (young_syntax, HERE, FUTURE + "type X = int"),
    (young_syntax, HERE, FUTURE + "def f[T](x: T) -> T:\n    return x"),
    (young_syntax, HERE, FUTURE + "print(f\"{x[\"a\"]}\")"),
    (young_syntax, HERE, FUTURE + "print(f'{chr(10).join(x) + \"\\n\"}')"),
    (young_syntax, HERE, '"""m"""\ndef f(x: int | None) -> None:\n    """d"""'),
]
SOUND = [
    (floors, HERE, "from tinyformer import functional as F\nfrom tinyformer.arrays import xp\n"
                   "from tinyformer.nn.module import Module\nfrom . import masks\nimport math"),
    (floors, "tinyformer/cli/x.py", "from tinyformer import __version__, training"),
    (floors, "tinyformer/functional.py", "from tinyformer.models import Config"),
    (third_parties, "tinyformer/arrays/numpy_backend.py", "import numpy as np\nimport os.path"),
    (text_files, HERE, "open('f', 'rb')\nopen('f', encoding='utf-8')\npath.open('wb')\n"
                       "path.read_text('utf-8')\nos.fdopen(3, 'wb')\nos.open('f', 0)\n"
                       "NamedTemporaryFile()\npath.read_bytes()\nopen('f', mode='wb')"),
    (replaces, HERE, "os.replace('a', 'b')\n'x'.replace('a', 'b')\ndataclasses.replace(c, d=1)"),
    (sizes, HERE, "x = 1\n\n# c\n" * 300),
    (sizes, HERE, 'def f():\n    """a\n' + "\n" * 50 + '    """\n' + "    x = 1\n" * 39),
    (descriptions, HERE, '"""m"""\ndef f(x: int, *y: int) -> None:\n    """d"""\n'
                         'def _g(x): pass\nclass C:\n    """d"""\n'
                         '    def __len__(self) -> int: pass'),
    (young_syntax, HERE, FUTURE + "def f(x: int | None) -> None:\n"
                                  "    print(f\"{x!r:>{9}} {'a'}\", f'''{x[\"a\"]} \\n''')\n"
                                  "    if (y := x): print(y)"),
]


@pytest.mark.parametrize("law, path, source", BROKEN)
def test_each_law_can_be_broken(law, path, source):
    assert len(law(path, source)) == 1


@pytest.mark.parametrize("law, path, source", SOUND)
def test_each_law_can_be_kept(law, path, source):
    assert law(path, source) == []


def test_a_stranger_and_an_unread_file_are_noticed():
    assert strangers(["tinyformer", "notes.txt", ".ci"]) == ["notes.txt"]
    readme = "## Reading order\n**`tinyformer/nn/`**\n| `a.py`, `b.py` | x `c.py` |\n" \
             "**faces**\n| `nn/d.py` |\n## Else\n| `e.py` |\n"
    files = [f"tinyformer/nn/{name}.py" for name in ("a", "c", "d", "e", "__init__")]
    assert unread(readme, files) == [
        "not named: tinyformer/nn/c.py", "not named: tinyformer/nn/e.py",
        "no such file: tinyformer/nn/b.py"]
