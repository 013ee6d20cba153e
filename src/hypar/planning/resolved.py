"""A request with nothing left open: what planning decides by, and what a stored plan was asked for, in the fewest options."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from hypar.costs.base import load_cost
from hypar.plan.records import of_score
from hypar.plan.request import BEST, GRAPHS, Request, checked
from hypar.planning.checked import checked_microbatches, space_text
from hypar.planning.strategies.base import load_strategy
from hypar.registry import data_names, plugin_names
from hypar.sharding.conventions import FUSED, MOVED, PAPER
from hypar.sharding.placement import primes
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.solve.limits import UNLIMITED, Limits
from hypar.solve.solvers.base import load_solver

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.records import Asked, Operators
    from hypar.plan.stages import StagesRecord


USUAL = "hypar"
"""The strategy where none is named."""

BASELINE = "dp"
"""The strategy that others are compared with."""

FIXED = ("dp", "owt")
"""Strategies that decide without a search: what practitioners do by default."""

BASELINES = (*FIXED, "hypar", "accpar")
"""The strategies that compete with a search for least time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """All inputs of a plan except the network; a plan records them.

    An attribute that is not described here is the option of ``Request`` of the same name.

    Attributes:
        space: the allowed choices, as text.
        parameters: parameters of the cost to set; others keep their defaults.
        graph: ``operators`` to plan pools too; None for weighted layers and joins only.
        arrays: ways of each level, outermost first, inside each group of identical devices by its name: ``all`` where
            there is one group.
        machine: the machine, a tree of device groups or a group of identical devices; None if no hardware is named.
        outside: number of levels and uneven splits outside the stages.
        baselines: strategies that the engine times beside the search's plan; the fastest is taken.
        beyond_space: whether they may have choices outside the space, as no space was requested.
        convention: the convention by which the cost counts bytes.
        counted: the convention by which the engine and the score count them.
        limits: the limits of a joint search.
    """

    strategy: str
    space: str
    cost: str
    parameters: Mapping[str, float | str]
    search: str
    solver: str | None
    arrays: Mapping[str, tuple[int, ...]]
    pins: tuple[str, ...]
    graph: Operators | None = None
    machine: Machine | None = None
    optimizer: str = "sgd"
    profile: Profile | None = None
    refine: bool = False
    shares: str = "equal"
    stages: int | str | None = None
    schedule: str = "1f1b"
    parts: int | None = None
    microbatches: int | None = None
    balance: str = "time"
    starts: tuple[str, ...] = ()
    outside: int = 0
    chunks: Asked | None = None
    baselines: tuple[str, ...] = ()
    beyond_space: bool = False
    convention: str = PAPER
    counted: str = PAPER
    limits: Limits = UNLIMITED

    @property
    def heterogeneous(self) -> Machine | None:
        """The machine if it has several groups; None on identical devices."""
        return self.machine if self.machine is not None and self.machine.groups else None

    @property
    def identical(self) -> Machine | None:
        """The machine if all its devices are identical; None on several groups, and if no hardware is named."""
        return None if self.machine is None or self.machine.groups else self.machine

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines of all groups of identical devices; empty if no hardware is named."""
        return () if self.machine is None else tuple(machine for _, machine, _ in self.machine.leaves())

    @property
    def array(self) -> tuple[int, ...]:
        """The ways of each level of identical devices; empty on several groups."""
        return self.arrays.get(WHOLE_ARRAY, ())

    @property
    def levels(self) -> int:
        """The largest number of uneven splits and levels above a device."""
        if self.machine is None:
            return len(self.array)
        return max(depth + len(self.arrays.get(name, ())) for name, _, depth in self.machine.leaves())

    def over(self, array: Sequence[int]) -> Resolved:
        """Return the request with the ways of each level of identical devices replaced."""
        return replace(self, arrays={WHOLE_ARRAY: tuple(array)})

    def as_planned(self, plan: Plan) -> Resolved:
        """Return the request with the levels that a plan has, inside its stages if it has any."""
        if plan.arrays is None:
            return self.over(plan.array)
        return replace(self, arrays={name: tuple(array) for name, array in plan.arrays.items()})

    def on(self, machine: Machine, name: str = WHOLE_ARRAY) -> Resolved:
        """Return the request for a node of the machine alone.

        Args:
            machine: the devices of the node.
            name: the name of their group.
        """
        if not machine.groups:
            return replace(self, machine=machine, arrays={WHOLE_ARRAY: self.arrays[name]})
        return replace(
            self, machine=machine, arrays={own: self.arrays[own] for own, _, _ in machine.leaves()}
        )

    def network(self, graph: LayerGraph) -> LayerGraph:
        """Return the network that it plans: with tensors at rest, if cost and score count what a correct execution moves."""
        return graph.at_rest if {self.convention, self.counted} <= {MOVED, FUSED} else graph.without_rests

    @property
    def uneven(self) -> bool:
        """Whether there are uneven splits: on a heterogeneous machine, but where each stage is on identical devices."""
        staged = self.stages not in {None, BEST} and not self.outside
        return self.heterogeneous is not None and (not staged or self.heterogeneous.nested)

    @classmethod
    def of(cls, plan: Plan, machine: Machine | None = None, profile: Profile | None = None) -> Resolved:
        """Rebuild the request of a stored plan.

        Args:
            plan: the plan.
            machine: the machine of the plan's score.
            profile: the measured times of the plan's cost.

        Raises:
            InputError: its cost, or its rule for shares, is unknown.
        """
        return cls(
            strategy=plan.strategy,
            space=plan.space,
            cost=plan.cost.name,
            parameters=plan.cost.parameters,
            search=plan.search,
            solver=plan.solver if plan.stages is None else plan.stages.solver,
            arrays=arrays_of(plan),
            pins=tuple(plan.pins),
            graph=plan.graph,
            machine=machine,
            shares="equal" if plan.shares is None else checked("shares", plan.shares),
            profile=profile,
            optimizer="sgd" if plan.score is None else plan.score.optimizer,
            refine=plan.refined is not None,
            chunks=None if plan.chunks is None else plan.chunks.asked,
            # The recorded baselines are the ones that competed.
            baselines=() if plan.baselines is None else plan.baselines.names,
            beyond_space=plan.baselines is not None,
            convention=plan.convention,
            counted=plan.convention if plan.score is None else plan.score.convention,
            # A search that no limit kept from anything takes the same way without one.
            limits=UNLIMITED if plan.limits is None else Limits(plan.limits.seconds, plan.limits.bytes),
            **({} if plan.stages is None else asked_stages(plan.stages)),
        )


def asked_stages(stages: StagesRecord) -> dict[str, Any]:
    """Return the options of stages, and how many levels are outside, that lead to the stages of a stored plan."""
    return {
        "stages": stages.asked,
        "schedule": stages.schedule,
        "parts": stages.parts,
        "microbatches": stages.asked_microbatches if stages.asked == BEST else stages.microbatches,
        "balance": stages.balance or "time",
        "starts": tuple(layers[0] for _, layers in stages.spans) if stages.starts else (),
        "outside": stages.outside or 0,
    }


def arrays_of(plan: Plan) -> dict[str, tuple[int, ...]]:
    """Return the requested ways of each level inside each group of identical devices of a stored plan."""
    if plan.stages is not None and plan.stages.arrays is not None:
        return {name: tuple(array) for name, array in plan.stages.arrays.items()}
    if plan.arrays is not None:
        return {name: tuple(array) for name, array in plan.arrays.items()}
    return {WHOLE_ARRAY: tuple(plan.array if plan.stages is None else plan.stages.array or plan.array)}


def of_baseline(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for the plan of the baseline beside plans with other arguments.

    The baseline keeps its own space and equal shares, by which it is the baseline, and measured times and a mode count
    where its cost has them; it has everything else alike.
    """
    cost = given.get("cost")
    counted = load_cost(load_strategy(BASELINE).cost if cost is None else cost, {})
    has = {item.name for item in fields(counted)}  # type: ignore[arg-type]
    left_out = {"space", "shares"} | ({"profile", "mode"} - has)
    return {name: value for name, value in given.items() if name not in left_out}


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
