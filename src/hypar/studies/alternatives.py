"""Other choices of a plan's layers: what each would cost, and how long a step takes with every combination of some."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hypar.document import Result
from hypar.errors import OptionError
from hypar.machine.load import load_machine
from hypar.machine.machine import Machine
from hypar.machine.profiles import Profile
from hypar.network.graph import LayerGraph, load_model
from hypar.plan.plan import Plan
from hypar.plan.request import Request, checked
from hypar.planning.chunks import run_chunked
from hypar.planning.pins import targets_of
from hypar.planning.replay import LevelChoices, choices_by_level, run_step
from hypar.planning.resolved import BASELINE, Resolved, of_baseline
from hypar.planning.sources import times_of
from hypar.sharding.conventions import MOVED
from hypar.sharding.placement import Choice
from hypar.sharding.space import parse_space
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.solve.edge import Costs
from hypar.solve.minsum import solved
from hypar.solve.solvers.base import cheapest, load_solver
from hypar.studies.grid import MOST_RUNS, Hardware, Run, Runs, grid, plan_and_score

Place = tuple[str, int]
Choices = tuple[Choice, ...]
Nodes = list[tuple[LevelChoices, int]]
"""The choice of a layer at a level in each group of devices that has such a level."""


def _named(
    plan: Plan, levels: Iterable[LevelChoices], text: str, where: str
) -> Iterator[tuple[LevelChoices, list[int]]]:
    """Yield each level of a group with the numbers of the layers that a text names there, as ``conv*`` or ``fc1@H2``."""
    count = max((split.level + 1 for split in plan.splits), default=0)
    names, level = targets_of(text if count else text.partition("@")[0], plan.layers, count, where)
    for own in levels:
        here = level in {None, own.level}
        yield own, [node for node, layer in enumerate(own.layers) if here and layer.name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The cost of a layer with one choice, all other layers as planned; ``chosen`` says that it is the plan's.

    ``items`` are the layer's own costs, as ``compute`` and ``update``; ``received`` and ``sent`` those of the tensors that it reads,
    and of its tensors that others read. ``replanned`` is the increase of the level's least cost with this choice, all others planned
    anew; None if not known: the tables would be too large, or the slowest of several device groups counts.
    """

    choice: Choice
    chosen: bool
    items: dict[str, float]
    received: float
    sent: float
    total: float
    replanned: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerExplanation:
    """The choices of one layer at one level, 0 for the outermost: the cheapest first, equal ones in the order of declaration.

    ``left_out`` are reasons why it lacks some degrees of the space; ``ways``, ``jointly`` and ``group`` are as of ``LevelChoices``.
    """

    layer: str
    level: int
    alternatives: tuple[Alternative, ...]
    left_out: tuple[str, ...]
    ways: int
    jointly: bool = False
    group: str = ""

    @property
    def place(self) -> str:
        """The level, and on a heterogeneous machine the group: ``H2 tpu-v3``."""
        return f"H{self.level + 1} {self.group}".rstrip()

    @property
    def chosen(self) -> Alternative:
        """The plan's choice."""
        return next(one for one in self.alternatives if one.chosen)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation(Result):
    """The explanation of a plan: the layers asked for, level by level."""

    _document: ClassVar[str] = "plan"
    plan: Plan
    explained: tuple[LayerExplanation, ...]


def explain_plan(
    plan: Plan,
    model: LayerGraph,
    *,
    layer: str = "*",
    machine: Machine | None = None,
    profile: Profile | None = None,
) -> Explanation:
    """Explain a plan for a network, with the machine of its score and the measured times that its cost used.

    ``layer`` is a layer's name or a pattern whose choices are all costed, as ``fc1``, at one level alone as ``fc1@H2``.

    Raises:
        OptionError: there is no such layer or level, no layer is cut, or a heterogeneous machine is not named.
        PlanError: the machine has other device groups.
    """
    if not plan.splits:
        raise OptionError("explain", "no layer is cut inside the stages", "a plan with levels")
    if plan.heterogeneous and machine is None:
        raise OptionError("explain", "no machine is named", "the heterogeneous machine that the plan is for")
    levels = [*choices_by_level(plan, model.with_batch(plan.model.batch), machine, profile)]
    named = _named(plan, levels, layer, "explain")
    explained = (one for own, nodes in named for one in _explained(plan, own, nodes))
    return Explanation(plan=plan, explained=tuple(explained))


def _explained(plan: Plan, own: LevelChoices, nodes: Sequence[int]) -> Iterator[LayerExplanation]:
    space = parse_space(plan.space, None)
    known = nodes and own.adds_up and load_solver(cheapest((own.problem().structure,))).exact
    least = solved(own.problem()).marginals() if known else []
    at: dict[str, Any] = {"level": own.level, "ways": own.ways, "jointly": own.jointly, "group": own.group}
    for node in nodes:
        costed = _alternatives(own, node, least[node] if least else None)
        lacks = space.left_out(own.layers[node], own.ways)
        yield LayerExplanation(layer=own.layers[node].name, alternatives=costed, left_out=lacks, **at)


