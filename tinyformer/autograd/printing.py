"""How a tensor looks: its numbers in aligned rows, shortened in the middle when there are many."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

EDGE = 3            # how many rows or columns of a long axis are shown at each end
LONG = 64           # more elements than this are shortened


def dtype_name(dtype: Any) -> str:
    """The name of a dtype of either backend."""
    if isinstance(dtype, str):
        return {"float": "float64", "int": "int64"}.get(dtype, dtype)
    return str(dtype)


def tensor_text(tensor: Any) -> str:
    """tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), with the rows below each other."""
    numbers = tensor.tolist()
    shorten = tensor.size > LONG
    cells: List[str] = []
    _collect(numbers, shorten, cells)
    width = max(map(len, cells), default=0) if tensor.ndim else 0
    body = _rows(numbers, shorten, width, len("tensor(") + 1)
    notes = "" if tensor.size or tensor.ndim < 2 else f", shape={tensor.shape}"
    if shorten:
        notes += f", shape={tensor.shape}"
    if tensor.dtype not in ("float32", "float64", "int64", "bool"):
        notes += f", dtype={tensor.dtype}"
    if tensor._node is not None:
        notes += f", made by {tensor._node.name}"
    elif tensor.requires_grad:
        notes += ", requires_grad=True"
    return f"tensor({body}{notes})"


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        text = f"{value:.4f}".rstrip("0")
        return text + "0" if text.endswith(".") else text
    return f"{value:.4g}"


def _shown(rows: List[Any], shorten: bool) -> List[Any]:
    return rows[:EDGE] + [None] + rows[-EDGE:] if shorten and len(rows) > 2 * EDGE else rows


def _collect(numbers: Any, shorten: bool, cells: List[str]) -> None:
    if not isinstance(numbers, list):
        cells.append(_cell(numbers))
        return
    for row in _shown(numbers, shorten):
        if row is not None:
            _collect(row, shorten, cells)


def _rows(numbers: Any, shorten: bool, width: int, indent: int) -> str:
    if not isinstance(numbers, list):
        return _cell(numbers).rjust(width)
    rows = ["..." if row is None else _rows(row, shorten, width, indent + 1)
            for row in _shown(numbers, shorten)]
    nested = any(isinstance(row, list) for row in numbers)
    return "[" + ((",\n" + " " * indent) if nested else ", ").join(rows) + "]"
