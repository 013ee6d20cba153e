"""A network as a pipeline of stages, and what training it so takes and holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of a pipeline.

    Attributes:
        layers: its layers, in the network's order.
        macs: multiply-accumulates of its forward phase, a mini-batch.
        memory: bytes of weights, gradients, optimizer state, activations, tensors received, and errors, at most.
        in_flight: microbatches whose activations it keeps at most.
        staleness: by how many mini-batches the weights that a forward reads are behind at most.
        sent_bytes: to the stage behind it, a mini-batch.
        returned_bytes: to the stage before it, a mini-batch.
        busy_s: seconds that it works for a mini-batch; None without a machine.
        idle_s: seconds that it waits; None without a machine.
    """

    layers: tuple[str, ...]
    macs: int
    memory: Mapping[str, int]
    in_flight: int
    staleness: int
    sent_bytes: int
    returned_bytes: int
    busy_s: float | None
    idle_s: float | None

    @property
    def memory_bytes(self) -> int:
        """What it holds at most."""
        return sum(self.memory.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class DataParallel:
    """As many devices, each with the whole network and a mini-batch of its own.

    Attributes:
        devices: how many.
        memory: bytes on each, as those of a stage.
        moved_bytes: what all receive in a step to add up gradients.
        time_s: seconds of a step, in which each takes a mini-batch; None without a machine, or one that has no such
            array.
    """

    devices: int
    memory: Mapping[str, int]
    moved_bytes: int
    time_s: float | None

    @property
    def memory_bytes(self) -> int:
        """What each device holds."""
        return sum(self.memory.values())


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Pipeline:
    """A network divided into stages, and run.

    Attributes:
        graph: the network.
        schedule: one of ``SCHEDULES``.
        microbatches: of each mini-batch.
        balance: what the stages are balanced by, one of ``BALANCES``; None for starts that were given.
        bottleneck: cost of the costliest stage, in the unit of what it is balanced by; None for given starts.
        optimizer: ``sgd``, ``momentum`` or ``adam``.
        machine: what it runs on; None for none.
        stages: first to last.
        time_s: seconds from one mini-batch to the next once all stages are busy; None without a machine.
        data_parallel: the same devices by data parallelism.
        timeline: some mini-batches on it; without a machine a forward and a backward take a unit of time each.
    """

    graph: LayerGraph
    schedule: str
    microbatches: int
    balance: str | None
    bottleneck: float | None
    optimizer: str
    machine: Machine | None
    stages: tuple[Stage, ...]
    time_s: float | None
    data_parallel: DataParallel
    timeline: Timeline

    def __repr__(self) -> str:
        """What it is of, short enough for a prompt."""
        return f"<Pipeline of {self.graph.name}: {len(self.stages)} stages, {self.schedule}>"

    @property
    def samples_per_s(self) -> float | None:
        """Throughput; None where no stage takes any time."""
        return self.graph.batch / self.time_s if self.time_s else None

    @property
    def data_parallel_samples_per_s(self) -> float | None:
        """Throughput of data parallelism; None where its step takes no time, or is not known."""
        own = self.data_parallel
        return own.devices * self.graph.batch / own.time_s if own.time_s else None

    @property
    def memory_bytes(self) -> int:
        """What all stages hold at most."""
        return sum(stage.memory_bytes for stage in self.stages)
