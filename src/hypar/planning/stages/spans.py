"""The cost of any span of a network's layers as a stage on given devices: its best cuts, with their time and memory.

Cuts are planned for the whole mini-batch, whose gradients are exchanged once; the time is that of a microbatch, plus
the exchange of gradients and the update once a mini-batch. A stage waits for the tensors that it receives: F as its
layers need it, from the previous stage, and E as its outputs are held, from the next stage. Spans with equal layers
and equal tensors between them are planned once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Self

import numpy as np

from hypar.network.nodes import PlanGraph
from hypar.plan.stages import FLUSHES
from hypar.planning.levels import Leaf, LevelPlanner
from hypar.planning.question import Answer, question_of, setting_for
from hypar.planning.stages.arriving import beside, entering
from hypar.planning.stages.ends import stage_ends
from hypar.planning.stages.places import places_for
from hypar.planning.stages.repeats import counted_from, equal_layers
from hypar.planning.stages.span import Cuts, CutSpan, Links, Outer, Site, phases_beside, phases_in_turn
from hypar.planning.uneven.planner import Planner, as_planner
from hypar.planning.uneven.records import TreeReader
from hypar.planning.uneven.tree import Branching
from hypar.schedule.lanes import StagePlace
from hypar.schedule.memory import memory_of
from hypar.schedule.stages import StepWork
from hypar.sharding.amounts.transfers import network_of, sends_back
from hypar.sharding.conventions import MOVED, PAPER
from hypar.sharding.space import parse_pin
from hypar.sharding.tree import MOST_DEVICES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hypar.machine.setting import Setting
    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import Tensor
    from hypar.plan.plan import Plan
    from hypar.planning.levels import Node
    from hypar.planning.question import Question
    from hypar.planning.resolved import Resolved
    from hypar.planning.stages.span import LayerBounds
    from hypar.schedule.costed import Link
    from hypar.sharding.amounts.transfers import Network
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs


@dataclass(frozen=True, eq=False, kw_only=True)
class CutSpans:
    """All spans of a network, each on the same number of devices.

    Attributes:
        request: the request; its arrays are those inside a stage, and may be empty.
        planner: the planner of the devices of a stage.
        whole: the layers for a mini-batch.
        microbatch: the layers for a microbatch.
        setting: the setting of a stage, or of its first group of identical devices.
        site: the devices of a stage, and the links to them.
        answers: the best cuts of spans for a mini-batch, which do not depend on microbatches or the number of stages.
        bounds: for each number of microbatches the lower bounds of all layers, which do not depend on the number of stages.
    """

    request: Resolved
    planner: LevelPlanner
    whole: PlanGraph
    microbatch: PlanGraph
    setting: Setting
    site: Site
    answers: dict[object, Node]
    bounds: dict[int, list[LayerBounds]] = field(default_factory=dict)
    _cuts: dict[object, Cuts] = field(default_factory=dict)
    _found: dict[tuple[int, int], CutSpan] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        request: Resolved,
        graph: LayerGraph,
        counts: tuple[int, int],
        answers: dict[object, Node] | None = None,
        group: str | None = None,
    ) -> Self:
        """Build the spans of a network.

        Args:
            request: the request.
            graph: the network.
            counts: the numbers of stages on these devices, and of microbatches in a mini-batch.
            answers: the known best cuts of spans for the same request; others are added.
            group: the name of the device group whose devices they are; None if they are those of the whole machine.

        Raises:
            InputError: the request does not suit the network, or an array the machine.
        """
        stages, microbatches = counts
        whole = graph.nodes(request.graph)
        pins = tuple(parse_pin(text, whole, MOST_DEVICES.bit_length()) for text in request.pins)
        pins = tuple(pin for pin in pins if pin.level is None or pin.level < request.levels)
        alone, planner = request, LevelPlanner(request, pins, graph.element_bytes)
        if request.heterogeneous is not None:
            name, first, _ = next(request.heterogeneous.leaves())
            alone = request.on(first, name)
            planner = Planner.of(request, whole, pins, graph.element_bytes, root=group, in_stage=True)
        setting = setting_for(alone, graph.element_bytes, planner.cost)
        link: Link | None = None
        if stages > 1 and request.heterogeneous is not None:
            each = request.heterogeneous.leaves()
            link = beside(((machine, request.arrays[name]) for name, machine, _ in each), stages)
        elif stages > 1:
            places = places_for(setting.machine, request.array, stages)
            link = setting.machine.stage_link(request.array, places)
        return cls(
            request=request,
            planner=planner,
            whole=whole,
            microbatch=graph.with_batch(graph.batch // microbatches).nodes(request.graph),
            setting=setting,
            site=Site(group, stages, Links(link, link), request.outside),
            answers={} if answers is None else answers,
        )

    def over(self, links: Links) -> CutSpans:
        """Return the same spans with other links from other stages; the cuts are shared."""
        return replace(self, site=self.site._replace(links=links), _found={})

    def span(self, start: int, end: int) -> CutSpan:
        """Return the span of the layers from ``start`` up to ``end``."""
        if (start, end) not in self._found:
            self._found[start, end] = self._as_stage(start, end, self._cut(start, end))
        return self._found[start, end]

    def priced(self, start: int, end: int) -> CutSpan:
        """Return the first span that is equal to one, and costs the same."""
        first = int(self.equal_to(start, end)[0])
        return self.span(first, first + end - start)

    def equal_to(self, start: int, end: int) -> NDArray[np.intp]:
        """Return the first layers of all spans that are equal to one, itself included: they cost the same."""
        return np.flatnonzero(
            equal_layers(self.microbatch, named=bool(self.planner.pins))[start] >= end - start
        )

    def given(self, start: int, end: int, choices: tuple[Options, ...]) -> CutSpan:
        """Return the span of the layers from ``start`` up to ``end`` with given cuts, on identical devices."""
        answer = Answer(choices=choices, costs=(), solver="", exact=False)
        graph = self._of(self.microbatch, start, end)
        return self.having(start, end, self.planner.answered(self.request, "", graph, 0, answer))

    def stored(
        self, plan: Plan, start: int, end: int, choices: tuple[Options, ...], *, costed: bool = False
    ) -> CutSpan:
        """Return the span of the layers from ``start`` up to ``end`` with the cuts of a plan; those of device groups have shares."""
        if self.request.heterogeneous is None:
            found = self.given(start, end, choices)
        else:
            graph, own = self._of(self.microbatch, start, end), as_planner(self.planner)
            counted = (self.setting.element_bytes, self.setting.optimizer, own.counted)
            node = TreeReader(plan, *counted).split(own.root, own.machine, graph, 0)
            found = self.having(start, end, node)
        return self.having(start, end, self.costed(found.cuts.node, start, end)) if costed else found

    def having(self, start: int, end: int, node: Node) -> CutSpan:
        """Return the span of the layers from ``start`` up to ``end`` with the cuts of a planned node."""
        outside = shared_with_others(self.microbatch, start, end)
        return self._as_stage(start, end, self._lowered(self._of(self.microbatch, start, end), outside, node))

    def _as_stage(self, start: int, end: int, cuts: Cuts) -> CutSpan:
        """Return a span with its cuts as a stage; other stages are assumed to divide samples outside the stages."""
        return self.between(start, end, cuts, lambda _: None)

    def between(self, start: int, end: int, cuts: Cuts, outer: Callable[[int], Outer | None]) -> CutSpan:
        """Return a span with its cuts as a stage, with the transfers from other stages.

        Args:
            start: its first layer.
            end: the first layer behind it.
            cuts: its cuts.
            outer: returns the place of a layer in another stage; None if it is taken to be cut in samples.
        """
        arriving = entering((self.microbatch, self.network), (start, end), cuts, self.site, outer)
        # Below uneven splits, also around the stages, each layer has a weight of its own.
        alone = self.setting.convention == PAPER or (self.site.outside and isinstance(cuts.node, Branching))
        ties = () if alone else self.microbatch.ties
        shared = self.replicas * self.setting.element_bytes * _most_shared(ties, start, end) / cuts.devices
        return CutSpan(
            cuts,
            *arriving,
            in_step=not FLUSHES[self.request.schedule],
            site=self.site,
            tensors=self.microbatch.tensors,
            ties=ties,
            shared_bytes=shared,
        )

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The layers before which a stage may begin, and the number of layers."""
        return stage_ends([layer.name for layer in self.whole.layers])

    @property
    def replicas(self) -> int:
        """The number of parts of a stage that the levels outside the stages make."""
        return math.prod(self.setting.array[: self.request.outside])

    @cached_property
    def network(self) -> Network:
        """The transfers whatever the choices, if sums are added up before they leave a stage."""
        return network_of(self.microbatch, MOVED, tied=False)

    @cached_property
    def crossing_bytes(self) -> Costs:
        """The bytes of a microbatch's F that cross each place between layers, ``[layers + 1]``; E has as many."""
        found: list[dict[int, int]] = [{} for _ in range(len(self.microbatch.layers) + 1)]
        for tensor in self.microbatch.tensors:
            for place in range(tensor.producer + 1, tensor.consumer + 1):
                found[place][tensor.producer] = max(found[place].get(tensor.producer, 0), tensor.elements)
        return np.array([self.setting.element_bytes * math.fsum(at.values()) for at in found])

    def _of(self, graph: PlanGraph, start: int, end: int) -> PlanGraph:
        """Return the layers of a span, with the tensors between them; by other counts than ``paper`` also its ends."""
        if {self.request.convention, self.setting.convention} == {PAPER}:
            return span_of(graph, start, end)
        return span_of(graph, start, end, self.network)

    def _lowered(self, graph: PlanGraph, outside: tuple[Tensor, ...], planned: Node) -> Cuts:
        """Return the cuts of the layers of a span for a microbatch, with their time and memory."""
        node = planned.of(graph)
        node = node.at(self.setting) if isinstance(node, Leaf) else node
        lanes, crossings = node.lanes()
        placed = tuple(
            lane.having(place=StagePlace(outside=own))
            for lane, own in zip(lanes, node.in_whole_elements().reading(outside), strict=True)
        )
        step = StepWork.of(placed, crossings).run()
        # Groups work beside each other, so that only the engine knows how long a phase takes.
        beside = len(placed) > 1 or self.setting.machine.overlap
        phases = phases_beside(step) if beside else phases_in_turn(step)

        @cache
        def memory() -> tuple[dict[str, float], ...]:
            return tuple(memory_of(lane, step, number) for number, lane in enumerate(placed))

        return Cuts(node, self.planner.solver(planned), placed, tuple(crossings), phases, memory)

    def _named(self, cuts: Cuts, graph: PlanGraph) -> Cuts:
        """Return the same cuts of equal layers with other names."""
        node = cuts.node.of(graph)
        lanes = tuple(
            lane.having(graph=leaf.graph) for lane, leaf in zip(cuts.lanes, node.leaves(), strict=True)
        )
        return cuts._replace(lanes=lanes, node=node)

    def _cut(self, start: int, end: int) -> Cuts:
        """Return the best cuts of a span, with their time and memory."""
        inside, outside = self._of(self.whole, start, end), shared_with_others(self.microbatch, start, end)
        key = (
            *((layer.op_name, layer.nest, layer.output_elements) for layer in inside.layers),
            *inside.tensors,
            (inside.fed, inside.sent, inside.ties),
            *((layer.name for layer in inside.layers) if self.planner.pins else ()),
        )
        if key not in self.answers:
            self.answers[key] = self.planner.planned(inside)
        held = (key, outside, tuple((layer.trail, layer.ahead) for layer in inside.layers))
        if held not in self._cuts:
            graph = self._of(self.microbatch, start, end)
            self._cuts[held] = self._lowered(graph, outside, self.answers[key])
        return self._named(self._cuts[held], self._of(self.microbatch, start, end))

    def of_batch(self, node: Node, start: int, end: int) -> Node:
        """Return the cuts of a span with the layers of a mini-batch, as a search has them."""
        return node.of(self._of(self.whole, start, end))

    def costed(self, node: Node, start: int, end: int) -> Node:
        """Return the cuts of a span with the layers of a mini-batch, and with their costs."""
        whole = self.of_batch(node, start, end)
        return self.planner.costed(whole, self.planner.state_above(whole.graph))

    def question(self, start: int, end: int) -> Question:
        """Return the search problem of the cuts of a span on identical devices."""
        inside = self._of(self.whole, start, end)
        return question_of(self.request, inside, self.planner.pins, self.setting.element_bytes)


