"""Results of overlap studies: training steps whose gradients are exchanged in chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.schedule.chunks.sizes import SizeSearch
    from hypar.schedule.chunks.times import StepTimes
    from hypar.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Layers whose gradients are exchanged together; times are seconds from the beginning of the step.

    Attributes:
        layers: their names, in the order of the backward phase.
        parameters: names of their trained tensors, in the order in which their gradients are ready.
        num_bytes: bytes of their gradients.
        ready_s: the time when the last gradient is ready.
        start_s: the time when synchronisation and exchange begin.
        end_s: the time when the exchange ends.
    """

    layers: tuple[str, ...]
    parameters: tuple[str, ...]
    num_bytes: int
    ready_s: float
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Overlap:
    """A training step whose gradients are exchanged in chunks.

    Attributes:
        graph: the network, with the mini-batch.
        machine: the machine that gives the times; None for measured times.
        array: ways of each level of the machine; empty for measured times.
        table: the name of the table of measured times; None for a machine's times.
        times: seconds layer by layer.
        exchange: the name of the manner of exchange.
        by: the rule that chose the chunks, as ``best`` or a size.
        chunks: in the order of the backward phase.
        critical: number of the chunk that decides the time, from 0.
        typical_s: seconds of the step with the whole exchange after the backward phase.
        timeline: the start and end of every task.
        search: the search for the size; None without one.
    """

    graph: LayerGraph
    machine: Machine | None
    array: tuple[int, ...]
    table: str | None
    times: StepTimes
    exchange: str
    by: str
    chunks: tuple[Chunk, ...]
    critical: int
    typical_s: float
    timeline: Timeline
    search: SizeSearch | None

    @property
    def step_s(self) -> float:
        """Return the seconds of the step, without updates."""
        return self.timeline.makespan

    @property
    def speedup(self) -> float:
        """Return the speedup over the typical step."""
        return self.typical_s / self.step_s if self.step_s else 1.0

    @property
    def critical_layer(self) -> str:
        """Return the last layer of the critical chunk, whose gradients end the step."""
        return self.chunks[self.critical].layers[-1]

    def __repr__(self) -> str:
        """Return the outcome, short enough for a prompt."""
        outcome = f"{self.step_s:.6g} s a step, {self.speedup:.3f} times typical"
        return f"<Overlap of {self.graph.name}: {len(self.chunks)} chunks, {outcome}>"
