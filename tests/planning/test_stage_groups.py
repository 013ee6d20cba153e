"""Stages on the device groups of a heterogeneous machine: each on an equal part of one group, in both orders of the groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hypar import Plan, load_model, plan_model
from hypar.machine.load import load_machine
from hypar.planning.resolved import Resolved
from hypar.planning.stages.planner import stored_stages
from tests.heterogeneous import group, kind, write_machine
from tests.planning.parts import scored, staged
from tests.studies.test_pipeline import chain

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.machine.machine import Machine


def names_of(plan: Plan) -> list[str | None]:
    return [stage.group for stage in staged(plan).stages]


@pytest.fixture(scope="module")
def unlike(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Four slow devices with a fast link to the others, and two fast ones with a slow link."""
    kinds = {
        "slow": kind(devices=4, peak="1 TFLOP/s", link="10 GB/s"),
        "fast": kind(devices=2, peak="7 TFLOP/s", link="3 GB/s"),
    }
    groups = [
        group("slow.yaml", bandwidth="2 GB/s", latency="3 us"),
        group("fast.yaml", bandwidth="1 GB/s", latency="5 us"),
    ]
    machine: Machine = load_machine(write_machine(tmp_path_factory.mktemp("unlike"), kinds, groups))
    return machine


# Partitions and orders


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


def test_groups_of_different_numbers_of_devices_have_levels_of_their_own(
    unlike: Machine,
) -> None:
    plan = plan_model("lenet-c", hardware=unlike, stages=2)
    assert plan.arrays == {"slow": [2, 2], "fast": [2]}
    for number, stage in enumerate(staged(plan).stages):
        assert {len(plan.choices(layer)) for layer in stage.layers} == {len(plan.arrays[stage.group or ""])}
        assert (scored(plan).groups or [])[number].devices == {"slow": 4, "fast": 2}[stage.group or ""]


def test_a_transfer_between_groups_takes_the_link_of_its_receiver(unlike: Machine) -> None:
    """Four stages of a linear layer of 8: F and E of a microbatch are 32 samples of 8 elements of 4 bytes."""
    graph = chain(4, batch=64)
    plan = plan_model(graph, hardware=unlike, stages=4, levels=0, microbatches=2)
    ran = staged(plan)
    assert [len(stage.layers) for stage in ran.stages] == [1] * 4
    request = Resolved.of(plan, unlike)
    staging = stored_stages(plan, request, graph)
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
        assert (span.work.received.seconds, span.work.returned.seconds) == pytest.approx(seconds, rel=1e-12)
    ways = [(span.work.received.outward, span.work.returned.outward) for span in staging.stages]
    assert [tuple(map(bool, way)) for way in ways] == [
        (False, False), (False, True), (True, False), (False, False),
    ]  # fmt: skip


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
        assert scored(grouped).time_s == pytest.approx(scored(single).time_s, rel=1e-3)
        assert scored(grouped).memory == scored(single).memory
        assert scored(grouped).communication == scored(single).communication


# Stored plans


def test_the_order_that_fits_is_taken(tmp_path: Path) -> None:
    """Lenet-c's linear layers need 7 MB, its convolutions less than half of it."""
    kinds = {"large": kind(devices=1, memory="100 MB"), "small": kind(devices=1, memory="3 MB")}
    machine = write_machine(tmp_path, kinds, [group("large.yaml"), group("small.yaml")])
    plan = plan_model("lenet-c", hardware=machine, batch=2, stages=2)
    assert scored(plan).fits
    assert all(own.fits for own in scored(plan).groups or ())
    assert names_of(plan) == ["small", "large"]