def joined(spans: Sequence[CutSpans], stages: Sequence[CutSpan]) -> list[CutSpan]:
    """Return stages with the transfers between them as the choices of all stages outside them say.

    Args:
        spans: for each stage the spans on its devices.
        stages: the stages.
    """
    outside = spans[0].request.outside
    if not outside:
        return [*stages]
    each = [Outer(span.cuts, layer) for span in stages for layer in range(len(span.cuts.lane.graph.layers))]
    bounds = accumulate((len(span.cuts.lane.graph.layers) for span in stages), initial=0)
    return [
        own.between(*ends, span.cuts, each.__getitem__)
        for own, span, ends in zip(spans, stages, pairwise(bounds), strict=True)
    ]


def span_of(graph: PlanGraph, start: int, end: int, network: Network | None = None) -> PlanGraph:
    """Return the layers from ``start`` up to ``end``, with the tensors between them.

    Args:
        graph: the layers of the network.
        start: the first layer.
        end: the first layer behind the span.
        network: its transfers, to tell the layers that send errors to others.
    """
    inside = (tensor for tensor in graph.tensors if start <= tensor.producer and tensor.consumer < end)
    sent = (
        tensor.producer - start
        for tensor in graph.tensors
        if start <= tensor.producer < end <= tensor.consumer
    )
    tensors = tuple(counted_from(start, tensor) for tensor in inside)
    found = PlanGraph(graph.layers[start:end], tensors, sent=frozenset(sent))
    if network is None:
        return found
    fed = (
        tensor.consumer - start
        for tensor, parts in zip(graph.tensors, network.parts, strict=True)
        if tensor.producer < start <= tensor.consumer < end and sends_back(parts)
    )
    return found._replace(fed=frozenset(fed), ties=_ties_inside(graph, start, end))


