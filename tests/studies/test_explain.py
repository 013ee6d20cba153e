"""Why a plan is as it is: eliminations, and what a layer's alternatives would cost."""

import re
from pathlib import Path
from typing import Any

import pytest

from hypar import explain_plan, load_machine, load_model, plan_model
from hypar.errors import OptionError
from hypar.files.yaml_file import parse_yaml
from hypar.network.graph import build_graph
from hypar.studies.alternatives import Explanation
from tests.kit import data, output, refused

P100 = load_machine("p100-4x4")
ALEXNET = load_model("alexnet").with_batch(512)


@pytest.fixture(scope="module")
def explained() -> Explanation:
    plan = plan_model(ALEXNET, array=[16], strategy="deepa", hardware=P100)
    return explain_plan(plan, ALEXNET, layer="fc1", machine=P100)


def test_every_choice_of_the_layer_is_there_with_items_that_sum(explained: Explanation) -> None:
    (layer,) = explained.explained
    assert len(layer.alternatives) == 15
    for one in layer.alternatives:
        assert set(one.items) == {"update", "sums", "compute"}
        assert one.total == pytest.approx(sum(one.items.values()) + one.received + one.sent, rel=1e-12)
    totals = [one.total for one in layer.alternatives]
    assert totals == sorted(totals)
    assert layer.chosen.choice == explained.plan.choices("fc1")[0]


def test_chosen_anew_is_what_planning_with_a_pin_gives(explained: Explanation) -> None:
    (layer,) = explained.explained
    other = next(one for one in layer.alternatives if not one.chosen)
    pinned = plan_model(
        ALEXNET, array=[16], strategy="deepa", hardware=P100, pins=f"fc1={other.choice.text(16)}"
    )
    more = pinned.cost.value - explained.plan.cost.value
    assert other.replanned == pytest.approx(more, rel=1e-6)
    assert other.total - layer.chosen.total >= more * (1 - 1e-9)


UNLIKE: dict[str, Any] = {"hardware": "tpu-v2-v3", "batch": 32}
PRICED: list[tuple[str, dict[str, Any]]] = [
    ("lenet-c", {"levels": 3, "strategy": "hypar"}),
    ("lenet-c", {"levels": 2, "strategy": "accpar"}),
    ("lenet-c", {"levels": 2, "strategy": "optimal"}),
    ("alexnet", {"array": (16,), "strategy": "optimal"}),
    ("resnet18", {"hardware": "hmc", "batch": 32, "stages": 4, "levels": 1, "convention": "paper"}),
    ("lenet-c", {**UNLIKE, "levels": 3, "strategy": "accpar"}),
    ("lenet-c", {**UNLIKE, "levels": 3, "strategy": "accpar", "convention": "fused", "shares": "equal"}),
    ("lenet-c", {**UNLIKE, "levels": 3, "strategy": "accpar", "convention": "moved", "shares": "layers"}),
    ("lenet-c", {**UNLIKE, "levels": 3, "strategy": "optimal"}),
    ("lenet-c", {**UNLIKE, "levels": 3, "strategy": "deepa"}),
    ("lenet-c", {**UNLIKE, "stages": 2, "levels": 2}),
]
LATE: list[tuple[str, dict[str, Any]]] = [
    ("lenet-c", {**UNLIKE, "levels": 3, "strategy": "optimal", "cost": "time", "shares": "exact"}),
    ("lenet-c", {**UNLIKE, "array": [2, 2, "s2"], "strategy": "accpar"}),
    ("lenet-c", {**UNLIKE, "stages": "best", "levels": 3}),
    ("lenet-c", {**UNLIKE, "stages": 4, "levels": 2, "convention": "paper"}),
    ("lenet-c", {**UNLIKE, "array": [2, "s2", 2], "convention": "fused"}),
]


@pytest.mark.parametrize(
    ("model", "asked"), [*PRICED, *(pytest.param(*one, marks=pytest.mark.slow) for one in LATE)], ids=str
)
def test_a_plan_s_own_choices_cost_what_it_says(model: str, asked: dict[str, Any]) -> None:
    """At every split and level, given those above; of a tensor between stages nothing, of any other once, where it is read."""
    plan = plan_model(model, **asked)
    found = plan.explain()
    for split in plan.splits:
        own = [
            one for one in found.explained if (one.group or "all", one.level) == (split.group, split.level)
        ]
        assert [one.layer for one in own] == [*split.choices]
        for one in own:
            assert one.chosen.choice == split.choice(one.layer)
            counted = {**one.chosen.items, "received": one.chosen.received}
            # Devices compute below an uneven split.
            if split.sides is not None:
                counted.pop("compute", None)
            assert sum(counted.values()) == pytest.approx(split.costs[one.layer], rel=1e-9, abs=1e-15), one


