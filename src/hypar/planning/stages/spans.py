"""The cost of any span of a network's layers as a stage on given devices: its best cuts, with their time and memory.

Cuts are planned for the whole mini-batch, whose gradients are exchanged once; the time is that of a microbatch, plus
the exchange of gradients and the update once a mini-batch. A stage waits for the tensors that it receives: F as its
layers need it, from the previous stage, and E as its outputs are held, from the next stage. Spans with equal layers, pins
and tensors, inside and from and to others, are planned once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from hypar.errors import OptionError, TableLimitError, shown, suggestion
from hypar.machine.machine import DeviceGroup, Machine
from hypar.network.graph import LayerGraph
from hypar.network.nodes import PlanGraph, Tensor, block_of, computed_again
from hypar.plan.plan import Plan
from hypar.plan.records import FLUSHES
from hypar.planning.folding import counted_from, kinds_of
from hypar.planning.pins import parse_pin
from hypar.planning.question import setting_for
from hypar.planning.records import Leaf
from hypar.planning.resolved import Resolved
from hypar.planning.stages.arriving import Outer, StageDevices, entering, link_of, places_for
from hypar.planning.uneven.planner import Planner
from hypar.planning.uneven.tree import Branch, stored_branch
from hypar.schedule.lanes import Lane, StagePlace
from hypar.schedule.memory import memory_of
from hypar.schedule.stages import StageWork, part_of
from hypar.schedule.tasks import PartTasks, TaskList
from hypar.schedule.timeline import run
from hypar.sharding.amounts.transfers import Network, sends_back
from hypar.sharding.conventions import PAPER
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

    def held(self, in_flight: int, group: int = 0) -> dict[str, float]:
        """Return the bytes on each device of one of the groups of identical devices, with microbatches in flight."""
        memory = self.memory[group]
        return {**memory, "activations": in_flight * memory["activations"]}

    def held_bytes(self, in_flight: int) -> list[float]:
        """Return the bytes on each device of each group of identical devices with microbatches in flight."""
        return [math.fsum(self.held(in_flight, group).values()) for group in range(len(self.lanes))]


class LayerBounds(NamedTuple):
    """The lower bounds of a layer: its seconds for a mini-batch, those to compute the forward phase of a microbatch, and elements.

    On the fullest device they are those of its weight, those that it and its trail keep for each microbatch in flight, and those
    of the error of its trail's output.
    """

    seconds: float = 0.0
    forward: float = 0.0
    weights: float = 0.0
    kept: float = 0.0
    error: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class CutSpans(StageDevices):
    """All spans of a network on the devices of a stage; a ``planner`` cuts the ``whole`` layers of a mini-batch.

    ``known`` has the best cuts of spans so far, ``bounds`` the lower bounds of all layers, once they are asked for.
    """

    planner: Planner
    whole: PlanGraph
    known: Known
    bounds: list[LayerBounds] = field(default_factory=list)
    _priced: dict[str, CutSpan] = field(default_factory=dict, init=False)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The layers before which a stage may begin, and the number of layers."""
        return stage_ends([layer.name for layer in self.whole.layers])

    @cached_property
    def kinds(self) -> str:
        """A letter for each layer: spans of equal letters are equal, and cost the same."""
        again = computed_again(self.whole.layers, self.request.recompute)
        each = zip(kinds_of(self.whole, tuple(self.planner.pins)), self.whole.layers, strict=True)
        return "".join(chr(2 * ord(kind) + (block_of(layer.name) in again)) for kind, layer in each)

    @cached_property
    def crossing_bytes(self) -> Costs:
        """The bytes of a microbatch's F that cross each place between layers, ``[layers + 1]``; E has as many."""
        return self.setting.element_bytes * crossing(self.microbatch)

    def span(self, start: int, end: int) -> CutSpan:
        """Return the span of the layers from ``start`` up to ``end``, with the best cuts."""
        key = self.group, *self.request.arrays.items(), self.kinds[start:end]
        if key not in self.known:
            self.known[key] = self.planner.planned(self.layers_of(self.whole, start, end))
        return self.having(start, end, self.known[key])

    def priced(self, start: int, end: int) -> CutSpan:
        """Return a span that is equal to one, and costs the same."""
        key = self.kinds[start:end]
        if key not in self._priced:
            self._priced[key] = self.span(start, end)
        return self._priced[key]

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

    def stored(self, plan: Plan, start: int, end: int) -> CutSpan:
        """Return the span of the layers from ``start`` up to ``end`` with the cuts of a plan; those of device groups have shares."""
        machine, graph = _machine(self.request), self.layers_of(self.microbatch, start, end)
        node = stored_branch(plan, self.setting, self.group or WHOLE_ARRAY, machine, graph)
        return self.having(start, end, node)

    def between(self, span: CutSpan, outer: Callable[[int], Outer | None] = lambda _: None) -> CutSpan:
        """Return a span with what other stages send; ``outer`` as in ``entering``."""
        received, returned = entering(self, span.ends, span.node, outer)
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


