"""Totals over the tasks of a step: communication and energy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.machine.machine import LayerTime, Machine
    from hypar.machine.setting import Setting
    from hypar.schedule.lanes import Lane
    from hypar.schedule.moves import Move
    from hypar.schedule.step import Step


def received_at(step: Step, levels: int) -> dict[str, float]:
    """Sum the bytes that all devices receive at each level."""
    found: dict[str, list[float]] = {f"H{level + 1}": [] for level in range(levels)}
    for move in step.moves:
        if move is not None:
            found[f"H{move.level + 1}"].append(move.total_bytes)
    return {level: math.fsum(amounts) for level, amounts in found.items()}


def repeated(move: Move, microbatches: int) -> int:
    """Return how often a transfer runs in a mini-batch: gradients are added up once."""
    return 1 if move.phase == "gradient" else microbatches


def received_by(lane: Lane, step: Step, number: int, microbatches: int = 1) -> float:
    """Sum the bytes that the devices of a lane receive, with its share of transfers to several lanes."""
    devices = math.prod(lane.setting.array)
    moved = zip(step.moves, step.lanes, strict=True)
    return math.fsum(
        repeated(move, microbatches)
        * move.total_bytes
        * (devices / move.subgroup_devices if len(lanes) > 1 else 1)
        for move, lanes in moved
        if move is not None and number in lanes
    )


def energy_of(lane: Lane, step: Step, number: int, microbatches: int = 1) -> dict[str, float] | None:
    """Sum the joules of all devices of a lane: operations and accesses times the energy of each.

    Args:
        lane: the devices and their work for a microbatch.
        step: the lowered step.
        number: index of the lane in the step.
        microbatches: number of microbatches; updates, and adding up gradients, run once.
    """
    setting = lane.setting
    if setting.machine.content.device.energy is None:
        return None
    found = dict.fromkeys(("arithmetic", *_access_energies(setting)), 0.0)
    for _, place, joules in energy_items(lane, step, number, microbatches):
        found[place] += joules
    found["communication"] = moving_energy(setting.machine, received_by(lane, step, number, microbatches))
    return found


def _access_energies(setting: Setting) -> dict[str, float]:
    """Return the joules of an access to each place; empty if the machine's file gives no energies."""
    costs = setting.machine.content.device.energy
    if costs is None:
        return {}
    return {
        "registers": costs.register_access.value if costs.register_access else 0.0,
        "array": costs.array.value if costs.array else 0.0,
        "buffer": costs.buffer.value,
        "memory": costs.memory.value,
    }


def energy_items(
    lane: Lane, step: Step, number: int, microbatches: int = 1
) -> Iterator[tuple[int, str, float]]:
    """Yield each layer's joules of arithmetic and of accesses, place by place; arguments as in ``energy_of``."""
    setting, work = lane.setting, step.work[number]
    costs, each = setting.machine.content.device.energy, _access_energies(setting)
    if costs is None:
        return
    operation = costs.multiply.value + costs.add.value
    words = setting.element_bytes / setting.machine.content.device.word.value
    for layer, (time, devices) in enumerate(zip(work.times, work.working, strict=True)):
        if time is not None:
            macs, accesses = _counted(time)
            yield layer, "arithmetic", devices * (microbatches * macs + time.words["weight"]) * operation
            for place, joules in each.items():
                yield layer, place, devices * words * microbatches * accesses[place] * joules
            updated = setting.update_accesses * time.words["weight"]
            yield layer, "memory", devices * words * updated * costs.memory.value


def moving_energy(machine: Machine, num_bytes: float) -> float:
    """Return the joules of receiving some bytes; 0 if the machine's file gives no energies."""
    content = machine.content
    words = num_bytes / content.device.word.value
    access = content.device.energy.memory.value if content.device.energy else 0.0
    return words * content.assumptions.accesses_per_word_moved.value * access


def _counted(time: LayerTime) -> tuple[float, dict[str, float]]:
    """Return multiply-accumulates and accesses of the three phases on one device."""
    work = time.work.values()
    places = next(iter(work)).accesses
    return 3 * time.macs, {place: math.fsum(done.accesses[place] for done in work) for place in places}
