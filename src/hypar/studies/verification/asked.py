"""What is to be verified: the plan, its network, and the conventions of its count and of its program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hypar.costs.base import convention_of, load_cost
from hypar.errors import InputError, OptionError, PlanError, UnknownNameError
from hypar.plan.plan import Plan, read_plan
from hypar.plan.stages import FLUSHES
from hypar.planning.replay import choices_of
from hypar.planning.sources import as_planned, machine_of, network_of, scored_on, times_of
from hypar.sharding.conventions import CONVENTIONS, DIRECT, FUSED, MOVED, PAPER
from hypar.studies.verification.shrink import shrunk

if TYPE_CHECKING:
    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.graph import LayerGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be verified.

    Attributes:
        plan: the plan.
        file: its file.
        graph: its network.
        machine: the machine of its score; None without a score.
        profile: the measured times of its cost; None without any.
        planned_by: the convention of its count.
        run_by: the convention of its program.
    """

    plan: Plan
    file: Path
    graph: LayerGraph
    machine: Machine | HeterogeneousMachine | None
    profile: Profile | None
    planned_by: str
    run_by: str

    @property
    def microbatches(self) -> int:
        """The number of microbatches of a mini-batch."""
        return self.plan.stages.microbatches if self.plan.stages is not None and self.plan.staged else 1

    def sized(self, batch: int | None, *, shrink: bool) -> LayerGraph:
        """Return the network that is run.

        Raises:
            OptionError: the mini-batch does not divide into the plan's microbatches.
        """
        own = self.graph if batch is None else self.graph.with_batch(batch)
        if own.batch % self.microbatches:
            allowed = f"a multiple of the plan's {self.microbatches} microbatches"
            raise OptionError("batch", f"found {own.batch:,}", allowed)
        return shrunk(self.plan, self.graph, self.microbatches, batch) if shrink else own


def ask(
    given: Plan | str | Path,
    model: LayerGraph | str | Path | None,
    hardware: str | Path | None,
    convention: str | None,
) -> Asked:
    """Read what is to be verified, and refuse what cannot be.

    Raises:
        InputError: a file cannot be read, the plan is for another network, or its weights would be stale.
    """
    if convention is not None and convention not in CONVENTIONS:
        raise UnknownNameError("convention", str(convention), CONVENTIONS)
    file = Path("plan") if isinstance(given, Plan) else Path(given)
    plan = given if isinstance(given, Plan) else read_plan(given)
    graph = as_planned(plan, network_of(plan, model), file)
    if plan.stages is not None and plan.staged and not FLUSHES[plan.stages.schedule]:
        flushing = ", ".join(name for name, flushes in FLUSHES.items() if flushes)
        found = f"found {plan.stages.schedule!r}, whose weights are stale: no step equals one device's"
        raise PlanError(f"{file}: stages.schedule", found, f"a schedule that flushes: {flushing}")
    choices_of(plan, graph, file)
    own = _convention(plan, file)
    run_by = convention or own
    return Asked(
        plan=plan,
        file=file,
        graph=graph,
        machine=scored_on(plan) if hardware is None else machine_of(plan, file, hardware),
        profile=times_of(plan),
        planned_by=PAPER if convention == PAPER else own,
        run_by=run_by if run_by in {FUSED, DIRECT} else MOVED,
    )


def _convention(plan: Plan, file: Path) -> str:
    """Return the convention of a plan's cost.

    Raises:
        PlanError: the cost is unknown, or does not take the plan's parameters.
    """
    try:
        context = {"convention": plan.convention or PAPER}
        return convention_of(load_cost(plan.cost.name, plan.cost.parameters, context))
    except InputError as error:
        raise PlanError(f"{file}: cost", error.found, error.allowed, error.hint) from None
