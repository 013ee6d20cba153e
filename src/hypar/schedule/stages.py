"""The work of a step, in stages or without.

A stage is a part of the network on lanes of its own. Its gradients are exchanged, and its weights updated, in the last
backward phase of a mini-batch. What it receives from other stages occupies a link, and on a machine without overlap
also its devices, just before they need it.

A score has time, energy, communication and memory of a step, in total and item by item. Energy has components: arithmetic, accesses,
words moved, links, and power at rest. What a machine's file does not give is none, but for ``registers`` and ``array``, which are then 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import NamedTuple, Self

from hypar.machine.machine import Machine
from hypar.machine.setting import byte_energies, energies, layer_energy, power_at_rest
from hypar.network.nodes import PlanNode
from hypar.ops.nest import PHASES
from hypar.plan.records import GroupScore, Score
from hypar.schedule.lanes import (
    COMMUNICATION,
    PHASE,
    Crossing,
    Lane,
    Piece,
    Pieces,
    Rounds,
    level_name,
    placed,
    together,
)
from hypar.schedule.memory import gathers_of, memory_of
from hypar.schedule.pipeline_orders import Schedule
from hypar.schedule.record import Buckets, Op, backward_of, record_of
from hypar.schedule.tasks import Costed, Entering, PartTasks, Pipeline, Place, TaskList, Tied
from hypar.schedule.timeline import Timeline
from hypar.sharding.amounts.counted import SEAM
from hypar.sharding.conventions import DIRECT, PAPER, SUMMED
from hypar.sharding.placement import working
from hypar.units import exact_number

ROUNDING = 1e-9
"""Fraction of a time below which a difference counts as none."""

KINDS = (*PHASES, "update", COMMUNICATION)
"""Kinds of the tasks of a step."""


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
        own = (groups, groups, "", entering.link_s, COMMUNICATION, phase, collective, SEAM)
        return Piece(*own, received, received, entering.outward)


def _together(rounds: Sequence[Pieces]) -> Iterator[Pieces]:
    for kind in dict.fromkeys(pieces[0].collective for pieces in rounds):
        yield together(piece for pieces in rounds for piece in pieces if piece.collective == kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A training step that was run: when each task did, its piece of an op, and what layer and microbatch it is for.

    The layers of each of its buckets exchange their gradients together; without buckets each does by itself.
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
        found = {level: list[float]() for level in range(SEAM if stages else 0, levels)}
        for piece in self.pieces:
            if piece.collective:
                found[piece.level].append(piece.num_bytes)
        return {level_name(level): math.fsum(amounts) for level, amounts in found.items()}


def part_of(
    stage: StageWork,
    found: TaskList,
    buckets: Buckets | None = None,
    shared: Mapping[int, Entering] | None = None,
) -> PartTasks:
    """Return a part of a stage without tasks of its own among those that are ``found`` of all stages.

    The layers of a bucket, numbered over all stages, add up gradients together, without buckets each its own.
    ``shared`` is what the part receives of the gradients of weights that other stages have as well.
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
    part.shared = {node: stage.entered(entering, PHASE) for node, entering in (shared or {}).items()}
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
        microbatches: those of a mini-batch.
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

    @cached_property
    def plain(self) -> Step:
        """The step in which each layer exchanges its gradients alone."""
        return self.run()

    def run(self, chunks: Buckets | None = None) -> Step:
        """Lower the step to tasks and run them; the layers of a chunk, all of one stage, exchange their gradients together.

        Raises ``HardwareError`` where an array does not fit its machine.
        """
        found = TaskList(not lane.setting.machine.overlap for lane in self.lanes)
        shared: list[dict[int, Entering]] = [{} for _ in self.stages]
        for number, node, own in chain.from_iterable(self.exchanges):
            shared[number][node] = own
        parts = [part_of(stage, found, chunks, own) for stage, own in zip(self.stages, shared, strict=True)]
        pipeline = Pipeline(found, parts, self.count, self.exchanges)
        timeline = pipeline.run(self.schedule or Schedule("1f1b"), self.microbatches)
        pieces, places = tuple(found.pieces), tuple(found.places)
        return Step(timeline=timeline, pieces=pieces, places=places, buckets=chunks or ())


# The score


def summarise(lanes: Sequence[Lane], step: Step, machine: Machine) -> Score:
    """Return the score of a step that was run by some groups of identical devices, those of a machine."""
    setting, timeline, staged = lanes[0].setting, step.timeline, lanes[0].place.stages > 0
    levels = max(lane.depth + len(lane.setting.array) for lane in lanes)
    received, energy = step.received(levels, stages=staged), energy_of(lanes, step)
    memories = [memory_of(lane, step.buckets) for lane in lanes]
    held = [math.fsum(memory.values()) for memory in memories]
    own = [lane.setting.machine for lane in lanes]
    filled = [num_bytes / (each.memory_bytes or math.inf) for num_bytes, each in zip(held, own, strict=True)]
    fullest = filled.index(max(filled))
    capacity = own[fullest].memory_bytes
    time = {kind: math.fsum(piece.seconds for piece in step.pieces if piece.kind == kind) for kind in KINDS}
    critical = dict.fromkeys(KINDS, 0.0)
    for task in timeline.critical_path:
        critical[step.pieces[task].kind] += step.pieces[task].seconds
    return Score(
        hardware=machine.name,
        hardware_digest=machine.digest,
        hardware_changes=dict(machine.changes),
        # Plan files name no count of which a cost has only one.
        convention=PAPER if setting.convention == DIRECT else setting.convention,
        optimizer=setting.optimizer,
        element_bytes=setting.element_bytes,
        word_bytes=exact_number(setting.machine.content.device.word.value),
        time_s=timeline.makespan,
        energy_j=None if energy is None else math.fsum(energy.values()),
        communication_bytes=exact_number(math.fsum(received.values())),
        memory_bytes=exact_number(held[fullest]),
        capacity_bytes=None if capacity is None else exact_number(capacity),
        fits=all(each.fits(num_bytes) for each, num_bytes in zip(own, held, strict=True)),
        time=time,
        overlapped_s=_beyond(math.fsum(time.values()), timeline.makespan),
        critical=critical,
        busy=dict.fromkeys([lane.resource for lane in lanes], 0.0) | timeline.busy,
        energy=energy,
        communication={level: exact_number(amount) for level, amount in received.items()},
        memory={item: exact_number(amount) for item, amount in memories[fullest].items()},
        groups=[*_groups(lanes, step, held)] if staged or machine.groups else None,
    )


