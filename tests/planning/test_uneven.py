"""Heterogeneous machines, planned split by split: what a plan says of itself, and that identical devices are planned as ever."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import (
    HeterogeneousMachine,
    LayerGraph,
    Plan,
    check_plan,
    diff_plans,
    load_heterogeneous,
    load_model,
    plan_model,
    read_plan,
    score_plan,
    verify_plan,
)
from hypar.errors import HardwareError
from hypar.machine.machine import Machine
from hypar.sharding.conventions import BY_LEVELS
from tests.effort import NETWORKS, TWINS, crossed, examples, late
from tests.heterogeneous import group, groups_of, kind, machines, networks, write_machine, written

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.machine.heterogeneous import DeviceGroup
    from tests.heterogeneous import Drawn


def machine_of(
    folder: Path, kinds: dict[str, dict[str, Any]], groups: list[dict[str, Any]]
) -> HeterogeneousMachine:
    return load_heterogeneous(write_machine(folder, kinds, groups))


def two(
    folder: Path, first: dict[str, Any], second: dict[str, Any], bandwidth: str = "10 GB/s"
) -> HeterogeneousMachine:
    """Two groups beside each other."""
    groups = [group("a.yaml", bandwidth=bandwidth), group("b.yaml", bandwidth=bandwidth)]
    return machine_of(folder, {"a": first, "b": second}, groups)


def test_a_heterogeneous_machine_is_loaded_again_and_again() -> None:
    """In a process of its own, where nothing was imported before."""
    code = "import hypar; print([hypar.load_heterogeneous('tpu-v2-v3').num_devices for _ in range(2)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[256, 256]"


def test_machines_of_equal_files_and_changes_share_their_groups() -> None:
    """So that what is known of the devices, and what was planned for them, is found again."""
    first, second, slower = (
        load_heterogeneous("tpu-v2-v3", changes) for changes in (None, {}, {"latency": "3 us"})
    )
    for one, other, changed in zip(first.groups, second.groups, slower.groups, strict=True):
        assert one.machine is other.machine is not changed.machine
        assert isinstance(one.machine, Machine)
        assert (one.machine.changes, changed.machine.changes) == ({}, {"latency": "3 us"})


VECTOR = """
  - {op: input, channels: 300}
  - {name: fc, op: linear, out_features: 300}
"""


@crossed(
    {
        "batch": [1, 2, 4],
        "shares": ["linear", "exact", "layers"],
    }
)
def test_less_than_a_sample_costs_no_less_than_nothing(tmp_path: Path, shares: str, batch: int) -> None:
    """Of a gradient that contracts a part of a sample there is nothing to add up, so a part is computed as before."""
    machine = two(tmp_path, kind(devices=2, peak="100 TFLOP/s"), kind(devices=2), "9000 TB/s")
    plan = plan_model(
        written(VECTOR, batch), hardware=machine, strategy="accpar", shares=shares, pins="fc@H1=batch"
    )
    assert min(plan.splits[0].shares) > 0
    assert all(split.cost > 0 for split in plan.splits)


IMAGE = """
  - {op: input, channels: 3, height: 8, width: 6}
  - {name: conv, op: conv, out_channels: 4, kernel: 3, padding: 1}
  - {name: beside, op: conv, out_channels: 4, kernel: 3, padding: 1}
  - {name: sum, op: add, inputs: [conv, beside]}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 5}
