"""The rows of a step agree with its score."""

import math
from typing import Any

import pytest

from hypar import load_machine, load_model, plan_model
from hypar.planning.replay import run_plan
from hypar.studies.remarks import remarks
from hypar.studies.step import Part, StepRows

PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "identical": ("lenet-c", {"hardware": "hmc"}),
    "overlapped": ("alexnet", {"hardware": "h100-8x", "levels": 3, "optimizer": "adam"}),
    "grids": ("alexnet", {"strategy": "deepa", "hardware": "p100-4x4", "array": [4, 4], "batch": 128}),
    "uneven": ("lenet-c", {"strategy": "accpar", "hardware": "tpu-v2-v3", "levels": 3}),
    "stages": ("sfc", {"hardware": "hmc", "stages": 4, "levels": 2}),
    "microbatches": ("sfc", {"hardware": "hmc", "stages": 2, "array": [4], "microbatches": 8}),
    "chunks": ("lenet-c", {"hardware": "h100-8x", "levels": 3, "chunks": "one", "pins": ["fc1=dp"]}),
    "at rest": ("lenet-c", {"hardware": "hmc-physical"}),
    "stages at rest": ("sfc", {"hardware": "hmc-physical", "stages": 4, "levels": 2}),
}


@pytest.fixture(scope="module", params=PLANS)
def rows(request: pytest.FixtureRequest) -> StepRows:
    model, asked = PLANS[request.param]
    return StepRows(ran=run_plan(plan_model(model, **asked)))


def layers(rows: StepRows) -> list[Part]:
    return [rows.parts[layer] for layer in rows.ran.plan.layers]


def levels(rows: StepRows) -> list[Part]:
    return [*rows.parts.values()][len(layers(rows)) :]


def test_layers_and_levels_sum_to_the_score(rows: StepRows) -> None:
    score = rows.ran.score
    between = score.communication.get("stages", 0)
    received = math.fsum(layer.num_bytes for layer in layers(rows))
    assert math.isclose(received + between, score.communication_bytes)
    assert [level.num_bytes for level in levels(rows)] == pytest.approx([*score.communication.values()])
    if rows.ran.stages is None:
        spent = math.fsum(layer.computes_s + layer.receives_s for layer in layers(rows))
        assert math.isclose(spent, score.time_s)


def test_layers_of_a_stage_sum_to_what_it_computes(rows: StepRows) -> None:
    stages, groups = rows.ran.stages.stages if rows.ran.stages else (), rows.ran.score.groups or ()
    for stage, group in zip(stages, groups, strict=bool(stages)):
        own = [rows.parts[layer] for layer in stage.layers]
        assert math.isclose(math.fsum(layer.computes_s for layer in own), group.computing_s)
        assert math.fsum(layer.receives_s for layer in own) <= group.communicating_s * (1 + 1e-9)


def test_energies_sum_to_the_scores(rows: StepRows) -> None:
    score, joules = rows.ran.score, [part.joules for part in rows.parts.values()]
    if score.energy is None:
        assert {*joules} == {None}
        return
    energy = [own or 0 for own in joules]
    of_layers, of_levels = energy[: len(layers(rows))], energy[len(layers(rows)) :]
    between = of_levels[0] if rows.ran.stages else 0
    assert math.isclose(math.fsum(of_layers) + between + score.energy.get("static", 0), score.energy_j or 0)
    sent = score.energy.get("communication", 0) + score.energy.get("link", 0)
    assert math.isclose(math.fsum(of_levels), sent)


def test_memory_over_the_step_peaks_at_the_scores(rows: StepRows) -> None:
    score = rows.ran.score
    held = [group.memory_bytes for group in score.groups or ()] or [score.memory_bytes]
    for own, memory in zip(held, rows.memory, strict=True):
        assert math.isclose(math.fsum(memory.values()), own)
    by_layer = [*rows.memory_by_layer()]
    assert len(by_layer) == (0 if rows.ran.stages is not None else len(held))
    for own, (_, always, phases) in zip(held, by_layer, strict=False):
        assert (*phases,) == rows.ran.plan.layers
        assert math.isclose(always + max(map(max, phases.values())), own)


def test_the_critical_path_is_the_step(rows: StepRows) -> None:
    critical = math.fsum(task.piece.seconds for task in rows.tasks if task.critical)
    assert math.isclose(critical, rows.ran.score.time_s)


# The notes on what a score leaves out


def test_no_task_of_a_step_computes_a_layer_without_a_weight() -> None:
    graph = load_model("resnet18").with_batch(32)
    for graph_of, strategy in (("contracted", "hypar"), ("operators", "deepa")):
        plan = plan_model(graph, levels=2, strategy=strategy, graph=graph_of, hardware="p100-4x4")
        ran = run_plan(plan, model=graph)
        pairs = zip(ran.step.places, ran.step.pieces, strict=True)
        computing = {place.layer for place, piece in pairs if not piece.collective and piece.seconds}
        layers = ran.lanes[0].graph.layers
        assert computing == {at for at, layer in enumerate(layers) if layer.weighted}
        assert len(computing) < len(layers)


@pytest.mark.parametrize(("hardware", "asked", "line"), [
    ("hmc", {"array": [4]}, "4 of the 16 devices of hmc are used"),
    ("hmc", {"levels": 4}, ""),
    ("hmc", {"levels": 1, "stages": 2}, "4 of the 16 devices of hmc are used"),
    ("tpu-v2-v3", {"levels": 2}, "4 of the 256 devices of tpu-v2-v3 are used"),
    ("tpu-v2-v3", {}, ""),
])  # fmt: skip
def test_devices_that_are_not_used_are_remarked(hardware: str, asked: dict[str, int], line: str) -> None:
    graph, machine = load_model("lenet-c"), load_machine(hardware)
    plan = plan_model(graph.with_batch(256), hardware=machine, **asked)  # type: ignore[arg-type]
    said = remarks(plan)
    assert [own.text for own in said if own.label == "machine"] == [line] * bool(line)
