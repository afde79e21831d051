"""The second half of the table: functions that move numbers instead of computing with them."""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, Iterator, List, Tuple

from differential import Case, Draw, Numbers, Shape
from differential_rows import KINDS, ROWS, binary_cases, call, matmul, powers, row

OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
             "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
             ">": operator.gt, ">=": operator.ge}


@row("reshape")
def reshape(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(60):
        x = draw.numbers(draw.shape(), draw.choice(KINDS))
        lengths = list(x.shape)
        draw.shuffle(lengths)
        if lengths and draw.random() < 0.6:
            lengths[draw.randrange(len(lengths))] = -1
        yield Case(call(name), (x, tuple(lengths)))
    for shape in (12, -1, [3, 4], (2, -1), (-1, 5), (-1, -1), (0, -1), (5, 2), (), "ab", 2.5,
                  (12.0,)):
        yield Case(call(name), (draw.numbers((3, 4)), shape))
    for shape in ((0,), -1, (3, 0), (0, -1), (-1, 0), (-1, 3), (1,), (2, 0, 5)):
        yield Case(call(name), (draw.numbers((0, 3)), shape))
    yield Case(call(name), (2.5, (1, 1)))


@row("permute_dims")
def permute_dims(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(80):
        shape = draw.choice([draw.shape(), (2, 18, 3), (17, 2), (2, 1, 20, 3)])
        axes = [axis - len(shape) if draw.random() < 0.3 else axis for axis in range(len(shape))]
        draw.shuffle(axes)
        yield Case(call(name), (draw.numbers(shape, draw.choice(KINDS)), tuple(axes)))
    for axes in ((0,), (0, 0), (0, -2), (0, 2), (1, 0, 2), (0, 0.5), 0.5):
        yield Case(call(name), (draw.numbers((2, 3)), axes))


@row("matrix_transpose")
def matrix_transpose(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(40):
        yield Case(call(name), (draw.numbers(draw.shape(4), draw.choice(KINDS)),))
    yield Case(call(name), (draw.numbers((2, 18, 17)),))
    yield Case(call(name), ([[1, 2], [3, 4]],))


@row("expand_dims", "squeeze")
def single_axes(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(60):
        least = int(name == "squeeze")          # NumPy squeezes away an axis that is not there
        shape = tuple(draw.choice([1, 1, 2, 0]) for _ in range(draw.randint(least, 4)))
        x, room = draw.numbers(shape), len(shape) + (name == "expand_dims")
        yield Case(call(name, axis=draw.randint(-room - 1, room)), (x,))
        some = draw.sample(range(4), draw.randint(1, 2))
        yield Case(call(name, axis=tuple(some)), (x,), note=str(some))
    for axis in ((0, 0), (0, -4), 0.5, "a"):
        yield Case(call(name, axis=axis), (draw.numbers((1, 2, 1)),), note=str(axis))
    yield Case(call(name, axis=0), ([2],))
    if name == "expand_dims":
        yield Case(call(name), (draw.numbers((1,)),))


@row("broadcast_to")
def broadcast_to(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(60):
        shape = draw.choice([draw.shape(), (3, 17), (18, 2, 3)])
        x = draw.numbers(draw.stretched(shape), draw.choice(KINDS))
        yield Case(call(name), (x, shape))
        yield Case(call(name), (x, draw.shape(3)))
    for shape in (2, [2], 3, (-1,), (2, 3), (3, 2), 2.5):
        yield Case(call(name), (draw.numbers((2,)), shape))


@row("concat", "stack")
def joined(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(60):
        shape = draw.shape(3, least=int(name == "concat"))
        axis = draw.axis(len(shape) + (name == "stack")) if shape or name == "stack" else 0
        arrays = []
        for _ in range(draw.randint(1, 3)):
            lengths = list(shape)
            if name == "concat":
                lengths[axis] = draw.randint(0, 3)
            arrays.append(draw.numbers(tuple(lengths), draw.choice(KINDS)))
        yield Case(call(name, axis=axis), (arrays,))
        yield Case(call(name), (tuple(arrays),))
    two: Shape = (2, 3)
    wrong = [[], [draw.numbers(()), draw.numbers(())], [draw.numbers(two), draw.numbers((3, 2))],
             [draw.numbers(two), draw.numbers((3,))], [draw.numbers((2, 0)), draw.numbers((0, 2))]]
    for arrays in wrong:
        yield Case(call(name), (arrays,))
    for axis in (3, -4, 0.5, "a"):
        yield Case(call(name, axis=axis), ([draw.numbers(two), draw.numbers(two)],))
    yield Case(call(name), ([[1, 2], [3.5, 4]],))


def indices_for(draw: Draw, shape: Shape, length: int) -> Numbers:
    """Indices below `length`, negative ones too, and one out of bounds now and then."""
    values = [draw.randint(-length, max(length - 1, 0)) for _ in range(math.prod(shape))]
    if values and draw.random() < 0.1:
        values[-1] = draw.choice([length, -length - 1])
    return Numbers(values, shape, "int")


@row("take", "take_rows")
def taken(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(80):
        zero = 0.1 if name == "take_rows" else 0        # np.take does not look at unused indices
        x = draw.numbers(draw.shape(3, least=1, zero=zero), draw.choice(KINDS))
        axis = draw.axis(len(x.shape)) if name == "take" else 0
        rest: Any = {"axis": axis} if name == "take" else {}
        indices = indices_for(draw, draw.shape(2), x.shape[axis])
        yield Case(call(name, **rest), (x, indices), note=str(rest))
    rest = {"axis": 0} if name == "take" else {}
    for listed in (0, [], [1, 0], [[1], [0]], 5, -3, 0.5, draw.numbers((1,)), draw.numbers((0,)),
                   "a", None):
        yield Case(call(name, **rest), (draw.numbers((2, 3)), listed))
    if name == "take":
        yield Case(call(name, axis=2), (draw.numbers((2, 3)), [0]))
        yield Case(call(name), (draw.numbers((2, 3)), [0]))


@row("take_along_axis", "scatter_along_axis")
def along(name: str, draw: Draw) -> Iterator[Case]:
    reads = name == "take_along_axis"
    for _ in range(120):
        shape = draw.shape(3, least=1)
        axis = draw.axis(len(shape))
        lengths = list(draw.stretched(shape) if draw.random() < 0.3 else shape)
        lengths = [1] * (len(shape) - len(lengths)) + lengths
        lengths[axis] = draw.randint(0, 3)
        indices = indices_for(draw, tuple(lengths), shape[axis])
        values = draw.numbers(tuple(lengths), draw.choice(["int", "float"]))
        first: Tuple[Any, ...] = (draw.numbers(shape, draw.choice(KINDS)), indices) if reads \
            else (shape, indices, values)
        yield Case(call(name, axis=axis), first, close=1e-14)
        yield Case(call(name), first, close=1e-14)
    wrong: List[Any] = [Numbers([0], (1,), "int"), draw.numbers((2, 1)),
                        indices_for(draw, (3, 1), 2), indices_for(draw, (1, 1, 1), 2)]
    for indices in wrong:
        first = (draw.numbers((2, 3)), indices) if reads else ((2, 3), indices, 1.0)
        yield Case(call(name), first)
    if reads:
        yield Case(call(name, axis=0), (draw.numbers((2, 1)), indices_for(draw, (1, 4), 2)))
    first = (draw.numbers((2, 3)), wrong[3]) if reads else ((2, 3), wrong[3], 1.0)
    yield Case(call(name, axis=2), first)


@row("scatter_add_rows")
def scatter_add_rows(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(80):
        ids_shape, rest = draw.shape(2), draw.shape(2)
        n_rows = draw.randint(1, 6)
        rows = draw.numbers(ids_shape + rest, draw.choice(["int", "float"]))
        ids = indices_for(draw, ids_shape, n_rows)
        yield Case(call(name), (n_rows, ids, rows), close=1e-14, signed=False)
    ids = indices_for(draw, (2, 3), 4)
    for rows in (draw.numbers((3, 2)), draw.numbers((2,)), draw.numbers((2, 3, 2), "bool")):
        yield Case(call(name), (5, ids, rows))
    yield Case(call(name), (5, draw.numbers((2,)), draw.numbers((2, 3))))
    yield Case(call(name), (5, [], draw.numbers((0, 3))))
    yield Case(call(name), (3, Numbers([2, -1, 2], (3,), "int"), draw.numbers((3, 2))), close=1e-14)


def key_for(draw: Draw, shape: Shape) -> Any:
    """A random key for an array of `shape`, perhaps wrong: any entries in any combination."""
    entries: List[Any] = []
    axis = 0
    while axis < len(shape) and draw.random() < 0.85:
        length = shape[axis]
        roll = draw.random()
        width = 1
        if roll < 0.2:
            entries.append(draw.randint(-length - (draw.random() < 0.1), max(length - 1, 0)))
        elif roll < 0.5:
            bounds = [draw.choice([None, draw.randint(-length - 2, length + 2)]) for _ in range(2)]
            entries.append(slice(*bounds, draw.choice([None, 1, 2, -1, -2, 3])))
        elif roll < 0.65:
            index = indices_for(draw, draw.choice([(), (1,), (2,), (2,), (3, 1)]), length)
            as_list = len(index.shape) == 1 and draw.random() < 0.5
            entries.append(list(index.values) if as_list else index)
        elif roll < 0.75:
            width = draw.randint(1, len(shape) - axis)
            entries.append(draw.numbers(shape[axis:axis + width], "bool"))
        elif roll < 0.85:
            width = 0
            entries.append(None)
        else:
            entries.append(slice(None))
        axis += width
    if draw.random() < 0.3:
        entries.insert(draw.randint(0, len(entries)), ...)
    return entries[0] if len(entries) == 1 and draw.random() < 0.7 else tuple(entries)


FIXED_KEYS: List[Any] = [
    0, -1, 2, 3, -4, (), ..., None, (..., None), (None, ..., None), slice(None), slice(5, 0, -1),
    [0, 2], [], [True, False, True], True, False, (True, 0), (0, ...), (..., 0), (0, ..., 0),
    (0, slice(None), [0, 1]), (slice(None), 0, [0, 1]), ([0, 1], ..., [0, 1]),
    ([0, 1], ..., [0, 1], [1, 1]), (0, ..., [0, 1], 0), (slice(None), [0, 1], ..., [0, 1]),
    ([0, 1], None, [0, 1]), ([[0], [1]], [0, 1]), (0, 1, 2), (0, 1, 2, 0), ((0, 1), 0), range(2),
    "a", 0.5, [0.5], (0, "a"), (..., ...), ([0, 1], [0, 1, 2]), [True, False],
    (slice(None), [True, False]), slice(None, None, 0), {}, (slice(None, None, -1), 1),
    (slice(0, 0), 0),
]


def keyed_cases(draw: Draw, function: Callable[..., Any], more: Callable[[Shape], Tuple[Any, ...]],
                **how: Any) -> Iterator[Case]:
    """`function(xp, x, key, *more)` for many keys."""
    for _ in range(250):
        x = draw.numbers(draw.choice([draw.shape(), (3, 20), (2, 18, 2)]), draw.choice(KINDS))
        yield Case(function, (x, key_for(draw, x.shape), *more(x.shape)), **how)
    for key in FIXED_KEYS:
        for shape in ((), (3,), (3, 2), (3, 2, 2)):
            yield Case(function, (draw.numbers(shape), key, *more(shape)), **how)


@row("with_item")
def with_item(name: str, draw: Draw) -> Iterator[Case]:
    yield from keyed_cases(draw, call(name), lambda shape: (draw.number(draw.choice(KINDS)),))
    for value in (draw.numbers((2,)), draw.numbers((1, 2)), draw.numbers((3, 2)),
                  draw.numbers((3,)), [1, 2], draw.numbers((2,), "int"), draw.numbers((1, 1, 2))):
        yield Case(call(name), (draw.numbers((3, 2)), 0, value))
        yield Case(call(name), (draw.numbers((3, 2)), slice(1, None), value))
        yield Case(call(name), (draw.numbers((3, 2)), [0, 0], value))


@row("scatter_add")
def scatter_add(name: str, draw: Draw) -> Iterator[Case]:
    def selected(xp: Any, x: Any, key: Any) -> Any:
        return xp.scatter_add(x.shape, key, x[key])
    for case in keyed_cases(draw, selected, lambda shape: (), close=1e-14, signed=False):
        if case.arguments[0].kind != "bool":
            yield case
    for values in (1.0, draw.numbers((2,)), draw.numbers((1, 2)), draw.numbers((3,)),
                   draw.numbers((2, 2), "int")):
        yield Case(call(name), ((3, 2), [0, 0], values), close=1e-14)
        yield Case(call(name), ((3, 2), [2, 0], values), close=1e-14)


@row("to_bytes")
def to_bytes(name: str, draw: Draw) -> Iterator[Case]:
    hard = [1e-40, 65504.0, 65519.0, 65520.0, 1e39, -1e39, 3.4028235677973366e38, 1 + 2 ** -8,
            1 + 3 * 2 ** -8, 3.39e38, 2.0 ** -25, 2.0 ** -24 * 1.5, -0.0, math.inf, -math.inf]
    for dtype_name in ("F64", "F32", "F16", "BF16", "I64", "I32", "U8", "BOOL", "F8"):
        for kind in KINDS:
            yield Case(call(name), (draw.numbers(draw.shape(2), kind), dtype_name))
        yield Case(call(name), (Numbers(hard, (len(hard),), "float"), dtype_name))
        for number in (0, 255, 256, -1, 2 ** 31, -2 ** 31, 2 ** 63 - 1):
            yield Case(call(name), (Numbers([number], (1,), "int"), dtype_name))
    yield Case(call(name), (Numbers([math.nan], (1,), "float"), "BF16"))


@row("from_bytes")
def from_bytes(name: str, draw: Draw) -> Iterator[Case]:
    widths = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1,
              "F8": 1}
    for dtype_name, width in widths.items():
        for shape in ((), (3,), (2, 2), (0, 4), (1, 2, 3)):
            data = bytes(draw.getrandbits(8) for _ in range(width * math.prod(shape)))
            for buffer in (data, bytearray(data), memoryview(data), data + b"1", data[1:]):
                yield Case(lambda xp, *rest: xp.astype(xp.from_bytes(*rest), xp.float64)
                           if rest[1] in ("F32", "F16", "BF16") else xp.from_bytes(*rest),
                           (buffer, dtype_name, shape))


@row("Generator")
def generator(name: str, draw: Draw) -> Iterator[Case]:
    for _ in range(10):
        state = list(draw.getstate()[1])
        state[624] = draw.randint(0, 624)
        sizes = [draw.choice([0, 1, 2, 3, 7, 700]) for _ in range(6)]

        def drawn(xp: Any, state: Any, sizes: Any) -> Any:
            source = xp.Generator(state)
            draws = [source.uniform(n) if n % 2 else xp.astype(source.bits16(n), xp.int64)
                     for n in sizes]
            return draws + source.state()
        yield Case(drawn, (state, sizes))
    yield Case(lambda xp: xp.Generator(state).uniform(-1), ())
    yield Case(lambda xp: xp.Generator(state).bits16(-1), ())


def operator_row(function: Callable[[Any, Any], Any]) -> Callable[[str, Draw], Iterator[Case]]:
    """Cases of a binary operator, with lists beside arrays too."""
    def maker(name: str, draw: Draw) -> Iterator[Case]:
        wrong = () if name in ("==", "!=") else ("a", None)
        yield from binary_cases(lambda xp, x, y: function(x, y), draw, KINDS, wrong=wrong)
        yield Case(lambda xp, x, y: function(x, y), (draw.numbers((2,)), [1, 2]), keeps=False)
        yield Case(lambda xp, x, y: function(x, y), ([1, 2], draw.numbers((2,))), keeps=False)
    return maker


def bit_operators(name: str, draw: Draw) -> Iterator[Case]:
    """&, | and ^ of bools and ints on either side, and their refusal of floats."""
    for function in (lambda xp, x, y: x & y, lambda xp, x, y: x | y, lambda xp, x, y: x ^ y):
        yield from binary_cases(function, draw, ["bool", "int"], count=20)
        yield Case(function, (draw.numbers((2,)), draw.numbers((2,), "bool")))
        yield Case(function, (draw.numbers((2,)), True))


def unary_operators(name: str, draw: Draw) -> Iterator[Case]:
    """-x, abs(x) and ~x."""
    for function in (operator.neg, operator.abs, operator.invert):
        for kind in KINDS:
            for _ in range(8):
                yield Case(lambda xp, function, x: function(x),
                           (function, draw.numbers(draw.shape(), kind, special=0.2)))


OPERATOR_ROWS = {name: operator_row(function) for name, function in OPERATORS.items()}
OPERATOR_ROWS.update({
    "**": lambda name, draw: powers(name, draw, lambda xp, x, y: x ** y),
    "@": lambda name, draw: matmul(name, draw, lambda xp, x, y: x @ y),
    "& | ^": bit_operators,
    "- abs ~": unary_operators,
    "[]": lambda name, draw: keyed_cases(draw, lambda xp, x, key: x[key], lambda shape: ()),
})
__all__ = ["OPERATOR_ROWS", "ROWS"]
