"""Setting of a training step, machine, array and numerics, and what transfers and computation cost in it: rates, and energies.

Rates of one per byte give the communication, rates in seconds per byte of a machine give time. Both use the same
transfers. Energies are those of an access, of a phase of a layer on a device by component, and power at rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.machine.work import LayerTime
from hypar.network.graph import LayerGraph
from hypar.network.training import AS_USUAL, Formats, Training, formats_of
from hypar.ops.nest import PHASES, Nest
from hypar.sharding.conventions import COLLECTIVES, PAPER
from hypar.sharding.placement import divided_einsum

if TYPE_CHECKING:
    from hypar.machine.machine import Machine


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Machine, array and numerics of a training step.

    Attributes:
        machine: the devices and links.
        array: ways of each level, outermost first.
        element_bytes: bytes of one element of F and E.
        optimizer: one of ``OPTIMIZERS``.
        convention: the convention by which transfers are counted.
        training: how the step trains.
    """

    machine: Machine
    array: tuple[int, ...]
    element_bytes: int
    optimizer: str = "sgd"
    convention: str = PAPER
    training: Training = AS_USUAL

    @property
    def formats(self) -> Formats:
        """The number formats of its tensors."""
        return formats_of(self.training.precision, self.element_bytes)

    def update_seconds(self, time: LayerTime) -> float:
        """Return the time of an update: that of its memory accesses on the fullest device."""
        return self.machine.memory_seconds(time.fullest["weight"] * self.formats.updated(self.optimizer))

    def layer_seconds(
        self, nest: Nest, degrees: NDArray[np.int64], update: float = 1.0
    ) -> NDArray[np.float64]:
        """Return the seconds of a layer's phases and update on one device, for each row of degrees ``[rows, dims]``.

        A compute model that takes arrays is called once, another one for each distinct row. A second of the update counts for
        as much as is given.
        """

        def whole(time: LayerTime) -> Any:
            return sum(time.seconds.values()) + update * self.update_seconds(time)

        operand = self.formats.operand
        if self.machine.compute.takes_arrays:
            columns = tuple(own if own.max() > 1 else 1 for own in degrees.T)
            time = self.machine.timed(nest, columns, self.element_bytes, operand)
            return np.broadcast_to(np.asarray(whole(time), np.float64), len(degrees))
        rows, which = np.unique(degrees, axis=0, return_inverse=True)
        each = (tuple(row) for row in rows.tolist())
        times = [self.machine.layer_time(nest, row, self.element_bytes, operand) for row in each]
        return np.array([whole(time) for time in times])[which.reshape(-1)]


class Rate(NamedTuple):
    """Cost of a transfer as a line over its elements, for each of ``COLLECTIVES``.

    Attributes:
        per_element: cost of an element received.
        once: fixed cost of a transfer.
    """

    per_element: tuple[float, ...]
    once: tuple[float, ...]


class Rates(NamedTuple):
    """Costs of moving elements.

    Attributes:
        lines: the costs of a transfer by several algorithms, of which the least one counts.
        together: whether all devices receive at the same time, so that the elements of one device count;
            otherwise those of all devices count.
    """

    lines: tuple[Rate, ...]
    together: bool = False

    @property
    def price(self) -> float | None:
        """The cost of an element if it is the same for every collective, and transfers cost nothing else."""
        (first, *others), per_element = self.lines, {*self.lines[0].per_element}
        same = not (others or len(per_element) > 1 or self.late or self.together)
        return float(first.per_element[0]) if same else None

    @property
    def late(self) -> bool:
        """Whether transfers cost something whatever their elements."""
        return any(any(rate.once) for rate in self.lines)


def even_rates(per_element: float) -> Rates:
    """Return rates with the same cost per element for every collective."""
    return Rates((Rate((per_element,) * len(COLLECTIVES), (0.0,) * len(COLLECTIVES)),))


@lru_cache(maxsize=256)
def time_rates(setting: Setting, level: int, *, shared: bool = True) -> Rates:
    """Return the seconds per element that a device receives at one level; all receive at the same time.

    Devices share the ports of their group, unless they send one after another.
    """
    link = setting.machine.links(setting.array, shared=shared)[level]
    own = [link.lines[kind] for kind in COLLECTIVES]
    # A collective of fewer algorithms than others has its last one several times.
    columns = zip(*([*lines, *lines[-1:] * (max(map(len, own)) - len(lines))] for lines in own), strict=True)
    each = (
        [(own.seconds_per_byte * setting.element_bytes, own.latency_s) for own in lines] for lines in columns
    )
    return Rates(tuple(Rate(*zip(*lines, strict=True)) for lines in each), together=True)


