"""Explorations: the grid of some choices, all others a plan's; every point is scored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hypar.document import Result
from hypar.errors import OptionError
from hypar.machine.load_heterogeneous import as_hardware
from hypar.plan.content import rooted
from hypar.plan.request import Request
from hypar.planning.choices import LevelChoices, choices_by_level, named_layers
from hypar.planning.chunks.search import run_chunked
from hypar.planning.replay import run_plan
from hypar.planning.resolved import BASELINE, of_baseline
from hypar.planning.sources import times_of
from hypar.planning.uneven.replay import branch_of
from hypar.schedule.scoring import Totals, summarise, totals_of
from hypar.schedule.stages import StepWork
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.studies.grid import MOST_RUNS, Hardware, convention_for, grid, network_of, plan_and_score
from hypar.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.sharding.placement import Choice, Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A plan of an exploration.

    Attributes:
        choices: the choice of each free place.
        texts: the choices in words; None for a join that is not divided.
        totals: the totals of its score.
        fits: whether a device's memory suffices.
        own: whether it is the plan that the exploration starts from.
    """

    choices: Options
    texts: tuple[str | None, ...]
    totals: Totals
    fits: bool
    own: bool


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Exploration(Result):
    """All points of an exploration, in the order of the choices.

    Attributes:
        plan: the plan that gives the fixed choices.
        places: the free places, as layer name and level.
        ways: the ways of the level of each place.
        points: one for each combination.
        baseline: the totals of dp's score.
        convention: the convention by which every point is counted.
        baseline_fits: whether dp fits the memory of a device.
    """

    _document: ClassVar[str] = "exploration"
    plan: Plan
    places: tuple[tuple[str, int], ...]
    ways: tuple[int, ...]
    points: tuple[Point, ...]
    baseline: Totals
    convention: str
    baseline_fits: bool = True

    def __repr__(self) -> str:
        """Return the size and the fastest point, short enough for a prompt."""
        best = self.ranked()[0]
        text = f"{len(self.points):,} points, the fastest {format_seconds(best.totals.time_s)}"
        return (
            f"<Exploration of {self.plan.model.name}: {text}, {self.speedup(best):.3g} times as fast as dp>"
        )

    def ranked(self) -> list[Point]:
        """Return the points, the fastest first; equal ones in the order of the choices."""
        return sorted(self.points, key=lambda point: point.totals.time_s)

    def speedup(self, point: Point) -> float:
        """Return a point's speedup over dp."""
        return self.baseline.time_s / point.totals.time_s


def explore_model(
    model: LayerGraph | str | Path,
    *,
    vary: str | Sequence[str],
    hardware: Hardware,
    strategy: str = "hypar",
    convention: str | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
    **asked: Any,
) -> Exploration:
    """Score every combination of the choices of some layers or levels.

    The plan's other choices, its shares and its stages stay; chunks are found anew for each point.

    Args:
        model: a network, the path of a model file, or a bare name.
        vary: the free places, each ``LAYER``, ``LAYER@LEVEL`` or a pattern as ``*@H1``. Levels of a heterogeneous
            machine are counted as in a pin: all device groups that have such a level get the same choice.
        hardware: the machine that scores the points.
        strategy: the strategy of the plan that gives all other choices.
        convention: how bytes and seconds of all points are counted: ``moved`` if it is not given, ``paper`` or ``fused``.
        progress: a function that takes the number of scored points and the number of all.
        asked: further arguments of ``plan_model`` for that plan; the baseline keeps its own space and equal shares.

    Raises:
        InputError: the request cannot be met; nothing varies, or more than 10,000 points.
    """
    Request.of("explore_model", asked)
    graph, machine, counted = network_of(model), as_hardware(hardware), convention_for(convention)
    plan = plan_and_score(graph, strategy, counted, hardware=machine, **asked)
    graph = graph.with_batch(plan.model.batch)
    axes = _axes(plan, graph, machine, (vary,) if isinstance(vary, str) else vary)

    def answer(chosen: Mapping[_Place, Choices]) -> Point:
        score = _scored(_with(plan, chosen), plan, graph, machine, counted)
        return Point(
            choices=tuple(choices[0] for choices in chosen.values()),
            texts=tuple(choices[0].text(place.ways) for place, choices in chosen.items()),
            totals=totals_of(score),
            fits=score.fits,
            own=all(choices == place.own for place, choices in chosen.items()),
        )

    points = tuple(point for _, point in grid(axes, answer, progress=progress))
    baseline = plan_and_score(graph, BASELINE, counted, hardware=machine, **of_baseline(asked))
    return Exploration(
        plan=plan,
        places=tuple((place.layer, place.level) for place in axes),
        ways=tuple(place.ways for place in axes),
        points=points,
        baseline=totals_of(baseline.score),
        convention=counted,
        baseline_fits=baseline.score is None or baseline.score.fits,
    )


