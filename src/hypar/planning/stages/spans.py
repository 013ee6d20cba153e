"""The cost of any span of a network's layers as a stage on given devices: its best cuts, with their time and memory.

Cuts are planned for the whole mini-batch, whose gradients are exchanged once; the time is that of a microbatch, plus
the exchange of gradients and the update once a mini-batch. A stage waits for the tensors that it receives: F as its
layers need it, from the previous stage, and E as its outputs are held, from the next stage. Spans with equal layers
and equal tensors between them are planned once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from hypar.costs.base import load_cost
from hypar.network.contraction import ContractedGraph
from hypar.plan.splits import FLUSHES
from hypar.planning.question import question_of, setting_for
from hypar.planning.searches.base import Answer, load_search
from hypar.planning.stages.places import places_for
from hypar.planning.stages.span import Cuts, CutSpan, Site, phases_of
from hypar.schedule.entering import Links, entering
from hypar.schedule.lanes import Lane, StagePlace
from hypar.schedule.memory import memory_of
from hypar.schedule.step import lower_lanes
from hypar.sharding.amounts.flows import flows_of
from hypar.sharding.conventions import MOVED, PAPER
from hypar.sharding.pins import parse_pin
from hypar.sharding.placement import grid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.machine.setting import Setting
    from hypar.network.contraction import Tensor
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.planning.request import Request
    from hypar.planning.searches.base import Question
    from hypar.planning.stages.span import LayerBounds
    from hypar.schedule.entering import Entering
    from hypar.sharding.amounts.flows import Flows
    from hypar.sharding.pins import Pin
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs


class Outer(NamedTuple):
    """A layer of another stage.

    Attributes:
        cuts: the cuts of that stage.
        layer: the index of the layer there.
    """

    cuts: Cuts
    layer: int


@dataclass(frozen=True, eq=False, kw_only=True)
class CutSpans:
    """All spans of a network, each on the same number of devices.

    Attributes:
        request: the request; its array is the one inside a stage, and may be empty.
        whole: the layers for a mini-batch.
        microbatch: the layers for a microbatch.
        pins: choices to hold.
        setting: the setting of a stage.
        site: the devices of a stage, and the links to them.
        answers: the best cuts of spans, which do not depend on microbatches or the number of stages.
        bounds: for each number of microbatches the lower bounds of all layers, which do not depend on the number of stages.
    """

    request: Request
    whole: ContractedGraph
    microbatch: ContractedGraph
    pins: tuple[Pin, ...]
    setting: Setting
    site: Site
    answers: dict[object, Answer]
    bounds: dict[int, list[LayerBounds]] = field(default_factory=dict)
    _cuts: dict[object, Cuts] = field(default_factory=dict)
    _found: dict[tuple[int, int], CutSpan] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        request: Request,
        graph: LayerGraph,
        counts: tuple[int, int],
        answers: dict[object, Answer] | None = None,
        group: str | None = None,
    ) -> Self:
        """Build the spans of a network.

        Args:
            request: the request.
            graph: the network.
            counts: the numbers of stages on these devices, and of microbatches in a mini-batch.
            answers: the known best cuts of spans for the same request; others are added.
            group: the name of the device group whose devices they are; None if all devices are identical.

        Raises:
            InputError: the request does not suit the network, or the array the machine.
        """
        stages, microbatches = counts
        whole = graph.nodes(request.graph)
        direct = load_cost(request.cost, request.parameters).direct
        setting = setting_for(request, graph.element_bytes, direct=direct)
        link = (
            setting.machine.stage_link(request.array, places_for(setting.machine, request.array, stages))
            if stages > 1
            else None
        )
        levels = max(map(len, (request.array, *request.arrays.values())))
        return cls(
            request=request,
            whole=whole,
            microbatch=graph.with_batch(graph.batch // microbatches).nodes(request.graph),
            pins=tuple(
                pin
                for pin in (parse_pin(text, whole, max(1, levels)) for text in request.pins)
                if pin.level is None or pin.level < len(request.array) or not levels
            ),
            setting=setting,
            site=Site(group, stages, Links(link, link)),
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

    def given(self, start: int, end: int, choices: tuple[Options, ...]) -> CutSpan:
        """Return the span of the layers from ``start`` up to ``end`` with given cuts."""
        answer = Answer(choices=choices, costs=(), solver="", exact=False)
        outside = shared_with_others(self.microbatch, start, end)
        cuts = self._lowered(self._of(self.microbatch, start, end), outside, answer)
        return self._as_stage(start, end, cuts)

    def stored(self, plan: Plan, start: int, end: int, choices: tuple[Options, ...]) -> CutSpan:  # noqa: ARG002 (device groups have shares)
        """Return the span of the layers from ``start`` up to ``end`` with the cuts of a plan."""
        return self.given(start, end, choices)

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
        arriving = self._entering(start, end, cuts, outer)
        return CutSpan(
            cuts,
            *arriving,
            in_step=not FLUSHES[self.request.schedule],
            site=self.site,
            tensors=self.microbatch.tensors,
        )

    def _entering(
        self, start: int, end: int, cuts: Cuts, outer: Callable[[int], Outer | None]
    ) -> tuple[Entering, Entering]:
        """Return what a span receives of a microbatch's F, and of its E; arguments as in ``between``."""
        outside = self.request.outside
        replicated = tuple(grid({"batch": ways}) for ways in self.setting.array[:outside])

        def choices(layer: int) -> Options:
            found = outer(layer) if outside else None
            return replicated if found is None else found.cuts.lane.choices[found.layer][:outside]

        network = (self.microbatch, self.flows)
        return entering(network, (start, end), cuts.lane.choices, self.setting, self.site.links, choices)

    @property
    def replicas(self) -> int:
        """The number of parts of a stage that the levels outside the stages make."""
        return math.prod(self.setting.array[: self.request.outside])

    @cached_property
    def flows(self) -> Flows:
        """The tensors that move whatever the choices, if sums are added up before they leave a stage."""
        return flows_of(self.microbatch, MOVED)

    @cached_property
    def crossing_bytes(self) -> Costs:
        """The bytes of a microbatch's F that cross each place between layers, ``[layers + 1]``; E has as many."""
        found: list[dict[int, int]] = [{} for _ in range(len(self.microbatch.layers) + 1)]
        for tensor in self.microbatch.tensors:
            for place in range(tensor.producer + 1, tensor.consumer + 1):
                found[place][tensor.producer] = max(found[place].get(tensor.producer, 0), tensor.elements)
        return np.array([self.setting.element_bytes * math.fsum(at.values()) for at in found])

    def _of(self, graph: ContractedGraph, start: int, end: int) -> ContractedGraph:
        """Return the layers of a span, with the tensors between them; by other counts than ``paper`` also its ends."""
        if {self.request.convention, self.setting.convention} == {PAPER}:
            return span_of(graph, start, end)
        return span_of(graph, start, end, self.flows)

    def _lowered(self, graph: ContractedGraph, outside: tuple[Tensor, ...], answer: Answer) -> Cuts:
        """Return the cuts of the layers of a span for a microbatch, with their time and memory."""
        lane = Lane(graph, answer.choices, self.setting, place=StagePlace(outside=outside))
        step = lower_lanes([lane])
        phases = phases_of(step, overlap=self.setting.machine.overlap)
        return Cuts(answer, (lane,), (), phases, (memory_of(lane, step, 0),))

    def _named(self, cuts: Cuts, graph: ContractedGraph) -> Cuts:
        """Return the same cuts of equal layers with other names."""
        return cuts._replace(lanes=(cuts.lane.of(graph),))

    def _cut(self, start: int, end: int) -> Cuts:
        """Return the best cuts of a span, with their time and memory."""
        inside, outside = self._of(self.whole, start, end), shared_with_others(self.microbatch, start, end)
        key = (
            *((layer.op_name, layer.einsum, layer.output_elements) for layer in inside.layers),
            *inside.tensors,
            (inside.fed, inside.sent),
            *((layer.name for layer in inside.layers) if self.pins else ()),
        )
        if key not in self.answers:
            self.answers[key] = self._answer(inside)
        held = (key, outside, tuple((layer.trail, layer.ahead) for layer in inside.layers))
        if held not in self._cuts:
            graph = self._of(self.microbatch, start, end)
            self._cuts[held] = self._lowered(graph, outside, self.answers[key])
        return self._named(self._cuts[held], self._of(self.microbatch, start, end))

    def question(self, start: int, end: int) -> Question:
        """Return the search problem of the cuts of a span."""
        return self._question(self._of(self.whole, start, end))

    def _question(self, inside: ContractedGraph) -> Question:
        return question_of(self.request, inside, self.pins, self.setting.element_bytes)

    def _answer(self, inside: ContractedGraph) -> Answer:
        if not self.request.array:
            return Answer(choices=((),) * len(inside.layers), costs=(), solver="", exact=True)
        return load_search(self.request.search).run(self._question(inside))


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


