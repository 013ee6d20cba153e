"""Layers of a network on a machine of one device, forward."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from hypar.machine.energy import phase_energy
from hypar.machine.load import load_machine
from hypar.network.build import load_model
from hypar.sharding.dims import CUTTABLE

if TYPE_CHECKING:
    from hypar.machine.machine import LayerTime

WORD_BYTES = 2
"""Bytes of the 16-bit words of all three machines."""


@cache
def forward(machine: str, network: str, batch: int) -> dict[str, LayerTime]:
    """Return the times and words of each weighted layer, whole on the machine's device."""
    found, graph = load_machine(machine), load_model(network, batch=batch)
    return {
        layer.name: found.layer_time(layer.einsum, (1,) * len(CUTTABLE), WORD_BYTES)
        for layer in graph.contracted.layers
        if not layer.join
    }


def energy(machine: str, time: LayerTime) -> dict[str, float]:
    """Return the joules of a layer's forward phase by component."""
    return phase_energy(load_machine(machine), time, "forward")


def milliseconds(time: LayerTime) -> float:
    """Return the time of the forward phase."""
    return time.seconds["forward"] * 1e3


def megabytes(time: LayerTime, place: str) -> float:
    """Return the words accessed in a memory in the forward phase, in MB."""
    return time.work["forward"].accesses[place] * WORD_BYTES / 1e6


def roof_milliseconds(machine: str, time: LayerTime, buffer_mb: float) -> float:
    """Return the time of the forward phase if the buffer had to give some words instead of those of our mapping."""
    found, done = load_machine(machine), time.work["forward"]
    arithmetic = done.seconds / found.content.assumptions.efficiency.value
    buffer = done.buffer_seconds * buffer_mb * 1e6 / WORD_BYTES / done.accesses["buffer"]
    return max(arithmetic, buffer) * 1e3


def chip_milliwatts(machine: str, time: LayerTime) -> float:
    """Return the power of the forward phase without that of the memory."""
    parts = energy(machine, time)
    return (sum(parts.values()) - parts["memory"]) / time.seconds["forward"] * 1e3
