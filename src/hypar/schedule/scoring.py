"""The score of a step on a machine: time, energy, communication and memory, in total and item by item."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hypar.ops.nest import PHASES
from hypar.plan.records import GroupScore, Score
from hypar.schedule.costed import COMPUTE
from hypar.schedule.energy import energy_of
from hypar.schedule.lanes import Lane
from hypar.schedule.memory import memory_of
from hypar.schedule.stages import StepWork
from hypar.sharding.conventions import DIRECT, PAPER
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.machine import Machine
    from hypar.machine.setting import Setting
    from hypar.network.nodes import PlanGraph
    from hypar.schedule.step import Step
    from hypar.schedule.timeline import Timeline
    from hypar.sharding.placement import Options


ROUNDING = 1e-9
"""Fraction of a time below which a difference counts as none."""

KINDS = (*PHASES, "update", "communication")
"""Kinds of the tasks of a step."""


class Totals(NamedTuple):
    """The totals of a score.

    Attributes:
        time_s: time of a step.
        energy_j: its energy on all devices; None if the machine's file gives no energies.
        communication_bytes: bytes that all devices receive.
        memory_bytes: peak on each device.
    """

    time_s: float
    energy_j: float | None
    communication_bytes: float
    memory_bytes: float


def totals_of(score: Score | None) -> Totals:
    """Return the totals of the score of a plan for a machine."""
    assert score is not None  # noqa: S101 (a machine was named, so there is one)
    return Totals(score.time_s, score.energy_j, score.communication_bytes, score.memory_bytes)


def totals(graph: PlanGraph, choices: Sequence[Options], setting: Setting) -> Totals:
    """Return the four totals of a score without its items, which is faster for many plans."""
    lane = Lane(graph, choices, setting)
    step = StepWork.of([lane]).run()
    time_s = step.timeline.makespan
    energy = energy_of(lane, step, 0, time_s)
    return Totals(
        time_s=time_s,
        energy_j=None if energy is None else math.fsum(energy.values()),
        communication_bytes=exact_number(math.fsum(step.received(len(setting.array)).values())),
        memory_bytes=exact_number(math.fsum(memory_of(lane, step, 0).values())),
    )


def summarise(lanes: Sequence[Lane], step: Step, machine: Machine) -> Score:
    """Return the score of a step that was run.

    Args:
        lanes: the groups of identical devices that ran it.
        step: the step.
        machine: the machine of all lanes.
    """
    setting, timeline = lanes[0].setting, step.timeline
    spent = timeline.by_kind
    levels = max(lane.depth + len(lane.setting.array) for lane in lanes)
    staged = lanes[0].place.stages > 0
    communication = step.received(levels, stages=staged)
    received = math.fsum(communication.values())
    memories = [memory_of(lane, step, number) for number, lane in enumerate(lanes)]
    held = [math.fsum(memory.values()) for memory in memories]
    machines = [lane.setting.machine for lane in lanes]
    filled = [own / (each.memory_bytes or math.inf) for own, each in zip(held, machines, strict=True)]
    fullest = filled.index(max(filled))
    capacity = machines[fullest].memory_bytes
    time = {kind: spent.get(kind, 0.0) for kind in KINDS}
    energy = _together(
        [energy_of(lane, step, number, timeline.makespan) for number, lane in enumerate(lanes)]
    )
    return Score(
        hardware=machine.name,
        hardware_digest=machine.digest,
        hardware_changes=dict(machine.changes),
        # Plan files name no count of which a cost has only one.
        convention=PAPER if setting.convention == DIRECT else setting.convention,
        optimizer=setting.optimizer,
        element_bytes=setting.element_bytes,
        word_bytes=exact_number(setting.machine.content.device.word.value),
        time_s=timeline.makespan,
        energy_j=None if energy is None else math.fsum(energy.values()),
        communication_bytes=exact_number(received),
        memory_bytes=exact_number(held[fullest]),
        capacity_bytes=None if capacity is None else exact_number(capacity),
        fits=all(each.fits(own) for each, own in zip(machines, held, strict=True)),
        time=time,
        overlapped_s=_overlapped(time, timeline),
        critical=_critical(timeline),
        busy=_busy(lanes, timeline),
        energy=energy,
        communication={level: exact_number(amount) for level, amount in communication.items()},
        memory={item: exact_number(amount) for item, amount in memories[fullest].items()},
        groups=_groups(lanes, step, held) if staged or machine.groups else None,
    )


def _groups(lanes: Sequence[Lane], step: Step, held: Sequence[float]) -> list[GroupScore]:
    """Return the step's score on each group of identical devices."""
    timeline = step.timeline
    spans: list[list[tuple[float, float, bool]]] = [[] for _ in lanes]
    for start, end, move, kept in zip(timeline.starts, timeline.ends, step.moves, step.lanes, strict=True):
        for number in kept:
            spans[number].append((start, end, move is None))
    found = []
    for lane, own, num_bytes in zip(lanes, spans, held, strict=True):
        capacity = lane.setting.machine.memory_bytes
        found.append(
            GroupScore(
                group=lane.name,
                devices=math.prod(lane.setting.array),
                computing_s=math.fsum(end - start for start, end, computes in own if computes),
                communicating_s=math.fsum(end - start for start, end, computes in own if not computes),
                idle_s=_beyond(timeline.makespan, _covered(own)),
                memory_bytes=exact_number(num_bytes),
                capacity_bytes=None if capacity is None else exact_number(capacity),
                fits=lane.setting.machine.fits(num_bytes),
            )
        )
    return found


def _covered(spans: Sequence[tuple[float, float, bool]]) -> float:
    """Return the seconds of the union of spans."""
    total, until = [], 0.0
    for start, end, _ in sorted(spans):
        total.append(max(0.0, end - max(start, until)))
        until = max(until, end)
    return math.fsum(total)


def _together(energies: Sequence[dict[str, float] | None]) -> dict[str, float] | None:
    """Sum the joules of all lanes; None if a lane's are unknown."""
    known = [energy for energy in energies if energy is not None]
    if len(known) < len(energies):
        return None
    places = dict.fromkeys(place for energy in known for place in energy)
    return {place: math.fsum(energy.get(place, 0.0) for energy in known) for place in places}


def _overlapped(time: dict[str, float], timeline: Timeline) -> float:
    """Return the excess of all tasks' seconds over the step's time."""
    return _beyond(math.fsum(time.values()), timeline.makespan)


def _beyond(seconds: float, others: float) -> float:
    """Return how much longer some seconds are than others; 0 if they are not, apart from rounding."""
    return seconds - others if seconds - others > ROUNDING * seconds else 0.0


def _busy(lanes: Sequence[Lane], timeline: Timeline) -> dict[str, float]:
    devices = {f"{lane.name} {COMPUTE}".lstrip(): 0.0 for lane in lanes}
    return {**devices, **timeline.busy}


def _critical(timeline: Timeline) -> dict[str, float]:
    """Sum the seconds of each kind of task on the critical path."""
    found = dict.fromkeys(KINDS, 0.0)
    tasks = timeline.tasks
    for index in timeline.critical_path:
        _, seconds, _, kind = tasks[index]
        found[kind] += seconds
    return found
