"""The cost of any span of a network's layers as a stage on given devices: its best cuts, with their time and memory.

Cuts are planned for the whole mini-batch, whose gradients are exchanged once; the time is that of a microbatch, plus
the exchange of gradients and the update once a mini-batch. A stage waits for the tensors that it receives: F as its
layers need it, from the previous stage, and E as its outputs are held, from the next stage. Spans with equal layers, pins
and tensors, inside and from and to others, are planned once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from hypar.plan.stages import FLUSHES
from hypar.planning.question import question_of
from hypar.planning.records import Leaf
from hypar.planning.stages.arriving import Outer, StageDevices, entering
from hypar.planning.stages.ends import crossing, kinds_of, most_shared, read_outside, span_of, stage_ends
from hypar.planning.uneven.records import TreeReader
from hypar.schedule.lanes import StagePlace
from hypar.schedule.memory import memory_of
from hypar.schedule.stages import StageWork, part_of
from hypar.schedule.tasks import TaskList
from hypar.schedule.timeline import run
from hypar.sharding.conventions import PAPER
from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.network.nodes import PlanGraph
    from hypar.plan.plan import Plan
    from hypar.planning.question import Question
    from hypar.planning.uneven.levels import LevelPlanner, Node
    from hypar.schedule.lanes import Lane
    from hypar.schedule.pieces import Crossing
    from hypar.schedule.tasks import Entering, Link, PartTasks
    from hypar.solve.edge import Costs


class Phases(NamedTuple):
    """The durations of a stage's phases, without transfers from other stages.

    Attributes:
        forward: seconds for the forward phase of a microbatch.
        backward: seconds for the backward phase of a microbatch, with its gradients.
        once: seconds for exchanging gradients and updating, after the last microbatch of a mini-batch.
        behind: the seconds of the backward phase behind the error that goes to the stage before: the first layer's gradient.
    """

    forward: float
    backward: float
    once: float
    behind: float


def phases_of(stage: StageWork) -> Phases:
    """Return the phases of a stage: each from its own beginning, so that none gets longer because another gets shorter."""
    serial = [not lane.setting.machine.overlap for lane in stage.lanes]
    found = TaskList(serial)
    part = part_of(stage, found)
    if serial != [True]:
        # Transfers overlap, or groups work beside each other: the engine says how long a phase takes.
        forward = _makespan(part, "forward", 0)
        part.phase("forward", 1)
        backward, whole = (_makespan(part, "backward", item, final=item > 0) for item in range(2))
        return Phases(forward, backward, max(0.0, whole - backward), 0.0)
    spent: dict[str, list[float]] = {phase: [0.0] for phase in ("forward", "backward", "once", "behind")}
    for op, rounds in (*part.ops("forward", True), *part.ops("backward", True)):
        seconds = [piece.seconds for pieces in rounds for piece in pieces]
        spent["once" if op.once else "forward" if op.phase == "forward" else "backward"] += seconds
        if op.kind == "compute" and op.phase == "gradient" and op.node == 0:
            spent["behind"] += seconds
    return Phases(*map(math.fsum, spent.values()))


def _makespan(part: PartTasks, phase: str, item: int, *, final: bool = False) -> float:
    part.found.clear()
    part.begin()
    part.phase(phase, item, final=final)
    return run(part.found.tasks).makespan


@dataclass(frozen=True, eq=False)
class Cuts:
    """The cuts of a span, whose phases and memory are counted once they are asked for.

    Attributes:
        node: the planned devices, with the layers of a microbatch and the costs of a mini-batch.
        solver: the name of its solver.
        lanes: its layers for a microbatch, their choices and their setting, on each group of identical devices.
        crossings: the transfers at uneven splits between the groups, outer splits first.
    """

    node: Node
    solver: str
    lanes: tuple[Lane, ...]
    crossings: tuple[Crossing, ...]

    @cached_property
    def phases(self) -> Phases:
        """The durations of the phases of a microbatch."""
        return phases_of(StageWork(self.lanes, self.crossings))

    @cached_property
    def memory(self) -> tuple[dict[str, float], ...]:
        """The bytes on each device of each group, including one microbatch's activations."""
        part = part_of(StageWork(self.lanes, self.crossings), TaskList(()))
        ops = [*part.ops("forward", True), *part.ops("backward", True)]
        pieces = [piece for _, rounds in ops for own in rounds for piece in own]
        return tuple(memory_of(lane, pieces, number) for number, lane in enumerate(self.lanes))

    def named(self, graph: PlanGraph) -> Cuts:
        """Return the same cuts of equal layers with other names."""
        node = self.node.of(graph)
        each = zip(self.lanes, node.leaves(), strict=True)
        found = replace(self, node=node, lanes=tuple(lane.having(graph=leaf.graph) for lane, leaf in each))
        known = {"phases", "memory"}
        found.__dict__.update({name: own for name, own in self.__dict__.items() if name in known})
        return found

    @property
    def lane(self) -> Lane:
        """The first group of identical devices, with the layers of all."""
        return self.lanes[0]

    @property
    def overlap(self) -> bool:
        """Whether transfers run beside computation on all devices."""
        return all(lane.setting.machine.overlap for lane in self.lanes)


