"""What a report shows agrees with the plan's score, and its command leads to the plan again."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from hypar.studies.report.gather import gather_report

from hypar.cli.main import main
from hypar.plan.plan import read_plan
from hypar.planning.planner import plan_model

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.studies.report.gather import Gathered

PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "identical": ("lenet-c", {"hardware": "hmc"}),
    "overlapped": ("alexnet", {"hardware": "h100-8x", "levels": 3, "optimizer": "adam"}),
    "grids": ("alexnet", {"strategy": "deepa", "hardware": "p100-4x4", "array": [4, 4], "batch": 128}),
    "uneven": ("lenet-c", {"strategy": "accpar", "hardware": "tpu-v2-v3", "levels": 3}),
    "stages": ("sfc", {"hardware": "hmc", "stages": 4, "levels": 2}),
    "microbatches": ("sfc", {"hardware": "hmc", "stages": 2, "array": [4], "microbatches": 8}),
    "chunks": ("lenet-c", {"hardware": "h100-8x", "levels": 3, "chunks": "one", "pins": ["fc1=dp"]}),
    "joint": ("lenet-c", {"search": "joint", "space": "all", "inter_weight": 0.5}),
    "refined": ("lenet-c", {"hardware": "hmc", "levels": 3, "refine": True}),
    "at rest": ("lenet-c", {"hardware": "hmc-physical"}),
    "stages at rest": ("sfc", {"hardware": "hmc-physical", "stages": 4, "levels": 2}),
    "timed": ("lenet-c", {"hardware": "hmc", "cost": "time"}),
    "inexact": ("lenet-c", {"solver": "uniform", "strategy": "mp", "space": "batch,in_channels"}),
}


@pytest.fixture(scope="module", params=PLANS)
def gathered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Gathered:
    model, asked = PLANS[request.param]
    file = tmp_path_factory.mktemp("plans") / "one.plan.json"
    plan_model(model, **asked).write(file)
    return gather_report(file)


def test_layers_and_levels_sum_to_the_score(gathered: Gathered) -> None:
    step = gathered.step
    if step is None:
        assert gathered.plan.score is None
        return
    score = step.score
    assert score == gathered.plan.score
    between = score.communication.get("stages", 0)
    received = math.fsum(layer.num_bytes for layer in step.layers)
    assert math.isclose(received + between, score.communication_bytes)
    assert math.isclose(math.fsum(level.num_bytes for level in step.levels), score.communication_bytes)
    joules = math.fsum(layer.energy_j or 0 for layer in step.layers)
    moved = math.fsum(level.energy_j or 0 for level in step.levels if level.level == "stages")
    energy = score.energy or {}
    assert math.isclose(joules + moved + energy.get("static", 0), score.energy_j or 0)
    sent = energy.get("communication", 0) + energy.get("link", 0)
    assert math.isclose(math.fsum(level.energy_j or 0 for level in step.levels), sent)
    assert math.isclose(math.fsum(layer.seconds for layer in step.layers), score.time_s)
    weights = math.fsum(score.memory[item] for item in ("weights", "gradients", "optimizer"))
    fullest = {layer.layer for layer in step.layers}
    if step.stages is not None:
        held = [group.memory_bytes for group in score.groups or ()]
        fullest = {*step.stages.stages[held.index(max(held))].layers}
        assert all(layer.weight_bytes > 0 for layer in step.layers)
    own = (layer.weight_bytes for layer in step.layers if layer.layer in fullest)
    assert math.isclose(math.fsum(own), weights)


def test_memory_over_the_step_peaks_at_the_scores(gathered: Gathered) -> None:
    step = gathered.step
    if step is None or step.stages is not None:
        assert step is None or step.memory == ()
        return
    held = [group.memory_bytes for group in step.score.groups or ()] or [step.score.memory_bytes]
    for own, memory in zip(held, step.memory, strict=True):
        assert math.isclose(memory.peak_bytes, own)
        most = math.fsum((*memory.always.values(), max(held for _, held in memory.course)))
        assert math.isclose(most, own)
        assert memory.course[-1][1] <= own * 1e-9
        assert 0 <= memory.course[0][0] <= memory.course[-1][0] <= step.score.time_s * (1 + 1e-9)


def test_the_critical_path_is_the_step(gathered: Gathered) -> None:
    if gathered.step is not None:
        critical = math.fsum(task.seconds for task in gathered.step.tasks if task.critical)
        assert math.isclose(critical, gathered.step.score.time_s)


def test_the_strategies_are_sorted_and_the_plan_is_marked_once(gathered: Gathered) -> None:
    rows = gathered.rivals.rows
    (own,) = [row for row in rows if row.this]
    assert own.plan == gathered.plan
    assert gathered.rivals.baseline is not None
    times = [row.score.time_s if row.score else row.plan.cost.value for row in rows if row.plan]
    assert gathered.step is None or times == sorted(times)
    assert len(rows) >= 5


def test_the_command_leads_to_the_plan_again(
    gathered: Gathered, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program, *words = shlex.split(gathered.command)
    assert program == "hypar"
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert not ended.value.code
    capsys.readouterr()
    again = read_plan(tmp_path / gathered.file)
    assert again == gathered.plan


def test_every_plan_is_explained(gathered: Gathered) -> None:
    why, plan = gathered.why, gathered.plan
    if not plan.splits:
        assert why.refused
        assert why.margins == ()
        return
    assert not why.refused
    assert [margin.explained.layer for margin in why.margins] == [
        layer for layer in plan.layers for _ in plan.splits
    ]
    places = [(margin.explained.group, margin.explained.level) for margin in why.of(plan.layers[0])]
    assert places == [(split.group if plan.heterogeneous else "", split.level) for split in plan.splits]
    closest = [margin.more for margin in why.closest if margin.anew]
    assert closest == sorted(closest)
