"""The cost of any span of a network's layers as a stage on given devices: its best cuts, with their time and memory.

Cuts are planned for the whole mini-batch, whose gradients are exchanged once; the time is that of a microbatch, plus
the exchange of gradients and the update once a mini-batch. A stage waits for the tensors that it receives: F as its
layers need it, from the previous stage, and E as its outputs are held, from the next stage. Spans with equal layers, pins
and tensors, inside and from and to others, are planned once.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from hypar.errors import TableLimitError
from hypar.machine.machine import DeviceGroup, Machine
from hypar.machine.setting import Setting
from hypar.network.graph import LayerGraph
from hypar.network.nodes import PlanGraph, Tensor, block_of
from hypar.plan.plan import Plan
from hypar.plan.records import FLUSHES
from hypar.planning.folding import kinds_of
from hypar.planning.pins import parse_pin
from hypar.planning.question import setting_for
from hypar.planning.records import Leaf
from hypar.planning.resolved import Resolved
from hypar.planning.stages.arriving import (
    Outer,
    Way,
    copies,
    link_of,
    places_for,
    read_outside,
    span_of,
    tied_outside,
)
from hypar.planning.uneven.planner import Planner
from hypar.planning.uneven.tree import Branch, stored_branch
from hypar.schedule.lanes import Lane, StagePlace
from hypar.schedule.memory import memory_of
from hypar.schedule.stages import StageWork, part_of
from hypar.schedule.tasks import Arrival, Entering, Link, PartTasks, TaskList
from hypar.schedule.timeline import run
from hypar.sharding.amounts.cuts import Above
from hypar.sharding.amounts.transfers import Network, network_of
from hypar.sharding.conventions import MOVED, PAPER
from hypar.sharding.placement import Options
from hypar.sharding.tree import MOST_DEVICES, WHOLE_ARRAY
from hypar.solve.edge import Costs

MOST_LAYERS = 256
"""Largest number of layers before each of which a stage may begin; of more of them only the first one of each block."""

MOST_PLACES = 512
"""Largest number of places to begin at: minutes of planning if no two layers are equal."""


class Phases(NamedTuple):
    """The seconds of a stage's phases, without transfers from other stages.

    Those of a microbatch, the ``backward`` one with its gradients; and to exchange gradients and update ``once``, after the last
    microbatch.
    """

    forward: float
    backward: float
    once: float


def phases_of(stage: StageWork) -> Phases:
    """Return the phases of a stage by the engine: each from its own beginning, so that none gets longer because another gets shorter."""
    part = part_of(stage, TaskList(not lane.setting.machine.overlap for lane in stage.lanes))
    forward = _makespan(part, "forward", 0)
    part.phase("forward", 1)
    backward, whole = (_makespan(part, "backward", item, final=item > 0) for item in range(2))
    return Phases(forward, backward, max(0.0, whole - backward))


def _makespan(part: PartTasks, phase: str, item: int, *, final: bool = False) -> float:
    part.found.clear()
    part.begin()
    part.phase(phase, item, final=final)
    return run(part.found.tasks).makespan


@dataclass(frozen=True, eq=False, kw_only=True)
class CutSpan:
    """A span of layers as a stage, whose phases and memory are counted once they are asked for.

    Its cuts are a ``node`` with the layers of a microbatch and the costs of a mini-batch, its ``work`` that of a microbatch.
    """

    spans: CutSpans
    start: int
    node: Branch
    work: StageWork

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Its groups of identical devices."""
        return self.work.lanes

    @cached_property
    def phases(self) -> Phases:
        """The durations of the phases of a microbatch."""
        return phases_of(self.work)

    @cached_property
    def memory(self) -> tuple[dict[str, float], ...]:
        """The bytes on each device of each group, including one microbatch's activations."""
        return tuple(map(memory_of, self.lanes))

    @property
    def ends(self) -> tuple[int, int]:
        """Its first layer, and the first one behind it."""
        return self.start, self.start + self.work.layers

    @property
    def searched(self) -> Branch:
        """Its cuts with the layers of a mini-batch, as a search has them."""
        return self.node.of(self.spans.layers_of(self.spans.whole, *self.ends))

    @property
    def overlap(self) -> bool:
        """Whether transfers run beside computation on all devices."""
        return all(lane.setting.machine.overlap for lane in self.lanes)

    @property
    def seconds(self) -> float:
        """Its busy time for a mini-batch without waiting; with overlap, at least the time of its links."""
        microbatches, (forward, backward, once) = self.spans.microbatches, self.phases
        computing = microbatches * (forward + backward) + once
        received, returned = self.work.received.seconds, self.work.returned.seconds
        if self.overlap:
            return max(computing, microbatches * max(received, returned))
        return computing + microbatches * (received + returned)

    def cost(self, balance: str, in_flight: int = 1) -> float:
        """Return what a partition minimises in its costliest stage, one of ``BALANCES``, with microbatches in flight."""
        microbatches = self.spans.microbatches
        if balance == "memory":
            return max(self.held_bytes(in_flight))
        if balance == "traffic":
            return microbatches * (self.work.received.from_stages + self.work.returned.from_stages)
        if balance == "macs":
            return microbatches * sum(layer.nest.macs for layer in self.node.graph.layers)
        if not FLUSHES[self.spans.request.schedule] and self.overlap:
            # Over each end as many bytes are sent as received, so what it sends takes as long as what it receives there.
            forward, backward, once = self.phases
            return forward + max(self.work.returned.seconds, backward + max(once, self.work.received.seconds))
        return self.seconds

    def held_bytes(self, in_flight: int) -> list[float]:
        """Return the bytes on each device of each group of identical devices with microbatches in flight."""
        each = ({**own, "activations": in_flight * own["activations"]} for own in self.memory)
        return [math.fsum(own.values()) for own in each]


