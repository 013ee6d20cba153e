"""From a model and a strategy to a plan."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hypar.costs.base import load_cost, parameters_of
from hypar.errors import OptionError, UnknownNameError
from hypar.graph import LayerGraph, load_model
from hypar.hardware import Machine, as_machine
from hypar.levels import Level, levels_of
from hypar.pins import Pin, apply_pins, parse_pin
from hypar.plan import MOST_DEVICES, CostRecord, ModelRecord, Plan, RefinementRecord, Split
from hypar.refinement import refine as refine_choices
from hypar.registry import load_plugin, plugin_names
from hypar.schedule.step import OPTIMIZERS, Setting
from hypar.score import Score, score_step
from hypar.searches.base import Answer, Question, costs_by_level, load_search
from hypar.space import Space, parse_space
from hypar.strategies.base import load_strategy
from hypar.traffic import equal_shares
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hypar.placement import Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that a plan follows from but the network; a plan records it.

    Attributes:
        strategy: the name that it goes by.
        space: the choices allowed, as text.
        cost: name of the cost.
        parameters: parameters of the cost to set; the others stay as it has them by itself.
        search: name of the search.
        solver: name of the solver; None for the cheapest exact one.
        array: ways of each level, outermost first.
        pins: choices to hold, as text.
        machine: what the plan is for; None where no hardware is named.
        optimizer: whose updates a score counts.
        refine: whether to refine the plan against the engine.
    """

    strategy: str
    space: str
    cost: str
    parameters: Mapping[str, float]
    search: str
    solver: str | None
    array: tuple[int, ...]
    pins: tuple[str, ...]
    machine: Machine | None = None
    optimizer: str = "sgd"
    refine: bool = False

    @classmethod
    def of(cls, plan: Plan, machine: Machine | None = None) -> Recipe:
        """What a stored plan follows from.

        Args:
            plan: the plan.
            machine: the machine that the plan's score names.
        """
        return cls(
            strategy=plan.strategy,
            space=plan.space,
            cost=plan.cost.name,
            parameters=plan.cost.parameters,
            search=plan.search,
            solver=plan.solver,
            array=tuple(plan.array),
            pins=tuple(plan.pins),
            machine=machine,
            optimizer="sgd" if plan.score is None else plan.score.optimizer,
            refine=plan.refined is not None,
        )


def plan_model(
    model: LayerGraph | str | Path,
    *,
    levels: int | None = None,
    array: Sequence[int] | None = None,
    batch: int | None = None,
    strategy: str = "hypar",
    space: str | None = None,
    cost: str | None = None,
    search: str | None = None,
    solver: str | None = None,
    inter_weight: float | None = None,
    pins: str | Sequence[str] = (),
    hardware: Machine | str | Path | None = None,
    optimizer: str = "sgd",
    refine: bool = False,
) -> Plan:
    """Choose how every layer is cut at every level.

    Args:
        model: a network, the path of a model file, or a bare name as ``vgg16``.
        levels: how many two-way levels; 4 unless ``array`` is given.
        array: the ways of each level instead, outermost first.
        batch: samples in a mini-batch, if not the model's own number.
        strategy: a space, a cost and a search under a name.
        space: other choices than the strategy's, as dims (``batch,out_channels``), ``all``, or the name of a
            strategy to take the space of.
        cost: another cost than the strategy's.
        search: ``greedy`` or ``joint`` instead of the strategy's.
        solver: a solver by name instead of the cheapest exact one.
        inter_weight: weight of the amounts between layers in the cost, 1 if not given.
        pins: choices to hold, each ``layer=choice`` or ``layer@level=choice``.
        hardware: a machine, the path of a hardware file, or a bare name as ``hmc``: the plan gets its score,
            and the cost ``time`` can be minimised.
        optimizer: ``sgd``, ``momentum`` or ``adam``, for updates and memory.
        refine: whether to exchange choices against the engine's time after the search.

    Returns:
        The plan; ``claim`` says what it is optimal over.

    Raises:
        InputError: something asked for is not possible.
        TableLimitError: an exact search would not fit.

    Example:
        >>> plan = plan_model("lenet-c", levels=2)
        >>> plan.dims("fc1"), plan.cost.value
        (('in_channels', 'batch'), 6227680)
    """
    graph = model if isinstance(model, LayerGraph) else load_model(model)
    named = load_strategy(strategy)
    recipe = Recipe(
        strategy=strategy,
        space=named.space if space is None else _space_text(space),
        cost=named.cost if cost is None else cost,
        parameters={} if inter_weight is None else {"inter_weight": inter_weight},
        search=named.search if search is None else search,
        solver=solver,
        array=_checked_array(levels, array),
        pins=(pins,) if isinstance(pins, str) else tuple(pins),
        machine=None if hardware is None else as_machine(hardware),
        optimizer=checked_optimizer(optimizer),
        refine=refine,
    )
    return follow(recipe, graph if batch is None else graph.with_batch(batch))