"""


@crossed(
    {
        "batch": [1, 2, 3],
        "strategy": ["accpar", "optimal"],
    }
)
def test_less_than_an_element_is_left_whole_among_grids(tmp_path: Path, strategy: str, batch: int) -> None:
    machine = two(tmp_path, kind(devices=8), kind(devices=8))
    plan = plan_model(
        written(IMAGE, batch),
        hardware=machine,
        strategy=strategy,
        space="all",
        array=[2, 8],
        pins="*@H1=batch",
    )
    for index, found in enumerate(plan.groups):
        left = batch * plan.splits[0].shares[index]
        assert all(split.choice("conv").degree("batch") <= max(1, left) for split in found.splits)


def test_a_layer_that_a_group_has_nothing_of_may_be_cut_by_its_height(tmp_path: Path) -> None:
    """A layer alone on one group leaves the other an image without rows, and windows reach over none."""
    kinds = {
        name: kind(devices=devices, peak="0.1 TFLOP/s", link=link)
        for name, devices, link in (("a", 2, "1 GB/s"), ("b", 2, "300 GB/s"), ("c", 1, "1 GB/s"))
    }
    first, second, third = (group(f"{name}.yaml", bandwidth="0.5 GB/s") for name in kinds)
    pair = groups_of("pair", first, second, bandwidth="0.5 GB/s")
    network = written("""
  - {op: input, channels: 1, height: 8, width: 1}
  - {name: stem, op: conv, out_channels: 2, kernel: 3, padding: 1}
  - {name: beside, op: conv, out_channels: 2, kernel: 3, padding: 1}
  - {name: sum, op: add, inputs: [beside, stem]}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 3}
""", 2)  # fmt: skip
    plan = plan_model(
        network, hardware=machine_of(tmp_path, kinds, [pair, third]), strategy="accpar", shares="layers", space="batch,height"
    )  # fmt: skip
    assert plan.score is not None


def test_a_side_without_any_share_is_idle(tmp_path: Path) -> None:
    """Adding up takes the first group longer than the other all of the work, so what balances them leaves it nothing."""
    alike = kind(devices=2, link="1 MB/s")
    groups = [group("a.yaml", bandwidth="1 MB/s"), group("b.yaml", bandwidth="1 GB/s")]
    machine = machine_of(tmp_path, {"a": alike, "b": alike}, groups)
    network = written("""
  - {op: input, channels: 8}
  - {name: fc, op: linear, out_features: 1}
""", 2)  # fmt: skip
    plan = plan_model(network, hardware=machine, strategy="accpar")
    assert plan.splits[0].shares == [0, 1]
    assert [split.group for split in plan.splits] == ["all", "b"]
    assert plan.score is not None
    assert [found.group for found in plan.score.groups or ()] == ["b"]


HELD = ("linear", "exact", "layers")
WIDE = """
  - {op: input, channels: 8, height: 8, width: 6}
  - {name: conv, op: conv, out_channels: 16, kernel: 3, padding: 1}
  - {name: beside, op: conv, out_channels: 16, kernel: 3, padding: 1}
  - {name: sum, op: add, inputs: [conv, beside]}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 200}
"""


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
    require_fit(written(WIDE, 64), held_by(tmp_path, memories, nested), shares)


def test_where_two_of_three_groups_do_not_hold_it_one_may(tmp_path: Path) -> None:
    require_fit(load_model("lenet-c"), held_by(tmp_path, ("30 MB", "3 MB", "3 MB"), nested=False), "linear")


def require_fit(network: LayerGraph, machine: HeterogeneousMachine, shares: str) -> None:
    """Plan without more on a device than its memory holds."""
    plan = plan_model(network, hardware=machine, strategy="accpar", shares=shares)
    assert plan.score is not None
    assert plan.score.fits
    for found in plan.score.groups or ():
        assert found.memory_bytes <= (found.capacity_bytes or 0)


def held_by(folder: Path, memories: tuple[str, ...], nested: bool) -> HeterogeneousMachine:
    """Groups that differ in their memory, the last two of them one group or not."""
    kinds = {name: kind(devices=2, memory=memory) for name, memory in zip("abc", memories, strict=True)}
    first, second, third = (group(f"{name}.yaml") for name in kinds)
    return machine_of(
        folder, kinds, [first, groups_of("pair", second, third)] if nested else [first, second, third]
    )


@crossed(
    {
        "nested,groups": [(False, "a, b, c"), pytest.param(True, "a, pair", marks=pytest.mark.slow)],
        "shares": late(HELD, "exact"),
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
    assert plan.score is not None
    assert not plan.score.fits


OF_ACCPAR = ("equal", "linear", "exact", "layers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples."""
    return tmp_path_factory.mktemp("machines")