def _most_shared(ties: Sequence[Tensor], start: int, end: int) -> int:
    """Return the most elements of the gradient of one weight that layers outside a span have for it, each in a stage of its own.

    The stage of the weight's own layer gets them from every other one, and each of these from that one.
    """
    received: dict[int, int] = {}
    for tie in ties:
        owns, uses = (start <= layer < end for layer in (tie.producer, tie.consumer))
        if owns != uses:
            before = received.get(tie.producer, 0)
            received[tie.producer] = before + tie.elements if owns else tie.elements
    return max(received.values(), default=0)


def _ties_inside(graph: PlanGraph, start: int, end: int) -> tuple[Tensor, ...]:
    """Return the weights that several of the layers from ``start`` up to ``end`` use, each from the first of these."""
    firsts: dict[int, int] = {}
    for tie in graph.ties:
        own = (layer for layer in (tie.producer, tie.consumer) if start <= layer < end)
        firsts[tie.producer] = min((firsts.get(tie.producer, end), *own))
    inside = (tie for tie in graph.ties if firsts[tie.producer] < tie.consumer < end)
    return tuple(counted_from(start, replace(tie, producer=firsts[tie.producer])) for tie in inside)


def shared_with_others(graph: PlanGraph, start: int, end: int) -> tuple[Tensor, ...]:
    """Return the tensors that these layers read of earlier layers, whose indices are negative, and those that later ones read."""
    outside = (
        tensor
        for tensor in graph.tensors
        if (start <= tensor.producer < end) != (start <= tensor.consumer < end)
    )
    return tuple(counted_from(start, tensor) for tensor in outside)