def span_of(graph: ContractedGraph, start: int, end: int, flows: Flows | None = None) -> ContractedGraph:
    """Return the layers from ``start`` up to ``end``, with the tensors between them.

    Args:
        graph: the layers of the network.
        start: the first layer.
        end: the first layer behind the span.
        flows: the amounts of the network, to tell the layers that send errors to others.
    """
    inside = (tensor for tensor in graph.tensors if start <= tensor.producer and tensor.consumer < end)
    sent = (
        tensor.producer - start
        for tensor in graph.tensors
        if start <= tensor.producer < end <= tensor.consumer
    )
    tensors = tuple(_counted_from(start, tensor) for tensor in inside)
    found = ContractedGraph(graph.layers[start:end], tensors, sent=frozenset(sent))
    if flows is None:
        return found
    fed = (
        tensor.consumer - start
        for tensor, flow in zip(graph.tensors, flows.tensors, strict=True)
        if flow.error and tensor.producer < start <= tensor.consumer < end
    )
    return found._replace(fed=frozenset(fed))


def shared_with_others(graph: ContractedGraph, start: int, end: int) -> tuple[Tensor, ...]:
    """Return the tensors that these layers read of earlier layers, whose indices are negative, and those that later ones read."""
    outside = (
        tensor
        for tensor in graph.tensors
        if (start <= tensor.producer < end) != (start <= tensor.consumer < end)
    )
    return tuple(_counted_from(start, tensor) for tensor in outside)


def _counted_from(start: int, tensor: Tensor) -> Tensor:
    return replace(tensor, producer=tensor.producer - start, consumer=tensor.consumer - start)