@dataclass(frozen=True, eq=False, kw_only=True)
class CutSpans:
    """All spans of a network on the devices of a group, on which it has a number of its ``stages``.

    The arrays of the ``request`` are those inside a stage, and may be empty; ``setting`` is that of a stage, or of its first group
    of identical devices; ``group`` is None if all devices of the machine are identical, and so are the ``links`` from the stages
    before and behind where there are none. A ``planner`` cuts the ``whole`` layers of a mini-batch; ``microbatch`` has those of
    one. ``known`` has the best cuts of spans so far.
    """

    request: Resolved
    planner: Planner
    whole: PlanGraph
    microbatch: PlanGraph
    setting: Setting
    group: str | None
    stages: int
    links: tuple[Link | None, Link | None]
    known: Known

    @property
    def network(self) -> Network:
        """The transfers whatever the choices, if sums are added up before they leave a stage."""
        return network_of(self.microbatch, MOVED, tied=False)

    @property
    def microbatches(self) -> int:
        """The number of microbatches in a mini-batch."""
        return self.request.microbatches or 1

    @property
    def replicas(self) -> int:
        """The number of parts of a stage that the levels outside the stages make."""
        return math.prod(self.setting.array[: self.request.outside])

    @property
    def ties(self) -> tuple[Tensor, ...]:
        """The weights that two layers of the network use; none below uneven splits around the stages, where each has its own."""
        apart = self.setting.convention == PAPER or (self.request.outside and self.request.heterogeneous)
        return () if apart else self.microbatch.ties

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The layers before which a stage may begin, and the number of layers."""
        return stage_ends([layer.name for layer in self.whole.layers])

    @cached_property
    def kinds(self) -> str:
        """A letter for each layer: spans of equal letters are equal, and cost the same."""
        return kinds_of(self.whole, tuple(self.planner.pins), self.request.recompute)

    @cached_property
    def crossing_bytes(self) -> Costs:
        """The bytes of a microbatch's F that cross each place between layers, each once, ``[layers + 1]``; E has as many."""
        found: list[dict[int, float]] = [{} for _ in range(len(self.microbatch.layers) + 1)]
        for tensor in self.microbatch.tensors:
            for own in found[tensor.producer + 1 : tensor.consumer + 1]:
                own[tensor.producer] = max(own.get(tensor.producer, 0), tensor.elements)
        return self.setting.element_bytes * np.array([math.fsum(own.values()) for own in found])

    def span(self, start: int, end: int) -> CutSpan:
        """Return the span of the layers from ``start`` up to ``end``, with the best cuts."""
        key = self.group, *self.request.arrays.items(), self.kinds[start:end]
        if key not in self.known:
            self.known[key] = self.planner.planned(self.layers_of(self.whole, start, end))
        return self.having(start, end, self.known[key])

    def having(self, start: int, end: int, planned: Branch) -> CutSpan:
        """Return the span of the layers from ``start`` up to ``end`` with the cuts of a planned node."""
        node = planned.of(self.layers_of(self.microbatch, start, end))
        if isinstance(node, Leaf):
            node = replace(node, lane=node.lane._replace(setting=self.setting, name=""))
        lanes, crossings = node.lanes()
        read, tied = read_outside(self.microbatch, start, end), tied_outside(self.ties, start, end)
        placed = tuple(lane.having(place=StagePlace(outside=read, tied=tied)) for lane in lanes)
        return self.between(
            CutSpan(spans=self, start=start, node=node, work=StageWork(placed, (*crossings,)))
        )

    def taking(self, start: int, choices: Sequence[Options]) -> CutSpan:
        """Return the span of identical devices from a layer on with a choice at each level for each of its layers."""
        end = start + len(choices)
        lane = Lane(self.layers_of(self.microbatch, start, end), (*choices,), self.setting)
        return self.having(start, end, Leaf(lane=lane))

    def stored(self, plan: Plan, start: int, end: int) -> CutSpan:
        """Return the span of the layers from ``start`` up to ``end`` with the cuts of a plan; those of device groups have shares."""
        machine, graph = _machine(self.request), self.layers_of(self.microbatch, start, end)
        node = stored_branch(plan, self.setting, self.group or WHOLE_ARRAY, machine, graph)
        return self.having(start, end, node)

    def between(self, span: CutSpan, outer: Callable[[int], Outer | None] = lambda _: None) -> CutSpan:
        """Return a span with what it receives of a microbatch's F, and of its E.

        ``outer`` returns where a layer outside is, None if it is taken to be cut in samples outside the stages.
        """
        every = _by_paper(span) if self.setting.convention == PAPER else _by_tensor(span, outer)
        found = [at for at in every if at[2].num_bytes or at[2].rounds]
        received, returned = (
            _over(self, link, [own for own in found if own[0] == phase])
            for phase, link in zip(("forward", "backward"), self.links, strict=True)
        )
        return replace(span, work=span.work._replace(received=received, returned=returned))

    def layers_of(self, graph: PlanGraph, start: int, end: int) -> PlanGraph:
        """Return the layers of a span, with the tensors between them; by other counts than ``paper`` also its ends."""
        by_paper = {self.request.convention, self.setting.convention} == {PAPER}
        return span_of(graph, start, end, None if by_paper else self.network)


