"""The score of a plan in stages for one step, a mini-batch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.machine.hops import level_hops
from hypar.plan.conventions import recorded
from hypar.plan.score import GroupScore, Score
from hypar.plan.splits import stage_name
from hypar.planning.stages.span import items_of
from hypar.planning.stages.spans import outer_array
from hypar.schedule.energy import energy_of, link_energy, moving_energy
from hypar.schedule.scoring import KINDS
from hypar.schedule.totals import repeated
from hypar.units import exact_number

if TYPE_CHECKING:
    from hypar.planning.stages.running import Staging
    from hypar.planning.stages.span import CutSpan

ROUNDING = 1e-9
"""Fraction of a step below which idle time counts as none."""

BETWEEN = "stages"
"""The name of the communication between stages, beside the levels inside them."""


def score_of(staging: Staging) -> Score:
    """Score the stages on their machine for one step, a mini-batch."""
    setting = staging.stages[0].cuts.lane.setting
    machine = setting.machine
    groups = [_group(staging, stage) for stage in range(len(staging.stages))]
    fullest = max(range(len(groups)), key=lambda stage: groups[stage].memory_bytes)
    held = staging.stages[fullest].held(staging.in_flight[fullest])
    communication, energy, critical = _communication(staging), _energy(staging), _critical(staging)
    return Score(
        hardware=machine.name,
        hardware_digest=machine.digest,
        hardware_changes=dict(machine.changes),
        convention=recorded(setting.convention),
        optimizer=setting.optimizer,
        element_bytes=setting.element_bytes,
        word_bytes=exact_number(machine.content.device.word.value),
        time_s=staging.step.makespan,
        energy_j=None if energy is None else math.fsum(energy.values()),
        communication_bytes=exact_number(math.fsum(communication.values())),
        memory_bytes=groups[fullest].memory_bytes,
        capacity_bytes=groups[fullest].capacity_bytes,
        fits=all(group.fits for group in groups),
        time=critical,
        overlapped_s=0.0,
        critical=critical,
        busy={**{group.group: 0.0 for group in groups}, **staging.step.busy},
        energy=energy,
        communication={level: exact_number(amount) for level, amount in communication.items()},
        memory={item: exact_number(amount) for item, amount in held.items()},
        groups=groups,
    )


def _group(staging: Staging, stage: int) -> GroupScore:
    """Return the score of one stage."""
    span, name = staging.stages[stage], stage_name(stage)
    setting, times = span.cuts.lane.setting, _times(span, staging.microbatches)
    received = times.pop("communication")
    held = math.fsum(span.held(staging.in_flight[stage]).values())
    idle = staging.step.makespan - staging.step.busy.get(name, 0.0)
    capacity = setting.machine.memory_bytes
    return GroupScore(
        group=name,
        devices=math.prod(setting.array),
        computing_s=math.fsum(times.values()),
        communicating_s=received,
        idle_s=idle if idle > ROUNDING * staging.step.makespan else 0.0,
        memory_bytes=exact_number(held),
        capacity_bytes=None if capacity is None else exact_number(capacity),
        fits=setting.machine.fits(held),
    )


def _times(span: CutSpan, microbatches: int) -> dict[str, float]:
    """Return the seconds of each kind of work of a stage for a mini-batch; receiving is communication."""
    found = dict.fromkeys(KINDS, 0.0)
    for phase, items in items_of(span.cuts.step).items():
        for kind, seconds in items.items():
            found[kind] += (1 if phase == "once" else microbatches) * seconds
    found["communication"] += microbatches * (span.received.seconds + span.returned.seconds)
    return found


def _critical(staging: Staging) -> dict[str, float]:
    """Return the seconds of each kind of work on the critical path of a step.

    The seconds of a stage's phase on the path are divided over the kinds of its tasks in proportion.
    """
    on_path: dict[tuple[str, str], float] = {}
    for index in staging.step.critical_path:
        task = staging.step.tasks[index]
        place = (task.resource, "once" if task.kind == "update" else task.kind)
        on_path[place] = on_path.get(place, 0.0) + task.seconds
    stages = {stage_name(stage): items_of(span.cuts.step) for stage, span in enumerate(staging.stages)}
    found = dict.fromkeys(KINDS, 0.0)
    for (resource, phase), seconds in on_path.items():
        items = {phase: 1.0} if phase == "communication" else stages[resource][phase]
        whole = math.fsum(items.values())
        for kind, own in items.items():
            found[kind] += seconds * own / whole if whole else 0.0
    return found


def _communication(staging: Staging) -> dict[str, float]:
    """Return the bytes that all devices receive, between stages and at each level inside them."""
    sent = (phase.from_stages for span in staging.stages for phase in (span.received, span.returned))
    amounts: list[list[float]] = [[] for _ in staging.request.array]
    for move in (move for span in staging.stages for move in span.step.moves if move is not None):
        amounts[move.level].append(repeated(move, staging.microbatches) * move.total_bytes)
    inside = {f"H{level + 1}": math.fsum(own) for level, own in enumerate(amounts)}
    return {BETWEEN: staging.microbatches * math.fsum(sent), **inside}


def _energy(staging: Staging) -> dict[str, float] | None:
    """Return the energy of all stages and of the communication between them, in joules."""
    machine, between = staging.stages[0].cuts.lane.setting.machine, _communication(staging)[BETWEEN]
    found: dict[str, float] = {}
    for span in staging.stages:
        own = energy_of(span.cuts.lane, span.step, 0, staging.step.makespan, staging.microbatches)
        if own is None:
            return None
        for place, joules in own.items():
            found[place] = found.get(place, 0.0) + joules
    found["communication"] += moving_energy(machine, between)
    if "link" in found and len(staging.stages) > 1:
        setting = staging.stages[0].cuts.lane.setting
        hops = level_hops(machine, outer_array(setting, len(staging.stages)))[0]
        found["link"] += link_energy(machine, hops, between)
    return found
