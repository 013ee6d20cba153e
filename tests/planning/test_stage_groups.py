"""Stages on the device groups of a heterogeneous machine: each on an equal part of one group, in both orders of the groups."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import Plan, check_plan, load_model, plan_model, read_plan, score_plan, verify_plan
from hypar.errors import MemoryLimitError
from hypar.machine.load_heterogeneous import load_heterogeneous
from hypar.machine.machine import Machine
from hypar.planning.planner import follow
from hypar.planning.request import Request
from hypar.planning.stages.replay import stored_stages
from tests.effort import crossed, examples
from tests.heterogeneous import chains, group, kind, skips, write_machine
from tests.staged import BruteForce
from tests.studies.test_pipeline import chain

if TYPE_CHECKING:
    from pathlib import Path

    from hypar import HeterogeneousMachine, LayerGraph
    from hypar.machine.heterogeneous import DeviceGroup
    from hypar.plan.splits import StagesRecord

MIXED = load_heterogeneous("tpu-v2-v3")


def staged(plan: Plan) -> StagesRecord:
    assert plan.stages is not None
    return plan.stages


def names_of(plan: Plan) -> list[str | None]:
    return [stage.group for stage in staged(plan).stages]


@pytest.fixture(scope="module")
def unlike(tmp_path_factory: pytest.TempPathFactory) -> HeterogeneousMachine:
    """Four slow devices with a fast link to the others, and two fast ones with a slow link."""
    kinds = {
        "slow": kind(devices=4, peak="1 TFLOP/s", link="10 GB/s"),
        "fast": kind(devices=2, peak="7 TFLOP/s", link="3 GB/s"),
    }
    groups = [
        group("slow.yaml", bandwidth="2 GB/s", latency="3 us"),
        group("fast.yaml", bandwidth="1 GB/s", latency="5 us"),
    ]
    return load_heterogeneous(write_machine(tmp_path_factory.mktemp("unlike"), kinds, groups))


# Partitions and orders


class OnGroup(BruteForce):
    """The spans of a network on the devices of a group, whose neighbours are all in another group."""

    def __init__(
        self, graph: LayerGraph, own: DeviceGroup, counts: tuple[int, int, int], **asked: Any
    ) -> None:
        assert isinstance(own.machine, Machine)
        super().__init__(graph, own.machine, counts, **asked)
        self.own = own

    def sending_s(self, num_bytes: int) -> float:
        return num_bytes / (2.0**self.levels * self.own.bytes_per_s) + self.own.latency_s


@pytest.mark.parametrize("levels", [0, 1])
@given(graph=chains(least=3, most=4))
@settings(max_examples=examples(15, 5), deadline=None)
def test_no_partition_in_any_order_is_better(
    unlike: HeterogeneousMachine, graph: LayerGraph, levels: int
) -> None:
    """In its order of groups a plan's bottleneck is the least of all partitions, and the other order is not faster."""
    asked: dict[str, Any] = {"stages": 2, "levels": levels, "microbatches": 2, "convention": "paper"}
    plan = plan_model(graph, hardware=unlike, **asked)
    spans = {own.name: OnGroup(graph, own, (2, 2, levels)) for own in unlike.groups}
    count, least = len(plan.layers), {}
    for order in (("slow", "fast"), ("fast", "slow")):
        costs = {
            place: max(
                spans[name].alone(*ends).seconds
                for name, ends in zip(order, pairwise((0, place, count)), strict=True)
            )
            for place in range(1, count)
        }
        least[order] = min(costs.values())
        ties = [place for place, cost in costs.items() if cost == pytest.approx(least[order], rel=1e-9)]
        times = [engine_s(plan, unlike, spans, order, place, graph) for place in ties]
        assert plan.score is not None
        if names_of(plan) == [*order]:
            assert plan.score.time_s == pytest.approx(min(times, key=lambda own: abs(own - plan.score.time_s)), rel=1e-9)  # type: ignore[union-attr]  # fmt: skip
        else:
            assert plan.score.time_s <= max(times) * (1 + 1e-9)
    own = staged(plan)
    assert own.bottleneck_s == pytest.approx(least[own.groups], rel=1e-9)  # type: ignore[index]


