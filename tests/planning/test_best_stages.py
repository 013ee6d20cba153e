"""The best number of stages against no stages and every power of two of them, on all machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hypar import HeterogeneousMachine, load_model, machines, plan_model, score_plan
from hypar.errors import InputError, OptionError, TableLimitError
from hypar.machine.load_heterogeneous import load_hardware
from hypar.planning.stages import best, ends
from hypar.planning.stages.ends import MOST_PLACES
from hypar.studies.check import check_plan
from hypar.studies.verification.run import verify_plan
from tests.effort import NETWORKS, TRANSFORMERS
from tests.heterogeneous import group, groups_of, kind, write_machine
from tests.heterogeneous import written as network
from tests.transformers import gpt

if TYPE_CHECKING:
    from pathlib import Path

    from hypar import LayerGraph

LEVELS = 3
"""Two-way levels of the array that is divided into stages and levels inside them."""


@pytest.mark.slow
@pytest.mark.parametrize("hardware", machines())
@pytest.mark.parametrize("model", [*NETWORKS, *TRANSFORMERS])
def test_the_best_stages_are_never_slower(model: str, hardware: str) -> None:
    graph, machine = load_model(model), load_hardware(hardware)
    if isinstance(machine, HeterogeneousMachine):
        require_fastest(graph, machine)
        return
    if machine.num_devices % 2**LEVELS:
        return
    fastest = plan_model(graph, hardware=machine, levels=LEVELS, stages="best").score
    assert fastest is not None
    for outer in range(LEVELS + 1):
        stages = 2**outer if outer else None
        try:
            other = plan_model(graph, hardware=machine, levels=LEVELS - outer, stages=stages).score
        except InputError:
            continue
        assert other is not None
        assert not other.fits or fastest.time_s <= other.time_s * (1 + 1e-9)


@pytest.mark.parametrize(
    ("hardware", "asked"),
    [
        ("hmc", {}),
        ("hmc", {"schedule": "1f1b", "convention": "fused"}),
        ("hmc", {"schedule": "interleaved", "parts": 2}),
        ("hmc", {"schedule": "layer-block"}),
        ("tpu-v2-v3", {}),
        ("h100-8x", {"chunks": "best"}),
    ],
)
def test_bounds_leave_out_no_better_stages(
    hardware: str, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is the same, to the byte, as if all candidates are divided into stages."""
    graph = load_model("alexnet").with_batch(64)
    machine = load_hardware(hardware)
    own: dict[str, Any] = {} if isinstance(machine, HeterogeneousMachine) else {"levels": LEVELS}
    found = plan_model(graph, hardware=machine, stages="best", **own, **asked)
    for bound in ("least_share", "least_seconds"):
        monkeypatch.setattr(best, bound, lambda *_, **__: 0.0)
    assert plan_model(graph, hardware=machine, stages="best", **own, **asked).to_json() == found.to_json()


def test_the_best_stages_count_what_they_add_up_of_a_tied_weight() -> None:
    """The exchange of its gradient is a tenth of a step, so that the order of estimates without it is another one."""
    graph = gpt(64, blocks=2, hidden=64, vocab=256)
    asked: dict[str, Any] = {"hardware": "hmc", "strategy": "hypar", "convention": "moved"}
    fastest = plan_model(graph, levels=4, stages="best", **asked).score
    other = plan_model(graph, levels=3, stages=2, microbatches=8, **asked).score
    assert fastest is not None
    assert other is not None
    assert fastest.time_s <= other.time_s * (1 + 1e-9)


def test_too_many_layers_are_refused_before_their_spans_are_compared() -> None:
    layers = "\n".join(
        f"  - {{name: fc{number}, op: linear, out_features: 8}}" for number in range(MOST_PLACES + 1)
    )
    ahead = "  - {op: input, channels: 8, height: 1, width: 1}\n  - {name: flat, op: flatten}\n"
    graph = network(f"{ahead}{layers}\n", 8)
    with pytest.raises(TableLimitError, match="found 513 layers that are cut; allowed: 512"):
        plan_model(graph, hardware="hmc", levels=2, stages="best")


