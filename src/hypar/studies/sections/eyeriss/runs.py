"""Layers of a network on a machine of one device, forward."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from hypar.machine.energy import access_energies, phase_energy, power_at_rest
from hypar.machine.load import load_machine
from hypar.machine.spatial.zeros import run_length_words, zeros_of_words
from hypar.network.build import load_model, with_ops
from hypar.network.dims import CUTTABLE
from hypar.studies.sections.eyeriss.published import (
    ALEXNET,
    ALEXNET_BATCH,
    ALEXNET_SAVED,
    VGG16,
    VGG16_BATCH,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.machine.machine import LayerTime
    from hypar.network.graph import LayerGraph
    from hypar.studies.sections.eyeriss.published import OnChip

WORD_BYTES = 2
"""Bytes of the 16-bit words of all three machines."""


@cache
def forward(machine: str, network: str, batch: int) -> dict[str, LayerTime]:
    """Return the times and words of each weighted layer, whole on the machine's device."""
    return _times(machine, load_model(network, batch=batch))


@cache
def on_chip(network: str) -> dict[str, LayerTime]:
    """Return the same of AlexNet's or VGG-16's convolutions on the chip, with the zeros that the paper gives."""
    rows = {"alexnet-2012": ALEXNET, "vgg16": VGG16}[network]
    graph = load_model(network, batch=ALEXNET_BATCH if rows is ALEXNET else VGG16_BATCH)
    read, written = zeros_read(rows), zeros_written(rows)
    ops = {
        layer.name: layer.op.model_copy(
            update={"input_zeros": read[layer.name], "output_zeros": written[layer.name]}
        )
        for layer in graph.layers
        if layer.name in rows
    }
    times = _times("eyeriss", with_ops(graph, ops))
    return {name: times[name] for name in rows}


def zeros_read(rows: Mapping[str, OnChip]) -> dict[str, float | None]:
    """Return the zeros of each layer's input; None for the first, which the chip does not code."""
    first, *others = rows
    return {first: None, **{name: rows[name].zeros for name in others}}


def zeros_written(rows: Mapping[str, OnChip]) -> dict[str, float]:
    """Return the zeros of each layer's output, before the pool that may follow.

    They are so many that coding saves as much of a layer's feature maps, each moved once, as the paper says. Where it does
    not say so they are those of the next layer's input; the last one's are those of its own. Each channel is a code.
    """
    names = list(rows)
    found = {name: rows[after].zeros for name, after in zip(names, [*names[1:], names[-1]], strict=True)}
    if rows is ALEXNET:
        layers = {layer.name: layer.einsum(1) for layer in load_model("alexnet-2012").layers}
        for name, saved in ALEXNET_SAVED.items():
            sizes = layers[name].sizes
            read, written = (layers[name].elements(tensor) for tensor in ("input", "output"))
            before, after = (
                elements / (sizes[dim] * sizes.get("groups", 1))
                for elements, dim in ((read, "in_channels"), (written, "out_channels"))
            )
            left = (1 - saved) * (read + written) - read * run_length_words(zeros_read(rows)[name], before)
            found[name] = zeros_of_words(left / written, after)
    return found


def _times(machine: str, graph: LayerGraph) -> dict[str, LayerTime]:
    found = load_machine(machine)
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


def milliwatts(time: LayerTime) -> dict[str, float]:
    """Return the power of the chip in the forward phase by component, without that of the DRAM."""
    parts = energy("eyeriss", time)
    del parts["memory"]
    return {part: joules / time.seconds["forward"] * 1e3 for part, joules in parts.items()}


def element_saving() -> float:
    """Return the part of an active element's power, clock included, that it saves while its input is zero."""
    chip, dense = load_machine("eyeriss"), on_chip("alexnet-2012")["conv1"]
    multiply_add, register = (
        energy("eyeriss", dense)["arithmetic"] / dense.macs,
        access_energies(chip)["registers"],
    )
    clock = power_at_rest(chip) / (chip.compute.flop_per_s(1) / 2)
    return (multiply_add + 3 * register) / (multiply_add + 4 * register + clock)
