"""Pictures made of text: SVG written with the standard library, knowing nothing of tensors.

`svg` holds the primitives (an element, a document), `ticks` the round numbers of an axis, `charts`
what is composed of the two. Whatever they return is a string that can be saved to a file and that
shows itself in a notebook.
"""
from __future__ import annotations

from tinyformer.pictures.charts import Line, line_chart
from tinyformer.pictures.svg import Markup, Svg, document, element

__all__ = ["Line", "line_chart", "Markup", "Svg", "document", "element"]
