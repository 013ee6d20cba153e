"""The work of a step, in stages or without; each stage lowers the phases of its microbatches, in the order of a schedule.

A stage is a part of the network on lanes of its own. Its gradients are exchanged, and its weights updated, in the last
backward phase of a mini-batch. What it receives from other stages occupies a link, and on a machine without overlap
also its devices, just before they need it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple, Self

from hypar.schedule.entering import Entering
from hypar.schedule.lanes import LaneWork, whole_lane
from hypar.schedule.moves import PHASE
from hypar.schedule.pipeline import STEPS, Origin, PipelineLowering, full_tasks
from hypar.schedule.step import Flow, Step, lower_lanes, step_of
from hypar.schedule.tasks import Lowering, TaskList
from hypar.schedule.timeline import Task, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.work import LayerTime
    from hypar.network.nodes import PlanNode
    from hypar.schedule.chunked import Chunks
    from hypar.schedule.lanes import Crossing, Lane
    from hypar.schedule.moves import Moves
    from hypar.schedule.pipeline_orders import Schedule, Work
    from hypar.schedule.step import Ready
    from hypar.schedule.tasks import After
    from hypar.schedule.timeline import Timeline


class StageWork(NamedTuple):
    """The devices of a stage, or of a step without stages, with their work for a microbatch in one part of the stage.

    Attributes:
        lanes: groups of identical devices.
        crossings: the transfers at uneven splits between the lanes, outer splits first.
        received: F that other stages send.
        returned: E that they send.
    """

    lanes: tuple[Lane, ...]
    crossings: tuple[Crossing, ...] = ()
    received: Entering = Entering(0.0, ())
    returned: Entering = Entering(0.0, ())

    def entering(self, phase: str) -> Entering:
        """Return what other stages send for a phase."""
        return self.received if phase == "forward" else self.returned

    @property
    def layers(self) -> int:
        """The number of its layers."""
        return len(self.lanes[0].graph.layers)


class Exchange(NamedTuple):
    """The gradient of a weight that layers of several stages use, whose sums these stages add up once a mini-batch.

    Attributes:
        members: for each of these stages, that of the weight's own layer first, the number of the part and the layer in it.
        entering: what each of them receives from the others.
        outside: for each of them but the first what it receives at the levels outside the stages, in place of its own sums there.
        outward: whether the stages are of several device groups.
    """

    members: tuple[tuple[int, int], ...]
    entering: tuple[Entering, ...]
    outside: tuple[Moves, ...]
    outward: bool


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


class Ran(NamedTuple):
    """A step that was run.

    Attributes:
        step: its tasks.
        timeline: when each task ran.
    """

    step: Step
    timeline: Timeline


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

    def run(self, chunks: Chunks | None = None) -> Ran:
        """Lower the step to tasks and run them.

        Args:
            chunks: the layers that exchange their gradients together, none of two stages.

        Raises:
            HardwareError: an array does not fit its machine.
        """
        if self.order is None:
            (only,) = self.stages
            step = lower_lanes(only.lanes, only.crossings, chunks)
            return Ran(step, run(step.tasks))
        lowering = _Staged(self, chunks)
        lowering.issue(*self.order)
        timeline, kept = full_tasks(lowering.origins, run(lowering.found.tasks))
        step = step_of(lowering.found, _padded(self))
        step = Step(
            tasks=timeline.tasks,
            layers=tuple(step.layers[index] for index in kept),
            moves=tuple(step.moves[index] for index in kept),
            lanes=tuple(step.lanes[index] for index in kept),
            items=tuple(step.items[index] for index in kept),
            work=step.work,
        )
        return Ran(step, timeline)

    def within_stages(self, chunks: Chunks) -> Chunks:
        """Divide chunks at the ends of stages."""
        of = [stage for stage, own in enumerate(self.stages) for _ in range(own.layers)]
        return tuple(
            tuple(layers) for chunk in chunks for _, layers in groupby(chunk, key=lambda layer: of[layer])
        )


class _Staged(PipelineLowering):
    """The lowering of stages of several layers."""

    def __init__(self, whole: StepWork, chunks: Chunks | None) -> None:
        super().__init__(whole.count)
        self.stages, self.found = whole.stages, TaskList()
        self.tasks = self.found.tasks
        lanes = [*accumulate((len(stage.lanes) for stage in whole.stages[: self.count]), initial=0)]
        self.flows: list[Flow] = []
        for number, (stage, first) in enumerate(zip(whole.stages, whole.firsts, strict=False)):
            own = None if chunks is None else _of_stage(chunks, first, stage.layers)
            before = self.flows[number - self.count].lowering if number >= self.count else None
            lowering = Lowering(stage.lanes, self.found, (lanes[number % self.count], first), before)
            self.flows.append(Flow(lowering, stage.lanes, stage.crossings, own))
        self.exchanges = whole.exchanges
        for exchange in whole.exchanges:
            for number, layer in exchange.members:
                self.flows[number].shared.add(layer)
        self.ready: dict[tuple[int, int], Ready] = {}
        self.known: dict[tuple[int, str], _Phase] = {}

    def work(self, stage: int, work: Work, after: After, *, final: bool) -> After:
        number = self.number(stage, work)
        flow = self.flows[number]
        flow.lowering.item = work.item
        if after:
            entering, crossings = self.stages[number].entering(work.phase), self.stages[number].crossings
            after = flow.lowering.hand_on(entering, work.phase, after, crossings)
        if work.phase == "update":
            return ()
        ready = self.ready.pop((number, work.item), None)
        known = None if final else self.known.get((number, work.phase))
        if known is not None:
            shift = len(self.tasks) - known.first
            flow.lowering.copied(known.first, known.end, (*flow.lowering.start, *after))
            found = known.shifted(shift)
        else:
            first = len(self.tasks)
            found = flow.forward(after) if ready is None else flow.backward(ready, after, final=final)
            phase = _Phase(first, len(self.tasks), found)
            if not final and flow.lowering.in_turn and phase.consecutive(self.tasks):
                self.known[number, work.phase] = phase
        if work.phase == "backward":
            return flow.sent_back(found)
        self.ready[number, work.item] = found
        return flow.made(found)

    def sends(self, stage: int, work: Work, reader: int, reading: Work) -> bool | None:  # noqa: ARG002
        number = self.number(reader, reading)
        if not self.stages[number].entering(work.phase).from_stages:
            return None
        return all(lane.setting.machine.overlap for lane in self.stages[number].lanes)

    def send(self, stage: int, work: Work, reader: int, reading: Work, after: After) -> After:
        number = self.number(reader, reading)
        entering, lowering = self.stages[number].entering(work.phase), self.flows[number].lowering
        layer = 0 if work.phase == "forward" else len(self.flows[number].made_by) - 1
        link = f"link {stage + 1}-{reader + 1}"
        item, lowering.item = lowering.item, work.item
        found = lowering.enter(entering, layer, work.phase, (*lowering.start, *after), link)
        lowering.item = item
        return found

    def end(self, step: int) -> None:
        for exchange in self.exchanges:
            self._exchange(exchange, step)
        first = next(iter(self.flows[0].lowering.start), -1) + 1
        after = tuple(range(first, len(self.tasks)))
        done = self.found.add(Task(f"step {step + 1}", STEPS, 0.0, after, "step"), (), -1, None, 0)
        self.known = {}
        for flow in self.flows:
            flow.lowering.wait(done)

    def _exchange(self, exchange: Exchange, step: int) -> None:
        """Add up the gradients of some stages, each of which then updates its own copy of the weight.

        Where mini-batches do not wait for each other, stages add up those of the mini-batches that they have then.
        """
        each = [self.flows[number].summed.pop(layer, None) for number, layer in exchange.members]
        after = tuple(dict.fromkeys(task for own in each if own for lane in own[1] for task in lane))
        first, other = (number % self.count for number, _ in exchange.members[:2])
        for (number, layer), entering, own in zip(exchange.members, exchange.entering, each, strict=True):
            if own is None:
                continue
            flow, stage = self.flows[number], number % self.count
            flow.lowering.item, summed = own
            if None not in each:
                link = f"link {(other if stage == first else first) + 1}-{stage + 1}"
                summed = [flow.lowering.enter(entering, layer, PHASE, after, link)] * len(summed)
            flow.update_shared(layer, summed)
            self._note(Origin(step, stage))


class _Phase(NamedTuple):
    """The tasks of a phase of a microbatch in a stage.

    Attributes:
        first: the first of them.
        end: the first behind them.
        found: for each layer the tasks to wait for afterwards.
    """

    first: int
    end: int
    found: Ready

    def consecutive(self, tasks: Sequence[Task]) -> bool:
        """Return whether each task waits for the one before it alone, and what follows for some of them."""
        waits = all(tasks[index].after == (index - 1,) for index in range(self.first + 1, self.end))
        return waits and all(after and min(after) >= self.first for own in self.found for after in own)

    def shifted(self, shift: int) -> Ready:
        """Return the tasks to wait for if all tasks come later by a number."""
        return [[tuple([task + shift for task in after]) for after in own] for own in self.found]


def _of_stage(chunks: Chunks, first: int, layers: int) -> Chunks:
    """Return the chunks of a stage, by the indices of its own layers."""
    return tuple(
        tuple(layer - first for layer in chunk) for chunk in chunks if first <= chunk[0] < first + layers
    )


def _padded(whole: StepWork) -> list[LaneWork]:
    """Return the work of all lanes, each over the layers of all stages."""
    found = []
    ends = [*pairwise(whole.firsts)]
    for stage in range(whole.count):
        for lanes in zip(*(part.lanes for part in whole.stages[stage :: whole.count]), strict=True):
            times: list[LayerTime | None] = [None] * whole.firsts[-1]
            working = [0] * whole.firsts[-1]
            for lane, (first, end) in zip(lanes, ends[stage :: whole.count], strict=True):
                times[first:end], working[first:end] = lane.work.times, lane.work.working
            found.append(LaneWork(times=tuple(times), working=tuple(working)))
    return found
