"""Tables, flows and pictures side by side: the right cells, colours, names and arrows."""
import math
import xml.etree.ElementTree as ElementTree

import pytest

from tinyformer.pictures import beside, flow, table

SPACE = "{http://www.w3.org/2000/svg}"


def parse(picture):
    return ElementTree.fromstring(picture)


def cells(picture):
    """(class, opacity) of every coloured cell."""
    return [(node.get("class").split()[1], float(node.get("opacity")))
            for node in parse(picture).iter(f"{SPACE}rect") if "tf-cell" in node.get("class")]


def words(picture):
    return [node.text for node in parse(picture).iter(f"{SPACE}text") if node.text]


def test_sign_is_colour_and_size_is_strength():
    drawn = cells(table([[2.0, 1.0], [-2.0, 0.0]], title="t"))
    assert drawn == [("tf-0", 1.0), ("tf-0", 0.51), ("tf-1", 1.0)], "0 has no colour"
    assert cells(table([[1.0]], title="t", largest=2.0)) == [("tf-0", 0.51)]


def test_nothing_is_not_zero_and_minus_infinity_is_no_number():
    picture = table([[None, 0.0, -math.inf]], title="t", digits=1)
    assert words(picture)[1:] == ["0.0", "−∞"]
    assert cells(picture) == [("tf-5", 0.25)]
    assert not cells(table([[0.0, None]], title="t")), "a table of zeros divides by nothing"


def test_names_stand_at_their_rows_and_columns():
    picture = table([[1, 2], [3, 4], [5, 6]], title="A <title>", row_names=["r1", "r2", "r3"],
                    column_names=["c", "a long name"], note="a note", digits=0)
    assert words(picture) == ["A <title>", "1", "2", "3", "4", "5", "6", "r1", "r2", "r3", "c",
                              "a long name", "a note"]
    assert "rotate(-45)" in picture and "rotate" not in table([[1]], title="t", column_names="c")
    assert "tf-split" in table([[1, 2]], title="t", split=1).split("</style>")[1]


@pytest.mark.parametrize("arguments, message", [
    (dict(rows=[[1, 2], [3]]), r"equally long, these have \[1, 2\] cells"),
    (dict(rows=[[1, 2]], row_names=["a", "b"]), "2 row names for 1 rows"),
    (dict(rows=[[1, 2]], column_names=["a"]), "1 column names for 2 columns"),
])
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        table(title="t", **arguments)


def test_arrows_lead_from_below_to_above_and_those_into_the_chosen_are_heavy():
    picture = flow(["a", "b"], ["x", "y"], [(0, 0), (0, 1), (1, 1)], title="t", chosen=1)
    lines = [(node.get("class"), node.get("d")) for node in parse(picture).iter(f"{SPACE}path")]
    assert [kind.split()[1] for kind, _ in lines] == ["tf-5", "tf-heavy", "tf-heavy"]
    for _, d in lines:
        (_, y0), (_, y1) = [map(float, point.split()) for point in d[1:].split("L")]
        assert y0 > y1
    with pytest.raises(ValueError, match="from input 2 to output 0.*2 inputs and 1 outputs"):
        flow(["a", "b"], ["x"], [(2, 0)], title="t")


def test_pictures_side_by_side_do_not_overlap():
    one, two = table([[1]], title="one"), table([[1], [2]], title="two")
    row = parse(beside(one, two, title="both"))
    placed = row.findall(f"{SPACE}svg")
    assert float(placed[1].get("x")) == one.width and placed[0].get("y") == placed[1].get("y")
    assert float(row.get("width")) >= one.width + two.width
    column = parse(beside(one, two, title="both", columns=1)).findall(f"{SPACE}svg")
    assert float(column[1].get("y")) == float(column[0].get("y")) + one.height
