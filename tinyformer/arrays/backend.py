"""The choice of the engine: one namespace `xp`, filled by the pure or by the NumPy backend.

`xp` is one permanent object. Choosing a backend replaces its attributes, so `from tinyformer.arrays
import xp` never goes stale and a call of `xp.exp` costs one ordinary attribute look-up. Nothing is
chosen, and NumPy is not imported, before the first attribute of `xp` is asked for.
"""

from __future__ import annotations

import functools
import importlib
import os
import warnings

TYPE_CHECKING = False       # but true to type checkers: for us, `typing` is slow to import
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional

MODULES = {"python": "tinyformer.arrays.pure", "numpy": "tinyformer.arrays.numpy_backend"}
FUSED = {"python": "tinyformer.arrays.pure.fused", "numpy": "tinyformer.arrays.numpy_fused"}

# Everything that `xp` has, in both backends. Names up to `matmul` mean what the standard says.
NAMES = """
    Array bool int64 float64 inf nan pi
    asarray zeros ones full zeros_like ones_like arange astype isdtype
    add subtract multiply divide pow negative abs square exp log sqrt tanh sin cos
    maximum minimum equal not_equal less less_equal greater greater_equal
    logical_and logical_or logical_not isnan isfinite where
    sum mean var std max min any all argmax
    reshape permute_dims matrix_transpose expand_dims squeeze broadcast_to concat stack
    take take_along_axis matmul
    erf take_rows scatter_add_rows scatter_add scatter_along_axis with_item
    to_bytes from_bytes Generator
""".split()
DTYPES = {"python": ("exact",), "numpy": ("float32",)}       # what only one backend can hold


class Namespace:
    """The functions of the chosen backend, under their Array API names."""

    name: str                   # of the backend
    default_float: Any          # the dtype of new floats
    fused: Dict[str, Any]       # faster bodies of some plain computations, by their names

    def __getattr__(self, name: str) -> Any:
        """Reached only before the first choice, or for a name that no backend has."""
        if name.startswith("__"):
            raise AttributeError(name)
        if "name" not in vars(self):
            _install(default_backend())
            return getattr(self, name)
        raise AttributeError(f"the {self.name} backend has no function {name!r}")

    def __repr__(self) -> str:
        return f"<xp: {vars(self).get('name', 'not chosen yet')}>"


xp = Namespace()
_unfused = 0                           # how many `unfused` blocks we are in
_dtype_name: Optional[str] = None      # None: each backend's own default


def has_numpy() -> bool:
    """Whether NumPy is installed; it is not imported."""
    from importlib.util import find_spec        # only here: in Python 3.9 it brings `typing` along
    return find_spec("numpy") is not None


def default_backend() -> str:
    """The backend that TINYFORMER_BACKEND asks for, else NumPy where it is there and new enough."""
    name = os.environ.get("TINYFORMER_BACKEND", "")
    if name and name not in MODULES:
        raise ValueError(f"the environment variable TINYFORMER_BACKEND is {name!r}: there is no "
                         "such backend, set it to 'python' or 'numpy'")
    if name:
        return name
    if has_numpy():
        try:
            importlib.import_module(MODULES["numpy"])
            return "numpy"
        except ImportError as error:
            warnings.warn(f"computing in pure Python: {error}", stacklevel=2)
    return "python"


def _bodies(name: str) -> Dict[str, Any]:
    """The faster bodies of the backend `name`; none inside `unfused`."""
    bodies: Dict[str, Any] = importlib.import_module(FUSED[name]).fused
    return {} if _unfused else bodies


def _install(name: str) -> None:
    """Fill `xp` with the functions of the backend `name`."""
    if name not in MODULES:
        raise ValueError(f"there is no backend {name!r}: choose 'python' or 'numpy'")
    if name == "numpy" and not has_numpy():
        raise ImportError("the numpy backend needs NumPy, which this Python does not have: "
                          "install it with  python3 -m pip install 'numpy>=2.0',  or choose "
                          "'python'")
    module = importlib.import_module(MODULES[name])
    default = getattr(module, _dtype_name or module.DEFAULT_FLOAT, None)
    if default is None:
        raise ValueError(f"the {name} backend computes in float64 only, {_dtype_name} was asked "
                         "for: choose float64, or the numpy backend")
    chosen = {key: getattr(module, key) for key in (*NAMES, *DTYPES[name])}
    chosen.update(name=name, default_float=default, fused=_bodies(name))
    vars(xp).update(chosen)
    for stale in vars(xp).keys() - chosen.keys():
        delattr(xp, stale)


class use_backend:
    """Compute with the backend `name` ("python" or "numpy") from now on, in the whole process.

    As a context manager it goes back to the former choice at the end of the block. Arrays of one
    backend are not converted: a tensor made under another one is refused where it is used.

    Raises ValueError for an unknown name, ImportError where NumPy is asked for and missing.
    """

    def __init__(self, name: str) -> None:
        self.former = vars(xp).get("name")
        _install(name)

    def __enter__(self) -> "use_backend":
        return self

    def __exit__(self, *error: object) -> None:
        if self.former is None:
            vars(xp).clear()
        else:
            _install(self.former)


def fusible(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function of arrays whose work a backend may do by a faster body of its name.

    The plain body is the one that is read, and what the tests hold the faster ones against. It
    stands in where a backend has none, where its body returns NotImplemented for operands, and for
    arrays of another backend, whose attributes a body does not find: the plain one says which two
    have met.
    """
    name = plain.__name__

    @functools.wraps(plain)
    def computed(*operands: Any) -> Any:
        """The backend's body where it has one that takes these operands, else the plain one."""
        body = xp.fused.get(name)
        try:
            result = NotImplemented if body is None else body(*operands)
        except AttributeError:
            result = NotImplemented
        return plain(*operands) if result is NotImplemented else result

    return computed


class unfused:
    """A context manager: inside, every computation is done by its plain body, in the whole process
    and whatever backend is chosen there. Nests."""

    def __enter__(self) -> "unfused":
        global _unfused
        _unfused += 1
        xp.fused = _bodies(xp.name)
        return self

    def __exit__(self, *error: object) -> None:
        global _unfused
        _unfused -= 1
        xp.fused = _bodies(xp.name)


def backend_name() -> str:
    """The name of the backend in use, choosing one if none was chosen yet."""
    return str(xp.name)


class set_default_dtype:
    """Make new floats "float32" or "float64" from now on; None means the backend's own default.

    The defaults are float32 in NumPy and float64 in the pure backend, which has no other. As a
    context manager it goes back at the end of the block. Raises ValueError for what the backend
    cannot do.
    """

    def __init__(self, name: Optional[str]) -> None:
        if name not in (None, "float32", "float64"):
            raise ValueError(f"there is no float dtype {name!r}: choose 'float32' or 'float64'")
        self.former = _dtype_name
        self._set(name)

    def _set(self, name: Optional[str]) -> None:
        global _dtype_name
        former, _dtype_name = _dtype_name, name
        if "name" in vars(xp):
            try:
                _install(xp.name)
            except ValueError:
                _dtype_name = former
                raise

    def __enter__(self) -> "set_default_dtype":
        return self

    def __exit__(self, *error: object) -> None:
        self._set(self.former)
