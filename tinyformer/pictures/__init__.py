"""Pictures made of text: SVG written with the standard library, knowing nothing of tensors.

`svg` holds the primitives (an element, a document), `style` how all pictures look, `ticks` the
round numbers of an axis. Composed of them are `charts` (lines over axes), `tables` (numbers as
coloured cells), `bars` (sizes beside each other) and `flow` (nodes and arrows). Whatever they
return is a string that can be saved to a file and that shows itself in a notebook.
"""
from __future__ import annotations

from tinyformer.pictures.bars import Bar, bars
from tinyformer.pictures.charts import Line, line_chart
from tinyformer.pictures.flow import flow
from tinyformer.pictures.style import beside
from tinyformer.pictures.svg import Markup, Svg, document, element
from tinyformer.pictures.tables import table

__all__ = ["Bar", "Line", "Markup", "Svg", "bars", "beside", "document", "element", "flow",
           "line_chart", "table"]
