"""Results of pipeline studies: a network's stages, with their times and memory in training."""

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
        macs: multiply-accumulates of its forward phase, for a mini-batch.
        memory: peak bytes of weights, gradients, optimizer state, activations, received tensors, and errors.
        in_flight: the largest number of microbatches whose activations it keeps.
        staleness: the largest age, in mini-batches, of the weights that a forward phase reads.
        sent_bytes: bytes sent to the next stage, for a mini-batch.
        returned_bytes: bytes sent to the previous stage, for a mini-batch.
        busy_s: seconds of work on a mini-batch; None without a machine.
        idle_s: seconds of waiting; None without a machine.
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
        """Return the largest number of bytes that it holds."""
        return sum(self.memory.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class DataParallel:
    """Data parallelism on as many devices, each with the whole network and a mini-batch of its own.

    Attributes:
        devices: the number of devices.
        memory: bytes on each, with the items of a stage's.
        moved_bytes: bytes that all receive in a step to add up gradients.
        time_s: seconds of a step with one mini-batch per device; None without a machine, or if it has no such
            array.
    """

    devices: int
    memory: Mapping[str, int]
    moved_bytes: int
    time_s: float | None

    @property
    def memory_bytes(self) -> int:
        """Return the bytes that each device holds."""
        return sum(self.memory.values())


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Pipeline:
    """A network divided into stages and run as a pipeline.

    Attributes:
        graph: the network.
        schedule: one of ``SCHEDULES``.
        microbatches: microbatches in a mini-batch.
        balance: the quantity that balances the stages, one of ``BALANCES``; None for given starts.
        bottleneck: cost of the costliest stage, in the unit of the balance; None for given starts.
        optimizer: ``sgd``, ``momentum`` or ``adam``.
        machine: the machine that it runs on; None without one.
        stages: first to last.
        time_s: seconds from one mini-batch to the next once all stages are busy; None without a machine.
        data_parallel: data parallelism on the same devices.
        timeline: some mini-batches; without a machine, a forward and a backward phase take a unit of time each.
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
        """Return the network and the stages, short enough for a prompt."""
        return f"<Pipeline of {self.graph.name}: {len(self.stages)} stages, {self.schedule}>"

    @property
    def samples_per_s(self) -> float | None:
        """Return the throughput; None if no stage takes time."""
        return self.graph.batch / self.time_s if self.time_s else None

    @property
    def data_parallel_samples_per_s(self) -> float | None:
        """Return the throughput of data parallelism; None if its step takes no time or is unknown."""
        own = self.data_parallel
        return own.devices * self.graph.batch / own.time_s if own.time_s else None

    @property
    def memory_bytes(self) -> int:
        """Return the largest number of bytes that all stages hold."""
        return sum(stage.memory_bytes for stage in self.stages)
