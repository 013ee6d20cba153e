"""Exploration of a part of the space: some choices vary, all others are a plan's, and every point is scored."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hypar.activity import tell
from hypar.errors import OptionError
from hypar.files.figures import Figure
from hypar.machine.load_heterogeneous import as_hardware
from hypar.network.build import load_model
from hypar.network.graph import LayerGraph
from hypar.plan.request import Request
from hypar.plan.score import Totals, totals_of
from hypar.planning.resolved import BASELINE, of_baseline
from hypar.results import Result
from hypar.sharding.dims import choice_word, vocabulary
from hypar.studies.counted import convention_for, planned
from hypar.studies.field import Field
from hypar.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.plan.plan import Plan
    from hypar.sharding.placement import Options
    from hypar.studies.field import Place

MOST_BARS = 16
"""Number of points that are plotted as bars with their names; more are a line."""

MOST_POINTS = 10_000
"""The largest number of points of an exploration; so many take some minutes."""


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

    _view: ClassVar[str] = "exploration"
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

    @property
    def namer(self) -> Callable[[Point, int], str]:
        """The function that names a point's choice at a free place, in the words of one paper for all points."""
        words = vocabulary({dim for each in self.points for choice in each.choices for dim in choice.divided})
        grids = self.plan.in_grids
        return lambda point, at: choice_word(point.choices[at].degrees, self.ways[at], words, grids=grids)

    def named(self, point: Point) -> str:
        """Name a point's choices layer by layer, a choice that all levels of a layer share once."""
        found: dict[str, list[str]] = {}
        word = self.namer
        for at, (layer, _) in enumerate(self.places):
            found.setdefault(layer, []).append(word(point, at))
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
    hardware: Machine | HeterogeneousMachine | str | Path,
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
        InputError: the request cannot be met; nothing varies, or more than ``MOST_POINTS`` points.
    """
    Request.of("explore_model", asked)
    graph = model if isinstance(model, LayerGraph) else load_model(model)
    machine = as_hardware(hardware)
    counted = convention_for(convention)
    plan = planned(graph, strategy, counted, hardware=machine, **asked)
    graph = graph.with_batch(plan.model.batch)
    field = Field(plan, graph, machine)
    found = {text: [*field.places(text)] for text in ((vary,) if isinstance(vary, str) else vary)}
    places = tuple(dict.fromkeys(itertools.chain(*found.values())))
    number = _count(places)
    if not places or number > MOST_POINTS:
        each = ", ".join(f"{text!r} alone {_count(own):,}" for text, own in found.items())
        raise OptionError(
            "vary",
            f"found {number:,} points: {each}" if places else "found nothing",
            f"LAYER, LAYER@LEVEL or patterns, at most {MOST_POINTS:,} points",
            "try fewer layers, or one level, as LAYER@H1",
        )
    points = []
    tell(f"scoring {number:,} points")
    for point in _points(field, places):
        points.append(point)
        progress(len(points), number)
    dp = planned(graph, BASELINE, counted, hardware=machine, **of_baseline(asked))
    return Exploration(
        plan=plan,
        places=tuple((place.layer, place.level) for place in places),
        ways=tuple(place.ways for place in places),
        points=tuple(points),
        baseline=totals_of(dp.score),
        convention=counted,
    )


def _count(places: Sequence[Place]) -> int:
    """Return the number of combinations of the choices of some places."""
    return math.prod(len(place.options) for place in places)


def _points(field: Field, places: Sequence[Place]) -> Iterator[Point]:
    """Score every combination of the free choices."""
    for combination in itertools.product(*(place.options for place in places)):
        found, fits = field.scored(dict(zip(places, combination, strict=True)))
        yield Point(
            choices=tuple(choices[0] for choices in combination),
            texts=tuple(
                choices[0].text(place.ways) for place, choices in zip(places, combination, strict=True)
            ),
            totals=found,
            fits=fits,
            own=all(choices == place.own for place, choices in zip(places, combination, strict=True)),
        )
