"""The work of a step, in stages or without.

A stage is a part of the network on lanes of its own. Its gradients are exchanged, and its weights updated, in the last
backward phase of a mini-batch. What it receives from other stages occupies a link, and on a machine without overlap
also its devices, just before they need it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Self

from hypar.schedule.memory import gathers_of
from hypar.schedule.pieces import (
    BETWEEN_STAGES,
    COMMUNICATION,
    PHASE,
    Crossing,
    Piece,
    Pieces,
    Rounds,
    level_name,
    placed,
    together,
)
from hypar.schedule.pipeline_orders import Schedule
from hypar.schedule.record import Buckets, Op, backward_of, record_of
from hypar.schedule.tasks import Costed, Entering, PartTasks, Pipeline, Place, TaskList, Tied

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hypar.network.nodes import PlanNode
    from hypar.schedule.lanes import Lane
    from hypar.schedule.timeline import Timeline


class StageWork(NamedTuple):
    """The devices of a stage, or of a step without stages, with their work for a microbatch in one part of the stage.

    Attributes:
        lanes: groups of identical devices.
        crossings: the transfers at uneven splits between the lanes, outer splits first.
        received: F that other stages send.
        returned: E that they send.
        name: the name of the stage; empty without stages.
    """

    lanes: tuple[Lane, ...]
    crossings: tuple[Crossing, ...] = ()
    received: Entering = Entering()
    returned: Entering = Entering()
    name: str = ""

    @property
    def layers(self) -> int:
        """The number of its layers."""
        return len(self.lanes[0].graph.layers)

    def costed(self, ops: Iterable[Op]) -> list[Costed]:
        """Return ops with their pieces."""
        of = self.lanes[0].pieces if len(self.lanes) == 1 and not self.crossings else self._of
        return [(op, of(op)) for op in ops]

    def _of(self, op: Op) -> Rounds:
        """Return the pieces of an op: of a sum in each group first, then across the uneven splits; of a move the other way."""
        rounds = [pieces for lane in self.lanes for pieces in lane.pieces(op)]
        if op.kind == "compute" and rounds:
            return (tuple([piece for pieces in rounds for piece in pieces]),)
        if op.kind == "move":
            rounds = [*self._across(self.crossings, op), *rounds]
        elif op.kind == "sum":
            rounds += self._across(self.crossings[::-1], op)
        return tuple(rounds)

    def _across(self, crossings: Iterable[Crossing], op: Op) -> Iterator[Pieces]:
        for inside, between in crossings:
            every = (inside[node] for node in op.bucket or (op.node,)) if op.edge < 0 else (between[op.edge],)
            own = [pieces for rounds in every for pieces in rounds if pieces[0].phase == op.phase]
            yield from self.placed(_together(own) if op.bucket else own)

    def placed(self, rounds: Iterable[Pieces]) -> Rounds:
        """Return rounds of its lanes among those of all stages."""
        return tuple([placed(pieces, self.lanes[0].number, self.name) for pieces in rounds])

    def entered(self, entering: Entering, phase: str) -> Piece:
        """Return the transfer of what comes from other stages, over a link yet without a name."""
        groups, received = tuple([lane.number for lane in self.lanes]), entering.from_stages
        collective = "all_reduce" if phase == PHASE else "send"
        own = (groups, groups, "", entering.link_s, COMMUNICATION, phase, collective, BETWEEN_STAGES)
        return Piece(*own, received, received, entering.outward)


def _together(rounds: Sequence[Pieces]) -> Iterator[Pieces]:
    for kind in dict.fromkeys(pieces[0].collective for pieces in rounds):
        yield together(piece for pieces in rounds for piece in pieces if piece.collective == kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A training step that was run.

    Attributes:
        timeline: when each task ran.
        pieces: for each task its piece of an op.
        places: for each task the layer and the microbatch that it is for.
        buckets: the layers that exchange their gradients together; nothing if each does by itself.
    """

    timeline: Timeline
    pieces: tuple[Piece, ...]
    places: tuple[Place, ...]
    buckets: Buckets

    @property
    def exchanging(self) -> tuple[int, ...]:
        """The layers that exchange gradients, in the order of the backward phase."""
        every = zip(self.places, self.pieces, strict=True)
        found = {place.layer for place, piece in every if piece.collective and piece.phase == PHASE}
        return tuple(sorted(found, reverse=True))

    def received(self, levels: int, *, stages: bool = False) -> dict[str, float]:
        """Sum the bytes that all devices receive at each level, and between stages if there are any."""
        every = range(BETWEEN_STAGES if stages else 0, levels)
        found: dict[int, list[float]] = {level: [] for level in every}
        for piece in self.pieces:
            if piece.collective:
                found[piece.level].append(piece.num_bytes)
        return {level_name(level): math.fsum(amounts) for level, amounts in found.items()}