@lru_cache(maxsize=16384)
def group_seconds(setting: Setting, nest: Nest, dim: str | None, share: float, devices: int) -> float:
    """Return the seconds of a layer's phases and update on each of some devices that share a fraction of one of its dims.

    Without a dim they have the whole layer. They divide the same dim further, or the batch.
    """
    own = nest if dim is None else divided_einsum(nest, dim, share, integral=False)
    further = "batch" if dim is None else dim
    counts = [devices if name == further else 1 for name in own.counted]
    return float(setting.layer_seconds(own, np.array([counts], dtype=np.int64))[0])


# Energy

COMPONENTS = ("arithmetic", "registers", "array", "buffer", "memory", "static")


@lru_cache(maxsize=64)
def energies(machine: Machine) -> dict[str, float]:
    """Return the joules of a multiplication with its addition, and of an access to each place; empty if the file gives none."""
    costs = machine.content.device.energy
    if costs is None:
        return {}
    registers, array = (0.0 if own is None else own.value for own in (costs.register_access, costs.array))
    return {
        "arithmetic": costs.multiply.value + costs.add.value,
        "registers": registers,
        "array": array,
        "buffer": costs.buffer.value,
        "memory": costs.memory.value,
    }


def byte_energies(machine: Machine) -> tuple[float, float, float | None]:
    """Return the joules of a byte that a device receives: at both ends, of a term of a sum besides, and over each link on its way.

    A term is added to a word that is read for it, where the machine counts sums. The last one is None if it is not given, all are 0
    without energies.
    """
    content = machine.content
    costs, word, assumed = content.device.energy, content.device.word.value, content.assumptions
    if costs is None:
        return 0.0, 0.0, None
    summed = 0.0 if assumed.sums.value == "free" else (costs.add.value + costs.memory.value) / word
    moved = assumed.accesses_per_word_moved.value * costs.memory.value / word
    return moved, summed, None if costs.link is None else costs.link.value / word


def power_at_rest(machine: Machine) -> float:
    """Return the watts that all units of a device draw at rest; 0 if the machine's file gives none."""
    costs = machine.content.device.energy
    units = machine.content.assumptions.units_per_device.value
    return units * costs.static.value if costs is not None and costs.static is not None else 0.0


def phase_energy(machine: Machine, time: LayerTime, phase: str) -> dict[str, float]:
    """Return the joules of each of ``COMPONENTS``; zero where the machine's file gives no energy.

    Words of the memories are those of the machine; a phase's static energy is its time by the power of all units.
    """
    done = {"arithmetic": time.done_macs(phase), **time.work[phase].accesses}
    found = {name: done[name] * joules for name, joules in energies(machine).items()}
    found["static"] = power_at_rest(machine) * time.seconds[phase]
    return dict.fromkeys(COMPONENTS, 0.0) | found


def layer_energy(
    setting: Setting, time: LayerTime, microbatches: int, devices: int, sharing: int = 1, forward: int = 1
) -> list[tuple[str, float]]:
    """Return the joules of a layer on some devices in all microbatches and in its update, component by component.

    Some devices share an update; a microbatch may go forward several times.
    """
    words = devices * (setting.element_bytes / setting.machine.content.device.word.value)
    weight, work = time.words["weight"] / sharing, [done.accesses for done in time.work.values()]
    macs = math.fsum([*map(time.done_macs, time.work), (forward - 1) * time.done_macs("forward")])
    done = {"arithmetic": devices * (microbatches * macs + weight)}
    for place, more in time.work["forward"].accesses.items():
        own = math.fsum(accesses[place] for accesses in work)
        done[place] = words * microbatches * (own + (forward - 1) * more)
    each = energies(setting.machine)
    updates = setting.formats.updated(setting.optimizer) / setting.element_bytes * weight
    found = [(name, done[name] * joules) for name, joules in each.items()]
    return found and [*found, ("memory", words * updates * each["memory"])]


def whole_layers(machine: Machine, graph: LayerGraph) -> list[dict[str, Any]]:
    """Return time, energy, accesses and mapping of each phase of whole layers on one device, of each group if there are any."""
    if machine.groups:
        groups = ((name, whole_layers(own, graph)) for name, own, _ in machine.leaves())
        return [{"group": name, **row} for name, rows in groups for row in rows]
    return [
        {"layer": layer.name, "phase": phase, **phase_of(phase, time, machine)}
        for layer in graph.contracted.layers
        if machine.times(layer.nest)
        for time in [machine.layer_time(layer.nest, (1,) * len(layer.nest.counted), graph.element_bytes)]
        for phase in PHASES
    ]


def phase_of(phase: str, time: LayerTime, machine: Machine) -> dict[str, Any]:
    """Return what a phase of a layer takes on a device."""
    return {
        "time_s": time.seconds[phase],
        "macs": time.macs,
        "accesses": dict(time.work[phase].accesses),
        "mapping": dict(time.work[phase].mapping),
        "energy": phase_energy(machine, time, phase),
    }
