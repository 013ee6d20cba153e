"""The memory of a score against the bytes that simulated devices hold at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from hypar import load_model, plan_model
from tests.effort import crossed, examples, late
from tests.held import held_by
from tests.heterogeneous import CONV, LINEAR, chains, group, kind, write_machine
from tests.heterogeneous import written as network
from tests.planning.test_random_trees import identical, planned, trees, written

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from hypar import LayerGraph
    from tests.held import Held
    from tests.heterogeneous import Drawn


@crossed({"strategy": ["dp", "mp", "hypar", "accpar"], "levels": [1, 2, 3], "batch": late([8, 16], 16)})
def test_a_device_holds_what_the_score_says(strategy: str, levels: int, batch: int) -> None:
    """Equal to the byte: every array of the run is one that the score counts."""
    graph = load_model("lenet-c").with_batch(batch)
    plan = plan_model(graph, levels=levels, strategy=strategy, hardware="hmc", convention="moved")
    (memory,) = held_by(plan, graph)
    assert memory.found == memory.said


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_a_stage_holds_the_microbatches_in_flight(schedule: str) -> None:
    graph = load_model("lenet-c").with_batch(16)
    asked: dict[str, Any] = {"stages": 2, "levels": 1, "microbatches": 4, "schedule": schedule}
    plan = plan_model(graph, hardware="hmc", convention="moved", **asked)
    found = held_by(plan, graph)
    assert len(found) == 2
    assert all(memory.within for memory in found)


@settings(max_examples=examples(150, 6))
@given(chains(), identical(), trees())
def test_chains_on_identical_devices(
    tmp_path_factory: pytest.TempPathFactory, graph: LayerGraph, drawn: Drawn, asked: dict[str, Any]
) -> None:
    """The score says what a device holds where pieces are even; if they are not, they may not line up and are held twice."""
    for memory in _of_tree(tmp_path_factory.mktemp("tree"), graph, drawn, asked):
        assert memory.within


@pytest.mark.xfail(
    reason="of a branch around several stages the score says up to 15 % more than is held", strict=True
)
def test_a_residual_branch_over_stages() -> None:
    layers = "  - {op: input, channels: 7, height: 8, width: 5}\n" + CONV.format("stem", 31, "input")
    layers += CONV.format("beside", 31, "stem") + "  - {name: sum, op: add, inputs: [beside, stem]}\n"
    graph = network(layers + "  - {name: flat, op: flatten}\n" + LINEAR.format("fc", 29, "flat"), 16)
    asked: dict[str, Any] = {
        "stages": 3,
        "levels": 1,
        "microbatches": 1,
        "schedule": "gpipe",
        "strategy": "mp",
    }
    plan = plan_model(graph, hardware="hmc", convention="moved", **asked)
    assert all(memory.within for memory in held_by(plan, graph))


def _of_tree(folder: Path, graph: LayerGraph, drawn: Drawn, asked: dict[str, Any]) -> list[Held]:
    """Return the memory of a plan by ``moved`` whose pieces are even; nothing for another one."""
    plan = planned(graph, written(folder, drawn), asked | {"convention": "moved"})
    if plan is None:
        return []
    samples = graph.batch // (plan.stages.microbatches if plan.stages else 1)
    sizes = [samples, *(layer.shape["channels"] for layer in graph.layers)]
    ways = max(math.prod(one.array) for one in plan.groups)
    return [] if any(size % ways for size in sizes) else held_by(plan, graph)


def _lenet(convention: str) -> Held:
    graph = load_model("lenet-c").with_batch(8)
    plan = plan_model(graph, levels=2, strategy="mp", hardware="hmc", convention=convention)
    return held_by(plan, graph)[0]


@pytest.mark.xfail(
    reason="by paper the room for transfers is that of the paper's bytes, a run's is larger", strict=True
)
def test_plans_counted_by_paper() -> None:
    assert _lenet("paper").within


@pytest.mark.xfail(
    reason="sums that fused leaves divided as their reader reads them are counted whole", strict=True
)
def test_plans_counted_by_fused() -> None:
    assert _lenet("fused").within


@pytest.mark.xfail(reason="shares of the score are not of whole elements, those of a run are", strict=True)
def test_shares_that_are_not_whole(tmp_path: Path) -> None:
    kinds = {name: kind(devices=1) for name in "abc"}
    file = write_machine(tmp_path, kinds, [group(f"{name}.yaml") for name in kinds])
    graph = load_model("lenet-c").with_batch(2)
    plan = planned(graph, file, {"strategy": "dp", "convention": "moved"})
    assert plan is not None
    assert all(memory.within for memory in held_by(plan, graph))
