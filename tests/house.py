"""The laws of the house: each is a function from a path and its source to a list of complaints."""

from __future__ import annotations

import ast
import fnmatch
import io
import re
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set, Tuple
ROOT = Path(__file__).resolve().parents[1]
SOURCES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
           for folder in ("tinyformer", "tests", "examples")
           for path in sorted((ROOT / folder).rglob("*.py"))}
PACKAGE = {path: source for path, source in SOURCES.items() if path.startswith("tinyformer/")}
TOP_LEVEL = {"tinyformer", "tests", "examples", "setup.cfg", "README.md", "pyproject.toml",
             "LICENSE", ".gitignore", ".ci"}

# A room imports rooms of lower floors only. `functional` is the face of autograd; `assign` reads
# the package as text. The face of the whole, `tinyformer`, is for the command line alone.
FLOORS = {"arrays": 1, "pictures": 1, "text": 1, "assign": 1, "autograd": 2, "functional": 2,
          "nn": 3, "models": 4, "training": 5, "generation": 5, "viz": 5, "tinyformer": 5.5,
          "cli": 6, "__main__": 7}
FACES = {"tinyformer/__init__.py", "tinyformer/functional.py"}
STANDARD = getattr(sys, "stdlib_module_names", frozenset((      # Python 3.9 has no such list
    "__future__ _thread argparse ast asyncio atexit base64 binascii bisect builtins cProfile "
    "cmath codecs collections contextlib contextvars copy csv ctypes dataclasses datetime "
    "decimal "
    "difflib enum errno fcntl fnmatch fractions functools gc glob gzip hashlib heapq html "
    "importlib inspect io itertools json keyword locale logging math mmap msvcrt numbers operator "
    "os pathlib pickle platform pstats pydoc_data queue random re resource runpy sched secrets "
    "select selectors shlex shutil signal socket sqlite3 stat statistics string struct subprocess "
    "sys sysconfig tempfile termios textwrap threading time timeit token tokenize traceback "
    "tracemalloc tty types typing unicodedata unittest urllib uuid warnings weakref webbrowser "
    "xml zipfile zlib"
).split()))


def imports(path: str, source: str) -> Iterator[Tuple[str, int]]:
    """Every module that a source names in an import, in full, with the line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = path.split("/")[:-node.level] if node.level else []
            module = ".".join(above + ([node.module] if node.module else []))
            if module == "tinyformer":
                yield from ((f"tinyformer.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield module, node.lineno
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant) \
                and called(node)[1] in ("import_module", "__import__"):
            yield str(node.args[0].value), node.lineno


def called(node: ast.Call) -> Tuple[str, str]:
    """The owner and the name of what is called: ("os", "replace"); a call without owner has ""."""
    function = node.func
    if isinstance(function, ast.Attribute):
        owner = function.value
        return owner.id if isinstance(owner, ast.Name) else "?", function.attr
    return "", function.id if isinstance(function, ast.Name) else ""


def room(module: str) -> str:
    """The room that a module of the package belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in FLOORS else parts[0]


def floors(path: str, source: str) -> List[str]:
    """Imports of rooms that are not on a lower floor."""
    here = path.split("/")[1].replace(".py", "")
    if path in FACES:
        return []
    if here not in FLOORS:
        return [f"{path}: the room {here} has no floor"]
    return [f"{path}:{line}: {here} is not above {room(module)}" for module, line
            in imports(path, source) if module.split(".")[0] == "tinyformer"
            and room(module) != here and FLOORS[room(module)] >= FLOORS[here]]


def third_parties(path: str, source: str) -> List[str]:
    """Imports from outside the standard library: numpy, in one file, is the only one."""
    allowed = STANDARD | {"tinyformer"} | (
        {"numpy"} if path == "tinyformer/arrays/numpy_backend.py" else set())
    return [f"{path}:{line}: imports {module}" for module, line in imports(path, source)
            if module.split(".")[0] not in allowed]


def text_files(path: str, source: str) -> List[str]:
    """Text files opened without naming the encoding."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or any(k.arg == "encoding" for k in node.keywords):
            continue
        owner, name = called(node)
        place = {"read_text": 0, "write_text": 1}.get(name)
        if place is not None and len(node.args) <= place:
            found.append(f"{path}:{node.lineno}: {name} names no encoding")
        if name in ("fdopen", "NamedTemporaryFile") or name == "open" and owner != "os":
            place = 1 if owner in ("", "io", "os") and name != "NamedTemporaryFile" else 0
            modes = node.args[place:place + 1] + [k.value for k in node.keywords if k.arg == "mode"]
            mode = modes[0].value if modes and isinstance(modes[0], ast.Constant) else "text"
            if "b" not in str(mode) and (modes or name != "NamedTemporaryFile"):
                found.append(f"{path}:{node.lineno}: {name} names no encoding")
    return found


def replaces(path: str, source: str) -> List[str]:
    """Files moved by anything but os.replace, which alone replaces on every system."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            owner, name = called(node)
            of_a_path = name == "replace" and owner not in ("os", "dataclasses", "copy") \
                and len(node.args) == 1 and not isinstance(node.args[0], ast.Starred)
            if of_a_path or name in ("rename", "renames") or (owner, name) == ("shutil", "move"):
                found.append(f"{path}:{node.lineno}: {name}, where os.replace would be right")
    return found


