"""Module: a layer is an object with parameters, and a model is a tree of layers.

Parameters and child modules are plain attributes, also inside lists, tuples and dicts, found by
walking the attributes in the order in which they were set. Nothing is registered. A parameter that
two layers share is the same object in both, and counts once.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Mapping, Set, Tuple

from tinyformer.arrays import xp
from tinyformer.autograd import Tensor
from tinyformer.autograd.engine import calling_line, is_own, place
from tinyformer.nn.printing import module_text


class Parameter(Tensor):
    """A tensor that training changes: it requires a gradient unless it is frozen."""

    __slots__ = ()

    def __init__(self, data: Any, dtype: Any = None, requires_grad: bool = True) -> None:
        super().__init__(data, dtype, requires_grad)


class Module:
    """The base of all layers and models: subclasses set attributes and define `forward`.

    Calling a module calls its `forward`. `training` is True until `eval()`; dropout asks for it.
    """

    training = True
    _ours = False                       # whether `forward` stands in this package

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._ours = is_own(getattr(cls.forward, "__code__", None))

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if self._ours == (place.get() is not None):
            return self.forward(*arguments, **options)
        former = place.set(calling_line() if self._ours else None)
        try:
            return self.forward(*arguments, **options)
        finally:
            place.reset(former)

    def __setattr__(self, name: str, value: Any) -> None:
        """TypeError for a bare tensor where a parameter stands: it would be neither trained nor
        saved, and nobody would notice."""
        if isinstance(vars(self).get(name), Parameter) and isinstance(value, Tensor) \
                and not isinstance(value, Parameter):
            raise TypeError(f"{type(self).__name__}.{name} is a parameter, and a bare tensor in "
                            "its place would not be trained: set its .data, or assign a Parameter")
        super().__setattr__(name, value)

    def forward(self, *arguments: Any, **options: Any) -> Any:
        """The computation of the layer."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward()")

    def named_children(self) -> Iterator[Tuple[str, Any]]:
        """The (name, value) pairs of the parameters and modules that are attributes of this one."""
        for name, value in vars(self).items():
            yield from _members(name, value)

    def named_modules(self, prefix: str = "") -> Iterator[Tuple[str, "Module"]]:
        """This module and all below it with their dotted names, each once."""
        seen: Set[int] = set()
        for name, module in self._walk(prefix, ()):
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def _walk(self, prefix: str, above: Tuple[int, ...]) -> Iterator[Tuple[str, "Module"]]:
        """This module and all below it, a shared one under each of its names; none below itself."""
        yield prefix, self
        above += (id(self),)
        for name, child in self.named_children():
            if isinstance(child, Module) and id(child) not in above:
                yield from child._walk(_join(prefix, name), above)

    def _all_names(self) -> Iterator[Tuple[str, Parameter]]:
        """Every parameter under every name; a shared one comes several times."""
        for prefix, module in self._walk("", ()):
            for name, child in module.named_children():
                if isinstance(child, Parameter):
                    yield _join(prefix, name), child

    def named_parameters(self) -> Iterator[Tuple[str, Parameter]]:
        """Every parameter once, under the first of its names."""
        seen: Set[int] = set()
        for name, parameter in self._all_names():
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter

    def parameters(self) -> List[Parameter]:
        """Every parameter once."""
        return [parameter for _, parameter in self.named_parameters()]

    def n_parameters(self) -> int:
        """The number of numbers in all parameters, shared ones counted once."""
        return sum(parameter.size for parameter in self.parameters())

    def state_dict(self) -> Dict[str, Tensor]:
        """The parameters by name, without a copy; a shared one under its first name."""
        return dict(self.named_parameters())

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Take over the numbers of `state` (tensors, arrays or nested lists) by name.

        A shared parameter may come under any of its names, or under several with the same numbers.
        Raises ValueError that lists every missing, unexpected, mis-shaped and contradictory name,
        before anything is changed; with strict=False missing and unexpected names are left alone.
        """
        names: Dict[Parameter, List[str]] = {}
        for name, parameter in self._all_names():
            names.setdefault(parameter, []).append(name)
        new: Dict[Parameter, Any] = {}
        problems: List[str] = []
        for parameter, aliases in names.items():
            given = [name for name in aliases if name in state]
            for name in given:
                try:
                    new[parameter] = _fitting(state[name], parameter, new.get(parameter))
                except (TypeError, ValueError) as error:
                    problems.append(f"{name}: {error}")
            if strict and not given:
                problems.append(f"{' or '.join(aliases)}: missing, shape {parameter.shape} needed")
        known = {name for aliases in names.values() for name in aliases}
        if strict:
            problems += [f"{name}: unexpected, there is no such parameter"
                         for name in state if name not in known]
        if problems:
            raise ValueError(f"these weights do not fit {type(self).__name__}; nothing was "
                             "changed:\n  " + "\n  ".join(problems))
        for parameter, array in new.items():
            parameter.data = array

    def train(self, mode: bool = True) -> "Module":
        """Switch dropout on, here and in all modules below; returns the module."""
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self) -> "Module":
        """Switch dropout off, here and in all modules below; returns the module."""
        return self.train(False)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Inside, dropout is off; then every module is again as it was, also after an error."""
        former = [(module, module.training) for _, module in self.named_modules()]
        self.eval()
        try:
            yield
        finally:
            for module, mode in former:
                module.training = mode

    def freeze(self) -> "Module":
        """Let training leave the parameters as they are: they require no gradient."""
        for parameter in self.parameters():
            parameter.requires_grad = False
        return self

    def unfreeze(self) -> "Module":
        """Let training change the parameters again."""
        for parameter in self.parameters():
            parameter.requires_grad = True
        return self

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.grad = None

    def extra_repr(self) -> str:
        """What stands between the parentheses when the module is printed."""
        return ""

    def __repr__(self) -> str:
        return module_text(self)


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _members(name: str, value: Any) -> Iterator[Tuple[str, Any]]:
    """The parameters and modules in an attribute: itself, or what a list, tuple or dict holds."""
    if isinstance(value, (Parameter, Module)):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _members(f"{name}.{index}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _members(f"{name}.{key}", item)


def _fitting(value: Any, parameter: Parameter, former: Any) -> Any:
    """Anything given for a parameter, as an array; `former` is what its other name gave."""
    array = xp.asarray(value.data if isinstance(value, Tensor) else value)
    if tuple(array.shape) != parameter.shape:
        raise ValueError(f"shape {tuple(array.shape)} given, {parameter.shape} needed")
    if former is not None and not xp.all(array == former):
        raise ValueError("other numbers than under another name of the same, shared parameter")
    return array
