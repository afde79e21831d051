"""Tensor: an array that remembers what it was computed from.

`record` is how every operation makes its result. Given the forward value and, for each operand, the
vector-Jacobian product that leads back to it, it returns a tensor and, where a gradient is needed,
hangs a node into the graph. Whoever reads one operation has read them all:

    def exp(x):
        y = xp.exp(x.data)
        return record("exp", y, (x, lambda g: g * y))
"""

from __future__ import annotations

import warnings

from tinyformer.arrays import xp
from tinyformer.autograd.conversion import (
    check_bare, check_not_in_graph, dtype_of, numbers, to_numpy)
from tinyformer.autograd.engine import (Edges, Node, Version, backpropagate, current_observer,
                                        is_grad_enabled)
from tinyformer.autograd.printing import dtype_name, tensor_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple, Union
    Axes = Optional[Union[int, Sequence[int]]]


class Tensor:
    """A multi-dimensional array of numbers with reverse-mode gradients.

    `data` is a number, nested sequences or an array of the backend in use; `dtype` one of
    "float32", "float64", "int64", "bool" or None for what the numbers are (Python floats take the
    default dtype). With `requires_grad` the tensor is a leaf whose `grad` `backward()` fills.

    An array is shared, not copied. Writing into the raw array of `data` from outside is not noticed
    unless `touch()` is called; setting `data` and item assignment are, by a version counter. Raises
    TypeError for integers that are to require a gradient.
    """

    __slots__ = ("_data", "_grad", "_requires_grad", "_node", "_version", "__weakref__")
    __array_ufunc__ = None              # ndarray * tensor asks the tensor; else it makes objects

    def __init__(self, data: Any, dtype: Optional[str] = None, requires_grad: bool = False) -> None:
        given = data
        if isinstance(data, Tensor):
            check_not_in_graph(data)
            given = data._data
        kind = None if dtype is None else dtype_of(dtype)
        try:
            self._data: Any = xp.asarray(given, kind)
        except TypeError:                           # tensors in lists, which are no numbers
            self._data = xp.asarray(numbers(given), kind)
        self._grad: Optional[Tensor] = None
        self._requires_grad = False
        self._node: Optional[Node] = None
        self._version: Version = data._version if self._data is given is not data else [0]
        if requires_grad:
            self.requires_grad = True

    # What it is

    @property
    def data(self) -> Any:
        """The raw array. When it is set, a graph that used the old numbers refuses backward()."""
        return self._data

    @data.setter
    def data(self, value: Any) -> None:
        """Replace the numbers, not the shape or dtype; ValueError for another shape."""
        value = xp.asarray(value._data if isinstance(value, Tensor) else value)
        if value.shape != self._data.shape:
            raise ValueError(f"data of shape {tuple(value.shape)} cannot replace data of shape "
                             f"{self.shape}")
        self.touch()
        if value is not self._data:
            self._version = list(self._version)     # the former stays with what shares the old data
        same = value.dtype == self._data.dtype
        self._data = value if same else xp.astype(value, self._data.dtype)

    def touch(self) -> None:
        """Say that the numbers of `data` were changed in place, so that older graphs refuse."""
        self._version[0] += 1

    @property
    def version(self) -> int:
        """How often the data was replaced, here or in a tensor that shares it."""
        return self._version[0]

    @property
    def grad(self) -> Optional[Tensor]:
        """The gradient that backward() has summed here, or None."""
        if self._node is None:
            return self._grad
        if not self._node.retains:
            warnings.warn("the gradient of a tensor that was computed from others is not kept; "
                          "call .retain_grad() on it before backward()", stacklevel=2)
        return None if self._node.grad is None else Tensor(self._node.grad)

    @grad.setter
    def grad(self, value: Optional[Tensor]) -> None:
        """None forgets the gradient; ValueError for anything else but a tensor that fits."""
        if value is not None and (not isinstance(value, Tensor) or value.shape != self.shape):
            raise ValueError(f"grad must be None or a Tensor of shape {self.shape}, not "
                             f"{value!r:.60}")
        self._grad = value

    @property
    def requires_grad(self) -> bool:
        """Whether backward() computes a gradient for this tensor."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        """RuntimeError for a result of others, TypeError for what is not float."""
        if self._node is not None:
            raise RuntimeError(f"requires_grad can be set on leaves only; this is the result of "
                               f"{self._node}. Use .detach() to cut it off")
        if value and xp.isdtype(self._data.dtype, "integral") or value and self.dtype == "bool":
            raise TypeError(f"a tensor of dtype {self.dtype} cannot require a gradient: only "
                            "floats have derivatives. Make it float, e.g. tensor(..., "
                            "dtype='float64')")
        self._requires_grad = bool(value)

    @property
    def is_leaf(self) -> bool:
        """Whether it was made by hand and not by a recorded operation."""
        return self._node is None

    @property
    def shape(self) -> Tuple[int, ...]:
        """The lengths of the axes."""
        return tuple(self._data.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._data.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(self._data.size)

    @property
    def dtype(self) -> str:
        """The name of the dtype: "float32", "float64", "int64", "bool" or "exact"."""
        return dtype_name(self._data.dtype)

    # Its numbers

    def item(self) -> Any:
        """The only element as a Python number; ValueError if there is not exactly one."""
        if self.size != 1:
            raise ValueError(f"item() needs exactly one element; this tensor has {self.size}, "
                             f"shape {self.shape}")
        return self._data.item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a bare number for no axes."""
        return self._data.tolist()

    def numpy(self) -> Any:
        """The numbers as a NumPy array, in either backend; RuntimeError if they need a gradient."""
        return self.__array__()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        check_bare(self)
        return to_numpy(self, dtype, copy)

    def __repr__(self) -> str:
        return tensor_text(self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without axes has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[row] for row in range(len(self)))

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"the truth of a tensor of shape {self.shape} is ambiguous: compare "
                             "element by element, then sum() or tolist()")
        return bool(self.item())

    def __float__(self) -> float:
        if self._requires_grad:                     # NumPy's array[i] = tensor comes here as well
            warnings.warn("a tensor that requires a gradient became a bare number, through which "
                          "no gradient passes (assigning it into an array is not supported: use "
                          "stack or concat). If only the number is wanted, say .item()",
                          stacklevel=2)
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype != "int64":
            raise TypeError(f"only integers are an index, not {self.dtype}")
        return int(self.item())

    def __format__(self, specification: str) -> str:
        return format(self.item() if self.size == 1 and specification else str(self), specification)

    # The graph

    def backward(self, gradient: Any = None, retain_graph: bool = False) -> None:
        """Add d(self)/d(leaf) to the `grad` of every leaf that this tensor was computed from.

        `gradient`, in the shape of this tensor, is dL/d(self), the weight of each of its elements;
        1 when there is only one element. The graph is released unless `retain_graph`. If anything
        is wrong, a RuntimeError is raised and no gradient has changed.
        """
        if not self._requires_grad:
            raise RuntimeError("backward() on a tensor that requires no gradient: none of what it "
                               "was computed from has requires_grad=True, or it was computed under "
                               "no_grad(), or it was detached")
        if gradient is None:
            if self.size != 1:
                raise RuntimeError(f"backward() without a gradient needs a single number; this "
                                   f"tensor has shape {self.shape}. Take .sum() or .mean() first, "
                                   "or pass the gradient of each element")
            seed = xp.ones_like(self._data)
        else:
            seed = gradient._data if isinstance(gradient, Tensor) else xp.asarray(gradient)
            if seed.shape != self._data.shape:
                raise ValueError(f"the gradient has shape {seed.shape}, the tensor {self.shape}")
            seed = xp.astype(seed, self._data.dtype)
        for target, g in backpropagate(self._node or self, seed, retain_graph):
            if isinstance(target, Node):
                target.grad = g if target.grad is None else target.grad + g
            else:
                former = target._grad
                target._grad = wrap(g if former is None else xp.asarray(former._data + g))

    def retain_grad(self) -> None:
        """Keep the gradient of this tensor although it is not a leaf."""
        if self._node is not None:
            self._node.retains = True

    def detach(self) -> Tensor:
        """The same numbers, cut off from the graph; the array is shared, not copied."""
        return wrap(self._data, self._version)

    def __reduce__(self) -> Any:
        if self._node is not None:
            raise RuntimeError(f"the result of {self._node} is part of a graph and cannot be "
                               "copied or pickled: use .detach() for its numbers, or copy the "
                               "leaves")
        return _rebuild, (type(self), self._data, self._requires_grad, self._grad)

    # Arithmetic, elementwise with broadcasting

    def __add__(self, other: Any) -> Tensor:
        return operations.add(self, other)

    def __radd__(self, other: Any) -> Tensor:
        return operations.add(other, self)

    def __sub__(self, other: Any) -> Tensor:
        return operations.subtract(self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return operations.subtract(other, self)

    def __mul__(self, other: Any) -> Tensor:
        return operations.multiply(self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return operations.multiply(other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return operations.divide(self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return operations.divide(other, self)

    def __pow__(self, other: Any) -> Tensor:
        return operations.pow(self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return operations.pow(other, self)

    def __neg__(self) -> Tensor:
        return operations.negative(self)

    def __matmul__(self, other: Any) -> Tensor:
        return operations.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return operations.matmul(other, self)

    def pow(self, exponent: Any) -> Tensor:
        """self ** exponent."""
        return operations.pow(self, exponent)

    def exp(self) -> Tensor:
        """e to the power of each element."""
        return operations.exp(self)

    def log(self) -> Tensor:
        """The natural logarithm of each element."""
        return operations.log(self)

    def sqrt(self) -> Tensor:
        """The square root of each element."""
        return operations.sqrt(self)

    def tanh(self) -> Tensor:
        """The hyperbolic tangent of each element."""
        return operations.tanh(self)

    # Comparison: elementwise, without a gradient; the hash stays identity

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        return operations.compare(xp.equal, self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return operations.compare(xp.not_equal, self, other)

    def __lt__(self, other: Any) -> Tensor:
        return operations.compare(xp.less, self, other)

    def __le__(self, other: Any) -> Tensor:
        return operations.compare(xp.less_equal, self, other)

    def __gt__(self, other: Any) -> Tensor:
        return operations.compare(xp.greater, self, other)

    def __ge__(self, other: Any) -> Tensor:
        return operations.compare(xp.greater_equal, self, other)

    __hash__ = object.__hash__

    # Shape and order

    def __getitem__(self, key: Any) -> Tensor:
        return operations.getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, Tensor) and value._requires_grad and is_grad_enabled():
            raise RuntimeError("assigning a tensor that requires a gradient into another one is "
                               "not supported: build the result with stack(...), concat(...) "
                               "or where(...)")
        self.data = xp.with_item(self._data, operations.raw_key(key), operations.raw_key(value))

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in the same order under another shape; one length may be -1."""
        return operations.reshape(self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, axis0: int, axis1: int) -> Tensor:
        """Two axes exchanged."""
        order = list(range(self.ndim))
        if not all(-self.ndim <= axis < self.ndim for axis in (axis0, axis1)):
            raise IndexError(f"transpose: axes {axis0} and {axis1} of a tensor of {self.shape}")
        order[axis0], order[axis1] = order[axis1], order[axis0]
        return operations.permute(self, order)

    def permute(self, *axes: int) -> Tensor:
        """Axis `axes[i]` becomes axis i."""
        return operations.permute(self, axes)

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        return self.transpose(-2, -1)

    # Reductions

    def sum(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The sum along the axes; of all elements for None."""
        return operations.sum(self, axis, keepdims)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The arithmetic mean along the axes."""
        return operations.mean(self, axis, keepdims)

    def max(self, axis: Axes = None, keepdims: bool = False) -> Tensor:
        """The largest element along the axes; equal ones share the gradient evenly."""
        return operations.max(self, axis, keepdims)

    def var(self, axis: Axes = None, correction: float = 1, keepdims: bool = False) -> Tensor:
        """The variance along the axes, divided by n - `correction`: by n - 1, as in PyTorch."""
        return operations.var(self, axis, correction, keepdims)

    def argmax(self, axis: Optional[int] = None) -> Tensor:
        """The index of the first largest element; no gradient."""
        return wrap(xp.asarray(xp.argmax(self._data, axis=axis)))


def tensor(data: Any, dtype: Optional[str] = None, requires_grad: bool = False) -> Tensor:
    """A tensor from numbers, under PyTorch's name; an array is copied, as there. Tensor shares it.

    >>> tensor([[1.0, 2.0], [3.0, 4.0]]).sum(axis=0).tolist()
    [4.0, 6.0]
    """
    result = Tensor(data, dtype)
    if isinstance(data, (Tensor, xp.Array)):
        result = wrap(xp.astype(result._data, result._data.dtype))
    result.requires_grad = requires_grad
    return result


def wrap(data: Any, version: Optional[Version] = None) -> Tensor:
    """A leaf without gradient around an array, without a check."""
    result = Tensor.__new__(Tensor)
    result._data = data
    result._grad = result._node = None
    result._requires_grad = False
    result._version = [0] if version is None else version
    return result


def _rebuild(kind: type, data: Any, requires_grad: bool, grad: Optional[Tensor]) -> Tensor:
    result: Tensor = object.__new__(kind)
    result._data, result._grad, result._requires_grad = data, grad, requires_grad
    result._node, result._version = None, [0]
    return result


def record(name: str, data: Any, *edges: Tuple[Any, Optional[Callable[[Any], Any]]],
           shares: Optional[Tensor] = None) -> Tensor:
    """The result of an operation: its value `data` and the way back to each operand.

    Each edge is a pair (operand, vjp): `vjp(g)` is the gradient of the operand given the gradient g
    of the result; it may have the result's broadcast shape. Where operands share work the pair is
    ((operand, operand, ...), vjp) and vjp returns one gradient each. Where no gradient exists (ids,
    masks) vjp is None: backward() then only sees to it that the operand was not replaced meanwhile.
    A vjp holds arrays, never tensors: it must see the numbers that the forward pass saw. `shares`
    is the operand, if any, whose memory `data` may be a view of.

    Raises TypeError for float dtypes that differ.
    """
    if type(data) is not xp.Array:
        data = xp.asarray(data)
    result = wrap(data, None if shares is None else shares._version)
    dtype, recording, observer = data.dtype, is_grad_enabled(), current_observer()
    if observer is not None:
        observer(name, data)
    kept: List[Edges] = []
    read: List[Tuple[Version, int]] = []
    for operands, vjp in edges:
        joint = type(operands) is tuple
        targets: List[Any] = []
        wanted = False
        for operand in operands if joint else (operands,):
            own, version = operand._data.dtype, operand._version
            if own is not dtype:
                _check_dtypes(name, own, dtype)
            read.append((version, version[0]))
            if operand._requires_grad:
                targets.append(operand._node or operand)
                wanted = True
            else:
                targets.append(None)
        if wanted and recording and vjp is not None:
            kept.append(Edges(targets, vjp, joint))
    if kept:
        read.append((result._version, result._version[0]))
        result._requires_grad = True
        result._node = Node(name, data, kept, read)
    return result


def _check_dtypes(name: str, operand: Any, result: Any) -> None:
    if operand != result and xp.isdtype(operand, "real floating"):
        raise TypeError(f"{name}: {dtype_name(operand)} and {dtype_name(result)} never mix "
                        "silently; make both tensors of one dtype (set_default_dtype sets that of "
                        "new ones)")


# A tensor's operators are the functions of this module, and they need Tensor: hence the last line.
from tinyformer.autograd import operations  # noqa: E402
