"""Numbers in rows: the pure and the NumPy backend under the names of the Array API standard."""

from tinyformer.arrays.backend import backend_name, set_default_dtype, use_backend, xp

__all__ = ["backend_name", "set_default_dtype", "use_backend", "xp"]
