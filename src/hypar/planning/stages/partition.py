"""Divide a network into a number of stages: the partition with the least bottleneck, or given ends of stages.

Every span of consecutive layers gets its best cuts by the requested search, and with them its cost as a stage. The best
partition is found by lower bounds; its spans are planned, their costs replace their bounds, and so on until all spans of
the best partition are planned: few rounds if the bounds are tight, and at worst every span is planned.
Guarantee: the same result as with all spans planned, ties included: every other partition costs at least its bound.

In the bound of a span each layer counts with the time of its fastest choice, the exchange of its partial results included, and
the span receives every tensor that crosses its ends at least once, by other counts than ``paper`` if it has an end there.
Transfers between its layers are left out; if transfers overlap with computation, so is the exchange of partial results.
Memory counts weights, kept activations, the error with which the backward phase begins, and a buffer for what arrives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise, product
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from hypar.errors import MemoryLimitError, OptionError, shown, suggestion
from hypar.machine.work import fullest_share
from hypar.network.graph import LayerGraph
from hypar.network.nodes import Kept, PlanGraph, saved_by
from hypar.ops.nest import Nest
from hypar.plan.records import FLUSHES
from hypar.planning.chunks import Ran, climb, run_chunked
from hypar.planning.fastest import MOST_TASKS
from hypar.planning.question import question_of
from hypar.planning.resolved import Resolved
from hypar.planning.stages.running import Staging, kept_in_flight
from hypar.planning.stages.spans import CutSpan, CutSpans
from hypar.schedule.lanes import Lane, priced
from hypar.schedule.memory import held_by
from hypar.schedule.tasks import Link
from hypar.sharding.amounts.counted import received_inside
from hypar.sharding.amounts.transfers import Sums, network_of, sends_back
from hypar.sharding.conventions import FUSED, PAPER
from hypar.sharding.placement import Options, degrees
from hypar.solve.edge import Costs
from hypar.solve.partition import Partition, partition
from hypar.units import format_bytes

MOST_COMBINATIONS = 4096
"""Largest number of joint choices that are tried for a layer; a layer with more has the bound 0."""

ROUNDING = 1e-9
"""Largest relative difference between a sum and the same sum in another order."""


class LayerBounds(NamedTuple):
    """The lower bounds of a layer: its seconds for a mini-batch, and elements.

    On the fullest device they are those of its weight, those that it and its trail keep for each microbatch in flight, and those
    of the error of its trail's output.
    """

    seconds: float = 0.0
    weights: float = 0.0
    kept: float = 0.0
    error: float = 0.0


@dataclass(frozen=True, eq=False)
class LowerBounds:
    """The lower bounds of each of some spans between places, ``[starts, ends]``; nothing of several device groups, without shares."""

    spans: CutSpans

    @cached_property
    def layers(self) -> list[LayerBounds]:
        """The lower bounds of each layer, whatever it chooses."""
        spans, graph, setting = self.spans, self.spans.microbatch, self.spans.setting
        if spans.request.heterogeneous:
            return [LayerBounds()] * len(graph.layers)
        offered = question_of(spans.request, spans.whole, spans.planner.pins, setting.element_bytes).options
        added = network_of(graph, PAPER).sums if setting.convention == PAPER else spans.network.sums
        # By ``fused`` sums are added up inside a layer, or between it and the next.
        added = added if setting.convention != FUSED else (Sums(output=True, input=False),) * len(added)
        saved, least = saved_by(graph, setting.training.recompute), cache(self._least)
        each = zip(graph.layers, saved, added, offered, strict=True)
        return [least(layer.nest, layer.trail[-1].elements, *own) for layer, *own in each]

    def _least(
        self, nest: Nest, error: float, saved: Kept, sums: Sums, options: Sequence[Options]
    ) -> LayerBounds:
        """Return the bounds of a layer, of which some parts of its tensors are saved, with the elements of its error."""
        if math.prod(map(len, options)) > MOST_COMBINATIONS:
            return LayerBounds()
        each = [self._under(nest, error, saved, sums, chosen) for chosen in product(*options)]
        return LayerBounds(*map(min, zip(*each, strict=True)))

    def _under(self, nest: Nest, error: float, saved: Kept, sums: Sums, chosen: Options) -> LayerBounds:
        setting, divisors = self.spans.setting, degrees(chosen, nest.counted)
        shares = {name: fullest_share(nest, divisors, name) for name in nest.names}
        kept = math.fsum(part * float(nest.elements(name) * shares[name]) for name, part in saved)
        held = kept, error * shares["output"]
        if not setting.machine.times(nest):
            return LayerBounds(0.0, 0.0, *held)
        time = setting.machine.layer_time(nest, divisors, setting.element_bytes, setting.formats.operand)
        # Devices may share an update, by how many depends on the cuts.
        spent, once = (
            [*time.seconds.values()],
            [] if setting.training.zero else [setting.update_seconds(time)],
        )
        moved = () if setting.machine.overlap else received_inside(nest, sums, setting.array, chosen)
        for one in priced(setting, moved):
            # Sums of F may go straight to the next layer: terms are received once, which takes half of an all-reduce or more.
            onward = setting.convention == FUSED and one.phase == "forward"
            (once if one.phase == "gradient" else spent).append(one.seconds / (2 if onward else 1))
        seconds = math.fsum((*(self.spans.microbatches * each for each in spent), *once))
        return LayerBounds(seconds, time.fullest["weight"], *held)

    def _added(self, amount: Callable[[LayerBounds], float]) -> Costs:
        """Return lower bounds of the sums of an amount over every span."""
        before = np.cumsum([0.0, *map(amount, self.layers)])
        lost, at = 1e-15 * len(self.layers) * before[-1], before[[*self.spans.ends]]
        return np.asarray(np.maximum((at - at[:-1, None]) * (1 - ROUNDING) - lost, 0.0))

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
        for tensor, parts in zip(spans.microbatch.tensors, spans.network.parts, strict=True):
            elements = next(part.changes[0].elements for part in parts if part.forward)
            num_bytes = spans.setting.element_bytes / spans.replicas * elements
            # The first places behind the producer and behind the consumer.
            made, read = np.searchsorted(ends, (tensor.producer, tensor.consumer), "right").tolist()
            # F comes to spans that begin between the two and end behind them, E to those that begin before and end between.
            received[made:read, read:] += num_bytes
            returned[:made, made:read] += num_bytes * sends_back(parts)
        return received, returned

    @cached_property
    def seconds(self) -> Costs:
        """The busy time for a mini-batch."""
        spans, found = self.spans, self._added(lambda layer: layer.seconds)
        received, returned = (
            spans.microbatches * _seconds(link, each / spans.replicas)
            for link, each in zip(spans.links, self.arriving, strict=True)
        )
        if spans.setting.machine.overlap:
            return np.asarray(np.maximum(found, np.maximum(received, returned)))
        return np.asarray(found + received + returned)

    def memory(self, in_flight: int) -> Costs:
        """Return the bytes on a device with microbatches in flight.

        Those of weights, gradients, optimizer state, activations, the error of the last output, and a buffer for what arrives.
        """
        setting, size = self.spans.setting, self.spans.setting.element_bytes
        formats, kept = setting.formats, in_flight * (setting.formats.operand or size)
        each = formats.whole(setting.training.zero, setting.optimizer)
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


def _seconds(link: Link | None, num_bytes: Costs) -> Costs:
    if link is None or not num_bytes.any():
        return np.zeros(num_bytes.shape)
    return np.where(num_bytes > 0, link.seconds("neighbours", num_bytes), 0.0)


class _Table:
    """The costs of all spans between places on the devices of some stages: lower bounds, until a span is planned, and weighed.

    Attributes:
        costs: for each number of microbatches in flight the costs, ``[starts, ends]``; infinite where the memory is too small.
    """

    def __init__(self, spans: CutSpans, counts: Collection[int], balance: str, share: int) -> None:
        """Start with lower bounds; ``share`` is the number of spans that share the memory equally, 0 if it does not count."""
        least, capacity = LowerBounds(spans), spans.setting.machine.memory_bytes
        self.spans, self.balance, self.share = spans, balance, share
        most = capacity if share and capacity else math.inf
        self.costs = {
            count: np.where(share * least.memory(count) > most, np.inf, least.of(balance, count))
            for count in counts
        }
        self._place = {layer: place for place, layer in enumerate(spans.ends)}
        self._known: set[str] = set()

    def plan(self, ends: tuple[int, int]) -> bool:
        """Replace the lower bounds of a span, and of all that are equal, by its costs; return whether they were not known."""
        kinds, length, at = self.spans.kinds, ends[1] - ends[0], self._place
        own = kinds[slice(*ends)]
        if own in self._known:
            return False
        self._known.add(own)
        starts = [start for start in at if start + length in at and kinds[start : start + length] == own]
        equal = [at[start] for start in starts], [at[start + length] for start in starts]
        span = self.spans.span(*ends)
        for count, costs in self.costs.items():
            each = zip(span.lanes, span.held_bytes(count) if self.share else (), strict=False)
            fits = all(lane.setting.machine.fits(self.share * held) for lane, held in each)
            costs[equal] = span.cost(self.balance, count) if fits else np.inf
        return True


def _tables(spans: Sequence[CutSpans], balance: str, share: int) -> list[tuple[_Table, int]]:
    request = spans[0].request
    kept = kept_in_flight(request, len(spans) // (request.parts or 1))
    known = {own: _Table(own, {*kept}, balance, share) for own in dict.fromkeys(spans)}
    return [(known[own], count) for own, count in zip(spans, kept, strict=True)]


def _least(tables: Sequence[tuple[_Table, int]], limit: float = math.inf) -> Partition | None:
    first = tables[0][0].spans
    costs = [table.costs[kept] for table, kept in tables]
    seams = first.crossing_bytes[[*first.ends]]
    found = partition(costs.__getitem__, len(tables), seams, limit * (1 + ROUNDING))
    return None if found is None else found._replace(bounds=tuple(first.ends[at] for at in found.bounds))


def best_partition(
    spans: Sequence[CutSpans], limit: float = math.inf, balance: str = "time", share: int = 1
) -> Partition | None:
    """Return the best partition into stages on the devices of some spans each; None if none that fits the memory is within a limit.

    A stage costs a quantity of ``BALANCES``; ``share`` stages share a device's memory equally.
    """
    tables = _tables(spans, balance, share)
    while (found := _least(tables, limit)) is not None:
        each = zip(tables, pairwise(found.bounds), strict=True)
        new = [table.plan(ends) for (table, _), ends in each]
        if not any(new):
            return found
    return None


def given_bounds(starts: Sequence[str], graph: LayerGraph, nodes: PlanGraph) -> tuple[int, ...]:
    """Return the first layer of each stage, named in order, by its index among the layers that are cut, and the number of these.

    Raises:
        OptionError: a layer does not exist or is not cut, precedes the one named before it, or is named first without
            being the network's first.
    """
    names, index = ([layer.name for layer in own.layers] for own in (graph, nodes))
    for name in starts:
        if name not in names:
            raise OptionError("starts", f"no layer is named {shown(name)}", hint=suggestion(str(name), index))
        at = names.index(name)
        if name not in index and at > names.index(index[0]):
            following = (f", as {other!r}" for other in names[at:] if other in index)
            allowed = f"layers that are cut{next(following, '')}"
            raise OptionError("starts", f"found {name!r}, which stays with the layer before it", allowed)
    # The layers before the first one that is cut start the first stage with it.
    bounds = [index.index(name) if name in index else 0 for name in starts]
    if bounds[0]:
        allowed = f"{index[0]!r} first, as the network begins with it"
        raise OptionError("starts", f"found {starts[0]!r} first", allowed)
    for place, (before, after) in enumerate(pairwise(bounds)):
        if before >= after:
            found = f"found {starts[place + 1]!r} behind {starts[place]!r}"
            raise OptionError("starts", found, "first layers of stages, in the network's order")
    return (*bounds, len(index))


def divided(
    request: Resolved, spans: Sequence[CutSpans], graph: LayerGraph, limit: float = math.inf
) -> Staging | None:
    """Return the stages of the best partition by a request.

    None if no partition fits the memory, or the busiest stage alone takes longer than a limit in seconds.

    Raises:
        InputError: the given stages are not possible, or do not fit the memory.
        TableLimitError: the tables of a search would not fit.
    """
    if not request.starts:
        return _best(request, spans, limit if request.balance == "time" else math.inf)
    found = _spanned(spans, given_bounds(request.starts, graph, spans[0].whole))
    for number, lane, held in held_in(found):
        machine = lane.setting.machine
        if not machine.fits(held):
            problem = f"found {format_bytes(held)} in stage {number}, from {lane.graph.layers[0].name!r} on"
            allowed = f"{format_bytes(machine.memory_bytes or 0.0)}, the memory of a device"
            raise MemoryLimitError(f"hardware {machine.name!r}", problem, allowed, _hint(spans, graph))
    return Staging.of(request, found)


def _spanned(spans: Sequence[CutSpans], bounds: Sequence[int]) -> list[CutSpan]:
    return [own.span(*ends) for own, ends in zip(spans, pairwise(bounds), strict=True)]


def _best(request: Resolved, spans: Sequence[CutSpans], limit: float) -> Staging | None:
    """Return the stages of the best partition that fits the memory, or None if none is found within a limit.

    The parts of a stage share its memory: if all that each alone could take is too much, each gets an equal share, or they hold
    as little as they can. Then their ends are shifted as long as the step gets shorter.
    """

    @cache
    def staged(bounds: tuple[int, ...]) -> Staging:
        return Staging.of(request, _spanned(spans, bounds))

    balance, parts = request.balance, request.parts
    if parts is None:
        best = best_partition(spans, limit, balance)
        return None if best is None else staged(best.bounds)

    def run(bounds: tuple[int, ...]) -> Ran:
        return run_chunked(staged(bounds).work)

    for what, share in ((balance, 1), (balance, parts), ("memory", 0)):
        best = best_partition(spans, limit if what == "time" else math.inf, what, share)
        if best is None and share == 1:
            return None
        if best is not None and (ran := run(best.bounds)).fits:
            most = MOST_TASKS // len(ran.step.pieces) if balance == "time" else 0
            return staged(
                climb(best.bounds, ran, lambda own, _: _neighbours(own, spans[0].ends), run, most)[0]
            )
    return None


def _neighbours(bounds: tuple[int, ...], places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for at in range(1, len(bounds) - 1):
        own = places.index(bounds[at])
        for place in (places[own - 1], places[own + 1]):
            if bounds[at - 1] < place < bounds[at + 1]:
                yield (*bounds[:at], place, *bounds[at + 1 :])


def held_in(stages: Sequence[CutSpan]) -> Iterator[tuple[int, Lane, float]]:
    """Yield the number of each stage from 1, each lane with the layers of all its parts, and the bytes on a device.

    ``stages`` are the parts of the stages in the network's order.
    """
    work = Staging(request=stages[0].spans.request, stages=tuple(stages)).work
    numbers = (number for number, own in enumerate(work.stages[: work.count], 1) for _ in own.lanes)
    for number, lane in zip(numbers, work.lanes, strict=True):
        yield number, lane, held_by(lane)


def unfit(request: Resolved, graph: LayerGraph, spans: Sequence[CutSpans]) -> MemoryLimitError:
    """Return why no partition fits, with the bytes of evenly divided stages; ``spans`` are those of each part."""
    least = _least(_tables(spans, "memory", 0))
    assert least is not None  # noqa: S101 (there is room for every stage, and no limit)
    sizes = dict.fromkeys(format_bytes(each.memory_bytes) for each in request.machines if each.memory_bytes)
    words = "" if request.parts is None else f" of {request.parts} parts"
    stages = len(spans) // (request.parts or 1)
    problem = f"no {stages} stages{words} fit {' and '.join(sizes)}, the memory of a device"
    found = _spanned(spans, least.bounds)
    over = (
        (held / (lane.setting.machine.memory_bytes or math.inf), number, held, lane.setting.machine)
        for number, lane, held in held_in(found)
    )
    _, number, held, machine = max(over, key=itemgetter(0))
    if not machine.fits(held):
        lacking = format_bytes(held - (machine.memory_bytes or 0))
        problem += f": divided evenly, stage {number} holds {format_bytes(held)}, {lacking} too much"
    machine = request.heterogeneous or request.machines[0]
    return MemoryLimitError(f"hardware {machine.name!r}", problem, hint=_hint(spans, graph))


def _hint(spans: Sequence[CutSpans], graph: LayerGraph) -> str:
    microbatches = spans[0].microbatches
    further = FLUSHES[spans[0].request.schedule] and microbatches < graph.batch
    more = f"--microbatches above {microbatches}, " * further
    return f"try {more}another number of stages, a smaller batch, or devices with more memory"
