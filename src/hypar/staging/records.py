"""What was found for stages, as a plan records it, and the score of a step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.schedule.orders import staleness
from hypar.schedule.pipeline import stage_name
from hypar.score import KINDS, GroupScore, Score
from hypar.splits import Split, StageRecord, StagesRecord
from hypar.tally import energy_of, repeated
from hypar.traffic import equal_shares
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.recipe import Recipe
    from hypar.staging.blocks import Block
    from hypar.staging.search import Staging

ROUNDING = 1e-9
"""Of a step: less than this is no waiting."""


def stages_of(staging: Staging, recipe: Recipe) -> StagesRecord:
    """The stages as a plan has them.

    Args:
        staging: what was found.
        recipe: what was asked for.
    """
    return StagesRecord(
        asked=recipe.stages,  # type: ignore[arg-type]
        array=list(recipe.array) if recipe.stages == "best" else None,
        schedule=staging.recipe.schedule,
        microbatches=staging.microbatches,
        bottleneck_s=staging.bottleneck_s,
        stages=[
            StageRecord(
                layers=[layer.name for layer in _whole(staging, stage)],
                busy_s=staging.blocks[stage].seconds(staging.microbatches),
                in_flight=staging.in_flight[stage],
                staleness=staleness(staging.works[stage], staging.microbatches),
            )
            for stage in range(len(staging.blocks))
        ],
    )


def staged_claim(recipe: Recipe, staging: Staging) -> str:
    """What a plan in stages is optimal over."""
    pins = f" and {len(recipe.pins)} pin{'s' * (len(recipe.pins) > 1)}" if recipe.pins else ""
    exact = all(block.cuts.answer.exact for block in staging.blocks)
    inner = f"{recipe.search} search in each" if exact else f"solver {recipe.solver!r}, not exact, in each"
    cuts = (
        f"each cut by {inner} over ({recipe.space}){pins} for least {recipe.cost}"
        if recipe.array
        else "not cut"
    )
    tried = "the fastest found of all numbers of stages, " if recipe.stages == "best" else ""
    return f"{tried}stages of the least bottleneck of all boundaries, {cuts}"


def _whole(staging: Staging, stage: int) -> tuple:  # type: ignore[type-arg]
    """The layers of a stage."""
    return staging.blocks[stage].cuts.lane.graph.layers


def splits_of(staging: Staging) -> Iterator[Split]:
    """One split a level inside the stages, for the layers of all of them."""
    for level, ways in enumerate(staging.recipe.array):
        choices, costs = {}, {}
        for block in staging.blocks:
            rows = zip(
                block.cuts.lane.graph.layers,
                block.cuts.lane.choices,
                block.cuts.answer.costs[level],
                strict=True,
            )
            for layer, chosen, cost in rows:
                choices[layer.name] = chosen[level].as_degrees()
                costs[layer.name] = exact_number(cost)
        yield Split(
            level=level,
            group="all",
            ways=ways,
            shares=list(equal_shares(ways)),
            choices=choices,
            costs=costs,
            cost=exact_number(math.fsum(costs.values())),
        )


def score_of(staging: Staging) -> Score:
    """What a machine makes of the stages: one step, a mini-batch."""
    machine = staging.recipe.machine
    assert machine is not None  # noqa: S101 (stages have a machine)
    setting = staging.blocks[0].cuts.lane.setting
    parts, size = staging.microbatches, setting.element_bytes
    groups = [_group(staging, stage) for stage in range(len(staging.blocks))]
    busiest = max(
        range(len(groups)), key=lambda stage: groups[stage].computing_s + groups[stage].communicating_s
    )
    fullest = max(range(len(groups)), key=lambda stage: groups[stage].memory_bytes)
    communication = _communication(staging)
    energy = _energy(staging)
    time = _times(staging.blocks[busiest], parts)
    return Score(
        hardware=machine.name,
        hardware_digest=machine.digest,
        hardware_changes=dict(machine.changes),
        optimizer=setting.optimizer,
        element_bytes=size,
        word_bytes=exact_number(machine.content.device.word.value),
        time_s=staging.step.makespan,
        energy_j=None if energy is None else math.fsum(energy.values()),
        communication_bytes=exact_number(math.fsum(communication.values())),
        memory_bytes=groups[fullest].memory_bytes,
        capacity_bytes=groups[fullest].capacity_bytes,
        fits=all(group.fits for group in groups),
        time=time,
        overlapped_s=0.0,
        critical=time,
        busy=dict(staging.step.busy),
        energy=energy,
        communication={level: exact_number(amount) for level, amount in communication.items()},
        memory={
            item: exact_number(amount)
            for item, amount in staging.blocks[fullest].held(staging.in_flight[fullest]).items()
        },
        groups=groups,
    )


def _group(staging: Staging, stage: int) -> GroupScore:
    """What a step is to one stage."""
    block, parts = staging.blocks[stage], staging.microbatches
    setting = block.cuts.lane.setting
    times = _times(block, parts)
    received = times.pop("communication")
    held = math.fsum(block.held(staging.in_flight[stage]).values())
    computing = math.fsum(times.values())
    busy = staging.step.busy.get(stage_name(stage), 0.0)
    idle = staging.step.makespan - busy
    capacity = setting.machine.memory_bytes
    return GroupScore(
        group=stage_name(stage),
        devices=math.prod(setting.array),
        computing_s=computing,
        communicating_s=received,
        idle_s=idle if idle > ROUNDING * staging.step.makespan else 0.0,
        memory_bytes=exact_number(held),
        capacity_bytes=None if capacity is None else exact_number(capacity),
        fits=setting.machine.fits(held),
    )


def _times(block: Block, parts: int) -> dict[str, float]:
    """Seconds of each kind of work that a stage does for a mini-batch; what it receives from others is communication."""
    found = dict.fromkeys(KINDS, 0.0)
    for task, move in zip(block.cuts.step.tasks, block.cuts.step.moves, strict=True):
        often = (1 if task.kind == "update" else parts) if move is None else repeated(move, parts)
        found[task.kind] += often * task.seconds
    found["communication"] += parts * (block.received_s + block.returned_s)
    return found


def _communication(staging: Staging) -> dict[str, float]:
    """Bytes that all devices receive: over the split into stages, and at each level inside them."""
    parts = staging.microbatches
    sent = (block.received_bytes + block.returned_bytes for block in staging.blocks)
    found = {"H1": parts * math.fsum(sent)}
    for level in range(len(staging.recipe.array)):
        found[f"H{level + 2}"] = math.fsum(
            repeated(move, parts) * move.total_bytes
            for block in staging.blocks
            for move in block.cuts.step.moves
            if move is not None and move.level == level
        )
    return found


def _energy(staging: Staging) -> dict[str, float] | None:
    """Joules of all stages, and of what goes between them."""
    found: dict[str, float] = {}
    for block in staging.blocks:
        own = energy_of(block.cuts.lane, block.cuts.step, 0, staging.microbatches)
        if own is None:
            return None
        for place, joules in own.items():
            found[place] = found.get(place, 0.0) + joules
    content = staging.blocks[0].cuts.lane.setting.machine.content
    per_word = content.assumptions.accesses_per_word_moved.value
    between = _communication(staging)["H1"] / content.device.word.value
    found["communication"] += (
        between * per_word * (content.device.energy.memory.value if content.device.energy else 0.0)
    )
    return found
