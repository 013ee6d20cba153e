"""Lower bounds on the cost of every span as a stage, computed before any span is planned.

Each layer of a span counts with the time of its fastest choice, the exchange of its partial results included, and a
span receives every tensor that crosses its ends at least once, by other counts than ``paper`` if it has an end there.
Transfers between its layers are left out; if transfers overlap with computation, so is the exchange of partial results.
Memory counts weights, kept activations, the error with which the backward phase begins, and a buffer for what arrives.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from hypar.machine.work import fullest_share
from hypar.network.nodes import kept_with_graph
from hypar.network.training import OPTIMIZERS
from hypar.planning.stages.span import LayerBounds
from hypar.schedule.pieces import priced
from hypar.sharding.amounts.counted import received_inside
from hypar.sharding.amounts.transfers import Sums, network_of, sends_back
from hypar.sharding.conventions import FUSED, PAPER
from hypar.sharding.placement import degrees

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from hypar.machine.setting import Setting
    from hypar.network.nodes import PlanGraph, PlanNode
    from hypar.planning.stages.spans import CutSpans
    from hypar.schedule.costed import Link
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs

MOST_COMBINATIONS = 4096
"""Largest number of joint choices that are tried for a layer; a layer with more has the bound 0."""

ROUNDING = 1e-9
"""Largest relative difference between a sum and the same sum in another order."""


@dataclass(frozen=True, eq=False)
class LowerBounds:
    """The lower bounds of each span, ``[starts, ends]``; nothing of several device groups, before their shares are known.

    Attributes:
        spans: the spans.
        microbatches: microbatches in a mini-batch.
    """

    spans: CutSpans
    microbatches: int

    @cached_property
    def layers(self) -> list[LayerBounds]:
        """The lower bounds of each layer, whatever it chooses."""
        if self.spans.request.heterogeneous is not None:
            return [LayerBounds()] * len(self.spans.microbatch.layers)
        return _layer_bounds(self.spans, self.microbatches)

    def _added(self, amount: Callable[[LayerBounds], float]) -> Costs:
        """Return lower bounds of the sums of an amount over every span, ``[starts, ends]``; 0 for empty spans."""
        return _sums([amount(layer) for layer in self.layers])

    @cached_property
    def arriving(self) -> tuple[Costs, Costs]:
        """The bytes of F, and of E, that a span receives from others for a microbatch."""
        if self.spans.request.heterogeneous is not None:
            nothing = np.zeros((len(self.layers), len(self.layers) + 1))
            return nothing, nothing
        return _least_received(self.spans)

    def step(self, every: Collection[LowerBounds]) -> Costs:
        """Return the time of a step in which each span is a stage, which a microbatch reaches behind all layers before it.

        Args:
            every: the lower bounds on the devices of all stages.
        """
        each = ([layer.forward for layer in own.layers] for own in every)
        ahead = _sums([min(own) for own in zip(*each, strict=True)])[0]
        return np.asarray((self.seconds + ahead[:-1, None]) * (1 - ROUNDING))

    @property
    def seconds(self) -> Costs:
        """The busy time for a mini-batch; infinite for empty spans."""
        found = self._added(lambda layer: layer.seconds)
        received, returned = (
            self.microbatches * _seconds(link, each / self.spans.replicas)
            for link, each in zip(self.spans.site.links, self.arriving, strict=True)
        )
        if self.spans.setting.machine.overlap:
            found = np.maximum(found, np.maximum(received, returned))
        else:
            found = found + received + returned
        some = np.arange(len(self.layers) + 1) > np.arange(len(self.layers))[:, None]
        return np.where(some, found * (1 - ROUNDING), np.inf)

    @cached_property
    def always(self) -> Costs:
        """Bytes on a device that do not depend on microbatches in flight.

        They are weights, gradients, optimizer state, the error of the last output, and a buffer for what arrives from
        other stages.
        """
        setting = self.spans.setting
        errors = setting.element_bytes * np.array([0.0, *(layer.error for layer in self.layers)])
        # By ``paper`` tensors arrive as well that only pass, for which a device has no room.
        buffers = (
            0.0 if setting.convention == PAPER else np.maximum(*self.arriving) / math.prod(setting.array)
        )
        found: Costs = self._added(self._weights) + (errors + buffers) * (1 - ROUNDING)
        return found

    def _weights(self, layer: LayerBounds) -> float:
        """Return the bytes of a layer's weight, gradient and optimizer state on a device."""
        setting = self.spans.setting
        return (2 + OPTIMIZERS[setting.optimizer]) * setting.element_bytes * layer.weights

    @cached_property
    def kept(self) -> Costs:
        """Bytes on a device for each microbatch in flight."""
        return self._added(lambda layer: self.spans.setting.element_bytes * layer.kept)

    @property
    def received(self) -> Costs:
        """Bytes of a mini-batch from other stages."""
        found: Costs = self.microbatches * (self.arriving[0] + self.arriving[1]) * (1 - ROUNDING)
        return found

    @property
    def macs(self) -> Costs:
        """Multiply-accumulates of a mini-batch forward, which are exact."""
        each = (self.microbatches * layer.nest.macs for layer in self.spans.microbatch.layers)
        before = np.cumsum([0.0, *each])
        found: Costs = before - before[:-1, None]
        return found

    def room(self, capacity: float | None, most: int = sys.maxsize) -> Costs:
        """Return the largest number of microbatches in flight that may fit a device's memory.

        Args:
            capacity: the bytes of the memory; None if it is not known.
            most: the largest number of interest: if the whole network fits with so many, the numbers are infinite.
        """
        size, layers = self.spans.setting.element_bytes, self.layers
        kept, errors = (size * layer.kept for layer in layers), (size * layer.error for layer in layers)
        buffers = max(own.max() for own in self.arriving)
        held = math.fsum(map(self._weights, layers)) + max(errors) + buffers + most * math.fsum(kept)
        if capacity is None or held <= capacity:
            return np.full((len(layers), len(layers) + 1), np.inf)
        with np.errstate(divide="ignore"):  # a capacity is above 0
            found = np.floor(np.divide(capacity - self.always, self.kept))
        return np.where(self.always > capacity, 0.0, found)

    def of(self, balance: str, in_flight: int) -> Costs:
        """Return the lower bounds of a quantity that a partition can minimise.

        Args:
            balance: one of ``BALANCES``.
            in_flight: the number of microbatches whose activations the stage keeps.
        """
        if balance == "memory":
            return self.always + in_flight * self.kept
        return {"time": self.seconds, "traffic": self.received, "macs": self.macs}[balance]