class CutSpan(NamedTuple):
    """A span of layers as a stage.

    Attributes:
        spans: all spans of the network on its devices.
        start: its first layer.
        cuts: its cuts.
        received: a microbatch's F that other stages send.
        returned: its E that they send.
        shared_bytes: the most that one of its devices receives of the gradient of a weight that layers of other stages use.
    """

    spans: CutSpans
    start: int
    cuts: Cuts
    received: Entering
    returned: Entering
    shared_bytes: float = 0.0

    @property
    def layers(self) -> int:
        """The number of its layers."""
        return len(self.cuts.lane.graph.layers)

    @property
    def ends(self) -> tuple[int, int]:
        """Its first layer, and the first one behind it."""
        return self.start, self.start + self.layers

    @property
    def seconds(self) -> float:
        """Its busy time for a mini-batch without waiting; with overlap, at least the time of its links."""
        phases, microbatches = self.cuts.phases, self.spans.microbatches
        computing = microbatches * (phases.forward + phases.backward) + phases.once
        if self.cuts.overlap:
            return max(computing, microbatches * max(self.received.seconds, self.returned.seconds))
        return computing + microbatches * (self.received.seconds + self.returned.seconds)

    def cost(self, balance: str, in_flight: int = 1) -> float:
        """Return the quantity that a partition minimises in its costliest stage.

        Args:
            balance: one of ``BALANCES``.
            in_flight: the largest number of microbatches whose activations it keeps.
        """
        microbatches = self.spans.microbatches
        if balance == "memory":
            return max(self.held_bytes(in_flight))
        if balance == "traffic":
            return microbatches * (self.received.from_stages + self.returned.from_stages)
        if balance == "macs":
            return microbatches * sum(layer.nest.macs for layer in self.cuts.node.graph.layers)
        if not FLUSHES[self.spans.request.schedule] and self.cuts.overlap:
            # Over each end as many bytes are sent as received, so what it sends takes as long as what it receives there.
            forward, backward, once, _ = self.cuts.phases
            return forward + max(self.returned.seconds, backward + max(once, self.received.seconds))
        return self.seconds

    def held(self, in_flight: int, group: int = 0) -> dict[str, float]:
        """Return the bytes on each device of one of the groups of identical devices, with microbatches in flight."""
        memory = self.cuts.memory[group]
        buffers = max(memory["buffers"], self.shared_bytes)
        return {**memory, "activations": in_flight * memory["activations"], "buffers": buffers}

    def held_bytes(self, in_flight: int) -> list[float]:
        """Return the bytes on each device of each group of identical devices with microbatches in flight."""
        return [math.fsum(self.held(in_flight, group).values()) for group in range(len(self.cuts.lanes))]

    def fits(self, in_flight: int, share: int) -> bool:
        """Return whether all its devices hold as much with microbatches in flight, in one of equal shares of their memory."""
        each = zip(self.cuts.lanes, self.held_bytes(in_flight), strict=True)
        return all(lane.setting.machine.fits(share * held) for lane, held in each)