def test_a_pinned_choice_from_outside_the_space_is_explained_too() -> None:
    graph = load_model("lenet-c")
    plan = plan_model(graph, levels=1, pins="conv2=height")
    (one,) = explain_plan(plan, graph, layer="conv2").explained
    assert one.chosen.choice.text(2) == "height"
    assert one.chosen.replanned > 0  # type: ignore[operator]


def test_what_is_left_out_says_why() -> None:
    plan = plan_model(ALEXNET, array=[16], strategy="deepa", hardware=P100)
    (one,) = explain_plan(plan, ALEXNET, layer="pool5", machine=P100).explained
    assert one.left_out == (
        "height: 6 elements, so no degree of 8, 16",
        "width: 6 elements, so no degree of 8, 16",
    )


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (("--strategy", "optimal", "--levels", "4", "--explain", "*@H3"), "the plan weighs all levels together"),
        (("--levels", "1", "--pin", "fc1=dp", "--explain"), "the plan has pins"),
    ],
)  # fmt: skip
def test_a_dearer_choice_says_why_the_plan_has_it(asked: tuple[str, ...], reason: str) -> None:
    text = output("plan", "alexnet", *asked, columns=300)
    dearer = [line for line in text.splitlines() if re.match(r"\w+ H\d: \w+ costs [^;]+ more than ", line)]
    assert dearer
    assert {line.split(": ")[2] for line in dearer} == {reason}
    alone = [line for line in text.splitlines() if " alone: the levels below, for which" in line]
    joint = "optimal" in asked
    assert {line.split(" alone")[0] for line in alone} == ({"H3"} if joint else set())


def test_where_no_table_fits_nothing_is_chosen_anew() -> None:
    """A network whose layers read all before them has no small tables; the rest of its explanation stands."""
    names, text = ["c0"], "{name: c0, op: conv, out_channels: 16, kernel: 1}"
    for number in range(1, 14):
        text += f"\n  - {{name: a{number}, op: add, inputs: [{', '.join(names)}]}}" if number > 1 else ""
        text += f"\n  - {{name: c{number}, op: conv, out_channels: 16, kernel: 1}}"
        names.append(f"c{number}")
    head = (
        "source: all read all\nbatch: 16\nlayers:\n  - {op: input, channels: 16, height: 4, width: 4}\n  - "
    )
    graph = build_graph(parse_yaml(head + text, Path("dense.yaml")), "dense")
    plan = plan_model(graph, array=[16], strategy="deepa", hardware=P100, solver="bounded")
    (layer,) = explain_plan(plan, graph, layer="c3", machine=P100).explained
    assert len(layer.alternatives) == 60
    assert {one.replanned for one in layer.alternatives} == {None}


@pytest.mark.usefixtures("folder")
def test_the_command_prints_tables_or_json() -> None:
    asked = ("plan", "lenet-c", "--array", "4", "--strategy", "deepa", "--hardware", "p100-4x4")
    text = output(*asked, "--explain", "pool2")
    assert re.match(r"pool2 H1: n4 c1 costs least; next is [\w ]+, [\d.]+ us more\n", text)
    assert "left out  height: 4 elements" not in text
    found = data(*asked, "--explain", "fc1")
    assert found["plan"]["strategy"] == "deepa"
    (layer,) = found["explanation"]["layers"]
    assert [one["chosen"] for one in layer["alternatives"]].count(True) == 1
    assert refused(*asked, "--explain", "nothing")


def test_one_level_is_explained_alone_as_among_all() -> None:
    graph = load_model("lenet-c")
    plan = plan_model(graph, levels=3, strategy="optimal")
    every = explain_plan(plan, graph, layer="fc*").explained
    for level in range(3):
        for text in (f"H{level + 1}", str(level)):
            alone = explain_plan(plan, graph, layer=f"fc*@{text}").explained
            assert alone == tuple(one for one in every if one.level == level)
            assert {one.layer for one in alone} == {"fc1", "fc2"}
    with pytest.raises(OptionError) as refused:
        explain_plan(plan, graph, layer="fc1@H4")
    assert str(refused.value) == "explain: found level 'H4'; allowed: H1 to H3, or 0 to 2"
