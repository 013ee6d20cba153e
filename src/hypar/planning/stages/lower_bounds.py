"""Lower bounds on the cost of every span as a stage, computed before any span is planned.

Each layer of a span counts with the time of its fastest choice, the exchange of its partial results included, and a
span receives every tensor that crosses its ends at least once, by other counts than ``paper`` if it has an end there.
Transfers between its layers are left out; if transfers overlap with computation, so is the exchange of partial results.
Memory counts weights, kept activations, the error with which the backward phase begins, and a buffer for what arrives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from hypar.machine.work import fullest_share
from hypar.network.nodes import kept_with_graph
from hypar.network.training import OPTIMIZERS
from hypar.planning.stages.spans import LayerBounds
from hypar.schedule.pieces import priced
from hypar.sharding.amounts.counted import received_inside
from hypar.sharding.amounts.transfers import Sums, network_of, sends_back
from hypar.sharding.conventions import FUSED, PAPER
from hypar.sharding.placement import degrees

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypar.machine.setting import Setting
    from hypar.network.nodes import PlanGraph, PlanNode
    from hypar.planning.stages.spans import CutSpans
    from hypar.schedule.tasks import Link
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs

MOST_COMBINATIONS = 4096
"""Largest number of joint choices that are tried for a layer; a layer with more has the bound 0."""

ROUNDING = 1e-9
"""Largest relative difference between a sum and the same sum in another order."""


@dataclass(frozen=True, eq=False)
class LowerBounds:
    """The lower bounds of each span between places, ``[starts, ends]``; nothing of several device groups, before their shares are known.

    Attributes:
        spans: the spans.
    """

    spans: CutSpans

    @property
    def layers(self) -> list[LayerBounds]:
        """The lower bounds of each layer, whatever it chooses; found once for all links."""
        spans = self.spans
        if not spans.bounds:
            uneven = [LayerBounds()] * len(spans.whole.layers)
            spans.bounds.extend(uneven if spans.request.heterogeneous else self._over_choices())
        return spans.bounds

    def _over_choices(self) -> Iterator[LayerBounds]:
        spans = self.spans
        known: dict[object, LayerBounds] = {}
        graph, offered = spans.microbatch, spans.question().options
        rows = zip(graph.layers, _kept(graph), self._added_up(), offered, strict=True)
        for layer, kept, sums, options in rows:
            key = (layer.nest, kept, sums, options)
            if key not in known:
                few = math.prod(map(len, options)) <= MOST_COMBINATIONS
                each = [self._under(layer, kept, sums, chosen) for chosen in product(*options) if few]
                known[key] = LayerBounds(*map(min, zip(*each, strict=True))) if each else LayerBounds()
            yield known[key]

    def _added_up(self) -> tuple[Sums, ...]:
        """Return for each layer the sums that are added up inside it, or by ``fused`` between it and the next."""
        graph, convention = self.spans.microbatch, self.spans.setting.convention
        if convention == FUSED:
            return (Sums(output=True, input=False),) * len(graph.layers)
        return network_of(graph, PAPER).sums if convention == PAPER else self.spans.network.sums

    def _under(self, layer: PlanNode, kept: tuple[float, float], sums: Sums, chosen: Options) -> LayerBounds:
        """Return the bounds of a layer, which keeps elements of its input and behind its output, under a choice at each level."""
        setting, divisors = self.spans.setting, degrees(chosen, layer.nest.counted)
        read, made = (fullest_share(layer.nest, divisors, tensor) for tensor in ("input", "output"))
        held = kept[0] * read + kept[1] * made, layer.trail[-1].elements * made
        if not setting.machine.times(layer.nest):
            return LayerBounds(0.0, 0.0, 0.0, *held)
        time = setting.machine.layer_time(layer.nest, divisors, setting.element_bytes)
        spent, once = [*time.seconds.values()], [setting.update_seconds(time)]
        for phase, seconds in () if setting.machine.overlap else _moved(layer, sums, chosen, setting):
            (once if phase == "gradient" else spent).append(seconds)
        seconds = math.fsum((*(self.spans.microbatches * each for each in spent), *once))
        return LayerBounds(seconds, time.seconds.get("forward", 0.0), time.fullest["weight"], *held)

    def _added(self, amount: Callable[[LayerBounds], float]) -> Costs:
        """Return lower bounds of the sums of an amount over every span."""
        before = np.cumsum([0.0, *map(amount, self.layers)])
        lost, at = 1e-15 * len(self.layers) * before[-1], before[[*self.spans.ends]]
        return np.asarray(np.maximum((at - at[:-1, None]) * (1 - ROUNDING) - lost, 0.0))

    @property
    def ahead(self) -> Costs:
        """The time after which the first microbatch has come to each place, ``[starts, 1]``: behind all layers before it."""
        return self._added(lambda layer: layer.forward)[0, :-1, None]

    @cached_property
    def arriving(self) -> tuple[Costs, Costs]:
        """The bytes of F, and of E, that a span receives from others for a microbatch.

        A level outside the stages may bring all but one in so many of them as it has ways.
        """
        spans, ends = self.spans, np.array(self.spans.ends)
        received, returned = np.zeros((2, len(ends) - 1, len(ends)))
        if spans.request.heterogeneous is not None:
            return received, returned
        if spans.setting.convention == PAPER:
            crossing = spans.crossing_bytes[ends]
            return received + crossing[:-1, None], returned + crossing
        tensors, parts = spans.microbatch.tensors, spans.network.parts
        elements = [part.changes[0].elements for each in parts for part in each if part.forward]
        sizes = spans.setting.element_bytes / spans.replicas * np.array(elements)
        # The first places behind the producer and behind the consumer of each tensor.
        made = np.searchsorted(ends, [tensor.producer for tensor in tensors], "right")
        read = np.searchsorted(ends, [tensor.consumer for tensor in tensors], "right")
        # F comes to spans that begin between the two and end behind them, E to those that begin before and end between.
        np.add.at(received, (np.minimum(made, len(ends) - 2), read), sizes * (made < read))
        np.add.at(returned, (made - 1, read - 1), sizes * [*map(sends_back, parts)])
        received = np.triu(received.cumsum(axis=0), 1)
        returned = np.triu(returned[:, ::-1].cumsum(axis=1)[:, ::-1], 1)
        return received.cumsum(axis=1), returned[::-1].cumsum(axis=0)[::-1]

    @cached_property
    def seconds(self) -> Costs:
        """The busy time for a mini-batch."""
        spans, found = self.spans, self._added(lambda layer: layer.seconds)
        received, returned = (
            spans.microbatches * _seconds(link, each / spans.replicas)
            for link, each in zip((spans.forward, spans.backward), self.arriving, strict=True)
        )
        if spans.setting.machine.overlap:
            return np.asarray(np.maximum(found, np.maximum(received, returned)))
        return np.asarray(found + received + returned)

    def memory(self, in_flight: int) -> Costs:
        """Return the bytes on a device with microbatches in flight.

        Those of weights, gradients, optimizer state, activations, the error of the last output, and a buffer for what arrives.
        """
        setting, size = self.spans.setting, self.spans.setting.element_bytes
        each, kept = (2 + OPTIMIZERS[setting.optimizer]) * size, in_flight * size
        errors = size * np.array([0.0, *(layer.error for layer in self.layers)])[[*self.spans.ends]]
        # By ``paper`` tensors arrive as well that only pass, for which a device has no room.
        buffers = np.maximum(*self.arriving) / math.prod(setting.array) * (setting.convention != PAPER)
        held = self._added(lambda layer: each * layer.weights + kept * layer.kept)
        return np.asarray(held + (errors + buffers) * (1 - ROUNDING))

    def of(self, balance: str, in_flight: int) -> Costs:
        """Return the lower bounds of a quantity that a partition can minimise, one of ``BALANCES``, with microbatches in flight."""
        if balance == "memory":
            return self.memory(in_flight)
        if balance == "macs":
            macs = [self.spans.microbatches * layer.nest.macs for layer in self.spans.microbatch.layers]
            before = np.cumsum([0.0, *macs])[[*self.spans.ends]]
            return np.asarray(before - before[:-1, None])
        found = self.seconds if balance == "time" else self.spans.microbatches * sum(self.arriving)
        return np.asarray(found * (1 - ROUNDING))


@kept_with_graph
def _kept(graph: PlanGraph) -> tuple[tuple[float, float], ...]:
    """Return the elements of a microbatch that each layer keeps of its input, and its trail behind its output.

    A tensor's first reader keeps it, but for one that the trail that makes it keeps.
    """
    read: dict[int, float] = {}
    fed, known = {tensor.consumer for tensor in graph.tensors}, set()
    held = [_tensors_kept(layer) for layer in graph.layers]
    for tensor in sorted(graph.tensors, key=lambda tensor: tensor.consumer):
        key = tensor.producer, tensor.number
        if graph.layers[tensor.consumer].weighted and key not in known and key[1] not in held[key[0]]:
            known.add(key)
            read[tensor.consumer] = tensor.elements
    return tuple(
        (layer.nest.input_elements if index not in fed else read.get(index, 0), math.fsum(own.values()))
        for index, (layer, own) in enumerate(zip(graph.layers, held, strict=True))
    )


def _tensors_kept(layer: PlanNode) -> dict[int, int]:
    """Return the elements of the tensors in a layer's trail that an op there keeps, by number."""
    sizes = {op.target: op.elements for op in layer.trail}
    kept = {op.source for op in layer.trail if op.saved.input} | {
        op.target for op in layer.trail if op.saved.output
    }
    return {number: sizes[number] for number in kept if number is not None}


def _seconds(link: Link | None, num_bytes: Costs) -> Costs:
    """Return the seconds to receive some bytes from other stages."""
    if link is None or not num_bytes.any():
        return np.zeros(num_bytes.shape)
    return np.where(num_bytes > 0, link.seconds("neighbours", num_bytes), 0.0)


def _moved(layer: PlanNode, sums: Sums, chosen: Options, setting: Setting) -> Iterator[tuple[str, float]]:
    """Yield the phases of the reductions of a layer's partial sums, with the seconds that they take at least.

    By ``fused`` sums of F may go straight to the next layer: terms are still received once, which takes no less than half of
    an all-reduce.
    """
    onward = setting.convention == FUSED
    for one in priced(setting, received_inside(layer.nest, sums, setting.array, chosen)):
        yield one.phase, one.seconds / (2 if onward and one.phase == "forward" else 1)
