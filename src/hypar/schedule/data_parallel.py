"""A step in data parallelism as tasks: chunks of gradients are sent while the backward phase computes.

All devices do the same at the same time, so one stands for all. With independent exchanges a chunk's synchronisation
stalls the devices, and every chunk has a resource of its own; a serial link synchronises and sends one chunk after
another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from hypar.timeline import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.schedule.chunks.exchanges import Exchange, Sizes
    from hypar.schedule.chunks.times import LayerTimes, StepTimes

DEVICES, LINK = "devices", "link"
"""The resources that compute, and that send one chunk after another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTasks:
    """The tasks of a chunk, by their indices.

    Attributes:
        ready: the last task of its backward phase.
        sent: its synchronisation and the transfers of its exchange, in order.
    """

    ready: int
    sent: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlappedStep:
    """A training step, lowered.

    Attributes:
        tasks: in an order in which they can run.
        chunks: the tasks of each chunk, in the order of the backward phase.
    """

    tasks: tuple[Task, ...]
    chunks: tuple[ChunkTasks, ...]


class _Lowering:
    """The tasks so far, and the tasks that the next of each kind waits for."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.tasks: list[Task] = []
        self.computed: tuple[int, ...] = ()
        self.sent: tuple[int, ...] = ()

    def add(self, name: str, resource: str, seconds: float, after: tuple[int, ...], kind: str) -> int:
        """Add a task and return its index."""
        self.tasks.append(Task(name, resource, seconds, after, kind))
        return len(self.tasks) - 1

    def compute(self, layer: LayerTimes, phase: str, seconds: float) -> int:
        """Compute a phase of a layer after all earlier work of the devices."""
        done = self.add(f"{layer.name} {phase}", DEVICES, seconds, self.computed, phase)
        self.computed = (done,)
        return done

    def send(self, number: int, layers: Sequence[LayerTimes], sync_s: float) -> tuple[int, ...]:
        """Synchronise and exchange a chunk whose backward phase is done."""
        stalls = self.exchange.stalls
        after = self.computed if stalls else (*self.computed, *self.sent)
        link = f"exchange {number}" if stalls else LINK
        found = []
        if sync_s:
            name, resource = f"chunk {number} synchronisation", DEVICES if stalls else link
            found.append(self.add(name, resource, sync_s, after, "synchronisation"))
            after = (found[-1],)
            self.computed = after if stalls else self.computed
        for name in layers[0].exchange_s:
            seconds = math.fsum(layer.exchange_s[name] for layer in layers)
            found.append(self.add(f"chunk {number} {name}", link, seconds, after, name))
            after = (found[-1],)
        self.sent = after
        return tuple(found)


def lower_chunks(times: StepTimes, sizes: Sizes, exchange: Exchange) -> OverlappedStep:
    """Lower a training step without its updates to tasks.

    Args:
        times: seconds layer by layer.
        sizes: the number of layers of each chunk, in the order of the backward phase.
        exchange: the manner of exchange.
    """
    lowering = _Lowering(exchange)
    if times.forward_s:
        for layer in times.layers:
            lowering.compute(layer, "forward", layer.forward_s)
    chunks = []
    for number, (start, end) in enumerate(pairwise(accumulate(sizes, initial=0)), 1):
        layers = times.backward_order[start:end]
        ready = [lowering.compute(layer, "backward", layer.backward_s) for layer in layers][-1]
        chunks.append(ChunkTasks(ready=ready, sent=lowering.send(number, layers, times.sync_s)))
    return OverlappedStep(tasks=tuple(lowering.tasks), chunks=tuple(chunks))
