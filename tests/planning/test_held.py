"""The memory of a score against the bytes that simulated devices hold at once: joins, parts of stages, idle devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hypar import load_model, plan_model
from hypar.machine.load import load_machine
from tests.effort import crossed, late
from tests.held import held_by, within
from tests.heterogeneous import (
    CONV,
    INPUT,
    LINEAR,
    group,
    groups_of,
    kind,
    write_machine,
    written,
)
from tests.test_invariants import NETWORKS

if TYPE_CHECKING:
    from pathlib import Path


@crossed({"convention": ["paper", "moved", "fused"], "strategy": late(["mp", "hypar"], "hypar")})
def test_a_device_holds_what_the_score_says(convention: str, strategy: str) -> None:
    """By ``paper`` that of a run by ``moved``; by ``fused`` sums are held divided as their reader reads them."""
    graph = load_model("lenet-c").with_batch(8)
    plan = plan_model(graph, levels=2, strategy=strategy, hardware="hmc", convention=convention)
    (memory,) = held_by(plan, graph)
    assert memory.held == memory.said


PARTS: dict[str, Any] = {"strategy": "mp", "stages": 2, "schedule": "interleaved", "parts": 2}
FOUR: dict[str, Any] = {"levels": 0, "microbatches": 4, "balance": "memory", **PARTS}
STARTS: dict[str, Any] = {"starts": ("stem", "fc"), "levels": 1, "microbatches": 8, "schedule": "gpipe"}
GROUPS: dict[str, Any] = {"strategy": "optimal", "cost": "accpar"}


@pytest.mark.parametrize(
    ("network", "devices", "asked", "exact"),
    [
        ("rows across borders", (4,), {"array": (4,), "strategy": "deepa", "pins": "conv=height4"}, True),
        ("idle devices", (3,), {"array": (3,), "strategy": "deepa"}, False),
        ("a concatenation of two kernels", (2, 4, 2), GROUPS, False),
        ("a sum with what is kept", (8,), {"levels": 2, **PARTS}, True),
        ("nested concatenations", (16,), FOUR, True),
        ("a shard that several keep", (4,), {"strategy": "mp", "pins": "sum=channels", **STARTS}, True),
    ],
)
def test_networks_built_by_hand_are_held_as_the_score_says(
    network: str, devices: tuple[int, ...], asked: dict[str, Any], exact: bool, tmp_path: Path
) -> None:
    """On one group of identical devices or several; equal to the byte, or at most a tenth more."""
    kinds = {letter: kind(devices=count) for letter, count in zip("abc", devices, strict=False)}
    file = write_machine(tmp_path, kinds, [group(f"{letter}.yaml") for letter in kinds])
    machine = load_machine(file if len(devices) > 1 else tmp_path / "a.yaml")
    graph = load_model({"source": "made up", **NETWORKS[network]}, name="net")
    found = held_by(plan_model(graph, hardware=machine, **asked), graph)
    assert found
    assert all(memory.held == memory.said if exact else within(memory) for memory in found)


def test_sums_of_a_grid_whose_shards_have_unequal_sizes() -> None:
    """12 samples in 8 shards of two devices each, one of which has the samples' first heads, the other the rest."""
    graph = load_model("tests/made/matrices.yaml")
    asked: dict[str, Any] = {"strategy": "optimal", "convention": "fused", "refine": True}
    (memory,) = held_by(plan_model(graph, hardware="p100-4x4", array=(16,), **asked), graph)
    assert within(memory)


def test_uneven_splits_along_different_dims(tmp_path: Path) -> None:
    kinds = {name: kind(devices=devices) for name, devices in zip("abc", (1, 2, 3), strict=True)}
    pair = groups_of("pair", group("b.yaml"), group("c.yaml"), bandwidth="8 GB/s")
    file = write_machine(tmp_path, kinds, [group("a.yaml"), pair])
    layers = INPUT.format(8, 8, 4) + CONV.format("conv", 16, "input") + "  - {name: flat, op: flatten}\n"
    graph = written(layers + LINEAR.format("fc", 8, "flat") + LINEAR.format("last", 24, "fc"), 64)
    plan = plan_model(graph, hardware=load_machine(file), strategy="optimal", convention="moved")
    assert all(within(memory) for memory in held_by(plan, graph))