def _least_received(spans: CutSpans) -> tuple[Costs, Costs]:
    """Return the bytes of F, and of E, that each span receives from others at least, ``[starts, ends]``.

    A level outside the stages may bring all but one in so many of them as it has ways.
    """
    if spans.setting.convention == PAPER:
        crossing = spans.crossing_bytes[None, :]
        return crossing.T[:-1], crossing
    count, tensors, network = len(spans.microbatch.layers), spans.microbatch.tensors, spans.network
    made = np.array([tensor.producer for tensor in tensors], dtype=int)
    read = np.array([tensor.consumer for tensor in tensors], dtype=int)
    elements = [part.changes[0].elements for parts in network.parts for part in parts if part.forward]
    sizes = spans.setting.element_bytes / spans.replicas * np.array(elements)
    received, returned = np.zeros((count, count + 1)), np.zeros((count, count + 1))
    # F for its first reader, by spans that begin behind its producer; E from there, by spans that end before its reader.
    np.add.at(received, (made + 1, read + 1), sizes)
    np.add.at(returned, (made, read), sizes * [*map(sends_back, network.parts)])
    received = np.triu(received.cumsum(axis=0), 1)
    returned = np.triu(returned[:, ::-1].cumsum(axis=1)[:, ::-1], 1)
    return received.cumsum(axis=1), returned[::-1].cumsum(axis=0)[::-1]


