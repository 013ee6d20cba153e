"""The bytes that simulated devices held at their fullest moment, beside those that the score of their step says."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.network.training import OPTIMIZERS
from hypar.schedule.held import Training
from hypar.schedule.pipeline_orders import ALONE, moments, schedule_of
from hypar.sharding.tree import Device, Level, Stages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.plan.plan import Plan
    from hypar.plan.records import Score
    from hypar.plan.stages import StagesRecord
    from hypar.program.layout import Numbers
    from hypar.program.steps import Program
    from hypar.schedule.pipeline_orders import Moment
    from hypar.sharding.tree import Node

ROUNDING = 1e-9
"""Relative difference of sums of bytes that were added up in another order."""


class Held(NamedTuple):
    """The memory of the fullest device of a group, a stage or ``all``: the bytes that a score says, and those that it held."""

    group: str
    said: float
    held: float

    @property
    def more(self) -> bool:
        """Whether a device held more than the score says."""
        return self.held > self.said * (1 + ROUNDING)


def held_by(
    plan: Plan,
    score: Score,
    program: Program,
    elements: Mapping[str, Numbers],
    arrived: Mapping[int, Numbers],
) -> list[Held]:
    """Return what each group or stage of a score held in the run of a microbatch.

    Args:
        plan: the plan that was run.
        score: the score of the network that was run, of which optimizer, element size and bytes are read.
        program: the program that was run.
        elements: the elements that each device had of every array, by the array's name.
        arrived: the elements that each device received for each transfer, by its number, ``[levels, devices]``.
    """
    places, stages = _places(plan.root), plan.stages if plan.staged else None
    training = Training(
        program=program,
        nodes=program.graph.nodes(plan.graph),
        elements=elements,
        arrived=arrived,
        element_bytes=score.element_bytes,
        state=OPTIMIZERS[score.optimizer],
        chunks=[frozenset(chunk) for chunk in plan.chunks.layers] if plan.chunks else (),
        places={} if stages is None else _layers(stages),
        stages=[stage for stage, _ in places],
        moments=[ALONE] if stages is None else [_moments(stages, own) for own in range(len(stages.stages))],
    )
    found = np.sum([*training.held().values()], axis=0)
    if score.groups is None:
        return [Held("all", score.memory_bytes, float(found.max()))]
    groups = [group.group for group in score.groups]
    names = groups if stages is not None else [group.name for group in plan.groups if not group.idle]
    lanes = sorted({*places})
    of = np.array([names[lanes.index(place)] for place in places])
    pairs = [(group, found[of == group.group]) for group in score.groups]
    return [Held(group.group, group.memory_bytes, float(own.max())) for group, own in pairs if len(own)]


def _places(node: Node | None) -> list[tuple[int, tuple[int, ...]]]:
    """Return the stage of each device, and the parts of uneven splits in which it lies."""
    if node is None or isinstance(node, Device):
        return [(0, ())]
    if isinstance(node, Level) and node.split.sides is None:
        return _places(node.below[0]) * node.split.ways
    parts = [(part, own) for part, own in enumerate(node.below) if own is not None]
    below = [(part, *place) for part, own in parts for place in _places(own)]
    if isinstance(node, Stages):
        return [(part, path) for part, _, path in below]
    return [(stage, (part, *path)) for part, stage, path in below]


def _layers(stages: StagesRecord) -> dict[str, tuple[int, int]]:
    """Return the stage of each layer, and its part of it."""
    return {
        layer: (number, part)
        for number, stage in enumerate(stages.stages)
        for part, span in enumerate(stage.spans)
        for layer in span
    }


def _moments(stages: StagesRecord, stage: int) -> tuple[Moment, ...]:
    """Return when a stage holds most over a mini-batch."""
    order = schedule_of(stages.schedule, stages.parts)
    works = order.steps(stage, len(stages.stages), stages.microbatches, 1)
    return moments(chain.from_iterable(works), stages.parts or 1)
