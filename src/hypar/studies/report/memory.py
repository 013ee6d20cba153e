"""The memory of a device over a step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from hypar.schedule.totals import memory_of
from hypar.studies.report.tasks import lane_names
from hypar.studies.report.uses import kept_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.planning.replay import ScoredStep
    from hypar.studies.report.tasks import StepTask

BACKWARD = frozenset({"backward", "gradient"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """The memory of a device of one group over a step.

    Attributes:
        group: name of the group; ``all`` for identical devices.
        capacity_bytes: memory of a device; None if the machine's file does not say.
        peak_bytes: the peak, when the forward phase ends.
        always: bytes held all along: weights, gradients, optimizer state and buffers, by name.
        kept: the bytes of activations from each time on, from 0 to the end of the step.
    """

    group: str
    capacity_bytes: float | None
    peak_bytes: float
    always: dict[str, float]
    kept: tuple[tuple[float, float], ...]


def memory_uses(ran: ScoredStep, tasks: Sequence[StepTask]) -> tuple[MemoryUse, ...]:
    """Return the memory of a device of each group over a step; empty with stages."""
    if ran.stages is not None:
        return ()
    found = []
    for number, (group, lane) in enumerate(zip(lane_names(ran), ran.lanes, strict=True)):
        held = memory_of(lane, ran.step, number)
        activations = held.pop("activations")
        found.append(
            MemoryUse(
                group=group,
                capacity_bytes=lane.setting.machine.memory_bytes,
                peak_bytes=math.fsum((*held.values(), activations)),
                always=held,
                kept=tuple(_kept(ran, tasks, number)),
            )
        )
    return tuple(found)


def _kept(ran: ScoredStep, tasks: Sequence[StepTask], number: int) -> Iterator[tuple[float, float]]:
    """Yield the bytes of activations on a device from each time on.

    A tensor is kept from the start of its layer's forward phase to the end of that layer's backward phase.
    """
    spans = _spans(tasks, number)
    changes = []
    for layer, num_bytes in kept_bytes(ran.lanes[number]):
        start, end = spans.get(ran.plan.layers[layer], (0.0, ran.score.time_s))
        changes += [(start, num_bytes), (end, -num_bytes)]
    amounts: list[float] = []
    for time, same in groupby(sorted(changes), itemgetter(0)):
        amounts += [change for _, change in same]
        yield time, max(0.0, math.fsum(amounts))


def _spans(tasks: Sequence[StepTask], number: int) -> dict[str, tuple[float, float]]:
    """Return for each layer when a group starts its forward phase, and when it ends its backward phase."""
    starts: dict[str, float] = {}
    ends: dict[str, float] = {}
    for task in tasks:
        if task.layer is None or number not in task.lanes or task.kind == "communication":
            continue
        if task.kind == "forward":
            starts.setdefault(task.layer, task.start_s)
        elif task.kind in BACKWARD:
            ends[task.layer] = max(task.end_s, ends.get(task.layer, 0.0))
    return {layer: (starts[layer], ends[layer]) for layer in starts.keys() & ends.keys()}