def _seconds(link: Link | None, num_bytes: Costs) -> Costs:
    """Return the seconds to receive some bytes from other stages."""
    if link is None or not num_bytes.any():
        return np.zeros(num_bytes.shape)
    return np.where(num_bytes > 0, link.seconds("neighbours", num_bytes), 0.0)


def _sums(amounts: Sequence[float]) -> Costs:
    """Return lower bounds of the sums over every span, ``[starts, ends]``; 0 for empty spans."""
    before = np.concatenate([[0.0], np.cumsum(amounts)])
    lost = 1e-15 * len(amounts) * before[-1]
    found: Costs = before[None, :] - before[:-1, None]
    found *= 1 - ROUNDING
    found -= lost
    return np.maximum(found, 0.0, out=found)


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


def _layer_bounds(spans: CutSpans, microbatches: int) -> list[LayerBounds]:
    """Return the lower bounds of each layer over all its choices, found once."""
    if microbatches not in spans.bounds:
        options = spans.question(0, len(spans.whole.layers)).options
        each = zip(_over_choices(spans, microbatches, options), _kept(spans.microbatch), strict=True)
        spans.bounds[microbatches] = [
            layer._replace(kept=read * layer.input + written * layer.output)
            for layer, (read, written) in each
        ]
    return spans.bounds[microbatches]


def _over_choices(
    spans: CutSpans, microbatches: int, offered: Sequence[Sequence[Options]]
) -> list[LayerBounds]:
    """Return the least time and memory of each layer over some options."""
    known: dict[object, LayerBounds] = {}
    found = []
    for layer, sums, options in zip(spans.microbatch.layers, _added_up(spans), offered, strict=True):
        key = (layer.nest, layer.output_elements, layer.trail[-1].elements, sums, options)
        if key not in known:
            known[key] = LayerBounds()
            if math.prod(map(len, options)) <= MOST_COMBINATIONS:
                each = [
                    _under(layer, sums, chosen, spans.setting, microbatches) for chosen in product(*options)
                ]
                known[key] = LayerBounds(*map(min, zip(*each, strict=True)))
        found.append(known[key])
    return found


def _added_up(spans: CutSpans) -> tuple[Sums, ...]:
    """Return for each layer the sums that are added up inside it, or by ``fused`` between it and the next."""
    if spans.setting.convention == PAPER:
        return network_of(spans.microbatch, PAPER).sums
    if spans.setting.convention == FUSED:
        return (Sums(output=True, input=False),) * len(spans.microbatch.layers)
    return spans.network.sums


def _under(layer: PlanNode, sums: Sums, chosen: Options, setting: Setting, microbatches: int) -> LayerBounds:
    """Return the time and memory of a layer under a choice at each level."""
    divisors = degrees(chosen, layer.nest.counted)
    output = fullest_share(layer.nest, divisors, "output")
    if not setting.machine.times(layer.nest):
        return LayerBounds(output=output, error=output * layer.trail[-1].elements)
    time = setting.machine.layer_time(layer.nest, divisors, setting.element_bytes)
    spent, once = [*time.seconds.values()], [setting.update_seconds(time)]
    for phase, seconds in [] if setting.machine.overlap else _moved(layer, sums, chosen, setting):
        (once if phase == "gradient" else spent).append(seconds)
    return LayerBounds(
        seconds=math.fsum((*(microbatches * each for each in spent), *once)),
        forward=time.seconds.get("forward", 0.0),
        weights=time.fullest["weight"],
        input=fullest_share(layer.nest, divisors, "input"),
        output=output,
        error=output * layer.trail[-1].elements,
    )


def _moved(layer: PlanNode, sums: Sums, chosen: Options, setting: Setting) -> list[tuple[str, float]]:
    """Return the phases of the reductions of a layer's partial sums, with the seconds that they take at least.

    By ``fused`` sums of F may go straight to the next layer: terms are still received once, which takes no less than half of
    an all-reduce.
    """
    pieces = priced(setting, received_inside(layer.nest, sums, setting.array, chosen))
    onward = setting.convention == FUSED
    return [(one.phase, one.seconds / (2 if onward and one.phase == "forward" else 1)) for one in pieces]
