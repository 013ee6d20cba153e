"""The score of a step on a machine: time, energy, communication and memory, in total and item by item.

Energy has components: arithmetic, accesses, words moved, links, and power at rest. What a machine's file does not give is none,
but for ``registers`` and ``array``, which are then 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.machine.setting import byte_energies, energies, layer_energy, power_at_rest
from hypar.ops.nest import PHASES
from hypar.plan.records import GroupScore, Score
from hypar.schedule.lanes import COMPUTE, Lane
from hypar.schedule.memory import memory_of
from hypar.schedule.pieces import COMMUNICATION
from hypar.sharding.conventions import DIRECT, PAPER, SUMMED
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.machine.machine import Machine
    from hypar.schedule.stages import Step

ROUNDING = 1e-9
"""Fraction of a time below which a difference counts as none."""

KINDS = (*PHASES, "update", COMMUNICATION)
"""Kinds of the tasks of a step."""


def summarise(lanes: Sequence[Lane], step: Step, machine: Machine) -> Score:
    """Return the score of a step that was run.

    Args:
        lanes: the groups of identical devices that ran it.
        step: the step.
        machine: the machine of all lanes.
    """
    setting, timeline, staged = lanes[0].setting, step.timeline, lanes[0].place.stages > 0
    levels = max(lane.depth + len(lane.setting.array) for lane in lanes)
    received, energy = step.received(levels, stages=staged), energy_of(lanes, step)
    memories = [memory_of(lane, step.buckets) for lane in lanes]
    held = [math.fsum(memory.values()) for memory in memories]
    own = [lane.setting.machine for lane in lanes]
    filled = [num_bytes / (each.memory_bytes or math.inf) for num_bytes, each in zip(held, own, strict=True)]
    fullest = filled.index(max(filled))
    capacity = own[fullest].memory_bytes
    time = {kind: math.fsum(piece.seconds for piece in step.pieces if piece.kind == kind) for kind in KINDS}
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
        communication_bytes=exact_number(math.fsum(received.values())),
        memory_bytes=exact_number(held[fullest]),
        capacity_bytes=None if capacity is None else exact_number(capacity),
        fits=all(each.fits(num_bytes) for each, num_bytes in zip(own, held, strict=True)),
        time=time,
        overlapped_s=_beyond(math.fsum(time.values()), timeline.makespan),
        critical=_critical(step),
        busy=dict.fromkeys([f"{lane.name} {COMPUTE}".lstrip() for lane in lanes], 0.0) | timeline.busy,
        energy=energy,
        communication={level: exact_number(amount) for level, amount in received.items()},
        memory={item: exact_number(amount) for item, amount in memories[fullest].items()},
        groups=_groups(lanes, step, held) if staged or machine.groups else None,
    )


def _critical(step: Step) -> dict[str, float]:
    found = dict.fromkeys(KINDS, 0.0)
    for task in step.timeline.critical_path:
        found[step.pieces[task].kind] += step.pieces[task].seconds
    return found


def _groups(lanes: Sequence[Lane], step: Step, held: Sequence[float]) -> list[GroupScore]:
    timeline = step.timeline
    spans: list[list[tuple[float, float, bool]]] = [[] for _ in lanes]
    for start, end, piece in zip(timeline.starts, timeline.ends, step.pieces, strict=True):
        for number in piece.groups:
            spans[number].append((start, end, not piece.collective))
    found = []
    for lane, own, num_bytes in zip(lanes, spans, held, strict=True):
        machine = lane.setting.machine
        found.append(
            GroupScore(
                group=lane.name,
                devices=lane.devices,
                computing_s=math.fsum(end - start for start, end, computes in own if computes),
                communicating_s=math.fsum(end - start for start, end, computes in own if not computes),
                idle_s=_beyond(timeline.makespan, _covered(own)),
                memory_bytes=exact_number(num_bytes),
                capacity_bytes=None if machine.memory_bytes is None else exact_number(machine.memory_bytes),
                fits=machine.fits(num_bytes),
            )
        )
    return found


def _covered(spans: Sequence[tuple[float, float, bool]]) -> float:
    total, until = [], 0.0
    for start, end, _ in sorted(spans):
        total.append(max(0.0, end - max(start, until)))
        until = max(until, end)
    return math.fsum(total)


def _beyond(seconds: float, others: float) -> float:
    """Return how much longer some seconds are than others; 0 if they are not, apart from rounding."""
    return seconds - others if seconds - others > ROUNDING * seconds else 0.0


def energy_of(lanes: Sequence[Lane], step: Step) -> dict[str, float] | None:
    """Return the joules of all devices in a step, by component; None if the file of a machine gives no energies."""
    found: dict[str, list[float]] = {}
    for lane in lanes:
        machine = lane.setting.machine
        costs = machine.content.device.energy
        if costs is None:
            return None
        given = {"link": costs.link, "static": costs.static}
        named = [component for component, own in given.items() if own is not None]
        for component in (*energies(machine), "communication", *named):
            found.setdefault(component, [])
        if "static" in named:
            rest_w = lane.devices * power_at_rest(machine)
            found["static"].append(rest_w * step.timeline.makespan)
    for _, _, component, joules in joules_of(lanes, step):
        found[component].append(joules)
    return {component: math.fsum(joules) for component, joules in found.items()}


Joules = tuple[int, int | None, str, float]
"""The layer, the level of a transfer, the component, and the joules of all devices."""


def joules_of(lanes: Sequence[Lane], step: Step) -> Iterator[Joules]:
    """Yield the joules of a step's layers and transfers, without power at rest.

    Args:
        lanes: the groups of devices with their work for a microbatch, on machines whose files give energies.
        step: the step.
    """
    for lane in lanes:
        yield from _computed(lane)
    rates, devices = [byte_energies(lane.setting.machine) for lane in lanes], [lane.devices for lane in lanes]
    for piece, place in zip(step.pieces, step.places, strict=True):
        together = sum([devices[number] for number in piece.groups]) if piece.collective else 0
        for number in piece.groups if together else ():
            (moved, summed, link), num_bytes = rates[number], piece.num_bytes * (devices[number] / together)
            terms = SUMMED.get(piece.collective, 0.0) * num_bytes
            yield place.layer, piece.level, "communication", num_bytes * moved + terms * summed
            if link is not None:
                lane = lanes[number]
                # Between stages of the same devices the links are those between the stages' arrays.
                way = piece.link or lane.setting.machine.stage_link(lane.setting.array, lane.place.stages)
                yield place.layer, piece.level, "link", num_bytes * way.mean_hops * link


def _computed(lane: Lane) -> Iterator[Joules]:
    """Yield the joules of each layer, place by place, in all microbatches and in its update."""
    known: dict[object, list[tuple[str, float]]] = {}
    for layer, time, *counts in lane.computing:
        key = (id(time), *counts)
        if time is not None and key not in known:
            known[key] = layer_energy(lane.setting, time, lane.place.microbatches, *counts)
        for component, joules in known.get(key, ()):
            yield layer, None, component, joules