@pytest.mark.parametrize("asked", [{}, {"schedule": "interleaved", "parts": 2}])
def test_stages_of_many_layers_end_between_blocks(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "MOST_PLACES", 10)
    graph = gpt(8, blocks=4)
    plan = plan_model(graph, hardware="hmc", levels=1, stages=2, **asked)
    assert plan.stages is not None
    assert plan.claim is not None
    assert "of all partitions between blocks that fit" in plan.claim
    names = [layer.name for layer in graph.contracted.layers]
    for stage in plan.stages.stages:
        (first, *_), last = stage.layers, names.index(stage.layers[-1])
        assert first == "wte" or first.endswith(".q")
        assert last == len(names) - 1 or names[last].endswith(".add2")
    assert score_plan(plan, hardware="hmc", model=graph) == plan.score
    with pytest.raises(OptionError, match="stages: found 9; allowed: 1 to 6, one for each block of layers"):
        plan_model(graph, hardware="hmc", levels=0, stages=9)


def require_fastest(graph: LayerGraph, machine: HeterogeneousMachine) -> None:
    """The best stages on device groups are no slower than no stages and every power of two of them."""
    fastest = plan_model(graph, hardware=machine, stages="best").score
    assert fastest is not None
    for stages in (None, *(2**power for power in range(9))):
        try:
            other = plan_model(graph, hardware=machine, stages=stages).score
        except InputError:
            continue
        assert other is not None
        assert not other.fits or fastest.time_s <= other.time_s * (1 + 1e-9)


KINDS = {
    "a": kind(devices=4, peak="2 TFLOP/s", link="2 GB/s"),
    "b": kind(devices=4, overlap="full"),
    "c": kind(devices=4, peak="3 TFLOP/s", memory="8 GB"),
}

MACHINES = {
    "two groups": [group("a.yaml", bandwidth="1 GB/s"), group("b.yaml", bandwidth="1 GB/s")],
    "a group of groups": [group("a.yaml"), groups_of("bc", group("b.yaml"), group("c.yaml"))],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
def test_the_best_stages_on_device_groups_are_verified_and_found_again(name: str, tmp_path: Path) -> None:
    machine = load_hardware(write_machine(tmp_path, KINDS, MACHINES[name]))
    assert isinstance(machine, HeterogeneousMachine)
    graph = load_model("lenet-c").with_batch(32)
    best = plan_model(graph, hardware=machine, stages="best")
    assert best.stages is not None
    assert best.staged
    assert best.stages.arrays == {each: [2, 2] for each, _, _ in machine.identical()}
    assert score_plan(best, hardware=machine, model=graph) == best.score
    best.write(tmp_path / "plan.json")
    assert check_plan(tmp_path / "plan.json").ok
    assert verify_plan(tmp_path / "plan.json", shrink=True).ok


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("model", ["lenet-c", "alexnet", "sfc"])
def test_the_best_stages_on_device_groups_are_never_slower(model: str, name: str, tmp_path: Path) -> None:
    machine = load_hardware(write_machine(tmp_path, KINDS, MACHINES[name]))
    assert isinstance(machine, HeterogeneousMachine)
    require_fastest(load_model(model), machine)


def test_no_stages_on_device_groups_where_none_are_faster(tmp_path: Path) -> None:
    machine = load_hardware(write_machine(tmp_path, KINDS, MACHINES["two groups"]))
    plan = plan_model("lenet-c", hardware=machine, stages="best", array=[2, 4], batch=1)
    assert plan.stages is not None
    assert not plan.staged
    assert plan.arrays == {"a": [4], "b": [4]} == plan.stages.arrays
    plan.write(tmp_path / "plan.json")
    assert check_plan(tmp_path / "plan.json").ok
