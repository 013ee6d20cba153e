"""Known strategies that the engine compares a plan with, so that no plan is slower than one of them unnoticed.

A cost adds up times level by level, without overlap; the engine runs the whole step, so a plan of least cost may take
longer than plain data parallelism if transfers overlap with computation, or if the search is greedy. Every baseline is
planned exactly as under its own name, with the pins of the request; the fastest of the baselines and the search's plan
is taken, and plans that fit the memory come before plans that do not. The plan is by construction no slower than a
competing baseline; it is no optimum over a larger space. Cost: a greedy search and one engine run for each baseline
whose choices differ from all earlier ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import OptionError, TableLimitError
from hypar.plan.plan import SEARCHED, BaselinesRecord
from hypar.plan.splits import WHOLE_ARRAY
from hypar.planning.chunks.search import run_chunked
from hypar.planning.question import ask, setting_of
from hypar.planning.refinement import LEAST_GAIN
from hypar.planning.request import Request
from hypar.planning.searches.base import costs_by_level, load_search
from hypar.planning.strategies.base import load_strategy
from hypar.schedule.lanes import Lane
from hypar.schedule.memory import holds
from hypar.schedule.stages import StepWork

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Operators
    from hypar.planning.chunks.search import Chunked
    from hypar.planning.searches.base import Answer, Question
    from hypar.sharding.placement import Options


class Trial(NamedTuple):
    """Choices with their time by the engine.

    Attributes:
        name: the baseline, or ``SEARCHED``.
        choices: for each layer a choice at each level.
        ran: the step.
        fits: whether it fits the devices' memory.
    """

    name: str
    choices: tuple[Options, ...]
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
        answer: the search's answer, or a copy with the choices and costs of a baseline.
        ran: the step of the plan; None if nothing was timed.
        record: the timed steps; None if no baseline competed.
        passed_over: whether a faster plan does not fit the memory.
    """

    answer: Answer
    ran: Chunked | None = None
    record: BaselinesRecord | None = None
    passed_over: bool = False

    @property
    def searched(self) -> bool:
        """Whether the search's plan was taken."""
        return self.record is None or self.record.taken == SEARCHED

    def claim(self, claim: str) -> str:
        """Return the claim of the plan, given the claim of the search's plan."""
        return claim_of_fastest(self.record, claim, passed_over=self.passed_over)


def claim_of_fastest(record: BaselinesRecord | None, claim: str, *, passed_over: bool) -> str:
    """Return the claim of the fastest plan, given the claim of the search's plan.

    Args:
        record: the timed steps; None if no baseline competed.
        claim: the claim of the search's plan.
        passed_over: whether a faster plan does not fit the memory.
    """
    if record is None:
        return claim
    taken, fitting = record.taken, ", of those that fit" if passed_over else ""
    others = [name for name in record.names if name != taken]
    if taken == SEARCHED:
        return f"{claim}; by the engine no slower than {_listed(others)}{fitting}"
    listed = _listed(["the search's plan", *others])
    return (
        f"the plan of {taken}, by the engine no slower than {listed}{fitting}; the search's plan is {claim}"
    )


def baseline_request(request: Request, name: str) -> Request:
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


def take_fastest(request: Request, graph: LayerGraph, question: Question, answer: Answer) -> Taken:
    """Time the search's plan and the baselines of a request, and take the fastest.

    Args:
        request: the request, whose ``baselines`` compete.
        graph: the network.
        question: the search problem.
        answer: the result of the search.

    Raises:
        HardwareError: the array does not fit the machine.
    """
    if not request.baselines or question.leaves_no_choice:
        return Taken(answer)
    trials = _trials(request, question, [(SEARCHED, answer.choices), *_entrants(request, graph, question)])
    if len(trials) == 1:
        return Taken(answer, trials[0].ran)
    best = trials[0]
    for trial in trials:
        best = trial if trial.beats(best) else best
    record = BaselinesRecord(taken=best.name, step_s={trial.name: trial.seconds for trial in trials})
    passed_over = any(trial.faster(best) for trial in trials)
    if best.name == SEARCHED:
        return Taken(answer, best.ran, record, passed_over)
    costs = costs_by_level(question, best.choices)
    # A bound over all levels holds for every plan of the space, a level's bound only below the search's own choices.
    bounds = answer.bounds if len(answer.bounds) == 1 and _within(question, best.choices) else ()
    answer = replace(answer, choices=best.choices, costs=costs, bounds=bounds)
    return Taken(answer, best.ran, record, passed_over)


def _entrants(
    request: Request, graph: LayerGraph, question: Question
) -> Iterator[tuple[str, tuple[Options, ...]]]:
    """Yield the competing baselines by name: those within the space, or all if no space was requested."""
    for name in request.baselines:
        asked = _Asked(
            name, id(graph.nodes(request.graph)), request.graph, request.array, request.pins, graph
        )
        choices = _planned(asked)
        if choices is not None and (request.beyond_space or _within(question, choices)):
            yield name, choices


@dataclass(frozen=True, slots=True)
class _Asked:
    """The inputs that determine the choices of a baseline; the machine is not one of them.

    Attributes:
        name: the baseline.
        identity: the identity of the layers, which live as long as the network.
        nodes: ``operators`` to plan pools too.
        array: ways of each level.
        pins: choices to hold.
        graph: the network itself.
    """

    name: str
    identity: int
    nodes: Operators | None
    array: tuple[int, ...]
    pins: tuple[str, ...]
    graph: LayerGraph = field(compare=False)


@lru_cache(maxsize=32)
def _planned(asked: _Asked) -> tuple[Options, ...] | None:
    """Plan a baseline; None if a layer has no option, or the tables of its search would not fit."""
    named = load_strategy(asked.name)
    request = Request(
        strategy=asked.name,
        space=named.space,
        cost=named.cost,
        parameters={},
        search=named.search,
        solver=None,
        arrays={WHOLE_ARRAY: asked.array},
        pins=asked.pins,
        graph=asked.nodes,
        convention=named.convention,
    )
    try:
        question, _ = ask(request, asked.graph)
        if question.leaves_no_choice:
            return tuple(tuple(options[0] for options in at_layer) for at_layer in question.options)
        return load_search(named.search).run(question).choices
    except (OptionError, TableLimitError):
        return None


def _within(question: Question, choices: Sequence[Options]) -> bool:
    """Return whether all choices are among a search problem's options, pins included."""
    return all(
        choice in options
        for at_layer, chosen in zip(question.options, choices, strict=True)
        for options, choice in zip(at_layer, chosen, strict=True)
    )


def _trials(
    request: Request, question: Question, entrants: Sequence[tuple[str, tuple[Options, ...]]]
) -> list[Trial]:
    """Run every entrant's step, equal choices once; without chunks before a refinement, which has none."""
    setting = setting_of(request, question)
    known: dict[tuple[Options, ...], tuple[Chunked, bool]] = {}
    for _, choices in entrants:
        if choices not in known:
            work = StepWork.of([Lane(question.graph, choices, setting)])
            ran = run_chunked(work, None if request.refine else request.chunks)
            known[choices] = ran, holds(work.lanes, ran.step)
    return [Trial(name, choices, *known[choices]) for name, choices in entrants]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