def part_of(
    stage: StageWork,
    found: TaskList,
    buckets: Buckets | None = None,
    shared: Mapping[int, Entering] = MappingProxyType({}),
) -> PartTasks:
    """Return a part of a stage with no tasks yet.

    Args:
        stage: the part.
        found: the tasks of all stages.
        buckets: the layers, by their numbers over all stages, that add up their gradients together; None if each adds up its own.
        shared: what it receives of the gradients of weights that other stages have as well.
    """
    machines, lane = [lane.setting.machine for lane in stage.lanes], stage.lanes[0]
    overlaps, layer = tuple([machine.overlap for machine in machines]), lane.place.first
    record = record_of(lane.graph, (*lane.rests.items(),), lane.again, gathers_of(lane))
    # Where nothing overlaps, the stage before would wait for the sums of gradients.
    eager, deferred = any(overlaps), bool(stage.name) and not all(overlaps)
    if buckets is not None:
        inside = [bucket for bucket in buckets if layer <= bucket[0] < layer + stage.layers]
        buckets = tuple([tuple([node - layer for node in bucket]) for bucket in inside])
    elif any(machine.independent for machine in machines):
        buckets = tuple((node,) for node in reversed(range(stage.layers)))

    @cache
    def ops(phase: str, final: bool) -> list[Costed]:
        if phase == "forward":
            return stage.costed(record.forward)
        return stage.costed(backward_of(record, buckets, eager=eager, deferred=deferred, final=final))

    part = PartTasks(found=found, record=record, ops=ops, overlaps=overlaps, first=lane.number, layer=layer)
    part.shared = {node: stage.entered(entering, PHASE) for node, entering in shared.items()}
    each = ("forward", 0, stage.received), ("backward", stage.layers - 1, stage.returned)
    for phase, node, entering in each if stage.name else ():
        part.handed_on[phase] = [(own.layer, stage.placed(own.rounds)) for own in entering.arrivals]
        if entering.from_stages:
            part.arriving[phase] = node, stage.entered(entering, phase)
    return part


@dataclass(frozen=True, eq=False, kw_only=True)
class StepWork:
    """All devices with their work in a training step.

    Attributes:
        stages: the parts of the stages in the network's order, in turn of the first stage to the last; one without a pipeline.
        schedule: the order of their work; None without a pipeline.
        microbatches: the number of microbatches in a mini-batch.
        exchanges: the gradients that several stages add up once a mini-batch.
    """

    stages: tuple[StageWork, ...]
    schedule: Schedule | None = None
    microbatches: int = 1
    exchanges: tuple[Tied, ...] = ()

    @classmethod
    def of(cls, lanes: Sequence[Lane], crossings: Sequence[Crossing] = ()) -> Self:
        """Return the work of lanes without stages, which take one microbatch forward and backward before the next one."""
        work = StageWork(tuple(lanes), tuple(crossings))
        return cls(stages=(work,), microbatches=lanes[0].setting.training.microbatches)

    @property
    def count(self) -> int:
        """The number of stages."""
        return len(self.stages) // (1 if self.schedule is None else self.schedule.parts)

    @cached_property
    def lanes(self) -> tuple[Lane, ...]:
        """The lanes of all stages, each with the layers of the first of its parts, which it has beside these."""
        stages = (self.stages[stage :: self.count] for stage in range(self.count))
        each = (parts for own in stages for parts in zip(*(part.lanes for part in own), strict=True))
        return tuple([parts[0].having(place=parts[0].place._replace(parts=parts)) for parts in each])

    @property
    def layers(self) -> tuple[PlanNode, ...]:
        """The layers of all stages."""
        return tuple(layer for stage in self.stages for layer in stage.lanes[0].graph.layers)

    def run(self, chunks: Buckets | None = None) -> Step:
        """Lower the step to tasks and run them; the layers of a chunk, all of one stage, exchange their gradients together.

        Raises:
            HardwareError: an array does not fit its machine.
        """
        found = TaskList(
            not lane.setting.machine.overlap for stage in self.stages[: self.count] for lane in stage.lanes
        )
        shared: list[dict[int, Entering]] = [{} for _ in self.stages]
        for number, node, own in chain.from_iterable(self.exchanges):
            shared[number][node] = own
        parts = [part_of(stage, found, chunks, own) for stage, own in zip(self.stages, shared, strict=True)]
        pipeline = Pipeline(found, parts, self.count, self.exchanges)
        timeline = pipeline.run(self.schedule or Schedule("1f1b"), self.microbatches)
        pieces, places = tuple(found.pieces), tuple(found.places)
        return Step(timeline=timeline, pieces=pieces, places=places, buckets=chunks or ())