Choices = tuple["Choice", ...]
"""The choice of a layer in each group of a level."""


@dataclass(frozen=True, eq=False)
class _Place:
    """A layer at a level: its name and the choices at that level of each group that has it."""

    layer: str
    nodes: tuple[tuple[LevelChoices, int], ...]

    @property
    def level(self) -> int:
        return self.nodes[0][0].level

    @property
    def ways(self) -> int:
        return self.nodes[0][0].ways

    @property
    def own(self) -> Choices:
        """The plan's choices."""
        return tuple(own.options[node][own.picked[node]] for own, node in self.nodes)

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(own.group or WHOLE_ARRAY for own, _ in self.nodes)

    def choices(self, where: str) -> list[Choices]:
        """Return the choices that all groups allow; they correspond by their dims and degrees.

        Raises:
            OptionError: there is none.
        """
        offered = [{choice.text(own.ways): choice for choice in own.free[node]} for own, node in self.nodes]
        common = [text for text in offered[0] if all(text in each for each in offered)]
        if not common:
            found = f"{self.layer!r} has no choice at H{self.level + 1} that {', '.join(self.groups)} have in common"
            raise OptionError(where, found)
        return [tuple(each[text] for each in offered) for text in common]


def _axes(
    plan: Plan, graph: LayerGraph, machine: Machine | HeterogeneousMachine, vary: Sequence[str]
) -> dict[_Place, list[Choices]]:
    """Return the choices at every place that some texts name.

    Raises:
        OptionError: they name no layer or level, groups have no choice in common, or there are too many points.
    """
    if plan.staged and plan.heterogeneous:
        found = "the plan's stages are on device groups"
        raise OptionError("vary", found, "stages on identical devices, or none")
    places = _places([*choices_by_level(plan, graph, machine, times_of(plan))] if plan.splits else [])
    axes: dict[_Place, list[Choices]] = {}
    counts = {}
    for text in vary:
        layers, level = named_layers(plan, text, f"vary {text!r}")
        own = [place for place in places if place.layer in layers and level in {None, place.level}]
        axes |= {place: place.choices(f"vary {text!r}") for place in own}
        counts[text] = math.prod(len(axes[place]) for place in own)
    number = math.prod(map(len, axes.values()))
    if axes and number <= MOST_RUNS:
        return axes
    each = ", ".join(f"{text!r} alone {count:,}" for text, count in counts.items())
    raise OptionError(
        "vary",
        f"found {number:,} points: {each}" if axes else "found nothing",
        f"LAYER, LAYER@LEVEL or patterns, at most {MOST_RUNS:,} points",
        "try fewer layers, or one level, as LAYER@H1",
    )


def _places(levels: Sequence[LevelChoices]) -> list[_Place]:
    """Return every layer at every level, level by level."""
    found: dict[tuple[int, str], list[tuple[LevelChoices, int]]] = {}
    for own in sorted(levels, key=lambda own: own.level):
        for node, layer in enumerate(own.layers):
            found.setdefault((own.level, layer.name), []).append((own, node))
    return [_Place(layer, tuple(nodes)) for (_, layer), nodes in found.items()]


def _with(plan: Plan, chosen: Mapping[_Place, Choices]) -> Plan:
    """Return a plan with other choices; its costs and its score are those of the plan."""
    given: dict[tuple[int, str], dict[str, dict[str, int]]] = {}
    for place, choices in chosen.items():
        for group, choice in zip(place.groups, choices, strict=True):
            given.setdefault((place.level, group), {})[place.layer] = choice.as_degrees()
    splits = [
        split.model_copy(update={"choices": {**split.choices, **own}}) if own else split
        for split in plan.splits
        for own in [given.get((split.level, split.group))]
    ]
    return plan.model_copy(update={"root": rooted(splits, plan.stages), "chunks": None})


def _scored(
    point: Plan, plan: Plan, graph: LayerGraph, machine: Machine | HeterogeneousMachine, convention: str
) -> Score:
    """Return the score of a point, with chunks as the plan asks for them."""
    ran = run_plan(point, hardware=machine, model=graph, convention=convention)
    if plan.chunks is None or plan.staged:
        return ran.score
    own = ran.lanes[0].setting
    nodes = graph.nodes(plan.graph)
    node = branch_of(point, machine, nodes, graph.element_bytes, own.optimizer, own.convention)
    work = StepWork.of(*node.lanes())
    again = run_chunked(work, plan.chunks.asked)
    return summarise(work.lanes, again.step, again.timeline, machine)