def require_consistent(plan: Plan, machine: HeterogeneousMachine) -> None:
    """Shares sum to 1; a group is planned and scored, or idle; costs are those of the splits that are summed."""
    for split in plan.splits:
        assert math.fsum(split.shares) == pytest.approx(1, abs=1e-12)
        assert split.cost == pytest.approx(math.fsum(split.costs.values()), rel=1e-9, abs=1e-18)
        for shares in (split.layer_shares or {}).values():
            assert math.fsum(shares) == pytest.approx(1, abs=1e-12)
    assert plan.cost.value == pytest.approx(math.fsum(split.cost for split in plan.summed), rel=1e-9)
    names = [name for name, _, _ in machine.identical()]
    assert plan.score is not None
    scored = [found.group for found in plan.score.groups or ()]
    # Below an idle split there are no groups of the plan.
    idle = {group.group for split in plan.splits for group, share in zip(split.sides or (), split.shares, strict=False) if not share}  # fmt: skip
    assert [found.name for found in plan.groups if not found.idle] == scored
    assert {found.name for found in plan.groups if found.idle} == idle
    below = {name for group in machine.groups if group.name in idle for name in _like(group)}
    inner = {group.name for group in machine.groups if isinstance(group.machine, HeterogeneousMachine)}
    assert {*scored} | below | idle == {*names} | (idle & inner)
    for name in names:
        own = [split for split in plan.splits if split.group == name]
        assert [split.ways for split in own] == ([*(plan.arrays or {})[name]] if name in scored else [])


def _like(group: DeviceGroup) -> list[str]:
    """The groups of identical devices of a group."""
    return (
        [name for name, _, _ in group.machine.identical()]
        if isinstance(group.machine, HeterogeneousMachine)
        else [group.name]
    )


def require_waits(plan: Plan, machine: HeterogeneousMachine) -> None:
    """A group of a machine without overlap computes, receives, or waits; the step is as long as all that together."""
    assert plan.score is not None
    devices = {name: own for name, own, _ in machine.identical()}
    for found in plan.score.groups or ():
        busy = found.computing_s + found.communicating_s
        if not devices[found.group].overlap:
            assert busy + found.idle_s == pytest.approx(plan.score.time_s, rel=1e-9)
            assert plan.score.time_s >= busy * (1 - 1e-12)


@given(drawn=machines(most=6), shares=st.sampled_from(OF_ACCPAR), integral=st.booleans(), graph=networks)
@settings(max_examples=examples(50), deadline=None)
def test_a_plan_of_three_unlike_groups_says_what_it_does(
    drawn: Drawn, shares: str, integral: bool, graph: LayerGraph, folder: Path
) -> None:
    machine = load_heterogeneous(write_machine(folder, *drawn))
    plan = plan_model(graph, hardware=machine, strategy="accpar", shares=shares, integral=integral)
    require_consistent(plan, machine)
    require_waits(plan, machine)
    plan.write(folder / "plan.json")
    assert read_plan(folder / "plan.json") == plan
    require_scored(plan, machine, graph)


