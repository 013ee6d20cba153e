"""Explorations: the grid of some choices, all others a plan's; every point is scored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from hypar.document import Result
from hypar.errors import OptionError, suggestion
from hypar.machine.load_heterogeneous import as_hardware
from hypar.plan.request import Request
from hypar.plan.score import Totals, totals_of
from hypar.planning.chunks.search import run_chunked
from hypar.planning.replay import run_plan
from hypar.planning.resolved import BASELINE
from hypar.planning.sources import times_of
from hypar.planning.uneven.replay import branch_of
from hypar.schedule.scoring import summarise
from hypar.schedule.stages import StepWork
from hypar.sharding.pins import level_of
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.studies.choices import choices_by_level
from hypar.studies.grid import MOST_RUNS, Hardware, convention_for, grid, network_of, plan_and_score
from hypar.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.sharding.placement import Choice, Options
    from hypar.studies.choices import LevelChoices


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
    """

    _document: ClassVar[str] = "exploration"
    plan: Plan
    places: tuple[tuple[str, int], ...]
    ways: tuple[int, ...]
    points: tuple[Point, ...]
    baseline: Totals
    convention: str

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

    def answer(chosen: Mapping[_Place, _Choices]) -> Point:
        score = _scored(_with(plan, chosen), plan, graph, machine, counted)
        return Point(
            choices=tuple(choices[0] for choices in chosen.values()),
            texts=tuple(choices[0].text(place.ways) for place, choices in chosen.items()),
            totals=totals_of(score),
            fits=score.fits,
            own=all(choices == place.own for place, choices in chosen.items()),
        )

    points = tuple(point for _, point in grid(axes, answer, progress=progress))
    baseline = plan_and_score(graph, BASELINE, counted, hardware=machine, **asked)
    return Exploration(
        plan=plan,
        places=tuple((place.layer, place.level) for place in axes),
        ways=tuple(place.ways for place in axes),
        points=points,
        baseline=totals_of(baseline.score),
        convention=counted,
    )


_Choices = tuple["Choice", ...]
"""The choice of a layer in each group of a level."""


class _Place(NamedTuple):
    """A layer at a level: its ways in the first group, all groups, and the plan's choices."""

    layer: str
    level: int
    ways: int
    groups: tuple[str, ...]
    own: _Choices


def _axes(
    plan: Plan, graph: LayerGraph, machine: Machine | HeterogeneousMachine, vary: Sequence[str]
) -> dict[_Place, list[_Choices]]:
    """Return the choices at every place that some texts name.

    Raises:
        OptionError: they name no layer or level, groups have no choice in common, or there are too many points.
    """
    if plan.staged and plan.heterogeneous:
        found = "the plan's stages are on device groups"
        raise OptionError("vary", found, "stages on identical devices, or none")
    profile = times_of(plan)
    levels = [*choices_by_level(plan, graph, machine, profile)] if plan.splits else []
    named = {text: dict(_named(plan, levels, text)) for text in vary}
    axes = {place: choices for own in named.values() for place, choices in own.items()}
    number = math.prod(map(len, axes.values()))
    if axes and number <= MOST_RUNS:
        return axes
    each = ", ".join(f"{text!r} alone {math.prod(map(len, own.values())):,}" for text, own in named.items())
    raise OptionError(
        "vary",
        f"found {number:,} points: {each}" if axes else "found nothing",
        f"LAYER, LAYER@LEVEL or patterns, at most {MOST_RUNS:,} points",
        "try fewer layers, or one level, as LAYER@H1",
    )


def _named(plan: Plan, levels: Sequence[LevelChoices], text: str) -> Iterator[tuple[_Place, list[_Choices]]]:
    """Yield the places that a text names, level by level, with the choices that all groups of a level allow."""
    pattern, at, level_text = text.partition("@")
    names = [name for name in plan.layers if fnmatchcase(name, pattern)]
    if not names:
        found = f"no layer that is cut is named {pattern!r}"
        raise OptionError(f"vary {text!r}", found, hint=suggestion(pattern, plan.layers))
    count = max((own.level + 1 for own in levels), default=0)
    for level in [level_of(level_text, count, f"vary {text!r}")] if at and count else range(count):
        for name in names:
            nodes = [
                (own, node)
                for own in levels
                if own.level == level
                for node, layer in enumerate(own.layers)
                if layer.name == name
            ]
            place, choices = _place(name, level, nodes)
            if not choices:
                found = (
                    f"{name!r} has no choice at H{level + 1} that {', '.join(place.groups)} have in common"
                )
                raise OptionError(f"vary {text!r}", found)
            yield place, choices


def _place(name: str, level: int, nodes: Sequence[tuple[LevelChoices, int]]) -> tuple[_Place, list[_Choices]]:
    """Return a place with its choices; those of several groups correspond by their dims and degrees."""
    offered = [{choice.text(own.ways): choice for choice in own.free[node]} for own, node in nodes]
    first, _ = nodes[0]
    place = _Place(
        layer=name,
        level=level,
        ways=first.ways,
        groups=tuple(own.group or WHOLE_ARRAY for own, _ in nodes),
        own=tuple(own.options[node][own.picked[node]] for own, node in nodes),
    )
    common = [text for text in offered[0] if all(text in each for each in offered)]
    return place, [tuple(each[text] for each in offered) for text in common]


def _with(plan: Plan, chosen: Mapping[_Place, _Choices]) -> Plan:
    """Return a plan with other choices; its costs and its score are those of the plan."""
    given: dict[tuple[int, str], dict[str, dict[str, int]]] = {}
    for place, choices in chosen.items():
        for group, choice in zip(place.groups, choices, strict=True):
            given.setdefault((place.level, group), {})[place.layer] = choice.as_degrees()
    splits = [
        split.model_copy(update={"choices": {**split.choices, **given.get((split.level, split.group), {})}})
        for split in plan.splits
    ]
    return plan.model_copy(update={"splits": splits, "chunks": None})


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
