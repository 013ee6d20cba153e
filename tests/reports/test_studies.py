"""What the documents of comparisons, sweeps, explorations and explanations say."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import hypar
from hypar.document import Section, Table
from hypar.registry import data_folder
from hypar.reports.of.runs import document_of
from hypar.reports.text import plain, render
from hypar.units import format_seconds

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.document import Document, Result


def bars_of(result: Result) -> list[Any]:
    """The bars that readers see, from above, or what is said in place of one; none without a column of bars."""
    table = shown(result)
    return [row["bar"] for row in table.rows if {"bar"} & {own.unit for own in table.shown}]


def shown(result: Result) -> Table:
    """The table that readers see."""
    (found,) = (table for table in result.document().tables if table.shown)
    return found


def text_of(document: Document) -> str:
    return plain(render(document, 200))


# Comparisons


def test_a_comparison_is_of_times_where_there_is_a_machine() -> None:
    found = hypar.compare_strategies("lenet-c", levels=2, hardware="hmc", strategies=["hypar"])
    seconds = [row.plan.score.time_s for row in found if row.plan and row.plan.score]
    assert bars_of(found) == seconds[::-1]
    gain = f"{seconds[0] / seconds[1]:.3g}x"
    assert found.document().title == f"lenet-c on hmc: hypar is fastest, {gain} faster than dp"
    assert [row["time_s"] for row in found.document().records()] == seconds
    assert [row["strategy"] for row in shown(found).rows] == ["hypar", "dp"]
    for row, made in zip(found.document().records(), found, strict=True):
        assert row["cost_gain"] == made.gain
        assert made.plan is not None
        assert made.plan.score is not None
        assert row["time_gain"] == seconds[0] / made.plan.score.time_s


def test_a_comparison_without_a_machine_is_of_costs() -> None:
    found = hypar.compare_strategies("lenet-c", levels=2, strategies=["hypar"])
    assert bars_of(found) == [row.plan.cost.value for row in found[::-1] if row.plan]
    assert found.document().title.startswith("lenet-c: hypar costs least, ")
    assert "time_s" not in found.document().records()[0]


def test_strategies_that_are_alike_are_named_together() -> None:
    rows = hypar.compare_strategies("sfc", levels=1, hardware="hmc", strategies=["owt", "mp"])
    assert " and mp are fastest, " in rows.document().title
    same = hypar.compare_strategies("sconv", levels=1, strategies=["owt"])
    assert same.document().title.endswith("all strategies are alike")


def test_a_strategy_whose_search_does_not_fit_has_a_row_and_no_bar() -> None:
    lost = hypar.Run(axes={"strategy": "optimal"}, note="too large")
    for machine in (None, "hmc"):
        rows = hypar.compare_strategies("lenet-c", levels=2, strategies=["hypar"], hardware=machine)
        found = hypar.Comparison([*rows, lost])
        assert bars_of(found)[-1] == "not planned"
        assert found.document().records()[-1]["cost"] is None
        assert "optimal  too large" in text_of(found.document())


def test_a_plan_that_does_not_fit_is_never_the_best_and_the_headline_says_that_dp_is_one() -> None:
    asked: dict[str, Any] = {"hardware": "h100-8x", "array": [8], "batch": 8, "optimizer": "adam"}
    found = hypar.compare_strategies("llama3-8b", strategies=["mp"], **asked)
    scores = {row.name: row.plan.score for row in found if row.plan and row.plan.score}
    assert [score.fits for score in scores.values()] == [False, False]
    document = found.document()
    assert document.tone == "bad"
    assert document.title == "llama3-8b on h100-8x: none fits; dp needs least, 117 GB"
    assert [row["tone"] for row in shown(found).rows] == ["bad", "bad"]
    assert "gain" in dict.fromkeys(note.label for note in document.notes)
    assert any(note.text.endswith(" than dp, which does not fit") for note in document.notes)
    small = hypar.compare_strategies("vgg16", strategies="mp", hardware="h100-8x", levels=2, batch=4096)
    assert [row["tone"] for row in shown(small).rows] == ["", "bad"] or shown(small).rows[0]["tone"] == "warn"
    assert bars_of(small)[1] == "does not fit"


def test_a_headline_says_where_the_baseline_does_not_fit() -> None:
    machine = hypar.load_machine("hmc", {"memory.capacity": "500 MB"})
    found = hypar.compare_strategies("alexnet", strategies="hypar", hardware=machine)
    assert found.document().title.endswith(": hypar is fastest, 6.45x faster than dp, which does not fit")
    assert found.document().tone == "good"
    points = hypar.explore_model("alexnet", vary="fc1@H1", hardware=machine)
    assert points.document().title.endswith("the plan is fastest, 6.45x faster than dp, which does not fit")
    base, own = found
    assert own.totals is not None
    ahead = replace(base, totals=own.totals._replace(time_s=own.time_s / 2))
    said = ": hypar is fastest of those that fit; dp, which does not fit, is 2.00x faster"
    assert hypar.Comparison([ahead, own]).document().title.endswith(said)
    small = hypar.load_machine("hmc", {"memory.capacity": "100 MB"})
    none = hypar.explore_model("alexnet", vary="fc1@H1", hardware=small).document()
    assert none.title.startswith(
        "alexnet on hmc memory.capacity=100 MB, 2 points: none fits; the plan needs least, "
    )
    runs = hypar.sweep_model("alexnet", hardware=small).document()
    assert runs.title.startswith("alexnet: none fits; hypar needs least, ")
    assert (none.tone, runs.tone) == ("bad", "bad")
    swept = hypar.sweep_model("alexnet", hardware=machine, strategy=["dp", "hypar"]).document()
    assert swept.notes[0].text == "how many times faster than the first row, which does not fit"


def test_the_note_on_arrays_is_that_of_a_plan() -> None:
    asked: dict[str, Any] = {"hardware": hypar.load_machine("hmc", {"topology": "torus"}), "levels": 4}
    for found in (
        hypar.compare_strategies("lenet-c", strategies="hypar", **asked),
        hypar.sweep_model("lenet-c", **asked),
        hypar.explore_model("lenet-c", vary="fc1@H1", **asked),
    ):
        (note,) = (note for note in found.document().notes if note.label == "array")
        assert note.text.endswith("as --array 16 the same devices take another time on a torus")


# Sweeps


def test_every_combination_has_a_bar() -> None:
    bars = hypar.sweep_model("lenet-c", hardware=["p100-4x4", "tpu-v2"], levels=1, strategy=["dp", "owt"])
    assert bars_of(bars) == [run.totals.time_s for run in bars if run.totals]
    numbers = hypar.sweep_model("lenet-c", hardware="hmc", levels=[1, 2], strategy=["dp", "hypar"])
    assert len(bars_of(numbers)) == 4
    best = min(run.totals.time_s for run in numbers if run.totals)
    assert numbers.document().title.endswith(f" is fastest, {format_seconds(best)} a step")
    alone = hypar.sweep_model("lenet-c", hardware="hmc", levels=1, strategy="dp")
    assert len(bars_of(alone)) == 1


def test_a_machine_s_file_is_named_without_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "cubes.yaml"
    file.write_text((data_folder("hardware") / "hmc.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    runs = hypar.sweep_model("lenet-c", hardware=[file, "hmc"], levels=1)
    assert [row["hardware"] for row in runs.document().records()] == ["cubes", "hmc"]


def test_batches_compare_by_their_time_a_sample() -> None:
    runs = hypar.sweep_model("lenet-c", hardware="hmc", levels=2, batch=[8, 256])
    a_sample = {run.axes["batch"]: run.totals.time_s / run.axes["batch"] for run in runs if run.totals}
    best = min(a_sample, key=a_sample.__getitem__)
    assert f"batch {best} is fastest a sample" in runs.document().title


# Explorations


def test_an_exploration_names_the_fastest_point_and_the_plan() -> None:
    few = hypar.explore_model("lenet-c", vary="fc1", hardware="hmc", levels=2)
    assert bars_of(few) == [point.totals.time_s for point in few if point.totals]
    assert sorted(row["fc1"] for row in shown(few).rows) == ["dp", "dp mp", "mp", "mp dp"]
    many = hypar.explore_model("vgg-a", vary=["conv5_2", "fc1"], hardware="hmc", inter_weight=0.5)
    assert len(bars_of(many)) == 10
    assert "256 points, 246 of them not shown; the plan of hypar is number 2" in text_of(many.document())
    assert len(shown(many).rows) == 10
    assert "not shown" not in text_of(document_of(many, top=256))
    seconds = [row["time_s"] for row in many.document().records()]
    assert len(seconds) == 256
    assert seconds == sorted(seconds)


# Explanations


def test_alternatives_have_rows_and_bars() -> None:
    found = hypar.plan_model("lenet-c", levels=2).explain("fc*")
    rows = found.document().records()
    assert [(row["layer"], row["level"]) for row in rows if row["chosen"]] == [
        (one.layer, f"H{one.level + 1}") for one in found.explained
    ]
    tables = [
        part
        for own in found.document().parts
        if isinstance(own, Section)
        for part in own.parts
        if isinstance(part, Table)
    ]
    said = [
        (row["layer"], row["choice"], row["bar"]) for table in tables for row in table.rows if row["said"]
    ]
    assert said == [(row["layer"], row["choice"], row["total"]) for row in rows if row["chosen"]]
    assert found.document().title == "lenet-c: all 4 choices cost least"


def test_the_closest_calls_are_first_and_the_next_is_another_choice() -> None:
    table = (
        hypar.plan_model("alexnet", strategy="optimal", space="all", array=[8]).explain().document().tables[1]
    )
    assert [row["costs"] for row in table.rows] == sorted(row["costs"] for row in table.rows)
    plan = hypar.plan_model("llama3-8b", strategy="optimal", array=[8], batch=8)
    rows = plan.explain("head").document().title
    assert re.fullmatch(r"head H1: (.+) costs least; next is (?!\1,).+ more", rows)


@pytest.mark.parametrize("layer", ["fc1@H2", "fc1@H1"])
def test_an_explanation_begins_with_its_answer(layer: str) -> None:
    plan = hypar.plan_model("lenet-c", levels=2)
    found = plan.explain(layer)
    (one,) = found.explained
    other = next(each for each in one.alternatives if not each.chosen)
    assert one.chosen.replanned == 0
    assert other.replanned is not None
    first, *_ = text_of(found.document()).splitlines()
    assert first.startswith(f"fc1 {one.place}: ")
    assert first.endswith(" more")
