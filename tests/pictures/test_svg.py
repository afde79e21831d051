"""The SVG primitives: whatever text goes in, what comes out is well-formed and says the same."""
import xml.etree.ElementTree as ElementTree

import pytest

from tinyformer.pictures import Markup, Svg, document, element
from tinyformer.pictures.svg import escape, number, path

SPACE = "{http://www.w3.org/2000/svg}"


def test_text_and_attributes_survive_the_round_trip():
    nasty = "a <b> & \"c\" 'd' ]]> </svg> é 猫"
    root = ElementTree.fromstring(document(10, 20, element("text", nasty, id=nasty), title=nasty))
    assert root.find(f"{SPACE}text").text == nasty
    assert root.find(f"{SPACE}text").get("id") == nasty
    assert root.find(f"{SPACE}title").text == nasty


def test_characters_xml_forbids_are_replaced():
    text = "a\x00b\x1bc\ud800d\uffffe\tf"
    root = ElementTree.fromstring(document(10, 20, element("text", text), title="t"))
    assert root.find(f"{SPACE}text").text == "a\ufffdb\ufffdc\ufffdd\ufffde\tf"


def test_markup_nests_and_text_does_not():
    inner = element("b", "x")
    assert element("a", inner, "<i>") == "<a><b>x</b>&lt;i&gt;</a>"
    assert isinstance(inner, Markup)
    assert document(1, 1, "<g/>", title="t").count("&lt;g/&gt;") == 1


def test_attribute_names_and_missing_values():
    drawn = element("rect", class_="k", stroke_width=2.0, fill=None)
    assert drawn == '<rect class="k" stroke-width="2"/>'


@pytest.mark.parametrize("value, text", [(3, "3"), (3.0, "3"), (2.345678, "2.35"), (-0.001, "0"),
                                         (1200.5, "1200.5"), (100, "100"), (-7.25, "-7.25")])
def test_numbers_are_short(value, text):
    assert number(value) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_cannot_be_drawn_are_refused(value):
    with pytest.raises(ValueError, match="cannot be drawn"):
        element("circle", r=value)


def test_path_is_unfilled_unless_told():
    assert path([(0, 1), (2.5, 3)]) == '<path d="M0 1L2.5 3" fill="none"/>'
    assert 'fill="red"' in path([(0, 1), (2, 3)], fill="red")


def test_document_has_size_and_view_box_and_style():
    root = ElementTree.fromstring(document(120, 80, title="t", style=".a>.b{content:'&'}"))
    assert (root.get("width"), root.get("height")) == ("120", "80")
    assert root.get("viewBox") == "0 0 120 80"
    assert root.find(f"{SPACE}style").text == ".a>.b{content:'&'}"


def test_a_picture_shows_and_saves_itself(tmp_path):
    picture = document(1, 1, element("text", "é"), title="t")
    assert isinstance(picture, Svg) and picture._repr_svg_() == picture
    picture.save(str(tmp_path / "p.svg"))
    assert (tmp_path / "p.svg").read_bytes() == picture.encode("utf-8")


def test_escape_leaves_plain_text_alone():
    assert escape("plain text, 100 %") == "plain text, 100 %"
