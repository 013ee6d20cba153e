"""What the views of scores, comparisons, sweeps, explorations and explanations hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.listings.points import runs_head
from hypar.reports.views.comparison import plugin as comparison
from hypar.reports.views.explanation import plugin as explanation
from hypar.reports.views.exploration import plugin as exploration
from hypar.reports.views.sweep import plugin as sweep

import hypar
from hypar import units
from hypar.files.figures import Figure
from hypar.planning.replay import run_plan
from hypar.registry import data_folder
from hypar.reports.page.numbers import seconds as seconds_text
from hypar.reports.palette import TIMES
from hypar.reports.views.score import timeline_figure

if TYPE_CHECKING:
    from pathlib import Path


def figure_of(drawing: object) -> Figure:
    assert isinstance(drawing, Figure)
    return drawing


# Scores


def test_a_timeline_has_a_row_for_each_layer_in_the_palette_s_colours() -> None:
    ran = run_plan(hypar.plan_model("lenet-c", levels=2, hardware="hmc"))
    found = timeline_figure(ran)
    assert list(dict.fromkeys(found.rows)) == list(ran.plan.layers)
    assert found.colours == {kind: shades.light for kind, shades in TIMES.items()}
    assert all(task.name.startswith(row) for task, row in zip(found.timeline.tasks, found.rows, strict=True))
    assert {*found.strips} == {(0, 1)}
    mixed = timeline_figure(run_plan(hypar.plan_model("lenet-c", hardware="tpu-v2-v3")))
    assert {*mixed.strips} >= {(0, 1), (1, 2)}


# Comparisons


def test_a_comparison_is_of_times_where_there_is_a_machine() -> None:
    found = hypar.compare_strategies("lenet-c", levels=2, hardware="hmc", strategies=["hypar"])
    bars = figure_of(comparison.drawing(found))
    seconds = [row.plan.score.time_s for row in found if row.plan and row.plan.score]
    assert (bars.kind, bars.x, bars.series) == ("bars", ["dp", "hypar"], {"": seconds})
    assert bars.shown is seconds_text
    gain = f"{seconds[0] / seconds[1]:.3g}×"
    assert bars.title.endswith(f"hypar is the fastest, dp over it {gain}")
    assert gain in comparison.html(found)
    assert [row["time_s"] for row in comparison.rows(found)] == seconds


def test_a_comparison_without_a_machine_is_of_costs() -> None:
    found = hypar.compare_strategies("lenet-c", levels=2, strategies=["hypar"])
    bars = figure_of(comparison.drawing(found))
    assert bars.series == {"": [row.plan.cost.value for row in found if row.plan]}
    assert "hypar has the least volume" in bars.title
    assert "time_s" not in comparison.rows(found)[0]


def test_strategies_that_are_alike_are_named_together() -> None:
    rows = hypar.compare_strategies("sfc", levels=1, hardware="hmc", strategies=["owt", "mp"])
    assert " and mp are the fastest, dp over them " in figure_of(comparison.drawing(rows)).title
    same = hypar.compare_strategies("sconv", levels=1, strategies=["owt"])
    assert figure_of(comparison.drawing(same)).title.endswith("all strategies are alike")


def test_a_strategy_whose_search_does_not_fit_has_a_row_and_no_bar() -> None:
    rows = list(hypar.compare_strategies("lenet-c", levels=2, strategies=["hypar"]))
    lost = hypar.Row(name="optimal", plan=None, costs=(), gain=None, note="too large")
    for machine in (None, "hmc"):
        if machine:
            rows = list(hypar.compare_strategies("lenet-c", levels=2, strategies=["hypar"], hardware=machine))
        found = hypar.Comparison([*rows, lost])
        assert figure_of(comparison.drawing(found)).x == ["dp", "hypar"]
        assert comparison.rows(found)[-1]["cost"] is None
        assert "does not fit" in comparison.html(found)


# Sweeps


def test_names_are_bars_and_numbers_are_lines() -> None:
    names = hypar.sweep_model(
        "lenet-c", hardware=["hmc", "tpu-v2"], levels=1, strategy=["dp", "owt", "hypar"]
    )
    bars = figure_of(sweep.drawing(names))
    assert (bars.kind, bars.x, list(bars.series)) == ("bars", ["dp", "owt", "hypar"], ["hmc", "tpu-v2"])
    assert not bars.log
    numbers = hypar.sweep_model("lenet-c", hardware="hmc", levels=[1, 2], strategy=["dp", "hypar"])
    lines = figure_of(sweep.drawing(numbers))
    assert (lines.kind, lines.x, list(lines.series)) == ("lines", ["1", "2"], ["dp", "hypar"])
    best = min(run.totals.time_s for run in numbers if run.totals)
    assert lines.title.endswith(f"is the fastest, {seconds_text(best)} a step")
    alone = hypar.sweep_model("lenet-c", hardware="hmc", levels=1, strategy="dp")
    assert figure_of(sweep.drawing(alone)).kind == "bars"


def test_only_times_over_decades_need_a_logarithmic_scale() -> None:
    near = hypar.sweep_model("lenet-c", hardware="hmc", levels=[1, 2], strategy=["dp", "hypar"])
    far = hypar.sweep_model("lenet-c", hardware=["hmc", "tpu-v2"], levels=[1, 2], strategy="dp")
    assert [figure_of(sweep.drawing(runs)).log for runs in (near, far)] == [False, True]


def test_a_machine_s_file_is_named_without_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "cubes.yaml"
    file.write_text((data_folder("hardware") / "hmc.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    runs = hypar.sweep_model("lenet-c", hardware=[file, "hmc"], levels=1)
    assert [row["hardware"] for row in sweep.rows(runs)] == ["cubes", "hmc"]


def test_a_notebook_shows_some_rows_of_a_long_result() -> None:
    runs = hypar.sweep_model("lenet-c", hardware="hmc", levels=[1, 2], strategy=["dp", "hypar"])
    text = sweep.html(hypar.Sweep([*runs] * 15, "lenet-c"))
    assert "12 more rows in to_frame()" in text
    assert text.count("<tr") == 49
    assert "more rows" not in sweep.html(runs)


# Explorations


def test_an_exploration_names_the_fastest_point_and_the_plan() -> None:
    few = hypar.explore_model("lenet-c", vary="fc1", hardware="hmc", levels=2)
    bars = figure_of(exploration.drawing(few))
    assert bars.kind == "bars"
    assert bars.marks[0].startswith("fastest, ")
    (values,) = bars.series.values()
    seconds = [value for value in values if value is not None]
    assert seconds == sorted(seconds)
    assert sorted(bars.x) == ["fc1 dp", "fc1 dp mp", "fc1 mp", "fc1 mp dp"]
    many = hypar.explore_model("vgg-a", vary=["conv5_2", "fc1"], hardware="hmc", inter_weight=0.5)
    line = figure_of(exploration.drawing(many))
    best = many.ranked()[0]
    assert (line.kind, len(line.x)) == ("lines", 256)
    assert line.marks[0].startswith(
        f"fastest: {many.named(best)}, {units.format_seconds(best.totals.time_s)}, "
    )
    assert line.marks[1] == "the plan, number 2"
    assert line.title == f"256 plans of vgg-a: {many.named(best)} is the fastest"
    assert "246 more rows in to_frame()" in exploration.html(many)


def test_the_rows_of_an_exploration_begin_with_the_fastest() -> None:
    found = hypar.explore_model("lenet-c", vary="fc1", hardware="hmc", levels=2)
    seconds = [row["time_s"] for row in exploration.rows(found)]
    assert seconds == sorted(seconds)


# Explanations


def test_alternatives_have_rows_and_bars() -> None:
    found = hypar.plan_model("lenet-c", levels=2).explain("fc*")
    rows = explanation.rows(found)
    assert [(row["layer"], row["level"]) for row in rows if row["chosen"]] == [
        (one.layer, f"H{one.level + 1}") for one in found.explained
    ]
    bars = figure_of(explanation.drawing(found))
    assert bars.x[0] == f"{rows[0]['layer']} H1 {rows[0]['choice']}"
    assert {*bars.marks.values()} == {"the plan"}
    assert bars.title == "lenet-c: what other choices of fc1, fc2 cost"


def test_batches_compare_by_their_time_a_sample() -> None:
    runs = hypar.sweep_model("lenet-c", hardware="hmc", levels=2, batch=[8, 256])
    a_sample = {run.axes["batch"]: run.totals.time_s / run.axes["batch"] for run in runs if run.totals}
    best = min(a_sample, key=a_sample.__getitem__)
    assert f"batch {best} is fastest a sample" in runs_head(runs.model, runs)
    assert f"batch {best} is the fastest a sample" in runs._repr_html_()


def test_a_comparison_has_one_title_and_names_both_gains() -> None:
    found = hypar.compare_strategies("lenet-c", levels=2, hardware="hmc")
    assert found._repr_html_().count("fastest") <= 1
    for row, made in zip(comparison.rows(found), found, strict=True):
        assert row["cost_gain"] == made.gain
        scores = [one.plan.score for one in (found[0], made) if one.plan and one.plan.score]
        assert row["time_gain"] == scores[0].time_s / scores[1].time_s


def test_an_explanation_prints_as_a_name() -> None:
    assert repr(hypar.plan_model("lenet-c", levels=1).explain("fc1")) == "<Explanation of lenet-c: fc1>"
