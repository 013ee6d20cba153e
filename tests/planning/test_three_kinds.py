"""Random machines of three different kinds: shares, idle groups, memory, scores and plan files."""

from __future__ import annotations

import math
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import check_plan, load_heterogeneous, load_model, plan_model, read_plan, score_plan
from hypar.errors import HardwareError
from tests.effort import examples

if TYPE_CHECKING:
    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan

NETWORKS = ("lenet-c", "cifar-c", "sfc")


@cache
def network(name: str, batch: int) -> LayerGraph:
    return load_model(name).with_batch(batch)


def sourced(value: Any) -> dict[str, Any]:
    return {"value": value, "source": "a test"}


@st.composite
def kinds(draw: st.DrawFn) -> dict[str, Any]:
    """A machine of some identical devices."""
    number = st.sampled_from([0.1, 0.3, 1.0, 3.0, 10.0, 42.0])
    return {
        "source": "a test",
        "device": {
            "word": sourced("4 B"),
            "compute": {
                "name": "roofline",
                "peak": sourced(f"{draw(number)} TFLOP/s"),
                "half_efficiency_flop": sourced(draw(st.sampled_from([0.0, 1e6]))),
            },
            "memory": {
                "capacity": sourced(f"{draw(st.sampled_from([2, 30, 400, 64_000]))} MB"),
                "bandwidth": sourced(f"{100 * draw(number)} GB/s"),
            },
        },
        "interconnect": {
            "topology": draw(st.sampled_from(["switch", "ring"])),
            "devices": sourced(draw(st.sampled_from([1, 2, 3, 4, 8]))),
            "link_bandwidth": sourced(f"{draw(number)} GB/s"),
            "latency": sourced(draw(st.sampled_from(["0 s", "2 us"]))),
        },
        "assumptions": {"overlap": sourced(draw(st.sampled_from(["none", "full"])))},
    }


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    """Files of three different kinds, side by side or two of them inside a group."""
    rate = st.sampled_from(["0.1 GB/s", "1 GB/s", "30 GB/s"])
    outward = {"bandwidth": sourced(draw(rate)), "latency": sourced(draw(st.sampled_from(["0 s", "5 us"])))}
    files: dict[str, Any] = {name: draw(kinds()) for name in ("a", "b", "c")}
    groups: list[Any] = [{"hardware": f"{name}.yaml", "outward": outward} for name in files]
    if draw(st.booleans()):
        groups = [groups[0], {"name": "pair", "groups": groups[1:], "outward": outward}]
    return {**files, "mixed": {"source": "a test", "groups": groups}}


def written(files: dict[str, Any], folder: Path) -> HeterogeneousMachine:
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_heterogeneous(folder / "mixed.yaml")


@given(
    files=machines(),
    name=st.sampled_from(NETWORKS),
    batch=st.sampled_from([8, 60, 256]),
    shares=st.sampled_from(["equal", "linear", "exact", "layers"]),
    integral=st.booleans(),
)
@settings(max_examples=examples(12), deadline=None)
@pytest.mark.slow
def test_a_machine_of_three_kinds(
    files: dict[str, Any], name: str, batch: int, shares: str, integral: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine = written(files, Path(folder))
        asked: dict[str, Any] = {
            "hardware": machine,
            "strategy": "accpar",
            "shares": shares,
            "integral": integral,
        }
        error: HardwareError | None = None
        try:
            plan = plan_model(network(name, batch), **asked)
        except HardwareError as refused:
            error = refused
        if error is not None:
            assert shares != "equal"
            assert "fit their memory" in str(error)
            return
        file = Path(folder) / "plan.json"
        plan.write(file)
        holds(plan, machine, fits=shares != "equal")
        assert read_plan(file) == plan
        assert score_plan(file, hardware=machine, model=network(name, batch)) == plan.score
        assert check_plan(file).ok


def holds(plan: Plan, machine: HeterogeneousMachine, *, fits: bool) -> None:
    """What is true of every plan for a heterogeneous machine."""
    assert plan.score is not None
    for split in plan.splits:
        for layer in plan.layers:
            assert math.fsum(split.shares_of(layer)) == pytest.approx(1, abs=1e-12)
    working = {group.group for group in plan.score.groups or ()}
    assert {group.name for group in plan.groups if not group.idle} == working
    idle = {name for name, _, _ in machine.identical()} - working
    for name in idle:
        assert any(
            share == 0 and (group.group == name or name not in {split.group for split in plan.splits})
            for split in plan.splits if split.sides is not None
            for share, group in zip(split.shares, split.sides, strict=True)
        )  # fmt: skip
    for group in plan.score.groups or ():
        assert group.fits or not fits
        spent = group.computing_s + group.communicating_s
        assert spent + group.idle_s >= plan.score.time_s * (1 - 1e-9)
    assert plan.cost.value == pytest.approx(math.fsum(split.cost for split in plan.summed), rel=1e-9)


@given(files=machines(), name=st.sampled_from(NETWORKS))
@settings(max_examples=examples(5, 1), deadline=None)
def test_exact_shares_are_never_dearer_than_equal_ones_or_accpars_rule(
    files: dict[str, Any], name: str
) -> None:
    costs: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for content in ("a", "b", "c"):
            files[content]["device"]["memory"]["capacity"]["value"] = "64 GB"
        machine = written(files, Path(folder))
        for shares in ("equal", "linear", "exact", "layers"):
            plan = plan_model(network(name, 60), hardware=machine, strategy="accpar", shares=shares)
            costs[shares] = plan.cost.value
    assert costs["linear"] <= costs["equal"] * (1 + 1e-9)
    assert costs["exact"] <= costs["linear"] * (1 + 1e-9)
    assert costs["layers"] <= costs["exact"] * (1 + 1e-9)