@given(
    drawn=machines(most=4),
    strategy=st.sampled_from(["dp", "mp", "owt", "hypar", "accpar", "optimal"]),
    graph=networks,
    search=st.sampled_from(["greedy", "joint"]),
    integral=st.booleans(),
    convention=st.sampled_from(BY_LEVELS),
)
@settings(max_examples=examples(50), deadline=None)
def test_the_volume_of_unlike_groups_is_summed_over_all_splits(
    drawn: Drawn,
    strategy: str,
    graph: LayerGraph,
    search: str,
    integral: bool,
    convention: str,
    folder: Path,
) -> None:
    """And is what the engine counts: bytes that all devices receive."""
    machine = load_heterogeneous(write_machine(folder, *drawn))
    plan = plan_model(
        graph,
        hardware=machine,
        strategy=strategy,
        cost="volume",
        search=search,
        integral=integral,
        convention=convention,
    )
    require_consistent(plan, machine)
    require_scored(plan, machine, graph)
    assert plan.path is None
    assert plan.summed == tuple(plan.splits)
    assert plan.score is not None
    assert plan.score.communication_bytes == pytest.approx(plan.cost.value, rel=1e-9)
    for level, moved in plan.score.communication.items():
        costs = math.fsum(split.cost for split in plan.splits if f"H{split.level + 1}" == level)
        assert moved == pytest.approx(costs, rel=1e-9, abs=1e-6)


def three_kinds(folder: Path) -> Path:
    """A file of three kinds of devices, two of them one group."""
    kinds = {
        "a": kind(devices=2, peak="3 TFLOP/s", link="25 GB/s"),
        "b": kind(devices=2, link="5 GB/s", latency="1 us"),
        "c": kind(devices=3, peak="0.4 TFLOP/s", link="50 GB/s", overlap="full"),
    }
    first, second, third = (group(f"{name}.yaml", latency="1 us") for name in kinds)
    return write_machine(folder, kinds, [groups_of("pair", first, second), third])


@pytest.mark.parametrize(
    ("shares", "integral"),
    [
        ("equal", True),
        ("linear", False),
        pytest.param("exact", False, marks=pytest.mark.slow),
        ("exact", True),
        pytest.param("layers", True, marks=pytest.mark.slow),
    ],
)
def test_a_stored_plan_of_unlike_groups_is_what_planning_gives(
    tmp_path: Path, shares: str, integral: bool
) -> None:
    file = three_kinds(tmp_path)
    plan = plan_model(
        "lenet-c", hardware=file, strategy="accpar", shares=shares, integral=integral, pins="fc2=mp"
    )
    require_consistent(plan, load_heterogeneous(file))
    plan.write(tmp_path / "plan.json")
    verdict = check_plan(tmp_path / "plan.json", hardware=file)
    assert verdict.ok, verdict.changes
    assert verdict.fresh == plan
    assert not diff_plans(plan, read_plan(tmp_path / "plan.json"))


@pytest.mark.slow
def test_shares_of_more_freedom_are_never_dearer(tmp_path: Path) -> None:
    file = three_kinds(tmp_path)
    equal, *freer = (
        plan_model("sfc", hardware=file, strategy="accpar", shares=shares).cost.value for shares in OF_ACCPAR
    )
    assert all(cost <= equal * (1 + 1e-12) for cost in freer)
    assert freer[2] <= freer[1] * (1 + 1e-12)


def test_integral_shares_are_of_whole_elements(tmp_path: Path) -> None:
    plan = plan_model("lenet-c", hardware=three_kinds(tmp_path), strategy="accpar", integral=True)
    sizes = {layer.name: layer.einsum.sizes for layer in load_model("lenet-c").contracted.layers}
    outermost = plan.splits[0]
    for layer in plan.layers:
        pieces = [share * sizes[layer][outermost.dim(layer) or ""] for share in outermost.shares_of(layer)]
        assert pieces == pytest.approx([round(piece) for piece in pieces], abs=1e-9)


