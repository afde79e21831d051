"""Bars: lengths in proportion, one colour per name, no words that overlap, a spread where measured.
"""
import random
import xml.etree.ElementTree as ElementTree

import pytest
from words_in_place import SPACE, assert_words_in_place

from tinyformer.pictures import Bar, bars

GROUPS = [("small", [Bar("theirs", 1.0), Bar("ours", 0.5, (0.4, 0.8))]),
          ("large", [Bar("theirs", 2.0), Bar("ours", 0.0)])]


def nodes(picture, name, kind=""):
    return [node for node in ElementTree.fromstring(picture).iter(f"{SPACE}{name}")
            if kind in (node.get("class") or "").split() or not kind]


def number(node, name):
    return float(node.get(name))


def test_bars_are_as_long_as_their_values_and_begin_at_zero():
    drawn = nodes(bars(GROUPS, title="t"), "rect", "tf-bar")
    one, half, two, nothing = (number(node, "width") for node in drawn)
    assert half == pytest.approx(one / 2, abs=0.02) and two == pytest.approx(2 * one, abs=0.02)
    assert nothing <= 1
    assert len({number(node, "x") for node in drawn}) == 1
    zero = next(node for node in nodes(bars(GROUPS, title="t"), "text") if node.text == "0")
    assert number(zero, "x") == number(drawn[0], "x")


def test_a_name_has_one_colour_in_all_groups():
    def colours(**options):
        return [node.get("class").split()[1]
                for node in nodes(bars(GROUPS, title="t", **options), "rect", "tf-bar")]

    assert colours() == ["tf-0", "tf-1", "tf-0", "tf-1"]
    assert colours(first=["ours"]) == ["tf-1", "tf-0", "tf-1", "tf-0"]


def test_a_spread_reaches_from_the_least_to_the_largest():
    picture = bars(GROUPS, title="t")
    (line,) = nodes(picture, "path", "tf-range")
    (x0, _), (x1, _) = (map(float, point.split()) for point in line.get("d")[1:].split("L"))
    one = nodes(picture, "rect", "tf-bar")[0]
    start, unit = number(one, "x"), number(one, "width")
    assert ((x0 - start) / unit, (x1 - start) / unit) == pytest.approx((0.4, 0.8), abs=0.001)


def test_words_and_values_are_there():
    words = {node.text for node in nodes(bars(GROUPS, title="a <t>", x_label="seconds", note="n",
                                              digits=1), "text")}
    assert {"a <t>", "small", "large", "theirs", "ours", "1.0", "0.5", "seconds", "n"} <= words


def test_no_words_overlap_or_leave_the_picture():
    draw = random.Random(3)
    for _ in range(40):
        scale = 10 ** draw.randint(-2, 5)
        groups = []
        for group in range(draw.randint(1, 4)):
            values = [scale * draw.random() for _ in range(draw.randint(1, 4))]
            groups.append((f"group {group}: with a rather long name", [
                Bar(f"engine {place}", value, (value / 2, value * 2) if draw.random() < 0.5
                    else None) for place, value in enumerate(values)]))
        picture = bars(groups, title="a title", x_label="milliseconds", note="a note",
                       width=draw.randint(480, 900))
        assert_words_in_place(picture, picture.width, picture.height)


def test_what_cannot_be_a_bar_is_refused():
    with pytest.raises(ValueError, match="no group has a bar"):
        bars([("empty", [])], title="t")
    for bar in (Bar("b", -1.0), Bar("b", float("nan")), Bar("b", 1.0, (-1.0, 2.0)),
                Bar("b", 1.0, (0.5, float("nan")))):
        with pytest.raises(ValueError, match="a bar begins at 0, but 'b' has"):
            bars([("g", [bar])], title="t")
    assert nodes(bars([("g", [Bar("b", 0.0)])], title="t"), "rect", "tf-bar")
