"""Charts: the right heights, no overlapping words, gaps where there is nothing, a size that does
not grow with the run."""
import math
import random
import re
import xml.etree.ElementTree as ElementTree

import pytest
from words_in_place import SPACE, assert_words_in_place

from tinyformer.pictures import Line, line_chart
from tinyformer.pictures.charts import LINE_HEIGHT, nudge

FLOORS = [("uniform", 6.93), ("unigram", 5.0), ("bigram", 3.22), ("trigram", 3.32)]
TRAINING = Line("training", [(step, 3 + 4 * math.exp(-step / 20)) for step in range(1, 101)])


def parse(picture):
    return ElementTree.fromstring(picture)


def texts(picture):
    return {node.text: node for node in parse(picture).iter(f"{SPACE}text") if node.text}


def paths(picture, kind):
    return [[tuple(map(float, pair.split())) for pair in re.split("[ML]", node.get("d"))[1:]]
            for node in parse(picture).iter(f"{SPACE}path") if kind in node.get("class").split()]


def level_heights(picture):
    return [float(node.get("y1")) for node in parse(picture).iter(f"{SPACE}line")
            if node.get("class") == "tf-level"]


def test_words_and_last_values_are_there():
    words = texts(line_chart([TRAINING], title="a <title>", x_label="step", y_label="nats",
                             levels=FLOORS))
    assert {"a <title>", "step", "nats", "uniform 6.93", "bigram 3.22"} <= set(words)
    assert "training 3.03" in words


def test_a_level_lies_between_the_marks_of_its_axis():
    picture = line_chart([Line("a", [(0, 0.0), (10, 10.0)])], title="t", levels=[("l", 4.0)])
    marks = {float(node.text): float(node.get("y")) - 4
             for node in parse(picture).iter(f"{SPACE}text") if node.get("text-anchor") == "end"}
    assert level_heights(picture) == [pytest.approx(marks[4.0], abs=0.02)]
    assert marks[10.0] < marks[4.0] < marks[0.0]
    assert (marks[0.0] - marks[4.0]) / (marks[0.0] - marks[10.0]) == pytest.approx(0.4, abs=0.001)


def test_a_curve_runs_through_its_points_and_a_logarithmic_axis_spaces_powers_evenly():
    points = [(1, 1.0), (10, 2.0), (100, 3.0)]
    (curve,) = paths(line_chart([Line("a", points)], title="t", log_x=True), "tf-line")
    assert curve[1][0] - curve[0][0] == pytest.approx(curve[2][0] - curve[1][0], abs=0.02)
    (curve,) = paths(line_chart([Line("a", points)], title="t"), "tf-line")
    share = (curve[1][0] - curve[0][0]) / (curve[2][0] - curve[0][0])
    assert share == pytest.approx(9 / 99, abs=0.001)
    assert curve[0][1] > curve[1][1] > curve[2][1]


def test_what_is_not_finite_leaves_a_gap_and_a_lone_point_a_dot():
    points = [(0, 1.0), (1, 2.0), (2, math.nan), (3, 2.0), (4, math.inf), (5, 1.0), (6, 1.5)]
    picture = line_chart([Line("a", points)], title="t")
    assert [len(run) for run in paths(picture, "tf-line")] == [2, 2]
    assert len(list(parse(picture).iter(f"{SPACE}circle"))) == 1


def test_the_running_mean_is_drawn_over_the_faint_points():
    picture = line_chart([Line("a", [(0, 0.0), (1, 4.0), (2, 2.0)], mean_over=2)], title="t")
    (raw,), (mean,) = paths(picture, "tf-faint"), paths(picture, "tf-line")
    assert mean[0] == raw[0]
    assert mean[1][1] == pytest.approx((raw[0][1] + raw[1][1]) / 2, abs=0.02)
    assert mean[2][1] == pytest.approx((raw[1][1] + raw[2][1]) / 2, abs=0.02)
    assert "a 3.00" in texts(picture)


def test_a_long_run_makes_no_large_file_and_loses_no_spike():
    points = [(step, 1.0 + (step == 54321) * 3 - (step == 12345) * 3) for step in range(100_000)]
    picture = line_chart([Line("a", points)], title="t")
    assert len(picture) < 60_000
    (curve,) = paths(picture, "tf-line")
    assert len(curve) > 500
    top, bottom, air = 64, 420 - 46, (420 - 46 - 64) * 0.04 / 1.08
    assert min(y for _, y in curve) == pytest.approx(top + air, abs=0.5)
    assert max(y for _, y in curve) == pytest.approx(bottom - air, abs=0.5)


