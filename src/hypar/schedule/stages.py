"""The work of a step, in stages or without; each stage lowers the phases of its microbatches, in the order of a schedule.

A stage is a part of the network on lanes of its own. Its gradients are exchanged, and its weights updated, in the last
backward phase of a mini-batch. What it receives from other stages occupies a link, and on a machine without overlap
also its devices, just before they need it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, NamedTuple, Self

from hypar.schedule.costed import StageWork
from hypar.schedule.lanes import whole_lane
from hypar.schedule.pieces import PHASE
from hypar.schedule.pipeline import Origin, Pipeline, full_tasks
from hypar.schedule.step import Step
from hypar.schedule.tasks import PartTasks, TaskList
from hypar.schedule.timeline import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.nodes import PlanNode
    from hypar.schedule.costed import Entering
    from hypar.schedule.lanes import Lane
    from hypar.schedule.pieces import Crossing, Pieces
    from hypar.schedule.pipeline_orders import Schedule
    from hypar.schedule.record import Buckets
    from hypar.schedule.timeline import Timeline


class Exchange(NamedTuple):
    """The gradient of a weight that layers of several stages use, whose sums these stages add up once a mini-batch.

    Attributes:
        members: for each of these stages, that of the weight's own layer first, the number of the part and the layer in it.
        entering: what each of them receives from the others.
        outside: for each of them but the first what it receives at the levels outside the stages, in place of its own sums there.
    """

    members: tuple[tuple[int, int], ...]
    entering: tuple[Entering, ...]
    outside: tuple[Pieces, ...]


class Order(NamedTuple):
    """The order of work of a pipeline.

    Attributes:
        schedule: the schedule.
        microbatches: number of microbatches in a mini-batch.
        minibatches: number of mini-batches with a step in which every stage has its full work.
    """

    schedule: Schedule
    microbatches: int
    minibatches: int


@dataclass(frozen=True, eq=False, kw_only=True)
class StepWork:
    """All devices with their work in a training step.

    Attributes:
        stages: the parts of the stages in the network's order, in turn of the first stage to the last; one without a pipeline.
        order: the order of their work; None for one stage.
        exchanges: the gradients that several stages add up.
    """

    stages: tuple[StageWork, ...]
    order: Order | None = None
    exchanges: tuple[Exchange, ...] = ()

    @classmethod
    def of(cls, lanes: Sequence[Lane], crossings: Sequence[Crossing] = ()) -> Self:
        """Return the work of lanes without stages."""
        return cls(stages=(StageWork(tuple(lanes), tuple(crossings)),))

    @property
    def count(self) -> int:
        """The number of stages."""
        return len(self.stages) // (1 if self.order is None else self.order.schedule.parts)

    @cached_property
    def lanes(self) -> tuple[Lane, ...]:
        """The lanes of all stages, each with the layers of all its parts."""
        each = (self.stages[stage :: self.count] for stage in range(self.count))
        return tuple(
            whole_lane(lanes) for parts in each for lanes in zip(*(part.lanes for part in parts), strict=True)
        )

    @property
    def layers(self) -> tuple[PlanNode, ...]:
        """The layers of all stages."""
        return tuple(layer for stage in self.stages for layer in stage.lanes[0].graph.layers)

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """The index of each stage's first layer, and the number of layers."""
        return tuple(accumulate((stage.layers for stage in self.stages), initial=0))

    def run(self, chunks: Buckets | None = None) -> Step:
        """Lower the step to tasks and run them.

        Args:
            chunks: the layers that exchange their gradients together, none of two stages.

        Raises:
            HardwareError: an array does not fit its machine.
        """
        if self.order is None:
            (only,) = self.stages
            found = TaskList((not lane.setting.machine.overlap for lane in only.lanes), alone=True)
            part = PartTasks(found, only, chunks)
            for phase in ("forward", "backward"):
                part.phase(phase, 0)
            return _step(found, run(found.tasks), range(len(found.tasks)))
        pipeline = _Stages(self, chunks)
        pipeline.issue(*self.order)
        timeline, kept = full_tasks(pipeline.origins, run(pipeline.found.tasks))
        return _step(pipeline.found, timeline, kept)

    def within_stages(self, chunks: Buckets) -> Buckets:
        """Divide chunks at the ends of stages."""
        of = [stage for stage, own in enumerate(self.stages) for _ in range(own.layers)]
        return tuple(
            tuple(layers) for chunk in chunks for _, layers in groupby(chunk, key=lambda layer: of[layer])
        )


def _step(found: TaskList, timeline: Timeline, kept: Sequence[int]) -> Step:
    """Return the step of some tasks of a list, of which the timeline is."""
    pieces, places = (found.pieces[task] for task in kept), (found.places[task] for task in kept)
    return Step(timeline=timeline, pieces=tuple(pieces), places=tuple(places))


class _Stages(Pipeline):
    """The lowering of stages of several layers."""

    def __init__(self, whole: StepWork, buckets: Buckets | None) -> None:
        count = whole.count
        found = TaskList(not lane.setting.machine.overlap for lane in whole.lanes)
        super().__init__(found, [], count)
        self.exchanges = whole.exchanges
        self.parts: list[PartTasks] = []
        for number, (stage, first) in enumerate(zip(whole.stages, whole.firsts, strict=False)):
            own = None if buckets is None else _of_stage(buckets, first, stage.layers)
            members = (member for exchange in whole.exchanges for member in exchange.members)
            shared = {layer for part, layer in members if part == number}
            entering = {"forward": stage.received, "backward": stage.returned}
            self.parts.append(PartTasks(found, stage, own, layer=first, entering=entering, shared=shared))

    def _flush(self, step: int) -> None:
        for exchange in self.exchanges:
            self._exchange(exchange, step)

    def _exchange(self, exchange: Exchange, step: int) -> None:
        """Add up the gradients of some stages, each of which then updates its own copy of the weight.

        Where mini-batches do not wait for each other, stages add up those of the mini-batches that they have then.
        """
        each = [self.parts[number].summed.pop(layer, None) for number, layer in exchange.members]
        after = tuple(dict.fromkeys(task for own in each if own for lane in own[1] for task in lane))
        first, other = (number % self.count for number, _ in exchange.members[:2])
        for (number, layer), entering, own in zip(exchange.members, exchange.entering, each, strict=True):
            if own is not None:
                part, stage, (item, summed) = self.parts[number], number % self.count, own
                if None not in each:
                    link = f"link {(other if stage == first else first) + 1}-{stage + 1}"
                    summed = [part.entered(entering, PHASE, link, after, layer, item)] * len(summed)
                part.update(layer, summed, item)
                self._note(Origin(step, stage))


def _of_stage(chunks: Buckets, first: int, layers: int) -> Buckets:
    """Return the chunks of a stage, by the indices of its own layers."""
    return tuple(
        tuple(layer - first for layer in chunk) for chunk in chunks if first <= chunk[0] < first + layers
    )
