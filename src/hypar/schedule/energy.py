"""Energy of a step on all devices, by component: arithmetic, accesses, words moved, links, and power at rest.

What a machine's file does not give is no component of its scores, but for ``registers`` and ``array``, which are then 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.machine.energy import access_energies, power_at_rest
from hypar.schedule.moves import BETWEEN_STAGES
from hypar.sharding.collectives import SUMMED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.machine.machine import Machine
    from hypar.schedule.lanes import Lane
    from hypar.schedule.moves import Move
    from hypar.schedule.step import Step


class Moved(NamedTuple):
    """A transfer as far as a lane takes part in it.

    Attributes:
        layer: the layer that it belongs to.
        move: the transfer.
        num_bytes: bytes that the devices of the lane receive in a mini-batch.
    """

    layer: int
    move: Move
    num_bytes: float

    @property
    def summed_bytes(self) -> float:
        """Return the bytes received that are terms of a sum."""
        return SUMMED.get(self.move.collective, 0.0) * self.num_bytes


def energy_of(lane: Lane, step: Step, number: int, step_s: float) -> dict[str, float] | None:
    """Return the joules of all devices of a lane, by component; None if the machine's file gives no energies.

    Args:
        lane: the devices and their work for a microbatch.
        step: the lowered step.
        number: index of the lane in the step.
        step_s: time of the whole step, for which every device draws its power at rest.
    """
    setting, machine = lane.setting, lane.setting.machine
    costs = machine.content.device.energy
    if costs is None:
        return None
    found = dict.fromkeys(("arithmetic", *access_energies(machine)), 0.0)
    for _, place, joules in energy_items(lane):
        found[place] += joules
    moved = [*moved_items(lane, step, number)]
    received = [num_bytes for _, _, num_bytes in moved]
    summed = [SUMMED.get(move.collective, 0.0) * num_bytes for _, move, num_bytes in moved]
    found["communication"] = moving_energy(machine, math.fsum(received), math.fsum(summed))
    if costs.link is not None:
        hops = {(move.level, move.phase): move for _, move, _ in moved}
        each = {place: _hops(lane, move) for place, move in hops.items()}
        passed = np.array([each[move.level, move.phase] for _, move, _ in moved])
        found["link"] = math.fsum(link_energy(machine, passed, np.array(received)).tolist())
    if costs.static is not None:
        found["static"] = math.prod(setting.array) * power_at_rest(machine) * step_s
    return found


def energy_items(lane: Lane) -> Iterator[tuple[int, str, float]]:
    """Yield each layer's joules of arithmetic and of accesses, place by place."""
    setting, microbatches = lane.setting, lane.place.microbatches
    costs, each = setting.machine.content.device.energy, access_energies(setting.machine)
    if costs is None:
        return
    operation = costs.multiply.value + costs.add.value
    words = setting.element_bytes / setting.machine.content.device.word.value
    update_accesses, memory = setting.update_accesses, costs.memory.value
    known: dict[object, list[tuple[str, float]]] = {}
    for layer, time, devices in lane.computing:
        if time is None:
            continue
        key = (id(time), devices)
        if key not in known:
            macs, accesses = math.fsum(map(time.done_macs, time.work)), time.accesses
            weight = time.words["weight"]
            known[key] = [
                ("arithmetic", devices * (microbatches * macs + weight) * operation),
                *(
                    (place, devices * words * microbatches * accesses[place] * joules)
                    for place, joules in each.items()
                ),
                ("memory", devices * words * (update_accesses * weight) * memory),
            ]
        for place, joules in known[key]:
            yield layer, place, joules


def moved_items(lane: Lane, step: Step, number: int) -> Iterator[Moved]:
    """Yield the transfers that a lane takes part in, those to several lanes by its share of their devices."""
    devices = math.prod(lane.setting.array)
    for layer, move, lanes in zip(step.layers, step.moves, step.lanes, strict=True):
        if move is not None and number in lanes:
            share = devices / move.subgroup_devices if len(lanes) > 1 else 1
            yield tuple.__new__(Moved, (layer, move, move.total_bytes * share))


def moved_energy(lane: Lane, moved: Moved) -> float:
    """Return the joules of a transfer: of its words, and of the links on their way."""
    machine = lane.setting.machine
    words = moving_energy(machine, moved.num_bytes, moved.summed_bytes)
    return words + float(link_energy(machine, _hops(lane, moved.move), moved.num_bytes))


def moving_energy(machine: Machine, num_bytes: float, summed_bytes: float = 0.0) -> float:
    """Return the joules of receiving some bytes at both ends; 0 if the machine's file gives no energies.

    Args:
        machine: the machine.
        num_bytes: bytes received.
        summed_bytes: those of them that are terms of a sum: each is added to a word that is read for it, where the machine
            counts sums.
    """
    content = machine.content
    costs, word = content.device.energy, content.device.word.value
    words = num_bytes / word
    moved = words * content.assumptions.accesses_per_word_moved.value * (costs.memory.value if costs else 0.0)
    if costs is None or content.assumptions.sums.value == "free":
        return moved
    return moved + summed_bytes / word * (costs.add.value + costs.memory.value)


def link_energy(machine: Machine, hops: Any, num_bytes: Any) -> Any:
    """Return the joules of bytes that pass some links, numbers or arrays; 0 if the machine's file gives none for a link."""
    device = machine.content.device
    each = device.energy.link.value if device.energy and device.energy.link else 0.0
    return num_bytes / device.word.value * hops * each


def _hops(lane: Lane, move: Move) -> float:
    """Return the links on the way of a transfer; from another device group it is the link outward."""
    level, setting = move.level - lane.depth, lane.setting
    if setting.machine.content.device.energy is None:
        return 1.0
    if move.level == BETWEEN_STAGES and move.phase not in lane.place.outward:
        return setting.machine.stage_link(setting.array, lane.place.stages).mean_hops
    if level < 0:
        return 1.0
    return setting.machine.links(setting.array)[level].mean_hops
