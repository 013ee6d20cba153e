"""What documents of comparisons, sweeps, explorations and explanations say, beside the pages' blocks."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import hypar
from hypar.document import Document, Result, Section, Table
from hypar.reports.text import plain, render
from tests.kit import known


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


def machine(capacity: str) -> Any:
    return hypar.load_machine("hmc", {"memory.capacity": capacity})


LLAMA: dict[str, Any] = {"hardware": "h100-8x", "array": [8], "batch": 8, "optimizer": "adam"}
NO_DP = "6.45x faster than dp, which does not fit"
TITLES: list[tuple[Callable[[], Result], str, str]] = [
    (lambda: hypar.compare_strategies("sfc", levels=1, hardware="hmc", strategies=["owt", "mp"]), "", ".* and mp are fastest, .*"),
    (lambda: hypar.compare_strategies("sconv", levels=1, strategies=["owt"]), "", ".*all strategies are alike"),
    (lambda: hypar.compare_strategies("llama3-8b", strategies=["mp"], **LLAMA), "bad", "llama3-8b on h100-8x: none fits; dp needs least, 117 GB"),
    (lambda: hypar.compare_strategies("alexnet", strategies="hypar", hardware=machine("500 MB")), "good", f".*: hypar is fastest, {NO_DP}"),
    (lambda: hypar.explore_model("alexnet", vary="fc1@H1", hardware=machine("500 MB")), "", f".*the plan is fastest, {NO_DP}"),
    (lambda: hypar.explore_model("alexnet", vary="fc1@H1", hardware=machine("100 MB")), "bad",
     "alexnet on hmc memory.capacity=100 MB, 2 points: none fits; the plan needs least, .*"),
    (lambda: hypar.sweep_model("alexnet", hardware=machine("100 MB")), "bad", "alexnet: none fits; hypar needs least, .*"),
    (lambda: hypar.plan_model("lenet-c", levels=2).explain("fc*"), "", "lenet-c: all 4 choices cost least"),
    # The next is another choice.
    (lambda: hypar.plan_model("llama3-8b", strategy="optimal", array=[8], batch=8).explain("head"), "",
     r"head H1: (.+) costs least; next is (?!\1,).+ more"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "tone", "title"), TITLES, ids=range(len(TITLES)))
def test_a_title_says_the_answer(made: Callable[[], Result], tone: str, title: str) -> None:
    document = made().document()
    assert re.fullmatch(title, document.title)
    assert not tone or document.tone == tone


def test_a_strategy_whose_search_does_not_fit_has_a_row_and_no_bar() -> None:
    lost = hypar.Run(axes={"strategy": "optimal"}, note="too large")
    for hardware in (None, "hmc"):
        rows = hypar.compare_strategies("lenet-c", levels=2, strategies=["hypar"], hardware=hardware)
        found = hypar.Comparison([*rows, lost])
        assert bars_of(found)[-1] == "not planned"
        assert found.document().records()[-1]["cost"] is None
        assert "optimal  too large" in text_of(found.document())


def test_a_plan_that_does_not_fit_is_never_the_best_and_dp_is_said_to_be_one() -> None:
    found = hypar.compare_strategies("llama3-8b", strategies=["mp"], **LLAMA)
    assert [row["tone"] for row in shown(found).rows] == ["bad", "bad"]
    notes = found.document().notes
    assert "gain" in {note.label for note in notes}
    assert any(note.text.endswith(" than dp, which does not fit") for note in notes)
    small = hypar.compare_strategies("vgg16", strategies="mp", hardware="h100-8x", levels=2, batch=4096)
    assert shown(small).rows[1]["tone"] == "bad"
    assert bars_of(small)[1] == "does not fit"
    base, own = hypar.compare_strategies("alexnet", strategies="hypar", hardware=machine("500 MB"))
    ahead = replace(base, totals=known(own.totals).model_copy(update={"time_s": own.time_s / 2}))
    said = ": hypar is fastest of those that fit; dp, which does not fit, is 2.00x faster"
    assert hypar.Comparison([ahead, own]).document().title.endswith(said)
    swept = hypar.sweep_model("alexnet", hardware=machine("500 MB"), strategy=["dp", "hypar"]).document()
    assert swept.notes[0].text == "how many times faster than the first row, which does not fit"


def test_batches_compare_by_their_time_a_sample() -> None:
    runs = hypar.sweep_model("lenet-c", hardware="hmc", levels=2, batch=[8, 256])
    a_sample = {run.axes["batch"]: run.totals.time_s / run.axes["batch"] for run in runs if run.totals}
    best = min(a_sample, key=a_sample.__getitem__)
    assert f"batch {best} is fastest a sample" in runs.document().title


def test_alternatives_have_rows_and_bars() -> None:
    found = hypar.plan_model("lenet-c", levels=2).explain("fc*")
    rows, sections = found.document().records(), found.document().parts
    chosen = [(row["layer"], row["level"]) for row in rows if row["chosen"]]
    assert chosen == [(one.layer, f"H{one.level + 1}") for one in found.explained]
    tables = [
        part for own in sections if isinstance(own, Section) for part in own.parts if isinstance(part, Table)
    ]
    said = [
        (row["layer"], row["choice"], row["bar"]) for table in tables for row in table.rows if row["said"]
    ]
    assert said == [(row["layer"], row["choice"], row["total"]) for row in rows if row["chosen"]]


def test_the_closest_calls_are_first() -> None:
    plan = hypar.plan_model("alexnet", strategy="optimal", space="all", array=[8])
    costs = [row["costs"] for row in plan.explain().document().tables[1].rows]
    assert costs == sorted(costs)
