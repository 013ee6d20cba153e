"""What is worth saying beside a plan: how far it may be from the optimum, what its pins cost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.errors import HardwareError, TableLimitError
from hypar.planner import follow
from hypar.recipe import Recipe, ask
from hypar.reports.base import amount
from hypar.solvers.base import load_solver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.graph import LayerGraph
    from hypar.hardware import Machine, MixedMachine
    from hypar.plan import Plan
    from hypar.profiles import Profile

CHEAP_ENTRIES = 2**22
"""Table entries up to which the joint optimum is worth knowing beside a greedy plan: some milliseconds."""


def remarks(
    plan: Plan,
    graph: LayerGraph,
    machine: Machine | MixedMachine | None = None,
    profile: Profile | None = None,
) -> Iterator[str]:
    """Lines to print below a plan.

    Args:
        plan: the plan.
        graph: the network that it is for.
        machine: the machine of its score.
        profile: the measured times that its cost counted.

    Yields:
        The joint optimum beside a greedy plan and the cost of pins, unless the plan was refined by another measure;
        layers cut finer than they have elements.
    """
    graph = graph.with_batch(plan.model.batch)
    recipe = replace(Recipe.of(plan, machine, profile), refine=False, chunks=None)
    if (
        not plan.mixed
        and not plan.staged
        and plan.search == "greedy"
        and len(plan.array) > 1
        and not plan.refined
        and not ask(recipe, graph)[0].leaves_no_choice
    ):
        best = joint_optimum(replace(recipe, stages=None), graph)
        if best is None:
            yield "the joint optimum is not cheap to know; --search joint finds it where its tables fit"
        elif best.cost.value < plan.cost.value:
            part = 1 - best.cost.value / plan.cost.value
            yield f"the joint optimum is {part:.2%} lower: {amount(best.cost.value, best.cost.unit)}"
        else:
            yield "the joint optimum is no lower"
    if plan.pins and not plan.refined:
        yield _pins_cost(plan, recipe, graph)
    fine = () if plan.mixed else finer_than_whole(plan, graph)
    if fine:
        more = f" and {len(fine) - 3} more" if len(fine) > 3 else ""
        yield f"cut into more pieces than elements, as the papers allow: {', '.join(fine[:3])}{more}"


def _pins_cost(plan: Plan, recipe: Recipe, graph: LayerGraph) -> str:
    """By how much the same without pins is cheaper, by the recorded solver where that is not exact; in stages faster."""
    if plan.stages is not None:
        solver = plan.stages.solver
    else:
        solver = None if load_solver(plan.solver).exact else plan.solver
    try:
        free = follow(replace(recipe, pins=(), solver=solver), graph)
    except TableLimitError:
        return "what the pins cost is not known: without them the search would not fit"
    except HardwareError:
        return "what the pins cost is not known: without them no stages fit"
    now, then, unit = plan.cost.value, free.cost.value, plan.cost.unit
    if plan.stages is not None and plan.score is not None and free.score is not None:
        now, then, unit = plan.score.time_s, free.score.time_s, "seconds"
    share = f" ({(now - then) / then:+.2%})" if then else ""
    word = "save" if now < then else "cost"
    return f"the pins {word} {amount(abs(now - then), unit)}{share}"


def joint_optimum(recipe: Recipe, graph: LayerGraph) -> Plan | None:
    """The same planned over all levels jointly; None where that is not cheap."""
    recipe = replace(recipe, search="joint", solver=None)
    question, _ = ask(recipe, graph)
    structure = question.structure(0, len(question.levels))
    tables = question.pick_solver(structure)[1].tables(structure)
    return follow(recipe, graph) if tables and tables.fit and tables.work <= CHEAP_ENTRIES else None


def finer_than_whole(plan: Plan, graph: LayerGraph) -> tuple[str, ...]:
    """Layers that are cut into more pieces along a dim than it has elements, as ``conv1 in_channels``."""
    found = []
    microbatches = 1 if plan.stages is None else plan.stages.microbatches
    for layer in graph.with_batch(graph.batch // microbatches).nodes(plan.graph).layers:
        pieces: dict[str, int] = {}
        for dim, degree in (pair for choice in plan.choices(layer.name) for pair in choice.degrees):
            pieces[dim] = pieces.get(dim, 1) * degree
        found += [f"{layer.name} {dim}" for dim, count in pieces.items() if count > layer.einsum.sizes[dim]]
    return tuple(found)