def test_no_words_overlap_or_leave_the_picture():
    draw = random.Random(1)
    for trial in range(60):
        scale = 10 ** draw.randint(-4, 5)
        lines = [Line(f"line {k}", [(x * 10 ** draw.randint(0, 3), scale * draw.random())
                                    for x in range(1, 40)]) for k in range(draw.randint(1, 4))]
        levels = [(f"level {k}", scale * draw.uniform(0.4, 0.5)) for k in range(draw.randint(0, 6))]
        width, height = draw.randint(480, 900), draw.randint(300, 600)
        picture = line_chart(lines, title="a title", x_label="step", y_label="nats per token",
                             levels=levels, log_x=bool(trial % 2), width=width, height=height)
        assert_words_in_place(picture, width, height)


def test_nudging_keeps_order_gap_and_bounds_and_moves_nothing_without_need():
    draw = random.Random(2)
    for _ in range(300):
        heights = sorted(draw.uniform(0, 100) for _ in range(draw.randint(1, 12)))
        gap = draw.uniform(1, 15)
        moved = nudge(heights, gap, 0, 100)
        room = min(gap, 100 / max(1, len(heights) - 1))
        assert all(b - a >= room - 1e-6 for a, b in zip(moved, moved[1:]))
        assert moved[0] >= -1e-6 and moved[-1] <= 100 + 1e-6
    assert nudge([10, 40, 90], 15, 0, 100) == [10, 40, 90]
    assert nudge([50, 50], 10, 0, 100) == [45, 55]


def test_names_at_the_edge_stand_a_line_apart():
    picture = line_chart([TRAINING], title="t", levels=[("a", 3.03), ("b", 3.031), ("c", 3.032)])
    heights = sorted(float(node.get("y")) for words, node in texts(picture).items()
                     if words.endswith(" 3.03"))
    assert len(heights) == 4
    assert all(b - a >= LINE_HEIGHT - 0.02 for a, b in zip(heights, heights[1:]))


@pytest.mark.parametrize("points", [[(1, 2.0)], [(1, 2.0), (2, 2.0)], [(1, 0.0), (2, 0.0)],
                                    [(1, -3.0)]])
@pytest.mark.parametrize("log_x", [False, True])
def test_degenerate_ranges_are_widened(points, log_x):
    assert parse(line_chart([Line("a", points)], title="t", log_x=log_x)) is not None


def test_levels_alone_and_lines_without_points():
    assert level_heights(line_chart([Line("a", [])], title="t", levels=[("l", 1.0)]))
    with pytest.raises(ValueError, match="nothing to draw: none of the 1 lines"):
        line_chart([Line("a", [(1, math.nan)])], title="t")
    with pytest.raises(ValueError, match="every x above 0, but one is 0"):
        line_chart([Line("a", [(0, 1.0), (1, 1.0)])], title="t", log_x=True)


def test_both_grounds_are_provided_and_contrast_with_their_ink():
    style = parse(line_chart([TRAINING], title="t")).find(f"{SPACE}style").text
    light, dark = style.split("@media (prefers-color-scheme:dark)")

    def luminance(colour):
        parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    for sheet in (light, dark):
        ground = luminance(re.search(r"\.tf-ground\{fill:(#\w{6})", sheet).group(1))
        inks = re.findall(r"\.tf-(?:text|text\.tf-quiet|\d)\{(?:fill|stroke):(#\w{6})", sheet)
        assert len(inks) == 8
        for ink in map(luminance, inks):
            contrast = (max(ink, ground) + 0.05) / (min(ink, ground) + 0.05)
            assert contrast >= 4.5      # level AA of WCAG 2


def test_a_border_stands_upright_at_its_x_and_is_named():
    picture = line_chart([Line("a", [(0, 0.0), (10, 10.0)])], title="t", borders=[("here", 5.0)])
    (border,) = paths(picture, "tf-level")
    (curve,) = paths(picture, "tf-line")
    assert border[0][0] == border[1][0] == pytest.approx((curve[0][0] + curve[1][0]) / 2, abs=0.02)
    assert "here" in texts(picture)
