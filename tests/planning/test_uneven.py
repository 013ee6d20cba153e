"""Heterogeneous machines, planned split by split: shares, memory, and that identical devices are planned as ever."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import Plan, load_machine, plan_model
from hypar.errors import HardwareError
from hypar.sharding.conventions import BY_LEVELS
from tests.effort import NETWORKS, TWINS, crossed, examples, late
from tests.heterogeneous import group, groups_of, kind, machines, networks, write_machine, written
from tests.planning.parts import scored

if TYPE_CHECKING:
    from pathlib import Path

    from hypar import LayerGraph
    from hypar.machine.machine import Machine
    from tests.heterogeneous import Drawn


def two(folder: Path, first: dict[str, Any], second: dict[str, Any], bandwidth: str = "10 GB/s") -> Machine:
    """Two groups beside each other."""
    groups = [group("a.yaml", bandwidth=bandwidth), group("b.yaml", bandwidth=bandwidth)]
    machine: Machine = load_machine(write_machine(folder, {"a": first, "b": second}, groups))
    return machine


VECTOR = """
  - {op: input, channels: 300}
  - {name: fc, op: linear, out_features: 300}
"""


@crossed({"batch": [1, 2, 4], "shares": ["linear", "exact", "layers"]})
def test_less_than_a_sample_costs_no_less_than_nothing(tmp_path: Path, shares: str, batch: int) -> None:
    """Of a gradient that contracts a part of a sample there is nothing to add up, so a part is computed as before."""
    machine = two(tmp_path, kind(devices=2, peak="100 TFLOP/s"), kind(devices=2), "9000 TB/s")
    plan = plan_model(
        written(VECTOR, batch), hardware=machine, strategy="accpar", shares=shares, pins="fc@H1=batch"
    )
    assert min(plan.splits[0].shares) > 0
    assert all(split.cost > 0 for split in plan.splits)


WIDE = """
  - {op: input, channels: 8, height: 8, width: 6}
  - {name: conv, op: conv, out_channels: 16, kernel: 3, padding: 1}
  - {name: beside, op: conv, out_channels: 16, kernel: 3, padding: 1}
  - {name: sum, op: add, inputs: [conv, beside]}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 200}
"""


@crossed({"batch": [2, 3], "strategy": ["accpar", "optimal"]})
def test_less_than_an_element_is_left_whole_among_grids(tmp_path: Path, strategy: str, batch: int) -> None:
    machine = two(tmp_path, kind(devices=8), kind(devices=8))
    asked: dict[str, Any] = {"space": "all", "array": [2, 8], "pins": "*@H1=batch", "hardware": machine}
    plan = plan_model(written(WIDE, batch), strategy=strategy, **asked)
    for index, found in enumerate(plan.groups):
        left = batch * plan.splits[0].shares[index]
        assert all(split.choice("conv").degree("batch") <= max(1, left) for split in found.splits)


def test_a_side_without_any_share_is_idle(tmp_path: Path) -> None:
    """Adding up takes the first group longer than the other all of the work, so what balances them leaves it nothing."""
    alike = kind(devices=2, link="1 MB/s")
    groups = [group("a.yaml", bandwidth="1 MB/s"), group("b.yaml", bandwidth="1 GB/s")]
    machine = load_machine(write_machine(tmp_path, {"a": alike, "b": alike}, groups))
    network = written(
        VECTOR.replace("channels: 300", "channels: 8").replace("features: 300", "features: 1"), 2
    )
    plan = plan_model(network, hardware=machine, strategy="accpar")
    assert plan.splits[0].shares == [0, 1]
    assert [split.group for split in plan.splits] == ["all", "b"]
    assert [found.group for found in scored(plan).groups or ()] == ["b"]
    assert [found.name for found in plan.groups if found.idle] == ["a"]


# Memory


def held_by(folder: Path, memories: tuple[str, ...], nested: bool) -> Machine:
    """Groups that differ in their memory, the last two of them one group or not."""
    kinds = {name: kind(devices=2, memory=memory) for name, memory in zip("abc", memories, strict=True)}
    first, second, third = (group(f"{name}.yaml") for name in kinds)
    groups = [first, groups_of("pair", second, third)] if nested else [first, second, third]
    machine: Machine = load_machine(write_machine(folder, kinds, groups))
    return machine


@crossed(
    {
        "memories,shares": [
            (("16 GB", "1 kB", "1 kB"), "linear"),
            pytest.param(("1 kB", "16 GB", "1 kB"), "exact", marks=pytest.mark.slow),
            (("2 MB", "200 kB", "200 kB"), "exact"),
            pytest.param(("700 kB", "500 kB", "500 kB"), "layers", marks=pytest.mark.slow),
        ],
        "nested": [False, True],
    }
)
def test_shares_are_found_that_memory_holds(
    tmp_path: Path, memories: tuple[str, ...], nested: bool, shares: str
) -> None:
    """What fits only on some groups is planned on these, whichever split they are below."""
    machine = held_by(tmp_path, memories, nested)
    plan = plan_model(written(WIDE, 64), hardware=machine, strategy="accpar", shares=shares)
    assert scored(plan).fits


@crossed(
    {
        "nested,groups": [(False, "a, b, c"), pytest.param(True, "a, pair", marks=pytest.mark.slow)],
        "shares": late(["linear", "exact", "layers"], "exact"),
    }
)
def test_where_memory_holds_no_shares_all_groups_are_named(
    tmp_path: Path, nested: bool, groups: str, shares: str
) -> None:
    machine = held_by(tmp_path, ("1 kB", "1 kB", "1 kB"), nested)
    message = (
        rf"^hardware 'mixed': no shares of {groups} fit their memory; take a smaller batch, or --shares equal"
    )
    with pytest.raises(HardwareError, match=message):
        plan_model(written(WIDE, 64), hardware=machine, strategy="accpar", shares=shares)
    plan = plan_model(written(WIDE, 64), hardware=machine, strategy="accpar", shares="equal")
    assert not scored(plan).fits


# Random machines


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples."""
    return tmp_path_factory.mktemp("machines")


