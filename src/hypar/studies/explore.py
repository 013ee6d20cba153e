"""Explorations: the grid of some choices, all others a plan's; every point is scored."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hypar.errors import OptionError
from hypar.machine.load import load_machine
from hypar.plan.plan import rooted
from hypar.plan.request import Request
from hypar.planning.choices import LevelChoices, choices_by_level, named_layers
from hypar.planning.chunks.search import run_chunked
from hypar.planning.replay import run_plan
from hypar.planning.resolved import BASELINE, of_baseline
from hypar.planning.sources import times_of
from hypar.planning.uneven.replay import branch_of
from hypar.schedule.scoring import summarise, totals_of
from hypar.schedule.stages import StepWork
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.studies.grid import (
    MOST_RUNS,
    Hardware,
    Run,
    Runs,
    convention_for,
    grid,
    network_of,
    plan_and_score,
)
from hypar.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.schedule.scoring import Totals
    from hypar.sharding.placement import Choice

    Place = tuple[str, int]
    Choices = tuple[Choice, ...]
    Nodes = list[tuple[LevelChoices, int]]
    """The choice of a layer at a level in each group of devices that has such a level."""


class Exploration(Runs):
    """All points of an exploration, the fastest first; equal ones in the order of the choices.

    Attributes:
        plan: the plan that gives the fixed choices.
        ways: the free places, as layer name and level, with the ways of the level of each.
        baseline: dp.
    """

    plan: Plan
    ways: Mapping[Place, int]
    baseline: Run

    def base(self, run: Run) -> Run:
        """Return dp, for every point."""
        del run
        return self.baseline

    def __repr__(self) -> str:
        """Return the size and the fastest point, short enough for a prompt."""
        text = f"{len(self):,} points, the fastest {format_seconds(_totals(self[0]).time_s)}"
        over = f"{self.speedup(self[0]):.3g} times as fast as dp"
        return f"<Exploration of {self.plan.model.name}: {text}, {over}>"


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
    graph, machine, counted = network_of(model), load_machine(hardware), convention_for(convention)
    plan = plan_and_score(graph, strategy, counted, machine, **asked)
    graph = graph.with_batch(plan.model.batch)
    places = _places(plan, graph, machine)
    axes = _axes(plan, places, (vary,) if isinstance(vary, str) else vary)

    def answer(chosen: Mapping[Place, Choices]) -> Run:
        score = _scored(_with(plan, places, chosen), plan, graph, machine, counted)
        return Run(
            axes={place: choices[0] for place, choices in chosen.items()},
            totals=totals_of(score),
            fits=score.fits,
            own=all(choices == _own(places[place]) for place, choices in chosen.items()),
        )

    points = sorted(grid(axes, answer, progress=progress), key=lambda point: _totals(point).time_s)
    dp = plan_and_score(graph, BASELINE, counted, machine, **of_baseline(asked))
    ways = {place: places[place][0][0].ways for place in axes}
    return Exploration(points, counted, plan=plan, ways=ways, baseline=Run.of({"strategy": BASELINE}, dp))


def _totals(point: Run) -> Totals:
    assert point.totals is not None  # noqa: S101 (every point has a score)
    return point.totals


def _places(plan: Plan, graph: LayerGraph, machine: Machine | HeterogeneousMachine) -> dict[Place, Nodes]:
    """Return every layer at every level, level by level."""
    if plan.staged and plan.heterogeneous:
        found = "the plan's stages are on device groups"
        raise OptionError("vary", found, "stages on identical devices, or none")
    levels = [*choices_by_level(plan, graph, machine, times_of(plan))] if plan.splits else []
    places: dict[Place, Nodes] = {}
    for own in sorted(levels, key=lambda own: own.level):
        for node, layer in enumerate(own.layers):
            places.setdefault((layer.name, own.level), []).append((own, node))
    return places


def _axes(plan: Plan, places: Mapping[Place, Nodes], vary: Sequence[str]) -> dict[Place, list[Choices]]:
    """Return the choices at every place that some texts name."""
    axes: dict[Place, list[Choices]] = {}
    counts = {}
    for text in vary:
        where = f"vary {text!r}"
        layers, at = named_layers(plan, text, where)
        own = [place for place in places if place[0] in layers and at in {None, place[1]}]
        axes |= {place: _choices(places[place], where) for place in own}
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


def _own(nodes: Nodes) -> Choices:
    return tuple(own.options[node][own.picked[node]] for own, node in nodes)


def _choices(nodes: Nodes, where: str) -> list[Choices]:
    """Return the choices that all groups allow; they correspond by their dims and degrees."""
    offered = [{choice.text(own.ways): choice for choice in own.free[node]} for own, node in nodes]
    common = [text for text in offered[0] if all(text in each for each in offered)]
    if not common:
        (first, node), groups = nodes[0], ", ".join(own.group or WHOLE_ARRAY for own, _ in nodes)
        found = (
            f"{first.layers[node].name!r} has no choice at H{first.level + 1} that {groups} have in common"
        )
        raise OptionError(where, found)
    return [tuple(each[text] for each in offered) for text in common]


def _with(plan: Plan, places: Mapping[Place, Nodes], chosen: Mapping[Place, Choices]) -> Plan:
    """Return a plan with other choices; its costs and its score are those of the plan."""
    given: dict[tuple[int, str], dict[str, dict[str, int]]] = {}
    for place, choices in chosen.items():
        for (own, _), choice in zip(places[place], choices, strict=True):
            given.setdefault((own.level, own.group or WHOLE_ARRAY), {})[place[0]] = choice.as_degrees()
    splits = [
        split.model_copy(update={"choices": split.choices | given.get((split.level, split.group), {})})
        for split in plan.splits
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
    node = branch_of(
        point, machine, graph.nodes(plan.graph), graph.element_bytes, own.optimizer, own.convention
    )
    work = StepWork.of(*node.lanes())
    again = run_chunked(work, plan.chunks.asked)
    return summarise(work.lanes, again.step, again.timeline, machine)
