"""Gradient descent, and Adam, which gives every number its own rate.

Each optimiser is one formula, `update`: from parameters p and their gradients g it makes the new p,
with whatever it remembers of earlier steps. The formula takes one number at a time, so that all
parameters are laid end to end and updated at once. Everything else is the same for all: who is
updated, who is decayed, and how the memory gets into a checkpoint.

Weight decay pulls weights towards 0. Only parameters of two or more axes are decayed (the matrices
of Linear and Embedding); a bias or the gain of a norm has a job at its value, and is left alone. A
parameter that two layers share is one parameter: it is updated once.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from tinyformer.arrays import xp
from tinyformer.arrays.backend import fusible
from tinyformer.autograd import Tensor

Parameters = Iterable[Union[Tensor, Tuple[str, Tensor]]]
Names = Tuple[str, ...]
Memory = Dict[str, Any]             # what is remembered of some parameters, by kind


class Optimiser:
    """What all optimisers share. `parameters` are tensors or pairs (name, tensor), such as
    `model.named_parameters()` gives; without names they are called "0", "1", ...

    A step changes the parameters that have a gradient, and no others. Raises ValueError for
    settings that make no sense or for no parameters at all.
    """

    def __init__(self, parameters: Parameters, **settings: float) -> None:
        self.parameters = named(parameters)
        self.settings = settings
        self.steps = {name: 0 for name in self.parameters}
        self.memory: Dict[Names, Memory] = {}
        # What the last step made: the numbers end to end, their parts, and the versions of these.
        self.flat: Dict[Names, Tuple[Any, List[Any], List[int]]] = {}
        if not self.parameters:
            raise ValueError("there are no parameters to optimise")
        for setting, value in settings.items():
            if not 0 <= value < (1 if setting in ("momentum", "beta1", "beta2") else math.inf):
                raise ValueError(f"{setting}={value} makes no sense in {type(self).__name__}")

    @property
    def memories(self) -> Tuple[str, ...]:
        """The names of what is remembered of a parameter."""
        return ()

    def step(self, lr: Optional[float] = None) -> None:
        """Update every parameter that has a gradient, at the rate `lr` (by default the one set)."""
        rate = self.settings["lr"] if lr is None else lr
        alike: Dict[Any, List[str]] = {}
        for name, parameter in self.parameters.items():
            if parameter.grad is not None:
                self.steps[name] += 1
                alike.setdefault((self.steps[name], parameter.ndim >= 2, parameter.data.dtype),
                                 []).append(name)
        for (steps, decayed, _), names in alike.items():
            parameters = [self.parameters[name] for name in names]
            decay = self.settings["weight_decay"] if decayed else 0.0
            gradients = [each.grad.data for each in parameters if each.grad is not None]
            moved = self.update(self.numbers(tuple(names)), xp.concat(gradients, axis=None),
                                self.remembered(tuple(names)), steps, rate, decay)
            parts = parted(moved, parameters)
            for parameter, part in zip(parameters, parts):
                parameter.data = part
            self._keep(tuple(names), moved, parts)

    def update(self, p: Any, g: Any, memory: Memory, steps: int, lr: float, decay: float) -> Any:
        """The new values of the numbers `p` with the gradients `g`, updated for the `steps`-th
        time. `memory` has what is remembered of them, and is given what is to be."""
        raise NotImplementedError

    def numbers(self, names: Names) -> Any:
        """The numbers of these parameters end to end: what the last step made, if it is there."""
        parameters = [self.parameters[name] for name in names]
        data = [each.data for each in parameters]
        flat, parts, versions = self.flat.get(names, (None, (), ()))
        if len(parts) == len(data) and all(map(operator.is_, data, parts)) \
                and versions == [each.version for each in parameters]:
            return flat
        return xp.concat(data, axis=None)

    def _keep(self, names: Names, flat: Any, parts: List[Any]) -> None:
        """Keep what a step made, in place of what other steps made of any of these parameters."""
        self.flat = {others: kept for others, kept in self.flat.items()
                     if set(others).isdisjoint(names)}
        self.flat[names] = flat, parts, [self.parameters[name].version for name in names]

    def __getstate__(self) -> Dict[str, Any]:
        return {**vars(self), "flat": {}}           # a copy has parameters of its own

    def remembered(self, names: Names) -> Memory:
        """What is remembered of these parameters, laid end to end: zeros before their first step.

        The same parameters are updated together step after step. When they are not, what is
        remembered of each is found and joined anew.
        """
        if names not in self.memory:
            known = self.parted_memory()
            for others in [each for each in self.memory if not set(each).isdisjoint(names)]:
                del self.memory[others]
                for name in set(others).difference(names):
                    self.memory[(name,)] = {kind: xp.concat([array], axis=None)
                                            for kind, array in known.get(name, {}).items()}
            self.memory[names] = {kind: xp.concat([
                known.get(name, {}).get(kind, xp.zeros_like(self.parameters[name].data))
                for name in names], axis=None) for kind in self.memories}
        memory = self.memory[names]
        for kind in set(self.memories).difference(memory):      # a setting has changed
            memory[kind] = xp.concat([xp.zeros_like(self.parameters[name].data) for name in names],
                                     axis=None)
        return memory

    def parted_memory(self) -> Dict[str, Memory]:
        """What is remembered of each parameter, in its shape."""
        known: Dict[str, Memory] = {}
        for names, memory in self.memory.items():
            parameters = [self.parameters[name] for name in names]
            for kind, flat in memory.items():
                for name, array in zip(names, parted(flat, parameters)):
                    known.setdefault(name, {})[kind] = array
        return known

    def zero_grad(self) -> None:
        """Forget all gradients; `backward()` adds to what it finds."""
        for parameter in self.parameters.values():
            parameter.grad = None

    def state_dict(self) -> Dict[str, Any]:
        """What a checkpoint needs: "name", "settings" and "steps" as JSON can hold them, and
        "arrays", the memory, by names such as "first.blocks.0.weight"."""
        arrays = {f"{kind}.{name}": xp.astype(array, array.dtype)
                  for name, memory in self.parted_memory().items()
                  for kind, array in memory.items()}
        return {"name": type(self).__name__, "settings": dict(self.settings),
                "steps": dict(self.steps), "arrays": arrays}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Go on from `state`. Raises ValueError, changing nothing, where it belongs to another kind
        of optimiser or to other parameters."""
        if state["name"] != type(self).__name__:
            raise ValueError(f"the state is of {state['name']}, this optimiser is "
                             f"{type(self).__name__}")
        if set(state["steps"]) != set(self.parameters):
            different = sorted(set(state["steps"]) ^ set(self.parameters))
            raise ValueError(f"the state belongs to other parameters: {', '.join(different[:5])} "
                             f"({len(different)} in all) are only in one of the two")
        memory: Dict[Names, Memory] = {}
        for key, array in state["arrays"].items():
            kind, _, name = key.partition(".")
            data = self.parameters[name].data
            if tuple(array.shape) != tuple(data.shape):
                raise ValueError(f"the state has {key} in shape {tuple(array.shape)}, the "
                                 f"parameter has shape {tuple(data.shape)}")
            memory.setdefault((name,), {})[kind] = xp.reshape(xp.astype(array, data.dtype), (-1,))
        self.memory, self.steps = memory, dict(state["steps"])
        self.settings = dict(state["settings"])

    def __repr__(self) -> str:
        settings = ", ".join(f"{key}={value:g}" for key, value in self.settings.items())
        groups: List[str] = []
        for word, wide in (("decayed", True), ("not decayed", False)):
            sizes = [p.size for p in self.parameters.values() if (p.ndim >= 2) == wide]
            groups.append(f"{word}: {len(sizes)} tensors, {sum(sizes):,} numbers")
        return f"{type(self).__name__}({settings}; {'; '.join(groups)})"