def _alternatives(own: LevelChoices, node: int, least: Costs | None) -> tuple[Alternative, ...]:
    """Return every choice of a layer at a level; ``least`` has the least cost of the level with each."""
    options, picked = own.options[node], own.picked
    received, sent = np.zeros(len(options)), np.zeros(len(options))
    for edge in own.problem().edges:
        if edge.target == node:
            received += edge.beside(0, picked[edge.source])
        elif edge.source == node:
            sent += edge.beside(1, picked[edge.target])
    total = own.problem().nodes[node] + received + sent
    parts = {name: part.reshape(-1) for name, part in own.items([node]).items()}
    more = None
    if least is not None:  # a difference within rounding is none
        more = np.where(np.isclose(least, least.min(), 1e-12, 0), 0, least - least.min())
    return tuple(
        Alternative(
            choice=options[at], chosen=at == picked[node],
            items={name: float(part[at]) for name, part in parts.items()},
            received=float(received[at]), sent=float(sent[at]), total=float(total[at]),
            replanned=None if more is None else float(more[at]),
        )
        for at in np.argsort(total, kind="stable").tolist()
    )  # fmt: skip


class Exploration(Runs):
    """All points of an exploration beside dp, the fastest first; equal ones in the order of the choices.

    The ``plan`` gives the fixed choices; ``ways`` are those of the level of each free place, a layer's name and a level.
    """

    plan: Plan
    ways: Mapping[Place, int]
    baseline: Run


def explore_model(
    model: LayerGraph | str | Path,
    *,
    vary: str | Sequence[str],
    hardware: Hardware,
    strategy: str = "hypar",
    convention: str | None = None,
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
        asked: further arguments of ``plan_model`` for that plan; the baseline keeps its own space and equal shares.

    Raises:
        InputError: the request cannot be met; nothing varies, or more than 10,000 points.
    """
    Request.of("explore_model", asked)
    graph, machine = load_model(model), load_machine(hardware)
    counted = checked("convention", convention or MOVED)
    plan = plan_and_score(graph, strategy, counted, machine, **asked)
    graph = graph.with_batch(plan.model.batch)
    request = replace(Resolved.of(plan, machine), counted=counted)
    places, axes = _axes(plan, graph, machine, (vary,) if isinstance(vary, str) else vary)
    planned = {place: tuple(own.chosen[node] for own, node in nodes) for place, nodes in places.items()}

    def answer(chosen: Mapping[Place, Choices]) -> Run:
        ran = run_step(_with(plan, places, chosen), request, graph)
        anew = None if request.chunks is None else run_chunked(ran.work, request.chunks)
        score = ran.score if anew is None else anew.score(machine)
        words = {place: choices[0] for place, choices in chosen.items()}
        return Run.of(words, plan.model_copy(update={"score": score}), machine, own=chosen == planned)

    points = sorted(grid(axes, answer), key=lambda point: point.time_s)
    dp = plan_and_score(graph, BASELINE, counted, machine, **of_baseline(asked))
    ways = {place: own.ways for place, ((own, _), *_) in places.items()}
    return Exploration(points, counted, plan=plan, ways=ways, baseline=Run.of({"strategy": BASELINE}, dp))


def _axes(
    plan: Plan, graph: LayerGraph, machine: Machine, vary: Sequence[str]
) -> tuple[dict[Place, Nodes], dict[Place, list[Choices]]]:
    """Return each layer at each level that some texts name, level by level for each text, and its choices."""
    if plan.staged and plan.heterogeneous:
        on_groups = "the plan's stages are on device groups"
        raise OptionError("vary", on_groups, "stages on identical devices, or none")
    levels = [*choices_by_level(plan, graph, machine, times_of(plan))] if plan.splits else []
    places: dict[Place, Nodes] = {}
    axes: dict[Place, list[Choices]] = {}
    counts = {}
    for text in vary:
        where = f"vary {text!r}"
        named: defaultdict[Place, Nodes] = defaultdict(list)
        for own, nodes in _named(plan, sorted(levels, key=lambda own: own.level), text, where):
            for node in nodes:
                named[own.layers[node].name, own.level].append((own, node))
        places |= named
        axes |= {place: _common(nodes, where) for place, nodes in named.items()}
        counts[text] = math.prod(len(axes[place]) for place in named)
    number = math.prod(map(len, axes.values()))
    if axes and number <= MOST_RUNS:
        return places, axes
    each = ", ".join(f"{text!r} alone {count:,}" for text, count in counts.items())
    found = f"found {number:,} points: {each}" if axes else "found nothing"
    allowed = f"LAYER, LAYER@LEVEL or patterns, at most {MOST_RUNS:,} points"
    raise OptionError("vary", found, allowed, "try fewer layers, or one level, as LAYER@H1")


def _common(nodes: Nodes, where: str) -> list[Choices]:
    offered = [{choice.text(own.ways): choice for choice in own.free[node]} for own, node in nodes]
    common = [text for text in offered[0] if all(text in each for each in offered)]
    if not common:
        (first, node), groups = nodes[0], ", ".join(own.group or WHOLE_ARRAY for own, _ in nodes)
        place = f"{first.layers[node].name!r} has no choice at H{first.level + 1}"
        raise OptionError(where, f"{place} that {groups} have in common")
    return [tuple(each[text] for each in offered) for text in common]


def _with(plan: Plan, places: Mapping[Place, Nodes], chosen: Mapping[Place, Choices]) -> Plan:
    """Return a plan with other choices; its costs and its score are those of the plan."""
    given = defaultdict[tuple[int, str], dict[str, dict[str, int]]](dict)
    for place, choices in chosen.items():
        for (own, _), choice in zip(places[place], choices, strict=True):
            given[own.level, own.group or WHOLE_ARRAY][place[0]] = dict(choice.degrees)
    each = ((split, split.choices | given[split.level, split.group]) for split in plan.splits)
    splits = [split.model_copy(update={"choices": choices}) for split, choices in each]
    return plan.model_copy(update={"splits": splits, "chunks": None})