def test_a_plan_is_the_same_bytes_whatever_the_order_of_hashes(tmp_path: Path) -> None:
    file = three_kinds(tmp_path)
    code = (
        "import sys, hypar; sys.stdout.write(hypar.plan_model('sconv', "
        f"hardware={str(file)!r}, strategy='accpar').to_json())"
    )
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "77" else "77"
    other = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed},
    ).stdout  # fmt: skip
    assert other == plan_model("sconv", hardware=file, strategy="accpar").to_json()


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
    graph = load_model(model)
    half = kind(devices=2 ** (LEVELS - 1))
    machine = two(tmp_path, half, half)
    plan = plan_model(graph, hardware=machine, strategy=strategy, cost="volume")
    alike = plan_model(graph, levels=LEVELS, strategy=strategy)
    assert plan.cost.value == pytest.approx(alike.cost.value, rel=1e-12)
    for layer in plan.layers:
        assert plan.dims(layer, "a") == plan.dims(layer, "b") == alike.dims(layer)
    for split in alike.splits:
        cost = math.fsum(own.cost for own in plan.splits if own.level == split.level)
        assert cost == pytest.approx(split.cost, rel=1e-12)


def require_scored(plan: Plan, machine: HeterogeneousMachine, graph: LayerGraph) -> None:
    """The plan's score is that which the stored plan gets."""
    score = score_plan(plan, hardware=machine, model=graph)
    assert plan.score is not None
    known = {name: value for name, value in plan.score.to_data().items() if name != "groups"}
    for name, value in known.items():
        assert same(getattr(score, name), value), name
    for found, other in zip(plan.score.groups or (), score.groups or (), strict=True):
        for name, value in found.model_dump().items():
            # What is left of a long sum by subtraction is as exact as the sum.
            assert same(getattr(other, name), value, 1e-9 * score.time_s), name


def same(found: Any, other: Any, absolute: float = 0) -> bool:
    """Equal but for rounding, items by items."""
    if isinstance(found, dict):
        return found.keys() == other.keys() and all(same(found[key], other[key], absolute) for key in found)
    if isinstance(found, float | int):
        return bool(found == pytest.approx(other, rel=1e-9, abs=absolute))
    return bool(found == other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("sfc", {"levels": 3, "space": "all", "convention": "fused"}),
        ("lenet-c", {"array": [2, "s2", 2], "space": "all"}),
    ],
)
def test_refinement_exchanges_choices_of_device_groups(
    model: str, asked: dict[str, Any], tmp_path: Path
) -> None:
    graph = load_model(model).with_batch(32)
    plan = plan_model(graph, hardware="tpu-v2-v3", refine=True, **asked)
    assert plan.refined is not None
    assert plan.score is not None
    assert plan.refined.after_s < plan.refined.before_s
    assert plan.refined.after_s == pytest.approx(plan.score.time_s, rel=1e-12)
    assert score_plan(plan) == plan.score
    plan.write(tmp_path / "plan.json")
    assert check_plan(tmp_path / "plan.json").ok
    assert verify_plan(tmp_path / "plan.json", count=True).ok


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked", [{"levels": 2}, {"levels": 2, "strategy": "accpar"}, {"array": [2, "s2", 2]}]
)
def test_a_refined_plan_of_device_groups_is_verified(asked: dict[str, Any], tmp_path: Path) -> None:
    plan_model("lenet-c", batch=32, hardware="tpu-v2-v3", refine=True, **asked).write(tmp_path / "plan.json")
    assert verify_plan(tmp_path / "plan.json", shrink=True).ok


@pytest.mark.slow
def test_levels_below_an_uneven_split_are_searched_jointly() -> None:
    """What is above the levels of a group is no part of their cost: a greedy plan would else seem cheaper than all."""
    pins = ("conv1@H1=batch", "conv2@H1=out_channels", "fc1@H1=batch", "fc2@H1=in_channels")
    asked: dict[str, Any] = {"hardware": "tpu-v2-v3", "pins": pins, "cost": "volume", "convention": "moved"}
    asked["space"] = "batch,in_channels,out_channels"
    joint = plan_model("lenet-c", search="joint", **asked)
    assert joint.cost.value <= plan_model("lenet-c", search="greedy", **asked).cost.value