def follow(recipe: Recipe, graph: LayerGraph) -> Plan:
    """Plan a network by a recipe.

    Raises:
        InputError: the recipe does not suit the network.
        TableLimitError: an exact search would not fit.
    """
    question, pins = ask(recipe, graph)
    search = load_search(recipe.search)
    answer = search.run(question)
    answer, refined = _refined(recipe, question, answer)
    splits = [
        _split(level, graph, [options[level.index] for options in answer.choices], costs)
        for level, costs in zip(question.levels, answer.costs, strict=True)
    ]
    return Plan(
        model=ModelRecord(name=graph.name, digest=graph.digest, batch=graph.batch),
        strategy=recipe.strategy,
        space=recipe.space,
        search=recipe.search,
        solver=answer.solver,
        array=list(recipe.array),
        pins=[str(pin) for pin in pins],
        cost=CostRecord(
            name=recipe.cost,
            value=exact_number(math.fsum(split.cost for split in splits)),
            unit=question.cost.unit,
            parameters=parameters_of(question.cost),
        ),
        claim=_claim(recipe, question, answer, search.claim) + (", then refined" if refined else ""),
        splits=splits,
        refined=refined,
        score=_scored(recipe, question, answer),
    )


def _refined(recipe: Recipe, question: Question, answer: Answer) -> tuple[Answer, RefinementRecord | None]:
    """The answer with choices exchanged against the engine, where that is asked for."""
    if not recipe.refine:
        return answer, None
    setting = setting_of(recipe, question)
    found = refine_choices(question.graph, setting, answer.choices, question.options)
    changed = sum(
        a != b
        for old, new in zip(answer.choices, found.choices, strict=True)
        for a, b in zip(old, new, strict=True)
    )
    record = RefinementRecord(before_s=found.before_s, after_s=found.after_s, changed=changed)
    costs = costs_by_level(question, found.choices)
    return replace(answer, choices=found.choices, costs=costs), record


def _scored(recipe: Recipe, question: Question, answer: Answer) -> Score | None:
    """What the machine makes of the answer, where one is named."""
    if recipe.machine is None:
        return None
    return score_step(question.graph, answer.choices, setting_of(recipe, question))


def setting_of(recipe: Recipe, question: Question) -> Setting:
    """What a step runs on.

    Raises:
        OptionError: no hardware is named.
    """
    if recipe.machine is None:
        raise OptionError("hardware", "no machine is named", "one, as --hardware hmc")
    return Setting(
        machine=recipe.machine,
        array=recipe.array,
        element_bytes=question.levels[0].element_bytes,
        optimizer=recipe.optimizer,
    )


def ask(recipe: Recipe, graph: LayerGraph) -> tuple[Question, tuple[Pin, ...]]:
    """A recipe and a network as a question to a search."""
    space = parse_space(recipe.space)
    _require_ops(space)
    levels = levels_of(recipe.array, graph.element_bytes)
    contracted = graph.contracted
    pins = tuple(parse_pin(text, contracted, len(levels)) for text in recipe.pins)
    by_ways = {
        ways: [space.choices(layer, ways) for layer in contracted.layers] for ways in set(recipe.array)
    }
    free = list(zip(*(by_ways[ways] for ways in recipe.array), strict=True))
    options = apply_pins(pins, contracted, free, recipe.array)
    setting = {"machine": recipe.machine, "optimizer": recipe.optimizer}
    cost = load_cost(recipe.cost, recipe.parameters, setting)
    return Question(graph=contracted, cost=cost, levels=levels, options=options, solver=recipe.solver), pins


def _split(level: Level, graph: LayerGraph, choices: Sequence[Choice], costs: Sequence[float]) -> Split:
    names = [layer.name for layer in graph.contracted.layers]
    return Split(
        level=level.index,
        group="all",
        ways=level.ways,
        shares=list(equal_shares(level.ways)),
        choices={name: choice.as_degrees() for name, choice in zip(names, choices, strict=True)},
        costs={name: exact_number(cost) for name, cost in zip(names, costs, strict=True)},
        cost=exact_number(math.fsum(costs)),
    )


def _claim(recipe: Recipe, question: Question, answer: Answer, claim: str) -> str:
    """What the plan is optimal over: space, search, objective."""
    pins = f" and {len(recipe.pins)} pin{'s' * (len(recipe.pins) > 1)}" if recipe.pins else ""
    if question.leaves_no_choice:
        return f"fixed: the space ({recipe.space}){pins} leave{'s' * (not pins)} every layer one choice"
    if not answer.exact:
        claim = f"not optimal: solver {answer.solver!r} is not exact; {recipe.search} search"
    return f"{claim} over ({recipe.space}){pins}, one dim a level, for least {recipe.cost}"


def _space_text(text: str) -> str:
    """A space by the name of the strategy that has it, or as it stands."""
    return load_strategy(text).space if text in plugin_names("strategies") else parse_space(text).text


def _require_ops(space: Space) -> None:
    """Refuse a space for an op that there is none of."""
    for op in space.by_op:
        load_plugin("ops", op)


def checked_optimizer(name: str) -> str:
    """An optimizer that there is.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in OPTIMIZERS:
        raise UnknownNameError("optimizer", name, OPTIMIZERS)
    return name


def _checked_array(levels: int | None, array: Sequence[int] | None) -> tuple[int, ...]:
    """The ways of each level."""
    most = MOST_DEVICES.bit_length() - 1
    if array is None:
        count = 4 if levels is None else levels
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= most:
            raise OptionError("levels", f"found {count!r}", f"a whole number from 1 to {most}")
        return (2,) * count
    if levels is not None:
        raise OptionError("levels", "given together with an array", "one of the two")
    whole = all(isinstance(ways, int) and ways > 1 for ways in array)
    if not array or not whole or math.prod(array) > MOST_DEVICES:
        shown = "x".join(str(ways) for ways in array)
        raise OptionError(
            "array", f"found {shown:.60}", f"ways of 2 or more, at most {MOST_DEVICES:,} devices"
        )
    return tuple(array)
