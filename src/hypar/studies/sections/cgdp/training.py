"""The paper's cost model with its measured times: AlexNet layer by layer, and other networks at AlexNet's rates.

One number is fitted, the synchronisation of a chunk, to the backward phase of AlexNet in Table 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from hypar.machine.measured import measured_devices, with_times
from hypar.machine.setting import Setting
from hypar.machine.step_times import LayerTimes, StepTimes
from hypar.network.build import load_model
from hypar.network.gradients import gradients_of
from hypar.schedule.chunks.best import best_sizes
from hypar.schedule.chunks.exchanges import EXCHANGES, Sizes
from hypar.schedule.chunks.sizes import SizeSearch, rule_sizes, search_size
from hypar.schedule.lanes import Lane
from hypar.schedule.step import lower_lanes
from hypar.sharding.placement import cut
from hypar.studies.sections.cgdp.published import (
    ACCUMULATE,
    ADDED_UP_MS,
    ALEXNET,
    BACKWARD_MS,
    BROADCAST_MS,
    CGDP_BACKWARD_MS,
    COPY_BACK,
    COPY_OUT,
    FORWARD_MS,
    GOOGLENET,
    GPUS,
    INTERVAL,
    RANGE,
    STEP,
    UPDATE_MS,
    Network,
)
from hypar.timeline import run

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph

PAPER = EXCHANGES["independent"]
"""The paper's exchange: any number of chunks at once."""

PARTS = {"copy out": COPY_OUT, "accumulate": ACCUMULATE, "copy back": COPY_BACK}
"""The phases of a layer's exchange."""

TYPICAL_EXCHANGE_S = (BROADCAST_MS + ADDED_UP_MS) / 1e3
"""The exchange of AlexNet in typical training on four GPUs."""

BACKWARD_SHARE = BACKWARD_MS / (FORWARD_MS + BACKWARD_MS + UPDATE_MS)
"""The fraction of an iteration without exchange that AlexNet's backward phase takes."""


def engine_s(times: StepTimes, sizes: Sizes, network: Network = ALEXNET) -> float:
    """Return the engine's seconds of a network's step with the paper's times and its exchange.

    Args:
        times: the times of the network's layers.
        sizes: the number of layers of each chunk, in the order of the backward phase.
        network: the network.
    """
    graph = load_model(network.model)
    devices = measured_devices(Path("cgdp"), {"exchange": "independent"})
    setting = Setting(machine=with_times(devices, times), array=(2,), element_bytes=graph.element_bytes)
    layers = graph.contracted.layers
    lane = Lane(graph.contracted, [(cut("batch", 2),)] * len(layers), setting)
    ends = pairwise(accumulate(sizes, initial=0))
    backward = [*reversed(range(len(layers)))]
    return run(lower_lanes([lane], chunks=tuple(tuple(backward[slice(*own)]) for own in ends)).tasks).makespan


def alexnet(sync_s: float) -> StepTimes:
    """Return AlexNet's times with Table 4's exchange; its backward phase is split by multiply-adds.

    Args:
        sync_s: the synchronisation of a chunk.
    """
    graph = load_model(ALEXNET.model)
    rows = zip(*(PARTS[name][::-1] for name in PARTS), strict=True)
    exchanges = [dict(zip(PARTS, (ms / 1e3 for ms in row), strict=True)) for row in rows]
    return _step(graph, BACKWARD_MS / 1e3, exchanges, sync_s)


@cache
def fitted_sync_s() -> float:
    """Return the synchronisation with which the layer-by-layer model gives the published time.

    Each layer's span grows by one synchronisation for each layer from the last to it, so the least that brings any
    span to the published time is it.
    """
    free = alexnet(0.0)
    spans = PAPER.spans(free, rule_sizes(len(free.layers), 1))
    return min((CGDP_BACKWARD_MS / 1e3 - span) / number for number, span in enumerate(spans, 1))


def typical_backward_s() -> float:
    """Return T' of AlexNet, definition 3.4: the backward phase and the typical exchange after it."""
    return BACKWARD_MS / 1e3 + TYPICAL_EXCHANGE_S


def rounds(gpus: int) -> int:
    """Return the rounds of an exchange over a binary tree of GPUs, each of which moves all gradients."""
    return math.ceil(math.log2(gpus))


