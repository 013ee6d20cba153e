"""Whether a stored plan still is what planning gives: for CI jobs that fail when a plan drifts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hypar.errors import InputError, PlanError, ProblemError, TableLimitError
from hypar.plan.diff import Change, changes_between
from hypar.plan.plan import read_plan
from hypar.planning.planner import follow
from hypar.planning.request import Recipe
from hypar.planning.sources import machine_of, model_of, profile_of

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan

FREE = (
    "arrays.*",
    "chunks",
    "chunks.asked",
    "cost.name",
    "cost.parameters.*",
    "graph",
    "model.batch",
    "model.name",
    "pins",
    "pins.*",
    "profile.name",
    "score",
    "score.hardware",
    "score.hardware_changes.*",
    "search",
    "solver",
    "space",
    "stages.array",
    "stages.schedule",
    "stages.solver",
    "strategy",
)
"""Places of a plan file, ``*`` for any key, that may say something else and the file still be what planning gives.

All of them say what was asked for, which ``check`` follows: see ``docs/plans.md``. A change of another place is seen.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What re-planning a stored plan showed.

    Attributes:
        model_changed: whether the network is another than the one that was planned.
        changes: every place where the stored plan's file and the new one's differ.
        fresh: the new plan.
    """

    model_changed: bool
    changes: tuple[Change, ...]
    fresh: Plan

    @property
    def ok(self) -> bool:
        """Whether nothing drifted."""
        return not (self.model_changed or self.changes)


def check_plan(
    file: str | Path,
    *,
    model: str | Path | None = None,
    hardware: str | Path | None = None,
    profile: str | Path | None = None,
) -> Verdict:
    """Plan again what a stored plan asks for, and compare all that the file says with all that it would say now.

    Where the model has changed so that the recorded solver no longer suits it, the cheapest exact one is
    taken: what drifted is then shown all the same.

    Args:
        file: the plan file.
        model: the model file, if it is not found by the plan's model name: beside the plan, in the current
            folder or its ``models/``, or among the models that hypar brings.
        hardware: the hardware file of the plan's score, if it is not found likewise.
        profile: the measured times that the plan's cost counted, if they are not found beside it or here.

    Raises:
        InputError: the plan or its model cannot be read.
    """
    stored = read_plan(file)
    graph = model_of(stored, Path(file), model)
    machine = machine_of(stored, Path(file), hardware)
    recipe = Recipe.of(stored, machine, profile_of(stored, Path(file), profile))
    changed = graph.digest != stored.model.digest
    try:
        fresh = _followed(recipe, graph.with_batch(stored.model.batch), changed=changed)
    except InputError as error:
        where = f"{file}: {error.where}" if error.where else str(file)
        raise PlanError(where, error.found, error.allowed, error.hint) from None
    return Verdict(model_changed=changed, changes=changes_between(stored, fresh), fresh=fresh)


def _followed(recipe: Recipe, graph: LayerGraph, *, changed: bool) -> Plan:
    """What planning gives today, by another solver where a changed model no longer suits the recorded one."""
    try:
        return follow(recipe, graph)
    except (ProblemError, TableLimitError):
        if not changed:
            raise
        return follow(replace(recipe, solver=None), graph)