def engine_s(
    plan: Plan,
    machine: HeterogeneousMachine,
    spans: dict[str, OnGroup],
    order: tuple[str, str],
    place: int,
    graph: LayerGraph,
) -> float:
    """The time of a step of two given stages, each cut as its span is by itself."""
    ends = [*pairwise((0, place, len(plan.layers)))]
    stages = [
        stage.model_copy(update={"group": name, "layers": [*plan.layers[first:end]]})
        for stage, name, (first, end) in zip(staged(plan).stages, order, ends, strict=True)
    ]
    record = staged(plan).model_copy(update={"stages": stages})
    choices = [
        own for name, span in zip(order, ends, strict=True) for own in spans[name].alone(*span).choices
    ]
    request = Request.of(plan, machine)
    return stored_stages(plan, record, graph, choices, request).ran.timeline.makespan


def test_the_faster_order_is_taken(tmp_path: Path) -> None:
    """A small network whose first layers are nearly all its work: they are on the fast devices wherever these stand."""
    kinds = {"quick": kind(devices=1, peak="50 TFLOP/s"), "tardy": kind(devices=1, peak="1 TFLOP/s")}
    quick, tardy = (group(f"{name}.yaml") for name in kinds)
    for number, groups in enumerate(([quick, tardy], [tardy, quick])):
        (tmp_path / str(number)).mkdir()
        machine = write_machine(tmp_path / str(number), kinds, groups)
        plan = plan_model("lenet-c", hardware=machine, stages=2)
        assert names_of(plan) == ["quick", "tardy"]
        assert plan.arrays == {"quick": [], "tardy": []}


# Devices and links


def test_a_group_has_an_equal_part_of_its_devices_for_each_of_its_stages() -> None:
    plan = plan_model("lenet-c", hardware=MIXED, stages=4)
    assert plan.arrays == {"tpu-v2": [2] * 6, "tpu-v3": [2] * 6}
    assert plan.num_devices == 256
    assert plan.score is not None
    assert [own.devices for own in plan.score.groups or ()] == [64] * 4
    assert names_of(plan) in (["tpu-v2"] * 2 + ["tpu-v3"] * 2, ["tpu-v3"] * 2 + ["tpu-v2"] * 2)


def test_groups_of_different_numbers_of_devices_have_levels_of_their_own(
    unlike: HeterogeneousMachine,
) -> None:
    plan = plan_model("lenet-c", hardware=unlike, stages=2)
    assert plan.arrays == {"slow": [2, 2], "fast": [2]}
    for number, stage in enumerate(staged(plan).stages):
        assert {len(plan.choices(layer)) for layer in stage.layers} == {len(plan.arrays[stage.group or ""])}
        assert plan.score is not None
        assert (plan.score.groups or [])[number].devices == {"slow": 4, "fast": 2}[stage.group or ""]


def test_a_transfer_between_groups_takes_the_link_of_its_receiver(unlike: HeterogeneousMachine) -> None:
    """Four stages of a linear layer of 8: F and E of a microbatch are 32 samples of 8 elements of 4 bytes."""
    graph = chain(4, batch=64)
    plan = plan_model(graph, hardware=unlike, stages=4, levels=0, microbatches=2)
    ran = staged(plan)
    assert [len(stage.layers) for stage in ran.stages] == [1] * 4
    request = Request.of(plan, unlike)
    choices: list[Any] = [()] * 4
    staging = stored_stages(plan, ran, graph, choices, request)
    num_bytes = 32 * 8 * 4
    outward = {"slow": num_bytes / 2e9 + 3e-6, "fast": num_bytes / 1e9 + 5e-6}
    inside = {"slow": num_bytes / 10e9, "fast": num_bytes / 3e9}
    first, second = (names_of(plan)[0] or "", names_of(plan)[3] or "")
    expected = [
        (0.0, inside[first]),
        (inside[first], outward[first]),
        (outward[second], inside[second]),
        (inside[second], 0.0),
    ]
    for span, seconds in zip(staging.stages, expected, strict=True):
        assert (span.received.seconds, span.returned.seconds) == pytest.approx(seconds, rel=1e-12)
    assert [span.site.outward for span in staging.stages] == [(), ("backward",), ("forward",), ()]


