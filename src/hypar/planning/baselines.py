"""Known strategies that the engine compares a plan with, so that no plan is slower than one of them unnoticed.

A cost adds up times level by level, without overlap; the engine runs the whole step, so a plan of least cost may take
longer than plain data parallelism if transfers overlap with computation, or if the search is greedy. Every baseline is
planned exactly as under its own name, with the pins of the request; the fastest of the baselines and the search's plan
is taken, and plans that fit the memory come before plans that do not. The plan is by construction no slower than a
competing baseline; it is no optimum over a larger space. Cost: a greedy search and one engine run for each baseline
whose choices differ from all earlier ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import OptionError, TableLimitError
from hypar.network.nodes import kept_with_graph
from hypar.plan.records import SEARCHED, BaselinesRecord
from hypar.planning.chunks.search import run_chunked
from hypar.planning.nodes.levels import Leaf
from hypar.planning.question import question_of
from hypar.planning.refinement import LEAST_GAIN
from hypar.planning.resolved import Resolved
from hypar.planning.searches.base import load_search
from hypar.planning.strategies.base import load_strategy
from hypar.schedule.memory import holds
from hypar.schedule.stages import StepWork
from hypar.sharding.placement import WHOLE, cut, dim_of
from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanGraph
    from hypar.planning.chunks.search import Chunked
    from hypar.planning.nodes.levels import LevelPlanner, Node
    from hypar.sharding.placement import Options
    from hypar.sharding.space import Pin

    Entrants = Callable[[LevelPlanner, LayerGraph, Node], Iterator[tuple[str, Node]]]


class Trial(NamedTuple):
    """A planned node with its time by the engine.

    Attributes:
        name: the baseline, or ``SEARCHED``.
        node: the node.
        ran: the step.
        fits: whether it fits the devices' memory.
    """

    name: str
    node: Node
    ran: Chunked
    fits: bool

    @property
    def seconds(self) -> float:
        """The engine's time for a step."""
        return self.ran.timeline.makespan

    def beats(self, other: Trial) -> bool:
        """Return whether only this one fits the memory or, if both or neither fit, whether it is faster."""
        if self.fits != other.fits:
            return self.fits
        return self.faster(other)

    def faster(self, other: Trial) -> bool:
        """Return whether it takes less time, by more than rounding."""
        return self.seconds < other.seconds * (1 - LEAST_GAIN)


class Taken(NamedTuple):
    """The fastest plan.

    Attributes:
        node: the search's node, or that of a baseline with the costs of the request.
        ran: the step of the plan; None if nothing was timed.
        record: the timed steps; None if no baseline competed.
        passed_over: whether a faster plan does not fit the memory.
    """

    node: Node
    ran: Chunked | None = None
    record: BaselinesRecord | None = None
    passed_over: bool = False

    @property
    def searched(self) -> bool:
        """Whether the search's plan was taken."""
        return self.record is None or self.record.taken == SEARCHED

    def claim(self, claim: str) -> str:
        """Return the claim of the plan, given the claim of the search's plan."""
        if self.record is None:
            return claim
        taken, fitting = self.record.taken, ", of those that fit" if self.passed_over else ""
        others = [name for name in self.record.names if name != taken]
        if taken == SEARCHED:
            return f"{claim}; by the engine no slower than {_listed(others)}{fitting}"
        listed = _listed(["the search's plan", *others])
        return f"the plan of {taken}, by the engine no slower than {listed}{fitting}; the search's plan is {claim}"


def baseline_request(request: Resolved, name: str) -> Resolved:
    """Return the request of a known strategy with the graph, pins, array, chunks and machine of another request."""
    named = load_strategy(name)
    return replace(
        request,
        strategy=name,
        space=named.space,
        cost=named.cost,
        parameters={},
        search=named.search,
        solver=None,
        profile=None,
        shares=named.shares,
        refine=False,
        stages=None,
        baselines=(),
        convention=named.convention,
    )


