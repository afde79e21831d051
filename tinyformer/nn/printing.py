"""How a model looks: its tree, equal neighbours folded into one, the parameters counted."""

from __future__ import annotations

from typing import Any, List, Tuple

Line = Tuple[str, str]              # the text, and the count of parameters to its right


def module_text(module: Any) -> str:
    """The tree of a module as text: `(0-11): 12 x Block(` for twelve equal blocks."""
    lines = _tree(module)
    left = max(len(text) for text, _ in lines)
    right = max(len(count) for _, count in lines)
    return "\n".join(f"{text.ljust(left)}  {count.rjust(right)}".rstrip() for text, count in lines)


def _tree(module: Any) -> List[Line]:
    children = list(module.named_children())
    count = _count([module])
    head = f"{type(module).__name__}("
    below = _folded([(name, child) for name, child in children if hasattr(child, "named_children")])
    own = [(name, child) for name, child in children if not hasattr(child, "named_children")]
    if not below:
        return [(f"{head}{module.extra_repr()})", count)]
    lines = [(head, count)] + ([("  " + module.extra_repr(), "")] if module.extra_repr() else [])
    lines += [(f"  ({name}): Parameter{child.shape}", f"{child.size:,}") for name, child in own]
    lines += [("  " + text, number) for text, number in below]
    return lines + [(")", "")]


def _folded(children: List[Tuple[str, Any]]) -> List[Line]:
    """The trees of the children; a run of equal ones in a list is shown once, with its range."""
    runs: List[Tuple[List[str], List[Line], List[Any]]] = []
    for name, child in children:
        tree = _tree(child)
        stem, _, index = name.rpartition(".")
        if runs and index.isdigit() and runs[-1][1] == tree and _stem(runs[-1][0][0]) == stem:
            runs[-1][0].append(name)
            runs[-1][2].append(child)
        else:
            runs.append(([name], tree, [child]))
    lines: List[Line] = []
    for names, tree, equal in runs:
        label, count = f"({names[0]}): ", tree[0][1]
        if len(names) > 1:
            label = f"({names[0]}-{names[-1].rpartition('.')[2]}): {len(names)} x "
            count = _count(equal)
        lines += [(label + tree[0][0], count)] + tree[1:]
    return lines


def _stem(name: str) -> str:
    return name.rpartition(".")[0]


def _count(modules: List[Any]) -> str:
    """The number of numbers in the parameters of some modules, shared ones counted once."""
    sizes = {id(each): each.size for module in modules for each in module.parameters()}
    return f"{sum(sizes.values()):,}" if sizes else ""