def test_equal_groups_with_links_as_inside_are_identical_devices(tmp_path: Path) -> None:
    """Two groups of equal devices, whose links between them are those inside, give the plan of one machine."""
    fast = "1000000 GB/s"
    kinds = {"whole": kind(devices=4, link=fast), **{name: kind(devices=2, link=fast) for name in "ab"}}
    machine = write_machine(tmp_path, kinds, [group(f"{name}.yaml", bandwidth=fast) for name in "ab"])
    graph = load_model("lenet-c").with_batch(64)
    for asked in ({"stages": 2, "levels": 1}, {"stages": 4, "levels": 0, "schedule": "gpipe"}):
        grouped = plan_model(graph, hardware=machine, **asked)
        single = plan_model(graph, hardware=tmp_path / "whole.yaml", **asked)
        assert [stage.layers for stage in staged(grouped).stages] == [
            stage.layers for stage in staged(single).stages
        ]
        assert [*map(grouped.choices, grouped.layers)] == [*map(single.choices, single.layers)]
        assert grouped.score is not None
        assert single.score is not None
        assert grouped.score.time_s == pytest.approx(single.score.time_s, rel=1e-3)
        assert grouped.score.memory == single.score.memory
        assert grouped.score.communication == single.score.communication


# Stored plans


ASKED: dict[str, dict[str, Any]] = {
    "all devices": {"stages": 2},
    "single devices": {"stages": 4, "levels": 0, "schedule": "gpipe", "microbatches": 4},
    "a level": {"stages": 2, "levels": 1, "strategy": "accpar", "optimizer": "adam"},
    "time": {"stages": 2, "levels": 1, "cost": "time", "strategy": "optimal"},
    "refined": {"stages": 2, "levels": 1, "refine": True, "convention": "moved"},
    "chunks": {"stages": 2, "levels": 1, "chunks": "one", "space": "batch"},
    "balance": {"stages": 2, "levels": 1, "balance": "memory"},
    "starts": {"starts": "conv1,fc1", "levels": 1, "pins": "fc1=mp"},
    "layer block": {"stages": 2, "levels": 1, "schedule": "layer-block"},
}


@pytest.mark.parametrize("asked", ASKED)
def test_a_stored_plan_is_scored_checked_and_shown_as_it_was_planned(
    asked: str, unlike: HeterogeneousMachine, tmp_path: Path
) -> None:
    plan = plan_model("lenet-c", hardware=unlike, batch=64, **ASKED[asked])
    file = tmp_path / "plan.json"
    plan.write(file)
    stored = read_plan(file)
    assert stored == plan
    assert score_plan(stored, hardware=unlike) == plan.score
    assert plan.uneven is False
    assert plan.heterogeneous
    assert plan.score is not None
    devices = zip(plan.score.groups or (), names_of(plan), strict=True)
    assert all(f" {own.devices} {name}" in stored.render("table") for own, name in devices)
    for report in ("table", "markdown", "html"):
        text = stored.render(report)
        assert all(layer in text for layer in plan.layers)


@pytest.mark.parametrize("asked", [{"stages": 4}, {"stages": 2, "levels": 3, "strategy": "accpar"}], ids=str)
def test_a_plan_on_a_named_machine_is_checked(asked: dict[str, Any], tmp_path: Path) -> None:
    plan_model("lenet-c", hardware="tpu-v2-v3", **asked).write(tmp_path / "plan.json")
    assert check_plan(tmp_path / "plan.json").ok


