"""The benchmark's table asks what was promised, its gate and its files work, its pieces run.

Nothing here looks at a time: figures of a moment belong to `python3 -m tests.bench`.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.bench import growth, interpreters, measure, parts, report, start, worker  # noqa: E402
from tests.bench.measure import Asked, Figure, Worker, WorkerFailed, figure  # noqa: E402
from tests.bench.rows import BY_NAME, PYTHONS, ROWS, Row, python_class  # noqa: E402

needs_numpy = pytest.mark.skipif(not importlib.util.find_spec("numpy"),
                                 reason="NumPy is not installed")

# What was promised: rows, target, stretch. A figure is to be at most that, or at least where ">=".
PROMISED = [
    (["decoder a", "decoder b", "decoder c"], "<=", [0.75, 0.97, 0.98], [0.65, 0.92, 0.92]),
    (["threads a", "threads b", "threads c"], "<=", [0.80, 1.06, 1.00], [0.78, 1.00, 0.95]),
    (["faults a", "faults b", "faults c"], "<=", [0, 0, 0], None),
    (["products c"], "<=", [1.25], None),
    (["encoder a", "encoder b"], "<=", [0.80, 0.95], None),
    (["translation a", "translation b"], "<=", [0.80, 0.95], None),
    ([f"scalar, {python}" for python in PYTHONS], ">=", [40, 32, 35], [50, 50, 50]),
    ([f"scalar without collector, {python}" for python in PYTHONS[:2]], ">=", [18, 18], [22, 22]),
    (["wide scalar"], ">=", [60], [100]),
    (["kernel 64", "kernel 128"], "<=", [1.3, 1.3], None),
    (["generation"], ">=", [1.5], None),
    (["memory a", "memory b", "memory c"], "<=", [1, 1, 1], None),
    (["start", "start pure", "start numpy"], "<=", [25, 25, 25], None),
    ([f"losses {size}" for size in "abc"], "<=", [1e-5] * 3, None),
    ([f"gradients {size}" for size in "abc"], "<=", [1e-5] * 3, None)]


@pytest.mark.parametrize("names, sign, targets, stretches", PROMISED)
def test_every_promise_has_a_row(names, sign, targets, stretches):
    rows = [BY_NAME[name] for name in names]
    assert [row.target for row in rows] == targets
    assert [row.stretch for row in rows] == (stretches or [None] * len(names))
    assert {row.at_least for row in rows} == {sign == ">="}


def test_rows_have_one_name_each_and_a_part_that_measures_them():
    assert len(BY_NAME) == len(ROWS)
    assert {row.part for row in ROWS} == set(parts.PARTS)
    for module, _, function in (place.partition(":") for place, _ in parts.PARTS.values()):
        assert f"\ndef {function}(" in (ROOT / f"tests/bench/{module}.py").read_text("utf-8")
    assert any(row.name.startswith("growth") for row in ROWS)


def test_each_interpreter_is_held_to_targets_of_its_own():
    assert [python_class("cpython", (3, minor)) for minor in (9, 12, 13, 14)] == [
        PYTHONS[0], PYTHONS[0], PYTHONS[1], PYTHONS[1]]
    assert python_class("pypy", (3, 10)) == "PyPy"


@pytest.mark.parametrize("row", [row for row in ROWS if row.target is not None],
                         ids=lambda row: row.name)
def test_the_gate_passes_within_twice_the_target_and_fails_beyond(row):
    limit = row.limit or (row.target / 2 if row.at_least else row.target * 2)
    worse = limit * (0.99 if row.at_least else 1.01)
    for value, wrong in ((row.target, 0), (limit, 0), (worse, 1), (math.nan, 1)):
        assert len(report.gate([figure(row.name, [value])])) == wrong
    assert report.gate([Figure(row.name, missing="no peer")]) == []
    assert len(report.gate([Figure(row.name, missing="failed: other work")])) == 1


def test_what_is_met_is_said():
    low, high = BY_NAME["decoder a"], BY_NAME["scalar, PyPy"]
    assert [report.met(figure(low.name, [x])) for x in (0.6, 0.7, 0.8)] == ["stretch", "yes", "NO"]
    assert [report.met(figure(high.name, [x])) for x in (60, 40, 30)] == ["stretch", "yes", "NO"]
    assert report.met(Figure(low.name, missing="no peer")) == ""
    assert report.broken([figure("losses a", [1e-6])]) == []
    assert len(report.broken([figure("losses a", [1e-4]), figure("decoder a", [9.0]),
                              Figure("gradients a", missing="failed: other work")])) == 2


FIGURES = [figure("decoder a", [0.7, 0.75, 0.9], "ours 1 ms"), figure("decoder b", [0.9]),
           Figure("decoder c", missing="torch not installed"),
           figure("products of torch a", [0.3]),
           figure("scalar, PyPy", [36.0], where="PyPy 3.11"), figure("token time", [1.0, 2.0])]


def test_figures_go_through_json_and_back_unchanged():
    assert report.from_json(report.to_json(FIGURES)) == FIGURES
    assert '"target": 0.75' in report.to_json(FIGURES)


def test_a_new_figure_takes_the_place_of_the_old_one():
    new = [figure("decoder a", [0.5]), Figure("decoder b", missing="torch not installed"),
           figure("scalar, PyPy", [50.0], where="PyPy 3.10")]
    merged = report.merged(FIGURES, new)
    assert [(each.row, each.median) for each in merged if each.row.startswith("decoder")] == [
        ("decoder a", 0.5), ("decoder b", 0.9)]
    assert [each.where for each in merged if each.row == "scalar, PyPy"] == [
        "PyPy 3.10", "PyPy 3.11"]
    assert sorted(["CPython 3.11.2", "64 tokens", "CPython 3.9.1", "1024 tokens"],
                  key=report.natural) == ["64 tokens", "1024 tokens", "CPython 3.9.1",
                                          "CPython 3.11.2"]


def test_the_printed_and_the_written_table_show_figure_and_target():
    assert "0.75 x" in report.shown(FIGURES[0]) and "0.7 to 0.9" in report.shown(FIGURES[0])
    assert "<= 0.75" in report.shown(FIGURES[0]) and "ours 1 ms" in report.shown(FIGURES[0])
    assert "torch not installed" in report.shown(FIGURES[2])
    assert report.shown(FIGURES[3]) == ""
    page = report.with_table(f"before\n{report.BEGIN}\nold\n{report.END}\nafter", FIGURES)
    assert page.startswith("before\n") and page.endswith("\nafter") and "old" not in page
    assert "| decoder step over PyTorch eager, 1 thread, a / b | 0.75 / 0.9 | 0.7 to 0.9 / " \
        "0.9 to 0.9 | ≤ 0.75 / 0.97 (0.65 / 0.92) |" in page
    with pytest.raises(ValueError, match="between which the table could stand"):
        report.with_table("no marks", FIGURES)


def test_the_readme_shows_the_figures_that_were_measured_last():
    published = (ROOT / "tests/bench/figures.json").read_text(encoding="utf-8")
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert report.with_table(page, report.from_json(published)) == page


@needs_numpy
def test_a_part_that_finds_other_work_says_so(monkeypatch):
    def measure(asked):
        yield figure("threads a", [1.0])
        raise AssertionError("other work")

    from tests.bench import decoder
    monkeypatch.setattr(decoder, "threads", measure)
    found = list(parts.measured("threads", Asked(peers=("numpy", "torch"))))
    assert [each.missing for each in found] == ["", "failed: other work", "failed: other work"]


def test_peers_that_are_missing_are_named_and_nothing_is_measured():
    found = list(parts.measured("threads", Asked(peers=())))
    assert {each.missing for each in found} == {"numpy and torch not installed"}
    assert [each.row for each in found] == ["threads a", "threads b", "threads c"]


def test_ways_take_turns():
    order = []
    timed = measure.alternate({name: lambda name=name: order.append(name) or name
                               for name in "xy"}, rounds=2, warm_up=1)
    assert order == list("xyxyxy")
    assert len(timed.times["x"]) == 2 and timed.results["y"] == ["y"] * 3
    assert measure.ratios([1.0, 6.0], [2.0, 3.0]) == [0.5, 2.0]


def test_numbers_have_three_digits():
    assert [measure.number(x) for x in (0.0, 0.7512, 12.345, 1234.5, 4e-7)] == [
        "0", "0.751", "12.3", "1,234", "4e-07"]


def test_a_worker_steps_in_a_process_of_its_own():
    size = {"width": 8, "layers": 1}
    steps = {name: interpreters.named(f"tests.bench.scalar:{name}_step", size)
             for name in ("scalar", "tensor")}
    found = interpreters.timed((sys.executable,), steps, 1, {"scalar": 1, "tensor": 2},
                               {"scalar": 2, "tensor": 1})
    assert [len(found.times[name]) for name in steps] == [1, 1]
    (loss,) = [each.median for each in [interpreters.distance("pure losses", found.results,
                                                              "tensor", "scalar")]]
    assert loss is not None and loss < 1e-12
    with Worker("tests.bench.scalar:no_such_step", size) as absent, pytest.raises(WorkerFailed):
        absent.run(1)


def test_the_pure_product_is_held_against_its_kernel():
    assert interpreters.product_ratio(8, 1)() > 0


def test_a_step_is_measured_with_its_pages_and_memory():
    found = worker.measured(lambda: len(bytearray(10)), 3)
    assert found["results"] == [10] * 3 and min(found["cpu"] + found["wall"]) >= 0
    assert worker.peak() >= 0 and start.process("pass", "python") > 0


def test_the_distance_from_a_straight_line():
    assert growth.off_line([1, 2, 4], [3.0, 5.0, 9.0]) == pytest.approx(0, abs=1e-12)
    assert growth.off_line([1, 2, 3], [1.0, 4.0, 9.0]) > 0.1


def test_pictures_are_drawn_of_what_there_is(tmp_path):
    from tests.bench import drawing
    drawing.draw([], tmp_path)
    assert list(tmp_path.iterdir()) == []
    rows = ["decoder a", "products of torch a", "scalar time", "pure time"]
    figures = [figure(row, [0.5, 1.0], where="CPython 3.11") for row in rows]
    figures += [figure(row.name, [float(n)], where=f"{n} tokens") for n in (64, 128)
                for row in ROWS if row.name.startswith(("token time", "step memory"))]
    drawing.draw(figures, tmp_path)
    speed, grown = ((tmp_path / f"{name}.svg").read_text("utf-8") for name in ("speed", "growth"))
    assert all(words in speed for words in ("PyTorch eager", "tinyformer", "one node per number"))
    assert "without attention" in grown


@needs_numpy
def test_a_tiny_decoder_is_measured_without_peers():
    from tests.bench import decoder
    from tinyformer.arrays import set_default_dtype, use_backend
    with use_backend("numpy"), set_default_dtype(None):
        (found,) = decoder.compare("tiny", Asked(quick=True, peers=("numpy",)), rounds=2)
        plain = decoder.fused_over_plain("tiny", 2)
    assert found.row == "products tiny" and found.rounds == 2 and found.median > 0
    assert plain.median is not None and plain.median > 0


@needs_numpy
def test_products_are_seen_and_sums_are_not():
    import numpy

    from tests.bench import products
    from tinyformer.arrays import use_backend, xp
    a, b, ones = numpy.ones((2, 3, 4)) * 2, numpy.arange(20.0).reshape(4, 5), numpy.ones((1, 3))
    a[0, 0, 0] = 0.0

    def step():
        xp.matmul(a, b)
        numpy.matmul(ones, b[:3])
        numpy.matmul(a, b, out=numpy.empty((2, 3, 5)))

    with use_backend("numpy"):
        calls = products.recorded(step)
        assert len(calls) == 2 and products.multiply_adds(calls) == 2 * 2 * 3 * 4 * 5
        products.again(calls)()
        assert products.recorded(lambda: None) == [] and xp.matmul is numpy.matmul


@needs_numpy
def test_growth_is_measured_with_and_without_attention():
    found = list(growth.measure(Asked(), lengths=(4, 8), batches=(1, 2), rounds=1))
    assert {each.row for each in found} == {row.name for row in ROWS if row.part == "growth"}


@needs_numpy
def test_the_losses_of_both_backends_are_compared():
    (found,) = interpreters.losses(Asked())
    assert BY_NAME[found.row].reaches(found.median, 1e-12)


def test_a_row_without_target_cannot_fail():
    row = Row("free", "decoder", "shown only")
    assert not row.fails(1e9) and not row.reaches(1.0, None)