@dataclass(frozen=True, kw_only=True)
class Training:
    """A network's training in the cost model.

    Attributes:
        name: the network's name.
        times: seconds of its backward phase and its exchange, layer by layer.
        alone_s: an iteration on one GPU.
        exchange_s: the typical exchange on four GPUs.
    """

    name: str
    times: StepTimes
    alone_s: float
    exchange_s: float

    @property
    def layers(self) -> int:
        """Return the number of weighted layers."""
        return len(self.times.layers)

    @property
    def stalls_s(self) -> float:
        """Return the synchronisation time of all layers, one chunk per layer."""
        return self.layers * self.times.sync_s

    def typical_s(self, gpus: int) -> float:
        """Return an iteration of typical training: the exchange goes over a tree of GPUs after the backward phase."""
        return self.alone_s + self.exchange_s * rounds(gpus) / rounds(GPUS[-1])

    def overhead_s(self, sizes: Sizes) -> float:
        """Return the additional time of the backward phase over one GPU's, T_O = T - T_BP."""
        return self._backward_s(sizes) - self.times.ready[-1]

    def cgdp_s(self, size: int) -> float:
        """Return an iteration of CGDP with chunks of one size, on several GPUs."""
        return self.alone_s + self.overhead_s(rule_sizes(self.layers, size))

    def best_s(self) -> float:
        """Return an iteration of CGDP with the best chunks."""
        return self.alone_s + self.overhead_s(best_sizes(self.times, PAPER))

    def search(self, step: int = STEP, reach: int = RANGE) -> SizeSearch:
        """Search for a size by Algorithm 1."""
        return search_size(self.cgdp_s, step=step, reach=reach, interval=INTERVAL)

    def _backward_s(self, sizes: Sizes) -> float:
        return max(PAPER.spans(self.times, sizes))


@cache
def training(network: Network, batch: int | None = None) -> Training:
    """Return the training of a network.

    AlexNet has the exchange of Table 4. Others exchange each byte at AlexNet's rates, and their backward phase has
    AlexNet's share of the iteration on one GPU. Where Table 2 has no iteration, GoogLeNet's multiply-adds in a second
    give it.

    Args:
        network: one of Table 1.
        batch: the images on each GPU, where not those of Table 1.
    """
    graph, alex = load_model(network.model), load_model(ALEXNET.model)
    one_s = network.typical_ms[1] / 1e3 if network.typical_ms else _by_work_s(graph, batch or network.batch)
    held, whole = [each.num_bytes for each in gradients_of(graph)], _bytes(alex)
    if network is ALEXNET:
        times = alexnet(fitted_sync_s())
    else:
        rates = {name: math.fsum(parts) / 1e3 / whole for name, parts in PARTS.items()}
        exchanges = [{name: rate * size for name, rate in rates.items()} for size in held]
        times = _step(graph, one_s * BACKWARD_SHARE, exchanges, fitted_sync_s())
    exchange_s = TYPICAL_EXCHANGE_S * sum(held) / whole
    return Training(name=network.name, times=times, alone_s=one_s, exchange_s=exchange_s)


def typical_with_cgdp_s() -> float:
    """Return T' of AlexNet with the copies and accumulations of CGDP, Table 4, one after another, unsynchronised."""
    times = alexnet(0.0)
    return engine_s(times, (len(times.layers),))


def _by_work_s(graph: LayerGraph, batch: int) -> float:
    """Return an iteration on one GPU by its multiply-adds, at the rate of GoogLeNet."""
    macs = load_model(GOOGLENET.model).macs(GOOGLENET.batch)
    return GOOGLENET.typical_ms[1] / 1e3 * graph.macs(batch) / macs


def _bytes(graph: LayerGraph) -> int:
    return sum(each.num_bytes for each in gradients_of(graph))


def _step(
    graph: LayerGraph, backward_s: float, exchanges: list[dict[str, float]], sync_s: float
) -> StepTimes:
    """Return the times of weighted layers, with the backward phase split by multiply-adds."""
    weighted = [layer for layer in graph.layers if layer.op.weighted]
    macs = graph.macs()
    layers = tuple(
        LayerTimes(
            name=layer.name,
            forward_s=0.0,
            backward_s=backward_s * layer.macs() / macs,
            exchange_s=exchange,
        )
        for layer, exchange in zip(weighted, exchanges, strict=True)
    )
    return StepTimes(layers=layers, sync_s=sync_s)