Known = dict[tuple[object, ...], "Branch"]
"""The best cuts of spans for a mini-batch on each device group and its levels, whatever the microbatches, the number of stages and the links."""


def spans_of(
    request: Resolved,
    graph: LayerGraph,
    groups: Sequence[str | None],
    microbatches: int,
    known: Known | None = None,
) -> tuple[CutSpans, ...]:
    """Return for each part of each stage, in the network's order, the spans of a network on its devices.

    The arrays of the request are those inside a stage; ``groups`` has the device group of each stage, None for identical devices.
    More best cuts of spans are added to those that are ``known`` for the same request.

    Raises:
        InputError: the request does not suit the network, or an array the machine.
    """
    request = replace(request, microbatches=microbatches)
    known = {} if known is None else known
    machines: dict[str | None, DeviceGroup] = {own.name: own for own in _machine(request).groups}
    made: dict[tuple[str | None, bool, bool], CutSpans] = {}
    for name in dict.fromkeys(groups):
        group, each = machines.get(name), groups.count(name)
        own = request if group is None else request.on(group.machine, group.name)
        spans = _spans(own, graph, name, each, known)
        bring = spans.links[0], group and group.using(request.arrays)
        for before, behind in product((False, True), repeat=2):
            made[name, before, behind] = replace(spans, links=(bring[before], bring[behind]))
    parts = (None, *tuple(groups) * (request.parts or 1), None)
    around = zip(parts, parts[1:], parts[2:], strict=False)
    return tuple(
        made[own, before not in {None, own}, behind not in {None, own}] for before, own, behind in around
    )


def _machine(request: Resolved) -> Machine:
    assert request.machine is not None  # noqa: S101 (stages without a machine are refused)
    return request.machine