def span_of(graph: PlanGraph, start: int, end: int, network: Network | None = None) -> PlanGraph:
    """Return the layers from ``start`` up to ``end``, with the tensors between them.

    The transfers of the network, if given, tell the layers that send errors to others.
    """
    inside, sent, fed = [], [], []
    for at, tensor in enumerate(graph.tensors):
        makes, reads = (start <= layer < end for layer in (tensor.producer, tensor.consumer))
        if makes and reads:
            inside.append(counted_from(start, tensor))
        elif makes:
            sent.append(tensor.producer - start)
        elif reads and network is not None and sends_back(network.parts[at]):
            fed.append(tensor.consumer - start)
    ties = () if network is None else _ties_inside(graph, start, end)
    return PlanGraph(
        graph.layers[start:end], tuple(inside), sent=frozenset(sent), fed=frozenset(fed), ties=ties
    )


def tied_outside(ties: Sequence[Tensor], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return the layers of a span whose weight others use as well, and the number of stages that send them terms, or their sum.

    The stage of the weight's own layer gets terms from every other one, each in a stage of its own, and each of these its sum.
    """
    inside = range(start, end)
    own = Counter(
        tie.producer - start for tie in ties if tie.consumer not in inside if tie.producer in inside
    )
    uses = (tie.consumer - start for tie in ties if tie.consumer in inside if tie.producer not in inside)
    return (*own.items(), *((layer, 1) for layer in uses))


def _ties_inside(graph: PlanGraph, start: int, end: int) -> tuple[Tensor, ...]:
    """Return the weights that several of the layers from ``start`` up to ``end`` use, each from the first of these."""
    firsts: dict[int, int] = {}
    for tie in graph.ties:
        own = (layer for layer in (tie.producer, tie.consumer) if start <= layer < end)
        firsts[tie.producer] = min((firsts.get(tie.producer, end), *own))
    inside = (tie for tie in graph.ties if firsts[tie.producer] < tie.consumer < end)
    return tuple(counted_from(start, tie._replace(producer=firsts[tie.producer])) for tie in inside)


def read_outside(graph: PlanGraph, start: int, end: int) -> tuple[Tensor, ...]:
    """Return the tensors that these layers read of earlier layers, whose indices are negative, and those that later ones read."""
    ends = ((one, start <= one.producer < end, start <= one.consumer < end) for one in graph.tensors)
    return tuple(counted_from(start, one) for one, makes, reads in ends if makes != reads)


def crossing(graph: PlanGraph) -> Costs:
    """Return the elements of F that cross each place between layers, each once, ``[layers + 1]``; E has as many."""
    found: list[dict[int, float]] = [{} for _ in range(len(graph.layers) + 1)]
    for tensor in graph.tensors:
        for place in range(tensor.producer + 1, tensor.consumer + 1):
            found[place][tensor.producer] = max(found[place].get(tensor.producer, 0), tensor.elements)
    return np.array([math.fsum(at.values()) for at in found])