class SGD(Optimiser):
    """Stochastic gradient descent with momentum m and weight decay w, in PyTorch's form:

        g' = g + w p,   v = m v + g',   p = p - lr v
    """

    def __init__(self, parameters: Parameters, lr: float, momentum: float = 0.0,
                 weight_decay: float = 0.0) -> None:
        super().__init__(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay)

    @property
    def memories(self) -> Tuple[str, ...]:
        """The velocity, unless there is no momentum."""
        return ("velocity",) if self.settings["momentum"] else ()

    def update(self, p: Any, g: Any, memory: Memory, steps: int, lr: float, decay: float) -> Any:
        """The formula of the class."""
        if decay:
            g = g + decay * p
        if memory:
            g = memory["velocity"] = self.settings["momentum"] * memory["velocity"] + g
        return p - lr * g


class Adam(Optimiser):
    """Adam (Kingma and Ba 2015, algorithm 1): step by the mean gradient over its usual size.

        m = b1 m + (1 - b1) g        M = m / (1 - b1^t)
        v = b2 v + (1 - b2) g^2      V = v / (1 - b2^t)
        p = p - lr M / (sqrt(V) + eps)

    t counts the steps of this parameter; the divisions by 1 - b^t make up for m and v beginning at
    0. Weight decay w is added to the gradient, g + w p, and so is rescaled with it; see AdamW.
    """

    def __init__(self, parameters: Parameters, lr: float = 0.001,
                 betas: Sequence[float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0) -> None:
        super().__init__(parameters, lr=lr, beta1=betas[0], beta2=betas[1], eps=eps,
                         weight_decay=weight_decay)

    @property
    def memories(self) -> Tuple[str, ...]:
        """The means of the gradient and of its square."""
        return ("first", "second")

    def update(self, p: Any, g: Any, memory: Memory, steps: int, lr: float, decay: float) -> Any:
        """The formula of the class."""
        return self.adam(p, g + decay * p if decay else g, memory, steps, lr, 1.0)

    def adam(self, p: Any, g: Any, memory: Memory, steps: int, lr: float, keep: float) -> Any:
        """keep p - lr M / (sqrt(V) + eps), with the corrections of m and v moved into numbers:

            M / (sqrt(V) + eps)  =  scale m / (sqrt(v) + eps root),
            root = sqrt(1 - b2^t),   scale = root / (1 - b1^t)
        """
        b1, b2 = self.settings["beta1"], self.settings["beta2"]
        root = math.sqrt(1 - b2 ** steps)
        p, memory["first"], memory["second"] = adam_step(
            p, g, memory["first"], memory["second"], keep, b1, b2,
            lr * root / (1 - b1 ** steps), self.settings["eps"] * root)
        return p


@fusible
def adam_step(p: Any, g: Any, m: Any, v: Any, keep: float, b1: float, b2: float, scale: float,
              shift: float) -> Tuple[Any, Any, Any]:
    """The new parameters and their two moments: the formula of Adam with its numbers worked out.

    The moments belong to the optimiser alone: a faster body may write over them.
    """
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * (g * g)
    return keep * p - scale * m / (xp.sqrt(v) + shift), m, v


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2): p = (1 - lr w) p,
    and then the step of Adam from there. The decay is the same for all weights, whatever their
    gradients.
    """

    def __init__(self, parameters: Parameters, lr: float = 0.001,
                 betas: Sequence[float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.01) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay)

    def update(self, p: Any, g: Any, memory: Memory, steps: int, lr: float, decay: float) -> Any:
        """The formula of the class."""
        return self.adam(p, g, memory, steps, lr, 1 - lr * decay)


def parted(flat: Any, like: Sequence[Tensor]) -> List[Any]:
    """What was laid end to end, in the shapes of the tensors again."""
    parts, start = [], 0
    for tensor in like:
        shape = tensor.data.shape
        stop = start + math.prod(shape)
        parts.append(xp.reshape(flat[start:stop], shape))
        start = stop
    return parts


def named(parameters: Parameters) -> Dict[str, Tensor]:
    """Parameters by name, each tensor once, under the first of its names."""
    found: Dict[str, Tensor] = {}
    seen = set()
    for number, item in enumerate(parameters):
        name, tensor = item if isinstance(item, tuple) else (str(number), item)
        if id(tensor) in seen:
            continue
        if name in found:
            raise ValueError(f"two parameters are called {name!r}")
        seen.add(id(tensor))
        found[name] = tensor
    return found


def clip_grad_norm(parameters: Parameters, max_norm: Optional[float] = None) -> float:
    """Shorten all gradients together to the length `max_norm` if they are longer, and return it.

    The length is the root of the sum of the squares of all numbers (Pascanu et al. 2013, algorithm
    1; PyTorch divides by the length plus 1e-6). Each `grad` is replaced, no array is written into.
    Without `max_norm` only the length is computed.

    Raises FloatingPointError, changing nothing, where a gradient has nan or infinity, and names the
    parameter: a step along such a gradient would destroy the model.
    """
    if max_norm is not None and not max_norm > 0:
        raise ValueError(f"max_norm must be above 0, not {max_norm}; None does not clip")
    having = [(name, p, p.grad.data) for name, p in named(parameters).items() if p.grad is not None]
    squares = [float(sum_of_squares(g)) for _, _, g in having]
    norm = math.sqrt(sum(squares))
    if not math.isfinite(norm):
        raise FloatingPointError(_not_finite(having, squares))
    if max_norm is not None and norm > max_norm:
        for _, p, g in having:
            p.grad = Tensor(g * (max_norm / norm))
    return norm


@fusible
def sum_of_squares(g: Any) -> Any:
    """The sum of the squares of all numbers of an array."""
    return xp.sum(xp.square(g))


def _not_finite(having: Sequence[Tuple[str, Tensor, Any]], squares: Sequence[float]) -> str:
    """Which gradient it was, and what is in it."""
    what = "the sum of the squares of all gradients is too large for a float"
    for (name, p, g), square in zip(having, squares):
        if not math.isfinite(square):
            wrong = p.size - int(xp.sum(xp.astype(xp.isfinite(g), xp.int64)))
            what = f"the gradient of {name}, shape {p.shape}, " + (
                f"has {wrong} of {p.size} numbers that are nan or infinite" if wrong
                else f"is finite, but too large to be squared in {p.dtype}")
            break
    return what + "; nothing was updated. A lower rate, a longer warm-up or float64 may help"