def _groups(lanes: Sequence[Lane], step: Step, held: Sequence[float]) -> Iterator[GroupScore]:
    timeline, spans = step.timeline, [list[tuple[float, float, bool]]() for _ in lanes]
    for start, end, piece in zip(timeline.starts, timeline.ends, step.pieces, strict=True):
        for number in piece.groups:
            spans[number].append((start, end, not piece.collective))
    for lane, own, num_bytes in zip(lanes, spans, held, strict=True):
        machine = lane.setting.machine
        yield GroupScore(
            group=lane.name,
            devices=lane.devices,
            computing_s=math.fsum(end - start for start, end, computes in own if computes),
            communicating_s=math.fsum(end - start for start, end, computes in own if not computes),
            idle_s=_beyond(timeline.makespan, _covered(own)),
            memory_bytes=exact_number(num_bytes),
            capacity_bytes=None if machine.memory_bytes is None else exact_number(machine.memory_bytes),
            fits=machine.fits(num_bytes),
        )


def _covered(spans: Sequence[tuple[float, float, bool]]) -> float:
    total, until = [], 0.0
    for start, end, _ in sorted(spans):
        total.append(max(0.0, end - max(start, until)))
        until = max(until, end)
    return math.fsum(total)


def _beyond(seconds: float, others: float) -> float:
    """Return how much longer some seconds are than others; 0 if they are not, apart from rounding."""
    return seconds - others if seconds - others > ROUNDING * seconds else 0.0


def energy_of(lanes: Sequence[Lane], step: Step) -> dict[str, float] | None:
    """Return the joules of all devices in a step, by component; None if the file of a machine gives no energies."""
    found: dict[str, list[float]] = {}
    for lane in lanes:
        machine = lane.setting.machine
        costs = machine.content.device.energy
        if costs is None:
            return None
        named = [name for name in ("link", "static") if getattr(costs, name) is not None]
        for component in (*energies(machine), "communication", *named):
            found.setdefault(component, [])
        if "static" in named:
            found["static"].append(lane.devices * power_at_rest(machine) * step.timeline.makespan)
    for _, _, component, joules in joules_of(lanes, step):
        found[component].append(joules)
    return {component: math.fsum(joules) for component, joules in found.items()}


Joules = tuple[int, int | None, str, float]
"""The layer, the level of a transfer, the component, and the joules of all devices."""


def joules_of(lanes: Sequence[Lane], step: Step) -> Iterator[Joules]:
    """Yield the joules of the layers and transfers of a step of some lanes, without power at rest; their machines' files give energies."""
    for lane in lanes:
        yield from _computed(lane)
    rates, devices = [byte_energies(lane.setting.machine) for lane in lanes], [lane.devices for lane in lanes]
    for piece, place in zip(step.pieces, step.places, strict=True):
        together = sum([devices[number] for number in piece.groups]) if piece.collective else 0
        for number in piece.groups if together else ():
            (moved, summed, link), num_bytes = rates[number], piece.num_bytes * (devices[number] / together)
            terms = SUMMED.get(piece.collective, 0.0) * num_bytes
            yield place.layer, piece.level, "communication", num_bytes * moved + terms * summed
            if link is not None:
                lane = lanes[number]
                # Between stages of the same devices the links are those between the stages' arrays.
                way = piece.link or lane.setting.machine.stage_link(lane.setting.array, lane.place.stages)
                yield place.layer, piece.level, "link", num_bytes * way.mean_hops * link


def _computed(lane: Lane) -> Iterator[Joules]:
    """Yield the joules of each layer, those of all parts of a stage, place by place, in all microbatches and in its update."""
    known: dict[object, list[tuple[str, float]]] = {}
    microbatches = lane.place.microbatches * lane.setting.training.microbatches
    for part in lane.place.parts or (lane,):
        again = {node for nodes, _ in part.again for node in nodes}
        for at, (time, chosen) in enumerate(zip(part.times, part.choices, strict=True)):
            sharing = part.replicas[at] if at in part.rests else 1
            key = (id(time), working(chosen, lane.setting.array)[-1], sharing, 1 + (at in again))
            if time is not None and key not in known:
                known[key] = layer_energy(lane.setting, time, microbatches, *key[1:])
            for component, joules in known.get(key, ()):
                yield part.place.first + at, None, component, joules
