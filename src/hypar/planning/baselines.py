"""Known strategies that a plan is held against by the engine, so that it never loses to one of them unseen.

A cost sums what happens one thing after another, level by level; the engine runs the whole step, so a plan of least
cost may take longer than plain data parallelism where transfers run beside computation, or where the search is greedy.
Every baseline is planned exactly as under its own name, with the pins of the recipe; the fastest of them and of the
search's plan is taken, those that devices hold before those that they do not. So the plan is by construction no slower
than a baseline that competes; it is no optimum over anything larger. Cost: a greedy search and one engine run for each
baseline whose choices differ from all before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import OptionError, TableLimitError
from hypar.plan.plan import SEARCHED, BaselinesRecord
from hypar.planning.chunks.search import run_chunked
from hypar.planning.question import ask, setting_of
from hypar.planning.refinement import LEAST_GAIN
from hypar.planning.request import Recipe
from hypar.planning.searches.base import costs_by_level, load_search
from hypar.planning.strategies.base import load_strategy
from hypar.schedule.lanes import Lane
from hypar.schedule.totals import holds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Operators
    from hypar.planning.chunks.search import Ran
    from hypar.planning.searches.base import Answer, Question
    from hypar.sharding.placement import Options


class Trial(NamedTuple):
    """Choices that the engine timed.

    Attributes:
        name: the baseline, or ``SEARCHED``.
        choices: for each layer a choice at each level.
        ran: the step.
        fits: whether the devices hold it.
    """

    name: str
    choices: tuple[Options, ...]
    ran: Ran
    fits: bool

    @property
    def seconds(self) -> float:
        """The engine's time of a step."""
        return self.ran.timeline.makespan

    def beats(self, other: Trial) -> bool:
        """Whether it is to be taken instead: it fits where the other does not, or fits as well and is faster."""
        if self.fits != other.fits:
            return self.fits
        return self.faster(other)

    def faster(self, other: Trial) -> bool:
        """Whether it takes less time, by more than rounding."""
        return self.seconds < other.seconds * (1 - LEAST_GAIN)


class Taken(NamedTuple):
    """The plan that won.

    Attributes:
        answer: the search's answer, or the same with the choices and costs of a baseline.
        ran: the step of the winner; None where nothing was timed.
        record: what was timed; None where no baseline competed.
        passed_over: whether something faster does not fit.
    """

    answer: Answer
    ran: Ran | None = None
    record: BaselinesRecord | None = None
    passed_over: bool = False

    @property
    def searched(self) -> bool:
        """Whether it is the search's plan."""
        return self.record is None or self.record.taken == SEARCHED

    def claim(self, claim: str) -> str:
        """What the plan is, given what the search's plan is optimal over."""
        if self.record is None:
            return claim
        taken, fitting = self.record.taken, ", of those that fit" if self.passed_over else ""
        others = [name for name in self.record.names if name != taken]
        if self.searched:
            return f"{claim}; by the engine no slower than {_listed(others)}{fitting}"
        listed = _listed(["the search's plan", *others])
        return f"the plan of {taken}, by the engine no slower than {listed}{fitting}; the search's plan is {claim}"


def baseline_recipe(recipe: Recipe, name: str) -> Recipe:
    """The recipe of a known strategy with the network's graph, pins, array, chunks and machine of another recipe."""
    named = load_strategy(name)
    return replace(
        recipe,
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
    )


def take_fastest(recipe: Recipe, graph: LayerGraph, question: Question, answer: Answer) -> Taken:
    """Time the search's plan and the baselines of a recipe, and take the fastest.

    Args:
        recipe: what is asked for; its ``baselines`` compete.
        graph: the network.
        question: the question that the recipe makes of it.
        answer: what the search found.

    Raises:
        HardwareError: the array does not fit the machine.
    """
    if not recipe.baselines or question.leaves_no_choice:
        return Taken(answer)
    trials = _trials(recipe, question, [(SEARCHED, answer.choices), *_entrants(recipe, graph, question)])
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
    # A bound over all levels holds for every plan of the space, that of a level only below the search's own choices.
    bounds = answer.bounds if len(answer.bounds) == 1 and _within(question, best.choices) else ()
    answer = replace(answer, choices=best.choices, costs=costs, bounds=bounds)
    return Taken(answer, best.ran, record, passed_over)


def _entrants(
    recipe: Recipe, graph: LayerGraph, question: Question
) -> Iterator[tuple[str, tuple[Options, ...]]]:
    """The baselines that compete, by name: those within the space, or all of them where none was asked for."""
    for name in recipe.baselines:
        asked = _Asked(name, id(graph.nodes(recipe.graph)), recipe.graph, recipe.array, recipe.pins, graph)
        choices = _planned(asked)
        if choices is not None and (recipe.beyond_space or _within(question, choices)):
            yield name, choices


@dataclass(frozen=True, slots=True)
class _Asked:
    """Everything that the choices of a baseline follow from; no machine is among it.

    Attributes:
        name: the baseline.
        identity: of the layers that are cut, which live as long as the network.
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
    """The choices of a baseline; None where it has none for a layer, or its search would not fit."""
    named = load_strategy(asked.name)
    recipe = Recipe(
        strategy=asked.name,
        space=named.space,
        cost=named.cost,
        parameters={},
        search=named.search,
        solver=None,
        array=asked.array,
        pins=asked.pins,
        graph=asked.nodes,
    )
    try:
        question, _ = ask(recipe, asked.graph)
        if question.leaves_no_choice:
            return tuple(tuple(options[0] for options in at_layer) for at_layer in question.options)
        return load_search(named.search).run(question).choices
    except (OptionError, TableLimitError):
        return None


def _within(question: Question, choices: Sequence[Options]) -> bool:
    """Whether a question has choices among its options, pins included."""
    return all(
        choice in options
        for at_layer, chosen in zip(question.options, choices, strict=True)
        for options, choice in zip(at_layer, chosen, strict=True)
    )


def _trials(
    recipe: Recipe, question: Question, entrants: Sequence[tuple[str, tuple[Options, ...]]]
) -> list[Trial]:
    """Run every entrant's step; equal choices are run once. Refinement goes on without chunks, so it starts so."""
    setting = setting_of(recipe, question)
    known: dict[tuple[Options, ...], tuple[Ran, bool]] = {}
    for _, choices in entrants:
        if choices not in known:
            lanes = [Lane(question.graph, choices, setting)]
            ran = run_chunked(lanes, asked=None if recipe.refine else recipe.chunks)
            known[choices] = ran, holds(lanes, ran.step)
    return [Trial(name, choices, *known[choices]) for name, choices in entrants]


def _listed(names: Sequence[str]) -> str:
    """Names as a sentence has them."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
