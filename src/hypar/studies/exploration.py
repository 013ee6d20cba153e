"""Exploration of a part of the space: some choices vary, all others are a plan's, and every point is scored."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar

from hypar.activity import tell
from hypar.errors import OptionError, suggestion
from hypar.files.figures import Figure
from hypar.machine.load import as_machine
from hypar.network.build import load_model
from hypar.network.graph import LayerGraph
from hypar.plan.score import Totals, totals_of
from hypar.planning.question import ask, setting_of
from hypar.planning.request import Request
from hypar.results import Result
from hypar.schedule.scoring import totals
from hypar.sharding.dims import choice_word, vocabulary
from hypar.sharding.pins import level_of
from hypar.studies.counted import convention_for, planned
from hypar.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from hypar.machine.machine import Machine
    from hypar.plan.plan import Plan
    from hypar.planning.searches.base import Question
    from hypar.sharding.placement import Options

MOST_BARS = 16
"""Number of points that are plotted as bars with their names; more are a line."""

MOST_POINTS = 2**20
"""The largest number of points of an exploration; a million take some ten minutes."""


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
        points: one for each combination.
        baseline: the totals of dp's score.
        convention: the convention by which every point is counted.
    """

    _view: ClassVar[str] = "exploration"
    plan: Plan
    places: tuple[tuple[str, int], ...]
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

    def named(self, point: Point) -> str:
        """Name a point's choices layer by layer, a choice that all levels of a layer share once."""
        words = vocabulary({dim for each in self.points for choice in each.choices for dim in choice.divided})
        found: dict[str, list[str]] = {}
        for (layer, level), choice in zip(self.places, point.choices, strict=True):
            ways, grids = self.plan.array[level], self.plan.in_grids
            found.setdefault(layer, []).append(choice_word(choice.degrees, ways, words, grids=grids))
        return ", ".join(
            f"{layer} {each[0] if len({*each}) == 1 else ' '.join(each)}" for layer, each in found.items()
        )

    def figure(self, title: str = "") -> Figure:
        """Plot each point's time, the fastest first, with the names of the fastest and of the plan.

        Args:
            title: the title of the plot; by default what the exploration found.
        """
        ranked = self.ranked()
        best, few = ranked[0], len(ranked) <= MOST_BARS
        name = "fastest" if few else f"fastest: {self.named(best)}, {format_seconds(best.totals.time_s)}"
        marks = {0: f"{name}, {self.speedup(best):.3g}× faster than dp"}
        for rank, point in enumerate(ranked):
            if point.own:
                marks[rank] = f"{marks[rank]}; the plan" if rank in marks else f"the plan, number {rank + 1}"
        found = f"{len(ranked):,} plans of {self.plan.model.name}: {self.named(best)} is the fastest"
        return Figure(
            title=title or found,
            x=[self.named(point) for point in ranked] if few else range(1, len(ranked) + 1),
            x_label="" if few else "plans, the fastest first",
            y_label="time of a step",
            series={"time": [point.totals.time_s for point in ranked]},
            kind="bars" if few else "lines",
            shown=format_seconds,
            marks=marks,
        )


def explore_model(
    model: LayerGraph | str | Path,
    *,
    vary: str | Sequence[str],
    hardware: Machine | str | Path,
    strategy: str = "hypar",
    convention: str | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
    **asked: Any,
) -> Exploration:
    """Score every combination of the choices of some layers or levels.

    Args:
        model: a network, the path of a model file, or a bare name.
        vary: the free places, each ``LAYER``, ``LAYER@LEVEL`` or a pattern as ``*@H1``.
        hardware: the machine that scores the points.
        strategy: the strategy of the plan that gives all other choices.
        convention: how bytes and seconds of all points are counted: ``moved`` if it is not given, ``paper`` or ``fused``.
        progress: a function that takes the number of scored points and the number of all.
        asked: further arguments of ``plan_model`` for that plan.

    Raises:
        InputError: the request cannot be met; nothing varies, or more than ``MOST_POINTS`` points.
    """
    graph = model if isinstance(model, LayerGraph) else load_model(model)
    machine, counted = as_machine(hardware), convention_for(convention)
    plan = planned(graph, strategy, counted, hardware=machine, **asked)
    graph = graph.with_batch(plan.model.batch)
    request = Request.of(plan, machine)
    question, _ = ask(replace(request, pins=(), refine=False), graph)
    texts = (vary,) if isinstance(vary, str) else vary
    places = tuple(dict.fromkeys(place for text in texts for place in _places(text, question)))
    number = math.prod(len(question.options[layer][level]) for layer, level in places)
    if not places or number > MOST_POINTS:
        found = f"{number:,} points" if places else "nothing"
        raise OptionError(
            "vary", f"found {found}", f"LAYER, LAYER@LEVEL or patterns, at most {MOST_POINTS:,} points"
        )
    points = []
    tell(f"scoring {number:,} points")
    for point in _points(question, plan, request, places):
        points.append(point)
        progress(len(points), number)
    names = [layer.name for layer in question.graph.layers]
    dp = planned(graph, "dp", counted, hardware=machine, array=plan.array, optimizer=request.optimizer)
    return Exploration(
        plan=plan,
        places=tuple((names[layer], level) for layer, level in places),
        points=tuple(points),
        baseline=totals_of(dp.score),
        convention=counted,
    )


def _points(
    question: Question, plan: Plan, request: Request, places: Sequence[tuple[int, int]]
) -> Iterator[Point]:
    """Score every combination of the free choices."""
    setting = setting_of(request, question)
    held = [list(plan.choices(layer.name)) for layer in question.graph.layers]
    own = tuple(held[layer][level] for layer, level in places)
    for combination in itertools.product(*(question.options[layer][level] for layer, level in places)):
        for (layer, level), choice in zip(places, combination, strict=True):
            held[layer][level] = choice
        found = totals(question.graph, [tuple(row) for row in held], setting)
        yield Point(
            choices=combination,
            texts=tuple(
                choice.text(plan.array[level]) for (_, level), choice in zip(places, combination, strict=True)
            ),
            totals=found,
            fits=setting.machine.fits(found.memory_bytes),
            own=combination == own,
        )


def _places(text: str, question: Question) -> Iterator[tuple[int, int]]:
    """Yield the layers and levels that a text names, level by level."""
    pattern, at, level_text = text.partition("@")
    names = [layer.name for layer in question.graph.layers]
    if not any(fnmatchcase(name, pattern) for name in names):
        found = f"no layer that is cut is named {pattern!r}"
        raise OptionError(f"vary {text!r}", found, hint=suggestion(pattern, names))
    count = len(question.levels)
    for level in [level_of(level_text, count, f"vary {text!r}")] if at else range(count):
        for layer, name in enumerate(names):
            if fnmatchcase(name, pattern):
                yield layer, level
