"""Module: a layer is an object with parameters, and a model is a tree of layers.

Parameters and child modules are plain attributes (also inside lists, tuples and dicts), found by walking
the attributes in the order in which they were set. Nothing is registered, and nothing can be forgotten.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Set, Tuple

from tinyformer.autograd import Tensor
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

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.forward(*arguments, **options)

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
        stack: List[Tuple[str, Module]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module
                below = [(_join(name, child_name), child) for child_name, child in module.named_children()
                         if isinstance(child, Module)]
                stack.extend(reversed(below))

    def _all_names(self) -> Iterator[Tuple[str, Parameter]]:
        """Every parameter under every name; a shared one comes several times."""
        for prefix, module in self.named_modules():
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

        A shared parameter may come under any of its names. Raises ValueError that lists every missing,
        unexpected and mis-shaped name, before anything is changed; with strict=False missing and
        unexpected names are left alone.
        """
        names: Dict[int, List[str]] = {}
        parameters = dict(self._all_names())
        for name, parameter in parameters.items():
            names.setdefault(id(parameter), []).append(name)
        given = {name: value if isinstance(value, Tensor) else Tensor(value)
                 for name, value in state.items() if name in parameters}
        problems = [f"{name}: shape {value.shape} given, {parameters[name].shape} needed"
                    for name, value in given.items() if value.shape != parameters[name].shape]
        if strict:
            problems += [f"{' or '.join(aliases)}: missing, shape {parameters[aliases[0]].shape} needed"
                         for aliases in names.values() if not any(alias in given for alias in aliases)]
            problems += [f"{name}: unexpected, there is no such parameter"
                         for name in state if name not in parameters]
        if problems:
            raise ValueError(f"these weights do not fit {type(self).__name__}; nothing was changed:\n  "
                             + "\n  ".join(problems))
        for name, value in given.items():
            parameters[name].data = value.data

    def train(self, mode: bool = True) -> "Module":
        """Switch dropout on, here and in all modules below; returns the module."""
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self) -> "Module":
        """Switch dropout off, here and in all modules below; returns the module."""
        return self.train(False)

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
