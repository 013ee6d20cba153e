"""What a stored plan was asked for, in the fewest options."""

from __future__ import annotations

import shlex
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from hypar.costs.base import load_cost
from hypar.plan.records import of_score
from hypar.plan.request import GRAPHS, Request
from hypar.planning.checks.words import checked_microbatches, space_text
from hypar.planning.resolved import USUAL, asked_stages
from hypar.planning.strategies.base import load_strategy
from hypar.registry import data_names, plugin_names
from hypar.sharding.conventions import MOVED, PAPER
from hypar.sharding.placement import primes
from hypar.solve.solvers.base import load_solver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.plan.plan import Plan
    from hypar.plan.stages import StagesRecord


def asked_of(
    plan: Plan,
    *,
    batch: int | None = None,
    machine: Machine | None = None,
    profile: Profile | None = None,
) -> Request:
    """Return the shortest request that leads to a stored plan again.

    Args:
        plan: the plan.
        batch: the network's own mini-batch.
        machine: the machine of the plan's score.
        profile: the measured times of the plan's cost.
    """
    own = load_strategy(plan.strategy if plan.strategy in plugin_names("strategies") else USUAL)
    cost, parameters, stages = plan.cost.name, plan.cost.parameters, plan.stages
    usual = own.heterogeneous_cost if plan.uneven and own.heterogeneous_cost else own.cost
    papers = cost != usual and _as_papers(plan, own.convention)
    # A cost that is asked for without a strategy is counted by moved.
    convention = MOVED if plan.strategy == USUAL and cost != usual and not papers else own.convention
    shares = own.shares if load_cost(cost, {}).slowest else "equal"
    inexact = plan.solver in plugin_names("solvers") and not load_solver(plan.solver).exact
    levels, array = _levels_of(plan, machine)
    return Request(
        levels=levels,
        array=array,
        batch=_unless(plan.model.batch, batch),
        strategy=plan.strategy if papers else _unless(plan.strategy, USUAL),
        space=_unless(plan.space, space_text(own.space)),
        cost=_unless(cost, usual),
        convention=_convention_of(plan, convention),
        inter_weight=_unless(parameters.get("inter_weight"), 1),
        mode=_unless(parameters.get("mode"), "exact"),
        profile=profile or plan.profile,
        graph=_unless(plan.graph or GRAPHS[0], own.graph),
        search=_unless(plan.search, own.search),
        solver=(plan.solver if inexact else None) if stages is None else stages.solver,
        pins=tuple(plan.pins),
        hardware=machine,
        optimizer="sgd" if plan.score is None else plan.score.optimizer,
        shares=_unless(plan.shares, shares),
        refine=plan.refined is not None,
        chunks=None if plan.chunks is None else plan.chunks.asked,
        **({} if stages is None else _stages_of(stages, plan.model.batch)),
    )


def plan_command(plan: Plan, file: str, batch: int, machine: Machine | None) -> str:
    """Return the ``hypar plan`` that leads to a plan again.

    Args:
        plan: the plan.
        file: the file that it writes.
        batch: the network's own mini-batch.
        machine: the machine of the plan's score.
    """
    name = plan.model.name
    model = name if name in data_names("models") else f"{name}.yaml"
    options = asked_of(plan, batch=batch, machine=machine).command()
    return shlex.join(["hypar", "plan", model, *options, "-o", file])


def _unless(value: Any, usual: Any) -> Any:
    return None if value == usual else value


def _levels_of(plan: Plan, machine: Machine | None) -> tuple[int | None, tuple[int | str, ...] | None]:
    """Return the number of two-way levels, or the ways of levels that are not all two; None for the machine's own."""
    array: Sequence[int] | None = plan.array if plan.stages is None else plan.stages.array or plan.array
    if machine is not None and machine.groups:
        array = uneven_array(plan, machine)
    if array is None:
        return None, None
    if plan.stages is not None and plan.stages.outside:
        outside = plan.stages.outside
        return None, (*array[:outside], f"s{plan.stages.asked}", *array[outside:])
    return (len(array), None) if {*array} <= {2} else (None, tuple(array))


def uneven_array(plan: Plan, machine: Machine) -> tuple[int, ...] | None:
    """Return the levels of a plan for a heterogeneous machine; None if it uses all devices in the usual levels alone.

    Of stages on its device groups they are the levels inside each stage.
    """
    whole = {name: own.num_devices for name, own, _ in machine.leaves()}
    groups = [group for group in plan.groups if not group.idle]
    each = 1 if plan.stages is None else plan.stages.of_each_group
    nested = plan.stages is not None and plan.stages.outside
    if not nested and all(group.array == tuple(primes(whole[group.name] // each)) for group in groups):
        return None
    return (*(split.ways for split, _ in groups[0].above), *groups[0].array)


def _as_papers(plan: Plan, own: str) -> bool:
    """Return whether a plan's cost counts as the strategy's paper does, and its score what moves."""
    scored = plan.score is not None and plan.score.convention == of_score(own)
    return own == PAPER and plan.convention == PAPER and scored and not plan.uneven


def _convention_of(plan: Plan, own: str) -> str | None:
    """Return the convention to ask for; None if the strategy's own, or no single one, leads to the plan."""
    if plan.uneven or "convention" not in {item.name for item in fields(load_cost(plan.cost.name, {}))}:  # type: ignore[arg-type]
        return None
    cost = plan.convention
    score = of_score(own) if plan.score is None else plan.score.convention
    return None if (cost, score) == (own, of_score(own)) else cost


def _stages_of(stages: StagesRecord, batch: int) -> dict[str, Any]:
    """Return the options of stages that differ from the usual ones."""
    microbatches = checked_microbatches(None, stages.schedule, batch, len(stages.stages))
    usual = {"schedule": "1f1b", "parts": 2, "starts": (), "microbatches": microbatches}
    asked = asked_stages(stages) | {"balance": stages.balance}
    if stages.asked_microbatches is not None:
        del usual["microbatches"]
    if asked.pop("outside"):
        del asked["stages"]
    return {name: _unless(own, usual.get(name)) for name, own in asked.items()}
