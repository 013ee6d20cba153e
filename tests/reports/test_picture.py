"""A picture of a plan shows its choices and its step, and no more than fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

import hypar
from hypar.cli.main import main
from hypar.planning.replay import run_plan
from hypar.reports.formats.base import grid
from hypar.reports.palette import DIMS, TIMES
from hypar.reports.picture import picture
from hypar.studies.comparison import baseline_score

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.planning.replay import ScoredStep

PLANS: dict[str, dict[str, Any]] = {
    "levels": {"model": "vgg16", "levels": 4, "hardware": "hmc"},
    "overlap": {"model": "alexnet", "levels": 5, "strategy": "optimal", "hardware": "h100-8x"},
    "grids": {"model": "resnet18", "array": [16], "strategy": "deepa", "hardware": "p100-4x4"},
}


@pytest.fixture(scope="module", params=PLANS)
def ran(request: pytest.FixtureRequest) -> ScoredStep:
    return run_plan(hypar.plan_model(**PLANS[request.param]))


def elements(ran: ScoredStep, name: str) -> list[ET.Element]:
    return [one for one in ET.fromstring(picture(ran)).iter() if one.tag.endswith(f"}}{name}")]


def test_every_choice_has_its_word_and_its_colour(ran: ScoredStep) -> None:
    words = [one for one in elements(ran, "text") if "-t" in (one.get("class") or "")]
    found: dict[str, list[tuple[str, str]]] = {}
    for one in words:
        kind = (one.get("class") or "").removeprefix("c ").removesuffix("-t")
        found.setdefault(one.get("y", ""), []).append((one.text or "", kind))
    for (layer, shown, *_), row in zip(grid(ran.plan), found.values(), strict=True):
        choices = [split.choice(layer) for split in ran.plan.splits]
        dims = [dim for choice in choices for dim in choice.divided]
        assert [kind for _, kind in row if kind != "whole"] == [
            {"channels": "out_channels" if word.startswith("c") and word != "ch" else "in_channels"}.get(
                dim, dim
            )
            for dim, (word, _) in zip(dims, row, strict=True)
        ]
        if all(len(choice.divided) < 2 for choice in choices):
            assert [word for word, _ in row] == shown


def test_bars_are_as_long_as_the_tasks(ran: ScoredStep) -> None:
    bars = [one for one in elements(ran, "rect") if one.get("class") in TIMES and one.get("rx") is None]
    ticks = [
        one for one in elements(ran, "line") if one.get("class") == "gl" and one.get("x1") == one.get("x2")
    ]
    start, end = float(ticks[0].get("x1", "")), 860.0
    whole = ran.timeline.makespan
    for kind in TIMES:
        drawn = [float(one.get("width", "")) for one in bars if one.get("class") == kind]
        exact = ran.timeline.by_kind.get(kind, 0.0) / whole * (end - start)
        assert abs(sum(drawn) - exact) <= len(drawn) * 0.75 + 0.25 * len(ran.timeline.tasks)
    assert min(float(one.get("x", "")) for one in bars) == pytest.approx(start, abs=0.1)
    assert max(float(one.get("x", "")) + float(one.get("width", "")) for one in bars) <= end + 0.8


def test_it_is_small_needs_nothing_else_and_says_what_it_shows(ran: ScoredStep) -> None:
    text = picture(ran, baseline_score(ran))
    root = ET.fromstring(text)
    assert (root.get("width"), root.get("role")) == ("880", "img")
    assert len(text.encode()) < 40_000
    assert text.count("http") == 1
    assert "url(" not in text
    title, about = root[0], root[1]
    assert root.get("aria-labelledby") == f"{title.get('id')} {about.get('id')}"
    assert "data parallelism" in (title.text or "")
    assert str(len(ran.plan.layers)) in (about.text or "")


def test_the_legend_names_what_is_drawn(ran: ScoredStep) -> None:
    marks = {one.get("class") for one in elements(ran, "rect") if one.get("rx") == "2"}
    drawn = {one.get("class") for one in elements(ran, "rect") if one.get("rx") == "2.5"}
    assert marks & {*DIMS} == drawn
    assert marks - {*DIMS} == {*TIMES} - {"update"}


def test_one_file_is_not_written_twice(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["score", "plan.json", "--picture", "a.svg", "--plot", "a.svg"])
    assert result.exit_code == 2
    assert "two of --plot, --trace and --picture name one file" in result.stderr