def take_fastest(planner: LevelPlanner, graph: LayerGraph, found: Node, entrants: Entrants) -> Taken:
    """Time the search's plan and the baselines of a request, and take the fastest that fits the memory.

    Args:
        planner: the planner of the request, whose ``baselines`` compete.
        graph: the network.
        found: the search's plan.
        entrants: returns the competing baselines with their names.

    Raises:
        HardwareError: the array does not fit the machine.
    """
    request = planner.request
    if not request.baselines or planner.leaves_no_choice:
        return Taken(found)
    trials = _trials(planner, [(SEARCHED, found), *entrants(planner, graph, found)])
    best = trials[0]
    for trial in trials:
        best = trial if trial.beats(best) else best
    if len(trials) == 1:
        return Taken(found, best.ran)
    record = BaselinesRecord(taken=best.name, step_s={trial.name: trial.seconds for trial in trials})
    passed_over = any(trial.faster(best) for trial in trials)
    node = best.node
    if best.name != SEARCHED:
        node = planner.costed(node, planner.state_above(graph.nodes(request.graph)))
    return Taken(node, best.ran, record, passed_over)


def entrants_alike(planner: LevelPlanner, graph: LayerGraph, found: Node) -> Iterator[tuple[str, Node]]:
    """Yield the competing baselines of identical devices: those within the space, or all if no space was requested."""
    request = planner.request
    nodes, plain = (own.nodes(request.graph) for own in (graph, graph.without_rests))
    pins = tuple(planner.pins)
    for name in request.baselines:
        choices = _planned(plain, name, request.array, pins, planner.element_bytes)
        if choices is None:
            continue
        node = found.taking(iter(_as_made(nodes, choices, request.array)))
        if request.beyond_space or planner.within(node):
            yield name, node


@kept_with_graph
def _planned(
    graph: PlanGraph, name: str, array: tuple[int, ...], pins: tuple[Pin, ...], element_bytes: int
) -> tuple[Options, ...] | None:
    """Plan a baseline, whatever the machine; None if a layer has no option, or the tables of its search would not fit."""
    named = load_strategy(name)
    request = Resolved(
        strategy=name,
        space=named.space,
        cost=named.cost,
        parameters={},
        search=named.search,
        solver=None,
        arrays={WHOLE_ARRAY: array},
        pins=(),
        convention=named.convention,
    )
    try:
        question = question_of(request, graph, pins, element_bytes)
        if question.leaves_no_choice:
            return tuple(tuple(options[0] for options in at_layer) for at_layer in question.options)
        return load_search(named.search).run(question).choices
    except (OptionError, TableLimitError):
        return None


def _as_made(graph: PlanGraph, choices: Sequence[Options], array: tuple[int, ...]) -> tuple[Options, ...]:
    """Return choices with those of tensors at rest, which lie as they are made; given are those of all other layers."""
    makers = {tensor.consumer: tensor.producer for tensor in graph.tensors}
    given = iter(choices)
    found: list[Options] = []
    for at, layer in enumerate(graph.layers):
        if not layer.rest:
            found.append(next(given))
            continue
        made, dims = found[makers[at]], graph.layers[makers[at]].nest.names["output"]
        named = [dims.get(dim_of(choice) or "", "") for choice in made]
        pairs = zip(named, array, strict=True)
        found.append(tuple([cut(dim, ways) if dim in layer.nest.sizes else WHOLE for dim, ways in pairs]))
    return tuple(found)


def _trials(planner: LevelPlanner, entrants: Sequence[tuple[str, Node]]) -> list[Trial]:
    """Run every entrant's step, equal choices once; without chunks before a refinement, which has none."""
    known: dict[object, tuple[Chunked, bool]] = {}
    keys = []
    for _, node in entrants:
        keys.append(node.lane.choices if isinstance(node, Leaf) else node)
        if keys[-1] not in known:
            work = StepWork.of(*node.lanes())
            ran = run_chunked(work, None if planner.request.refine else planner.request.chunks)
            known[keys[-1]] = ran, holds(work.lanes, ran.step)
    return [Trial(*entrant, *known[key]) for entrant, key in zip(entrants, keys, strict=True)]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
