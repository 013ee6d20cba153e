"""Differences as people read them: choices first, then costs, then the rest, in lines of any width."""

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hypar import diff_plans, plan_model
from hypar.plan.plan import Plan
from hypar.reports.of.diff import difference_document
from hypar.reports.text import plain, render
from hypar.units import amount
from tests.kit import run

VGG: dict[str, Any] = {"model": "vgg16", "convention": "paper"}
ALEX: dict[str, Any] = {"model": "alexnet"}
GRID: dict[str, Any] = {**ALEX, "array": [16], "hardware": "p100-4x4", "strategy": "dp"}
MIXED: dict[str, Any] = {**ALEX, "hardware": "tpu-v2-v3"}
ASKED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "two strategies": (VGG | {"hardware": "hmc"}, VGG | {"hardware": "hmc", "strategy": "accpar"}),
    "two conventions": (VGG, VGG | {"convention": "moved"}),
    "blocks": (
        {"model": "resnet50", "strategy": "dp", "hardware": "hmc"},
        {"model": "resnet50", "strategy": "accpar", "hardware": "hmc"},
    ),
    "no machine": (ALEX | {"strategy": "dp"}, ALEX | {"strategy": "mp"}),
    "two machines": ({"model": "sfc", "hardware": "hmc"}, {"model": "sfc", "hardware": "tpu-v3"}),
    "unlike groups": (MIXED | {"levels": 3, "strategy": "dp"}, MIXED | {"levels": 3}),
    "two arrays": (
        ALEX | {"levels": 2, "hardware": "hmc"},
        ALEX | {"array": [4], "hardware": "hmc", "strategy": "optimal"},
    ),
    "two arrays of unlike groups": (MIXED | {"levels": 3}, MIXED | {"levels": 4}),
    "grids": (GRID, GRID | {"space": "all"}),
}
"""Two plans of each kind, as ``plan_model`` is asked for them."""


@cache
def plans(name: str) -> tuple[Plan, Plan]:
    first, second = ASKED[name]
    return plan_model(**first), plan_model(**second)


def lines(name: str, width: int = 80) -> list[str]:
    pair = plans(name)
    found = difference_document(("a.json", "b.json"), pair, diff_plans(*pair))
    return plain(render(found, width)).splitlines()


def section(found: list[str], heading: str) -> list[str]:
    start = found.index(heading) + 1
    return found[start : found.index("", start) if "" in found[start:] else None]


def test_choices_come_first_then_costs_then_the_rest() -> None:
    found = lines("two strategies")
    assert found[:3] == [
        "5 of 64 choices differ; the second is 2.1% faster than the first",
        "- a.json  vgg16, batch 256, 16 devices (2x2x2x2), strategy hypar on hmc",
        "+ b.json  vgg16, batch 256, 16 devices (2x2x2x2), strategy accpar on hmc",
    ]
    assert [line for line in found if line in {"choices", "costs", "other"}] == ["choices", "costs", "other"]
    assert section(found, "choices") == [
        "conv5_3  H4     batch -> in_channels",
        "fc1      H4     in_channels -> out_channels",
        "fc2      H1-H2  in_channels -> out_channels",
        "fc3      H3     in_channels -> out_channels",
    ]
    assert section(found, "costs")[:5] == [
        "time       1.94 s ->  1.90 s  -2.1%",
        "energy     70.8 J ->  70.7 J  -0.1%",
        "received  2.18 GB -> 2.05 GB  -6.0%",
        "memory    1.38 GB -> 1.39 GB  +0.6%",
        "volume    2.18 GB -> 2.05 GB  -6.0%",
    ]


def test_costs_that_are_counted_unlike_are_not_compared() -> None:
    found = lines("two conventions")
    assert found[0] == "the choices are equal; volume counted by paper and by moved"
    assert "convention  paper -> moved" in section(found, "other")
    # Runs of layers with one change are one row.
    assert section(lines("no machine"), "choices") == ["conv1 to fc3 x8  H1-H4  batch -> in_channels"]


def test_plans_of_two_arrays_are_compared_by_their_totals_and_layer_by_layer() -> None:
    pair, found = plans("two arrays"), lines("two arrays", width=100)

    def whole(plan: Plan, layer: str) -> Counter[str]:
        """How many ways all levels together divide each dim, by the powers of two."""
        every = (split.choice(layer).degrees for split in plan.splits)
        return Counter(
            dim for degrees in every for dim, ways in degrees for _ in range(ways.bit_length() - 1)
        )

    changed = [layer for layer in pair[0].layers if whole(pair[0], layer) != whole(pair[1], layer)]
    assert 0 < len(changed) < len(pair[0].layers)
    count = f"{len(changed)} of {len(pair[0].layers)} layers are cut otherwise"
    assert found[0].startswith(f"the arrays differ, so levels are not compared; {count}; ")
    changes = diff_plans(*pair)
    assert [change.layer for change in changes if change.what == "cut"] == changed
    assert not [change for change in changes if change.level is not None]
    assert "levels" in "\n".join(section(found, "other"))
    (volume,) = [line for line in section(found, "costs") if line.split()[0] == "volume"]
    volumes = " -> ".join(amount(plan.cost.value, "bytes") for plan in pair)
    assert " ".join(volume.split()).startswith(f"volume {volumes} ")


@pytest.mark.parametrize("name", ASKED)
def test_lines_are_no_wider_than_the_terminal_and_say_the_same_at_every_width(name: str) -> None:
    for width in (40, 60, 80):
        assert max(map(len, lines(name, width))) <= width
    words = [sorted(" ".join(lines(name, width)).replace(", ", " ").split()) for width in (60, 200)]
    one, other = ([word for word in own if word not in {"-", "+", "->"}] for own in words)
    assert one == other


def drift(folder: Path) -> None:
    """Write two plans, one of which drifted, and files that are no plans."""
    plan = plan_model("vgg16")
    (folder / "plans" / "more").mkdir(parents=True)
    plan.write(folder / "plans" / "vgg16.json")
    data = plan.to_data()
    data["splits"][3]["choices"]["fc1"] = {"batch": 2}
    data["cost"]["value"] *= 2
    (folder / "plans" / "more" / "drift.json").write_text(json.dumps(data))
    (folder / "plans" / "table.json").write_text("{}")
    (folder / "plans" / "broken.json").write_text('{"a": ')


def test_a_folder_is_checked_as_its_plans_are(folder: Path) -> None:
    drift(folder)
    below = run("check", "plans", "--json")
    each = run("check", "plans/more/drift.json", "plans/vgg16.json", "--json")
    assert (below.stdout, below.exit_code) == (each.stdout, each.exit_code)
    assert run("check", "plans", "--update").exit_code == 0
    assert run("check", "plans").exit_code == 0
    assert folder.joinpath("plans/table.json").read_text() == "{}"


def test_a_folder_without_plans_is_one_line(folder: Path) -> None:
    (folder / "none").mkdir()
    result = run("check", "none")
    allowed = "allowed: files that hypar plan -o writes, named .json"
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == f"error: none: no plans below it; {allowed}\n"
    (folder / "none" / "a.json").write_text("[]")
    (folder / "none" / ".hidden").mkdir()
    plan_model("sfc", levels=1).write(folder / "none" / ".hidden" / "p.json")
    assert (
        run("check", "none").stderr == f"error: none: no plans below it, and 1 other .json files; {allowed}\n"
    )
