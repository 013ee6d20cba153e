"""Times of a data-parallel step on a machine, layer by layer, with the exchange of the gradients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.errors import HardwareError
from hypar.machine.setting import degrees
from hypar.network.gradients import gradients_of
from hypar.schedule.chunks.times import LayerTimes, StepTimes
from hypar.sharding.placement import cut
from hypar.sharding.transfers import inside

if TYPE_CHECKING:
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph


def whole_array(machine: Machine) -> tuple[int, ...]:
    """Return all devices of a machine, as one level for each of its networks.

    Raises:
        HardwareError: it has one device, which has no partner for an exchange.
    """
    ways = tuple(tier.devices for tier in machine.tiers if tier.devices > 1)
    if not ways:
        raise HardwareError(f"hardware {machine.name!r}", "found one device", "two, to exchange gradients")
    return ways


def machine_times(machine: Machine, graph: LayerGraph, array: tuple[int, ...]) -> StepTimes:
    """Return the times of every layer with the mini-batch divided over all devices of an array.

    The gradients of all trained tensors are added up at each level, innermost first, as in a step of a plan, by the
    algorithm that is fastest for the gradients of all layers together. The time that depends on their bytes belongs to the
    layers; the latency is paid once for each chunk.

    Args:
        machine: the devices and links.
        graph: the network with its mini-batch.
        array: ways of each level, outermost first.

    Raises:
        HardwareError: the array does not fit the machine.
    """
    links = machine.links(array)
    divisors = degrees(tuple(cut("batch", ways) for ways in array))
    weighted = [layer for layer in graph.contracted.layers if layer.weighted]
    sums = [transfer for ways in array for transfer in inside(weighted[0].einsum, cut("batch", ways), ways)]
    held = gradients_of(graph)
    all_bytes = sum(gradients.num_bytes for gradients in held)
    used = [
        link.line(transfer.collective, transfer.fraction * all_bytes / transfer.devices)
        for link, transfer in zip(links, sums, strict=True)
    ]
    # Seconds for a byte of gradients, of which a subgroup receives a fraction at each level.
    byte_s = math.fsum(
        line.seconds_per_byte * transfer.fraction / transfer.devices
        for line, transfer in zip(used, sums, strict=True)
    )
    layers = []
    for layer, gradients in zip(weighted, held, strict=True):
        seconds = machine.layer_time(layer.einsum, divisors, graph.element_bytes).seconds
        layers.append(
            LayerTimes(
                name=layer.name,
                forward_s=seconds["forward"],
                backward_s=seconds["backward"] + seconds["gradient"],
                exchange_s={"exchange": byte_s * gradients.num_bytes},
            )
        )
    return StepTimes(layers=tuple(layers), sync_s=math.fsum(line.latency_s for line in used))