class LayerBounds(NamedTuple):
    """The lower bounds of a layer.

    Attributes:
        seconds: time for a mini-batch.
        forward: time of the computation of the forward phase of a microbatch.
        weights: elements of its weight on the fullest device.
        kept: elements that it and its trail keep there for each microbatch in flight.
        error: elements of the error of its trail's output there.
    """

    seconds: float = 0.0
    forward: float = 0.0
    weights: float = 0.0
    kept: float = 0.0
    error: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class CutSpans(StageDevices):
    """All spans of a network on the devices of a stage.

    Attributes:
        planner: the planner of these devices.
        whole: the layers for a mini-batch.
        answers: the best cuts of spans for a mini-batch, which do not depend on microbatches or the number of stages.
        bounds: the lower bounds of all layers, once they are asked for.
    """

    planner: LevelPlanner
    whole: PlanGraph
    answers: dict[str, Node]
    bounds: list[LayerBounds] = field(default_factory=list)
    _cuts: dict[str, Cuts] = field(default_factory=dict)
    _priced: dict[str, CutSpan] = field(default_factory=dict)

    def over(self, forward: Link | None, backward: Link | None) -> CutSpans:
        """Return the same spans with other links from other stages."""
        return replace(self, forward=forward, backward=backward, _priced={})

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The layers before which a stage may begin, and the number of layers."""
        return stage_ends([layer.name for layer in self.whole.layers])

    @cached_property
    def kinds(self) -> str:
        """A letter for each layer: spans of equal letters are equal, and cost the same."""
        return kinds_of(self.whole, tuple(self.planner.pins))

    @cached_property
    def crossing_bytes(self) -> Costs:
        """The bytes of a microbatch's F that cross each place between layers, ``[layers + 1]``; E has as many."""
        return self.setting.element_bytes * crossing(self.microbatch)

    def span(self, start: int, end: int) -> CutSpan:
        """Return the span of the layers from ``start`` up to ``end``."""
        return self.between(start, self._cut(start, end).named(self._of(self.microbatch, start, end)))

    def priced(self, start: int, end: int) -> CutSpan:
        """Return a span that is equal to one, and costs the same."""
        key = self.kinds[start:end]
        if key not in self._priced:
            self._priced[key] = self.between(start, self._cut(start, end))
        return self._priced[key]

    def having(self, start: int, end: int, node: Node) -> CutSpan:
        """Return the span of the layers from ``start`` up to ``end`` with the cuts of a planned node."""
        return self.between(start, self._lowered(start, end, node))

    def stored(self, plan: Plan, start: int, end: int, *, costed: bool = False) -> CutSpan:
        """Return the span of the layers from ``start`` up to ``end`` with the cuts of a plan; those of device groups have shares."""
        machine, graph = self.request.machine, self._of(self.microbatch, start, end)
        assert machine is not None  # noqa: S101 (stages are on a machine)
        node: Node = TreeReader(plan, self.setting).branch(self.group or WHOLE_ARRAY, machine, graph, 0)
        return self.having(start, end, self.costed(node, start, end) if costed else node)

    def between(
        self, start: int, cuts: Cuts, outer: Callable[[int], Outer | None] = lambda _: None
    ) -> CutSpan:
        """Return the span of the layers from ``start`` on with its cuts as a stage; ``outer`` as in ``entering``."""
        ends = start, start + len(cuts.lane.graph.layers)
        arriving = entering(self, ends, cuts.node, outer)
        devices = sum(lane.devices for lane in cuts.lanes)
        shared = self.replicas * self.setting.element_bytes * most_shared(self.ties, *ends) / devices
        return CutSpan(self, start, cuts, *arriving, shared)

    def _of(self, graph: PlanGraph, start: int, end: int) -> PlanGraph:
        """Return the layers of a span, with the tensors between them; by other counts than ``paper`` also its ends."""
        by_paper = {self.request.convention, self.setting.convention} == {PAPER}
        return span_of(graph, start, end, None if by_paper else self.network)

    def _cut(self, start: int, end: int) -> Cuts:
        """Return the best cuts of a span, or of one that is equal to it."""
        key = self.kinds[start:end]
        if key not in self._cuts:
            if key not in self.answers:
                self.answers[key] = self.planner.planned(self._of(self.whole, start, end))
            self._cuts[key] = self._lowered(start, end, self.answers[key])
        return self._cuts[key]

    def _lowered(self, start: int, end: int, planned: Node) -> Cuts:
        """Return the cuts of the layers of a span for a microbatch."""
        node = planned.of(self._of(self.microbatch, start, end))
        if isinstance(node, Leaf):
            node = replace(node, lane=node.lane._replace(setting=self.setting, name=""))
        lanes, crossings = node.lanes()
        reached = node.in_whole_elements().reached(tensors=read_outside(self.microbatch, start, end))
        each = zip(lanes, reached, strict=True)
        placed = tuple(lane.having(place=StagePlace(outside=own)) for lane, (_, own) in each)
        return Cuts(node, self.planner.solver(planned), placed, tuple(crossings))

    def of_batch(self, node: Node, start: int, end: int) -> Node:
        """Return the cuts of a span with the layers of a mini-batch, as a search has them."""
        return node.of(self._of(self.whole, start, end))

    def costed(self, node: Node, start: int, end: int) -> Node:
        """Return the cuts of a span with the layers of a mini-batch, and with their costs."""
        return self.planner.costed(self.of_batch(node, start, end))

    def question(self, start: int, end: int) -> Question:
        """Return the search problem of the cuts of a span on identical devices."""
        inside = self._of(self.whole, start, end)
        return question_of(self.request, inside, self.planner.pins, self.setting.element_bytes)


def joined(stages: Sequence[CutSpan]) -> list[CutSpan]:
    """Return stages, or the parts of stages in turn, with the transfers between them as the choices of all of them say.

    Outside the stages a layer of another one has choices of its own; a tensor between two parts of one stage, as along a
    residual branch that skips the others, is handed on by the devices that have it.
    """
    request = stages[0].spans.request
    if not request.outside and request.parts is None:
        return [*stages]
    count = len(stages) // (request.parts or 1)
    places = [(number, layer) for number, own in enumerate(stages) for layer in range(own.layers)]

    def outer(reader: int, layer: int) -> Outer:
        number, own = places[layer]
        return Outer(stages[number].cuts.node, own, (number - reader) % count == 0)

    each = enumerate(stages)
    return [own.spans.between(own.start, own.cuts, partial(outer, number)) for number, own in each]