@crossed(
    {
        "asked": ["all devices", "single devices", "a level", "time", "refined", "starts"],
        "convention": ["moved", "fused", "direct"],
    }
)
def test_what_is_executed_is_what_one_device_computes(
    asked: str, convention: str, unlike: HeterogeneousMachine
) -> None:
    plan = plan_model("lenet-c", hardware=unlike, batch=64, **ASKED[asked])
    found = verify_plan(plan, shrink=True, convention=convention)
    assert found.ok
    assert [level.counted for level in found.levels] == [level.moved for level in found.levels]
    assert "?" not in {each.case for each in found.differences}


@st.composite
def drawn(draw: st.DrawFn) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Two or three different kinds of devices side by side, some of them overlapping; for ``write_machine``."""
    kinds = {
        name: kind(
            devices=draw(st.sampled_from([1, 2, 3, 4, 6])),
            peak=f"{draw(st.sampled_from([0.001, 0.1, 5]))} TFLOP/s",
            link=f"{draw(st.sampled_from([0.1, 1, 25]))} GB/s",
            latency=draw(st.sampled_from(["0 s", "1 us"])),
            overlap=draw(st.sampled_from(["none", "full"])),
            topology=draw(st.sampled_from(["fully_connected", "ring", "switch"])),
        )
        for name in "abc"[: draw(st.integers(2, 3))]
    }
    latency = st.sampled_from(["0 s", "2 us"])
    return kinds, [group(f"{name}.yaml", bandwidth="1 GB/s", latency=draw(latency)) for name in kinds]


@given(
    graph=st.one_of(chains(least=3), skips()),
    machine=drawn(),
    asked=st.fixed_dictionaries({
        "levels": st.sampled_from([None, 0]),
        "strategy": st.sampled_from(["dp", "hypar", "accpar", "optimal"]),
        "schedule": st.sampled_from(["1f1b", "gpipe"]),
        "microbatches": st.sampled_from([1, 2]),
        "convention": st.sampled_from(["paper", "moved"]),
        "chunks": st.sampled_from([None, "best"]),
    }),
)  # fmt: skip
@settings(max_examples=examples(15, 5), deadline=None)
def test_small_networks_run_on_stages_of_drawn_groups(
    tmp_path_factory: pytest.TempPathFactory,
    graph: LayerGraph,
    machine: tuple[dict[str, dict[str, Any]], list[dict[str, Any]]],
    asked: dict[str, Any],
) -> None:
    """A plan is read, planned again and scored to the same bytes, and what is executed is what one device computes."""
    groups = load_heterogeneous(write_machine(tmp_path_factory.mktemp("drawn"), *machine))
    plan = plan_model(graph, hardware=groups, stages=len(groups.groups), **asked)
    assert follow(Request.of(plan, groups), graph).to_json() == plan.to_json()
    assert score_plan(plan, hardware=groups, model=graph) == plan.score
    found = verify_plan(plan, model=graph)
    assert found.ok
    assert "?" not in {each.case for each in found.differences}


def test_no_stages_fit_in_any_order(tmp_path: Path) -> None:
    kinds = {name: kind(devices=1, memory="100 kB") for name in ("a", "b")}
    machine = load_heterogeneous(write_machine(tmp_path, kinds, [group("a.yaml"), group("b.yaml")]))
    with pytest.raises(
        MemoryLimitError, match="hardware 'mixed': no 2 stages fit 100 kB, the memory of a device"
    ):
        plan_model("lenet-c", hardware=machine, stages=2)


def test_the_order_that_fits_is_taken(tmp_path: Path) -> None:
    """Lenet-c's linear layers need 7 MB, its convolutions less than half of it."""
    kinds = {"large": kind(devices=1, memory="100 MB"), "small": kind(devices=1, memory="3 MB")}
    machine = write_machine(tmp_path, kinds, [group("large.yaml"), group("small.yaml")])
    plan = plan_model("lenet-c", hardware=machine, batch=2, stages=2)
    assert plan.score is not None
    assert plan.score.fits
    assert all(own.fits for own in plan.score.groups or ())
    assert names_of(plan) == ["small", "large"]