@given(
    drawn=machines(most=4),
    strategy=st.sampled_from(["dp", "mp", "owt", "hypar", "accpar", "optimal"]),
    graph=networks,
    convention=st.sampled_from(BY_LEVELS),
)
@settings(max_examples=examples(50), deadline=None)
def test_the_volume_of_unlike_groups_is_summed_over_all_splits(
    drawn: Drawn, strategy: str, graph: LayerGraph, convention: str, folder: Path
) -> None:
    """And is what the engine counts: bytes that all devices receive."""
    machine = load_machine(write_machine(folder, *drawn))
    plan = plan_model(graph, hardware=machine, strategy=strategy, cost="volume", convention=convention)
    assert plan.path is None
    assert plan.summed == tuple(plan.splits)
    assert scored(plan).communication_bytes == pytest.approx(plan.cost.value, rel=1e-9)
    for level, moved in scored(plan).communication.items():
        costs = math.fsum(split.cost for split in plan.splits if f"H{split.level + 1}" == level)
        assert moved == pytest.approx(costs, rel=1e-9, abs=1e-6)


@given(drawn=machines(most=1), graph=networks)
@settings(max_examples=examples(50, 3), deadline=None)
def test_shares_of_more_freedom_are_never_dearer(drawn: Drawn, graph: LayerGraph, folder: Path) -> None:
    """Of groups of one device each."""
    machine = load_machine(write_machine(folder, *drawn))
    plans: dict[str, Plan] = {
        shares: plan_model(graph, hardware=machine, strategy="accpar", shares=shares)
        for shares in ("equal", "linear", "exact", "layers")
    }
    for plan in plans.values():
        for split in plan.splits:
            assert all(math.fsum(split.shares_of(layer)) == pytest.approx(1) for layer in plan.layers)
    costs = [plan.cost.value for plan in plans.values()]
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(costs)), costs


LEVELS = 3


@crossed(
    {
        "model": late(NETWORKS, "googlenet", "mobilenet-v2", "resnet50", "resnet152", "inception-v3", *TWINS),
        "strategy": ["hypar", "accpar"],
    }
)
def test_two_equal_halves_are_planned_as_the_whole_by_volume(
    tmp_path: Path, model: str, strategy: str
) -> None:
    half = kind(devices=2 ** (LEVELS - 1))
    machine = two(tmp_path, half, half)
    plan = plan_model(model, hardware=machine, strategy=strategy, cost="volume")
    alike = plan_model(model, levels=LEVELS, strategy=strategy)
    for layer in plan.layers:
        assert plan.dims(layer, "a") == plan.dims(layer, "b") == alike.dims(layer)
    for split in alike.splits:
        cost = math.fsum(own.cost for own in plan.splits if own.level == split.level)
        assert cost == pytest.approx(split.cost, rel=1e-12)


@pytest.mark.slow
def test_levels_below_an_uneven_split_are_searched_jointly() -> None:
    """What is above the levels of a group is no part of their cost: a greedy plan would else seem cheaper than all."""
    pins = ("conv1@H1=batch", "conv2@H1=out_channels", "fc1@H1=batch", "fc2@H1=in_channels")
    asked: dict[str, Any] = {"hardware": "tpu-v2-v3", "pins": pins, "cost": "volume", "convention": "moved"}
    asked["space"] = "batch,in_channels,out_channels"
    joint = plan_model("lenet-c", search="joint", **asked)
    assert joint.cost.value <= plan_model("lenet-c", search="greedy", **asked).cost.value
