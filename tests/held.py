"""The bytes that the simulated devices of a plan hold, beside those that its score says."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.execution.held import ALONE, Training, Watch, held
from hypar.execution.reference import start
from hypar.execution.simulator import run
from hypar.network.training import OPTIMIZERS
from hypar.planning.counting import cost_convention
from hypar.program.layout import layouts_of
from hypar.program.lowering import lower
from hypar.schedule.pipeline_orders import schedule_of
from hypar.sharding.tree import Device, Level, Stages
from hypar.studies.verify import runs_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar import LayerGraph, Plan
    from hypar.execution.held import Place, Work
    from hypar.sharding.tree import Node


class Held(NamedTuple):
    """The memory of the fullest device of a group of identical devices.

    Attributes:
        said: the bytes that the score says.
        found: the bytes that a simulated device held.
    """

    said: float
    found: float

    @property
    def within(self) -> bool:
        """Whether the score says what was held, or at most a tenth more."""
        return self.found <= self.said * (1 + 1e-9) and self.said <= 1.1 * self.found


def held_by(plan: Plan, graph: LayerGraph) -> list[Held]:
    """Run one microbatch of a plan as it is verified, and return what each group or stage of its score holds."""
    assert plan.score is not None
    microbatches = plan.stages.microbatches if plan.stages and plan.staged else 1
    run_by = runs_by(cost_convention(plan))
    program = lower(graph.with_batch(graph.batch // microbatches), *layouts_of(plan), run_by)
    names, stages, works, layers = _devices(plan)
    watch = Watch()
    devices = run(program, [start(program.graph)], watch=watch)
    training = Training(
        element_bytes=plan.score.element_bytes,
        state=OPTIMIZERS[plan.score.optimizer],
        chunks=[frozenset(chunk) for chunk in plan.chunks.layers] if plan.chunks else (),
        places=layers,
        stages=stages,
        works=works,
    )
    found = np.sum([*held(devices, watch, training).values()], axis=0)
    if plan.score.groups is None:
        return [Held(plan.score.memory_bytes, float(found.max()))]
    own = [
        [number for number, name in enumerate(names) if name == group.group] for group in plan.score.groups
    ]
    pairs = zip(plan.score.groups, own, strict=True)
    return [Held(group.memory_bytes, float(found[own].max())) for group, own in pairs if own]


def _devices(plan: Plan) -> tuple[list[str], list[int], Sequence[Sequence[Work]], dict[str, Place]]:
    """Return the group of each device and its stage, the work of each stage in order, and the place of each layer."""
    places = _places(plan.root)
    if plan.stages is None or not plan.staged:
        names = [group.name for group in plan.groups if not group.idle]
        return [names[own] for own, _ in _numbered(places)], [0] * len(places), [ALONE], {}
    assert plan.score is not None
    assert plan.score.groups is not None
    numbers, count = _numbered(places), len(plan.stages.stages)
    layers = {
        layer: (number, part)
        for number, stage in enumerate(plan.stages.stages)
        for part, span in enumerate(stage.spans)
        for layer in span
    }
    names = [plan.score.groups[own].group for own, _ in numbers]
    return names, [stage for _, stage in numbers], [_works(plan, stage) for stage in range(count)], layers


def _numbered(places: Sequence[tuple[int, tuple[int, ...]]]) -> list[tuple[int, int]]:
    """Return for each device the number of its lane, and of its stage: those of a stage follow each other."""
    lanes = sorted(set(places))
    return [(lanes.index(place), place[0]) for place in places]


def _places(node: Node | None) -> list[tuple[int, tuple[int, ...]]]:
    """Return the stage of each device, and the groups of the uneven splits in which it lies."""
    if node is None or isinstance(node, Device):
        return [(0, ())]
    if isinstance(node, Level) and node.split.sides is None:
        return _places(node.below[0]) * node.split.ways
    if isinstance(node, Stages):
        return [(stage, path) for stage, below in enumerate(node.below) for _, path in _places(below)]
    return [
        (stage, (group, *path))
        for group, below in enumerate(node.below)
        if below is not None
        for stage, path in _places(below)
    ]


def _works(plan: Plan, stage: int) -> list[Work]:
    """Return the work of a stage for a mini-batch, but for updates."""
    assert plan.stages is not None
    own = plan.stages
    works = schedule_of(own.schedule, own.parts).steps(stage, len(own.stages), own.microbatches, 1)
    return [
        (work.phase, work.part, work.item) for work in chain.from_iterable(works) if work.phase != "update"
    ]
