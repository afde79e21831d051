"""How a model looks: its tree, equal neighbours folded into one line, parameters counted at the right."""

from __future__ import annotations

from typing import Any, List, Tuple

Line = Tuple[str, str]              # the text, and the count of parameters to its right


def module_text(module: Any) -> str:
    """The tree of a module as text: `(0-11): 12 x Block(` for twelve equal blocks."""
    lines = _tree("", module)
    left = max(len(text) for text, _ in lines)
    right = max(len(count) for _, count in lines)
    return "\n".join(f"{text.ljust(left)}  {count.rjust(right)}".rstrip() for text, count in lines)


def _tree(label: str, module: Any) -> List[Line]:
    children = [(name, child) for name, child in module.named_children()]
    count = f"{module.n_parameters():,}" if module.n_parameters() else ""
    head = f"{label}{type(module).__name__}("
    below = _folded([(name, child) for name, child in children if hasattr(child, "named_children")])
    own = [(name, child) for name, child in children if not hasattr(child, "named_children")]
    if not below:
        return [(f"{head}{module.extra_repr()})", count)]
    lines = [(head, count)] + ([("  " + module.extra_repr(), "")] if module.extra_repr() else [])
    lines += [(f"  ({name}): Parameter{tuple(child.shape)}", f"{child.size:,}") for name, child in own]
    lines += [("  " + text, number) for text, number in below]
    return lines + [(")", "")]


def _folded(children: List[Tuple[str, Any]]) -> List[Line]:
    """The trees of the children; a run of equal ones in a list is shown once with its range and size."""
    runs: List[Tuple[List[str], List[Line], Any]] = []
    for name, child in children:
        tree = _tree("", child)
        stem, _, index = name.rpartition(".")
        if runs and index.isdigit() and runs[-1][1] == tree and runs[-1][0][0].rpartition(".")[0] == stem:
            runs[-1][0].append(name)
        else:
            runs.append(([name], tree, child))
    lines: List[Line] = []
    for names, tree, child in runs:
        label = f"({names[0]}): "
        if len(names) > 1:
            total = len(names) * child.n_parameters()
            label = f"({names[0]}-{names[-1].rpartition('.')[2]}): {len(names)} x "
            tree = [(tree[0][0], f"{total:,}" if total else "")] + tree[1:]
        lines += [(label + tree[0][0], tree[0][1])] + tree[1:]
    return lines