def _spans(request: Resolved, graph: LayerGraph, name: str | None, stages: int, known: Known) -> CutSpans:
    """Return the spans on the devices of a group, for stages between others there."""
    whole, arrays = graph.nodes(request.graph), request.arrays
    # No more devices than the arrays have.
    inside = _machine(request).of_stage(
        request.outside, lambda own, each: places_for(each, arrays[own], stages)
    )
    request = replace(request, machine=inside.using(arrays))
    pins = [parse_pin(text, whole, MOST_DEVICES.bit_length()) for text in request.pins]
    pins = [pin for pin in pins if pin.level is None or pin.level < request.levels]
    planner = Planner(request, whole, pins, request.element_bytes(graph), in_stage=True)
    leaves = [(machine, own) for own, machine, _ in _machine(request).leaves()]
    link = link_of([(machine, arrays[own]) for machine, own in leaves], stages)
    setting = setting_for(request.on(*leaves[0]), request.element_bytes(graph), planner.cost)
    return CutSpans(
        request=request,
        planner=planner,
        whole=whole,
        microbatch=graph.with_batch(graph.batch // (request.microbatches or 1)).nodes(request.graph),
        setting=setting,
        group=name,
        stages=stages,
        links=(link, link),
        known=known,
    )


def stage_ends(names: Sequence[str]) -> tuple[int, ...]:
    """Return the layers before which a stage may begin, and the number of layers.

    That is any layer, but in a network of more than ``MOST_LAYERS`` layers the first one of a block: of consecutive layers
    whose names are the same up to the last number that others follow, or without numbers up to the last dot.

    Args:
        names: the layers that are cut, in topological order.

    Raises:
        TableLimitError: the network has too many layers, or blocks.

    Examples:
        >>> stage_ends(["wte", "h.0.q", "h.0.k", "h.1.q"])
        (0, 1, 2, 3, 4)
        >>> stage_ends(["wte", *(f"h.{block}.{name}" for block in range(300) for name in ("q", "mlp.up")), "head"])[:5]
        (0, 1, 3, 5, 7)
    """
    if len(names) <= MOST_LAYERS:
        return tuple(range(len(names) + 1))
    blocks = [*map(block_of, names)]
    first = [at for at, block in enumerate(blocks) if at == 0 or block != blocks[at - 1]]
    if len(first) > MOST_PLACES:
        found = f"found {len(names):,} layers that are cut"
        found += f" in {len(first):,} blocks" if len(first) < len(names) else ""
        raise TableLimitError(
            f"stages: {found}; allowed: {MOST_PLACES:,}; try --starts", len(first), MOST_PLACES
        )
    return (*first, len(names))


At = tuple[str, "Branch", Arrival]
"""What arrives in a phase at a node of a stage."""


def _over(spans: CutSpans, link: Link | None, arriving: Sequence[At]) -> Entering:
    """Return what arrives in one phase; the nodes at the place of the stages receive beside each other."""
    whole = Entering.over(link, (own for _, _, own in arriving))
    if link is None or not spans.request.outside:
        return whole
    times = [0.0]
    for node in {own.name: own for _, own, _ in arriving}.values():
        settings = [leaf.lane.setting for leaf in node.leaves()]
        link = link_of([(own.machine, own.array) for own in settings], spans.stages)
        times.append(Entering.over(link, (own for _, at, own in arriving if at.name == node.name)).link_s)
    return whole._replace(link_s=max(times))


def _by_paper(span: CutSpan) -> Iterator[At]:
    """Yield what arrives of F and of E: of each producer's output once, and from the next stage.

    A stage sends what its neighbour needs, in as many copies as there are devices that need it, or passes on.
    """
    spans, tree, (first, last) = span.spans, span.node, span.ends
    found: dict[tuple[str, int], float] = {}
    for tensor in spans.microbatch.tensors:
        maker, reader = tensor.producer, tensor.consumer
        for phase, border, layer, name in (
            ("forward", first, reader, "input"),
            ("backward", last, maker, "output"),
        ):
            if maker < border <= reader:
                needed = copies(tree, layer - first, name) if first <= layer < last else 1.0
                found[phase, maker] = max(found.get((phase, maker), 0.0), tensor.elements * needed)
    size, replicas = spans.setting.element_bytes, spans.replicas if isinstance(tree, Leaf) else 1
    for (phase, maker), elements in found.items():
        yield phase, tree, Arrival(maker, size * elements, replicas)


def _by_tensor(span: CutSpan, outer: Callable[[int], Outer | None]) -> list[At]:
    """Return what arrives of F and of E for each tensor, what other parts of the stage have last."""
    spans, (first, last) = span.spans, span.ends
    moved, found = spans.network, list[tuple[bool, At]]()
    for index, tensor in enumerate(spans.microbatch.tensors):
        ends = (tensor.producer, tensor.consumer)
        makes, reads = (first <= end < last for end in ends)
        if makes == reads:
            continue
        same, node, layer = outer(ends[makes]) or (False, None, 0)
        outside = sys.maxsize if same else spans.request.outside
        for part in moved.parts[index]:
            if part.forward is reads and not (same and part.inside):
                way = Way(part, moved.between[index], ends[reads] - first, layer, outside)
                above = Above(image=moved.images[index])
                found += [(same, (part.phase, *own)) for own in way.arrivals(span.node, node, above)]
    return [own for _, own in sorted(found, key=itemgetter(0))]
