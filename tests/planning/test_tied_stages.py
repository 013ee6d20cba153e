"""A weight that layers of several stages use: each stage has a copy, and they add up its gradient once a mini-batch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hypar import load_machine, plan_model, score_plan, verify_plan
from hypar.network.graph import load_model as built
from hypar.planning.replay import run_plan
from hypar.planning.resolved import Resolved
from hypar.planning.stages.planner import stored_stages
from hypar.sharding.amounts.counted import SEAM
from hypar.sharding.conventions import PAPER
from tests.kit import names_of
from tests.planning.parts import scored, staged
from tests.transformers import gpt, linear

if TYPE_CHECKING:
    from hypar import LayerGraph, Plan
    from hypar.schedule.lanes import Piece

HIDDEN, VOCAB = 32, 64
BYTES = 4 * HIDDEN * VOCAB
"""Of the weight."""

ENDS = ("wte", "head")


def network(*, tied: bool = True, batch: int = 16) -> LayerGraph:
    """A network that its devices divide into equal parts."""
    return gpt(batch=batch, blocks=2, tied=tied, hidden=HIDDEN, vocab=VOCAB)


def planned(graph: LayerGraph, **asked: Any) -> Plan:
    return plan_model(graph, **{"strategy": "dp", "hardware": "hmc", "convention": "moved", **asked})


def three_users() -> LayerGraph:
    """A chain of layers, of which the first, the third and the fifth have one weight."""
    up, down = ("hidden", {"ff": 16}), ("ff", {"hidden": 8})
    layers = [
        {"op": "input", "shape": {"sequence": 4, "hidden": 8}},
        linear("a", *up, bias=False),
        linear("b", *down, bias=False),
        linear("c", *up, bias=False, weight="a"),
        linear("d", *down, bias=False),
        linear("e", *up, bias=False, weight="a"),
        linear("f", *down, bias=False),
    ]
    return built({"source": "a test", "batch": 8, "layers": layers}, name="three")


def exchanged(plan: Plan, graph: LayerGraph) -> list[Piece]:
    """The transfers of gradients between stages in one step."""
    every = run_plan(plan, model=graph).step.pieces
    return [piece for piece in every if piece.level == SEAM and piece.phase == "gradient"]


def assert_counted(plan: Plan, graph: LayerGraph) -> None:
    """A run has the numbers of one device with one weight; its bytes of gradients are those of the plan and of the score."""
    found = verify_plan(plan, model=graph)
    assert found.ok
    for each in (one for one in found.tensors if one.tensor == "gradients"):
        weights = [one for one in found.transfers if one.level == each.level and one.item.tensor == "weight"]
        assert sum(one.counted for one in weights) == pytest.approx(each.planned)
    for level in found.levels:
        assert scored(plan).communication[level.level] == pytest.approx(level.planned)


@pytest.mark.parametrize(
    ("asked", "machine"),
    [
        ({"stages": 2, "levels": 0}, "hmc"),
        ({"stages": 2, "levels": 1}, "h100-8x"),
        ({"stages": 3, "levels": 1}, "hmc"),
        pytest.param({"stages": 3, "levels": 2}, "hmc", marks=pytest.mark.slow),
        pytest.param({"stages": 2, "levels": 1, "schedule": "gpipe"}, "hmc", marks=pytest.mark.slow),
        pytest.param(
            {"stages": 2, "levels": 1, "schedule": "interleaved", "parts": 2, "microbatches": 4},
            "hmc",
            marks=pytest.mark.slow,
        ),
        pytest.param({"array": (2, "s2", 2)}, "h100-8x", marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "strategy",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != "dp")) for name in ("dp", "mp", "optimal")],
)
def test_stages_add_up_one_gradient(asked: dict[str, Any], machine: str, strategy: str) -> None:
    graph = network()
    plan = planned(graph, hardware=machine, strategy=strategy, **asked)
    assert_counted(plan, graph)
    each = exchanged(plan, graph)
    assert len(each) == 2
    if strategy == "dp":
        replicas = 2 if "array" in asked else 1
        assert [piece.num_bytes for piece in each] == [BYTES * replicas] * 2
    assert score_plan(plan, model=graph) == plan.score


def test_both_stages_update_behind_the_exchange() -> None:
    graph = network()
    plan = planned(graph, stages=2, levels=1, microbatches=2)
    ran = run_plan(plan, model=graph)
    line = dict(
        zip(
            names_of(ran),
            zip(ran.timeline.starts, ran.timeline.ends, strict=True),
            strict=True,
        )
    )
    summed = max(end for name, (_, end) in line.items() if "wte gradient" in name or "head gradient" in name)
    for stage, layer in enumerate(ENDS, start=1):
        start, end = line[f"stage {stage}: gradient from other stages #2"]
        assert start >= summed
        assert line[f"stage {stage}: {layer} update #2"][0] >= end > start


@pytest.mark.parametrize(
    ("starts", "received"),
    [(("a", "c", "e"), [2, 1, 1]), (("a", "c"), [1, 1]), (("a", "f"), []), (("a", "d"), [1, 1])],
)
def test_a_stage_adds_up_what_its_own_layers_have_first(starts: tuple[str, ...], received: list[int]) -> None:
    graph = three_users()
    for levels in (0, 1):
        plan = planned(graph, levels=levels, starts=starts, stages=len(starts), microbatches=2)
        assert_counted(plan, graph)
        assert [piece.num_bytes for piece in exchanged(plan, graph)] == [own * 4 * 8 * 16 for own in received]


@pytest.mark.parametrize("levels", [0, 1])
def test_the_search_knows_what_the_exchange_takes(levels: int) -> None:
    """What a stage holds while stages are sought is what its score says, the buffer of the gradient included."""
    graph = gpt(blocks=2, batch=8, hidden=64, vocab=512, sequence=4)
    machine = load_machine("h100-8x")
    plan = planned(graph, hardware=machine, stages=2, levels=levels, microbatches=2)
    assert scored(plan).memory["buffers"] == 4 * 64 * 512
    request = replace(Resolved.of(plan, machine), counted=scored(plan).convention or PAPER)
    staging = stored_stages(plan, request, graph.at_rest)
    held = [
        max(span.held_bytes(own.in_flight))
        for span, own in zip(staging.stages, staged(plan).stages, strict=True)
    ]
    assert [group.memory_bytes for group in scored(plan).groups or ()] == held
