"""What can be measured of a pipeline that has run."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from hypar.schedule.pipeline import STEPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.schedule.orders import Work
    from hypar.schedule.pipeline import Lowered
    from hypar.timeline import Timeline


def ran(lowered: Lowered, timeline: Timeline) -> list[list[Work]]:
    """The work of each stage, in the order in which it was done."""
    found: dict[int, list[Work]] = {}
    for index in sorted(range(len(timeline.tasks)), key=timeline.starts.__getitem__):
        _, stage, work = lowered.origins[index]
        if work is not None:
            found.setdefault(stage, []).append(work)
    return [found[stage] for stage in sorted(found)]


def step_ends(timeline: Timeline) -> list[float]:
    """When each step ended."""
    return [end for end, task in zip(timeline.ends, timeline.tasks, strict=True) if task.resource == STEPS]


class FullStep(NamedTuple):
    """A step in which every stage has its full work: one mini-batch is through.

    Attributes:
        seconds: how long it took.
        busy: seconds that each resource worked in it.
    """

    seconds: float
    busy: Mapping[str, float]


def full_step(lowered: Lowered, timeline: Timeline) -> FullStep:
    """The first step in which most is done."""
    counts: dict[int, int] = {}
    for step, _, work in lowered.origins:
        counts[step] = counts.get(step, 0) + (work is not None)
    most = max(counts, key=counts.__getitem__)
    seconds = [after - before for before, after in pairwise([0.0, *step_ends(timeline)])]
    busy: dict[str, float] = {}
    for task, origin in zip(lowered.tasks, lowered.origins, strict=True):
        if origin.step == most:
            busy[task.resource] = busy.get(task.resource, 0.0) + task.seconds
    return FullStep(seconds[most], busy)
