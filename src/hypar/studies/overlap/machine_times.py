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
    from collections.abc import Sequence

    from hypar.machine.machine import Machine
    from hypar.machine.routing import LevelLink
    from hypar.network.graph import LayerGraph
    from hypar.network.ops.base import Einsum


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

    The gradients of all trained tensors are added up at each level, innermost first, as in a step of a plan. The time
    that depends on their bytes belongs to the layers; the latency is paid once for each chunk.

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
    layers = []
    for layer, gradients in zip(weighted, gradients_of(graph), strict=True):
        seconds = machine.layer_time(layer.einsum, divisors, graph.element_bytes).seconds
        layers.append(
            LayerTimes(
                name=layer.name,
                forward_s=seconds["forward"],
                backward_s=seconds["backward"] + seconds["gradient"],
                exchange_s={"exchange": _exchange_s(layer.einsum, gradients.num_bytes, array, links)},
            )
        )
    return StepTimes(layers=tuple(layers), sync_s=_latency_s(weighted[0].einsum, array, links))


def _exchange_s(einsum: Einsum, num_bytes: int, array: Sequence[int], links: Sequence[LevelLink]) -> float:
    """Return the seconds to add up the gradients of ``num_bytes`` at every level, without latency."""
    return math.fsum(
        link.seconds_per_byte[transfer.collective] * transfer.fraction * num_bytes / transfer.devices
        for ways, link in zip(array, links, strict=True)
        for transfer in inside(einsum, cut("batch", ways), ways)
    )


def _latency_s(einsum: Einsum, array: Sequence[int], links: Sequence[LevelLink]) -> float:
    """Return the seconds of an exchange that do not depend on its size, summed over all levels."""
    return math.fsum(
        link.latency_s[transfer.collective]
        for ways, link in zip(array, links, strict=True)
        for transfer in inside(einsum, cut("batch", ways), ways)
    )
