"""Results of overlap studies: data-parallel plans whose gradients are exchanged in chunks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hypar.network.gradients import gradients_of
from hypar.network.training import PHASES
from hypar.schedule.moves import PHASE

if TYPE_CHECKING:
    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.planning.replay import ScoredStep
    from hypar.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Layers whose gradients are exchanged together; times are seconds from the beginning of the step.

    Attributes:
        layers: their names, in the order of the backward phase.
        parameters: names of their trained tensors, in the order in which their gradients are ready.
        num_bytes: bytes of their gradients.
        ready_s: the time when the last gradient is ready, in the first device group of a heterogeneous machine to have it.
        start_s: the time when synchronisation and exchange begin.
        end_s: the time when the exchange ends.
    """

    layers: tuple[str, ...]
    parameters: tuple[str, ...]
    num_bytes: int
    ready_s: float
    start_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Overlap:
    """A data-parallel plan whose gradients are exchanged in chunks, and its step.

    Attributes:
        ran: the plan and its step, as the engine runs it.
        machine: the machine; None if all times were measured.
        table: the name of the table of measured times; None for a machine's times.
        by: the rule that chose the chunks, as ``best`` or a size.
        typical_s: seconds of the step with the whole exchange after the backward phase.
    """

    ran: ScoredStep
    machine: Machine | HeterogeneousMachine | None
    table: str | None
    by: str
    typical_s: float

    @property
    def plan(self) -> Plan:
        """Return the plan, of strategy ``dp``."""
        return self.ran.plan

    @property
    def graph(self) -> LayerGraph:
        """Return the network, with the mini-batch."""
        return self.ran.graph

    @property
    def timeline(self) -> Timeline:
        """Return the start and end of every task."""
        return self.ran.timeline

    @property
    def array(self) -> tuple[int, ...]:
        """Return the ways of each level; none for measured times and for heterogeneous machines."""
        return () if self.machine is None else tuple(self.plan.array)

    @property
    def exchange(self) -> str:
        """Return the manner in which the machine exchanges chunks."""
        assumed: str = self.ran.lanes[0].setting.machine.content.assumptions.exchange.value
        return assumed

    @property
    def overlaps(self) -> bool:
        """Return whether anything is sent beside the backward phase."""
        return any(lane.setting.machine.overlap for lane in self.ran.lanes)

    @property
    def step_s(self) -> float:
        """Return the seconds of the step."""
        return self.timeline.makespan

    @property
    def speedup(self) -> float:
        """Return the speedup over the typical step."""
        return self.typical_s / self.step_s if self.step_s else 1.0

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """Return the chunks in the order of the backward phase."""
        held = {each.layer: each for each in gradients_of(self.graph)}
        # A layer that uses the weight of another one, and is in no chunk, sends the rest of its gradients with that weight's.
        alone = {layer for chunk in self._layers for layer in chunk}
        users: dict[str, list[str]] = {}
        for tie in self.graph.ties:
            if tie.user not in alone:
                users.setdefault(tie.owner, []).append(tie.user)
        starts, ends, lanes = self.timeline.starts, self.timeline.ends, self.ran.step.lanes
        found = []
        for layers, (computed, sent) in zip(self._layers, self._tasks, strict=True):
            last = {lanes[task]: ends[task] for task in computed}
            sent_by = [held[own] for layer in layers for own in (layer, *users.get(layer, ()))]
            found.append(
                Chunk(
                    layers=layers,
                    parameters=tuple(name for own in sent_by for name in own.parameters),
                    num_bytes=sum(own.num_bytes for own in sent_by),
                    ready_s=min(last.values()),
                    start_s=min(starts[task] for task in sent),
                    end_s=max(ends[task] for task in sent),
                )
            )
        return tuple(found)

    @cached_property
    def critical(self) -> int | None:
        """Return the number, from 0, of the chunk that the critical path waits for; None if it waits for none.

        On the path, it is the first chunk that is exchanged behind the last computation of the backward phase.
        """
        chunk_of = {task: number for number, (_, sent) in enumerate(self._tasks) for task in sent}
        found = None
        for task in self.timeline.critical_path:
            if self.timeline.tasks[task].kind in PHASES:
                found = None
            elif found is None:
                found = chunk_of.get(task)
        return found

    @property
    def critical_layer(self) -> str | None:
        """Return the last layer of the critical chunk, whose gradients end the step."""
        return None if self.critical is None else self._layers[self.critical][-1]

    @property
    def _layers(self) -> list[tuple[str, ...]]:
        return [tuple(chunk) for chunk in self.plan.chunks.layers] if self.plan.chunks else []

    @cached_property
    def _tasks(self) -> list[tuple[list[int], list[int]]]:
        """Return for each chunk the tasks that compute its gradients, and those that exchange them."""
        step, names = self.ran.step, [layer.name for layer in self.ran.lanes[0].graph.layers]
        chunk_of = {layer: number for number, layers in enumerate(self._layers) for layer in layers}
        found: list[tuple[list[int], list[int]]] = [([], []) for _ in self._layers]
        for index, (task, layer, move) in enumerate(zip(step.tasks, step.layers, step.moves, strict=True)):
            sent = task.kind == "communication" and (move is None or move.phase == PHASE)
            if names[layer] in chunk_of and (sent or task.kind == PHASE):
                found[chunk_of[names[layer]]][sent].append(index)
        return found

    def __repr__(self) -> str:
        """Return the outcome, short enough for a prompt."""
        outcome = f"{self.step_s:.6g} s a step, {self.speedup:.3f} times typical"
        return f"<Overlap of {self.graph.name}: {len(self._layers)} chunks, {outcome}>"