def code_lines(source: str) -> Set[int]:
    """The numbers of the lines that hold code: no blanks, comments, docstrings."""
    free = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
            tokenize.ENDMARKER}
    lines: Set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in free:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) \
                and ast.get_docstring(node, clean=False) is not None:
            text: Any = node.body[0]
            lines -= set(range(text.lineno, text.end_lineno + 1))
    return lines


def sizes(path: str, source: str) -> List[str]:
    """Files of more than 300 lines of code, functions of more than 40."""
    lines = code_lines(source)
    found = [f"{path}: {len(lines)} lines of code, 300 allowed"] if len(lines) > 300 else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            own = len(lines & set(range(node.lineno, (node.end_lineno or 0) + 1)))
            if own > 40:
                found.append(f"{path}:{node.lineno}: {node.name} has {own} lines, 40 allowed")
    return found


def public(tree: ast.Module) -> Iterator[Tuple[str, Any]]:
    """Every public class and function of a module, and the methods of such classes, by name."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in tree.body:
        if isinstance(node, kinds) and not node.name.startswith("_"):
            yield node.name, node
            if isinstance(node, ast.ClassDef):
                yield from ((f"{node.name}.{method.name}", method) for method in node.body
                            if isinstance(method, kinds[1:]))


def descriptions(path: str, source: str) -> List[str]:
    """Public names without docstring or with incomplete annotations."""
    tree = ast.parse(source)
    found = [] if ast.get_docstring(tree) else [f"{path}: the module has no docstring"]
    for name, node in public(tree):
        where = f"{path}:{node.lineno}: {name}"
        marks = {part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "")
                 for part in node.decorator_list}
        if not ast.get_docstring(node) and "setter" not in marks \
                and not name.split(".")[-1].startswith("_"):
            found.append(f"{where} has no docstring")
        if isinstance(node, ast.ClassDef):
            continue
        given = node.args
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        if "." in name and "staticmethod" not in marks:
            every = every[1:]
        bare = [part.arg for part in every if part is not None and part.annotation is None]
        if bare or node.returns is None:
            found.append(f"{where}: no annotation of {', '.join(bare) or 'what it returns'}")
    return found


def young_syntax(path: str, source: str) -> List[str]:
    """What Python 3.9 cannot read, and annotations that it would evaluate."""
    try:
        tree = ast.parse(source, feature_version=(3, 9))
    except SyntaxError as error:
        return [f"{path}:{error.lineno}: {error.msg}"]
    found = [f"{path}:{line}: an f-string that needs Python 3.12"
             for line in young_f_strings(source)]
    defines = any(isinstance(node, (ast.FunctionDef, ast.AnnAssign)) for node in ast.walk(tree))
    if defines and path.startswith("tinyformer/") \
            and not any(module == "__future__" for module, _ in imports(path, source)):
        found.append(f"{path}: no `from __future__ import annotations`")
    return found


def young_f_strings(source: str) -> List[int]:
    """Lines of f-strings with their own quote, a backslash or a comment between the braces.

    Before 3.12 they are a SyntaxError, and there are no tokens to look at.
    """
    start, middle, end = (getattr(tokenize, f"FSTRING_{part}", -1)
                          for part in ("START", "MIDDLE", "END"))
    found, quotes = [], []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == end:
            quotes.pop()
        elif quotes and token.type != middle and (
                any(quote in token.string for quote in quotes) or "\\" in token.string
                or token.type == tokenize.COMMENT):
            found.append(token.start[0])
        if token.type == start:
            quotes.append(token.string.lstrip("rRfFbB"))
    return found


def strangers(names: Any) -> List[str]:
    """Names that have no place at the top level."""
    return sorted(set(names) - TOP_LEVEL)


def unread(readme: str, files: Any) -> List[str]:
    """Module files that the reading order does not name, and names in it that are no files."""
    section = re.split(r"^## ", readme.split("## Reading order", 1)[1], flags=re.M)[0]
    named, prefix = set(), ""
    for line in section.splitlines():
        rooms = re.findall(r"`(tinyformer/\w+/)`", line) if line.startswith("**") else []
        if line.startswith("**"):
            prefix = rooms[0] if len(rooms) == 1 else "tinyformer/"
        if line.startswith("|"):
            named |= {prefix + name for name in re.findall(r"`([\w/]+\.py)`", line.split("|")[1])}
    expected = {path for path in files if not path.endswith(("__init__.py", "__main__.py"))}
    return [f"not named: {path}" for path in sorted(expected - named)] + [
        f"no such file: {path}" for path in sorted(named - set(files))]


def tracked() -> List[str]:
    """The top-level names under version control; without git, all that .gitignore lets through."""
    if shutil.which("git"):
        done = subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
        if done.returncode == 0 and done.stdout:
            return [line.split("/")[0] for line in done.stdout.decode("utf-8").splitlines()]
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").replace("/", "").split() + [".git"]
    return [path.name for path in ROOT.iterdir()
            if not any(fnmatch.fnmatch(path.name, pattern) for pattern in ignored)]


def complaints(law: Any, sources: Dict[str, str]) -> List[str]:
    """What a law says about many sources."""
    return [each for path, source in sources.items() for each in law(path, source)]
