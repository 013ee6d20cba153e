"""Whether a stored plan still is what planning gives: for CI jobs that fail when a plan drifts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hypar.diff import Change, diff_plans
from hypar.errors import InputError, PlanError, ProblemError, TableLimitError
from hypar.graph import load_model
from hypar.plan import read_plan
from hypar.planner import Recipe, follow
from hypar.quoting import shown
from hypar.registry import data_names

if TYPE_CHECKING:
    from hypar.graph import LayerGraph
    from hypar.plan import Plan


LONGEST_NAME = 200
"""Characters of a model's name, so that with its ending it is a file's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What re-planning a stored plan showed.

    Attributes:
        model_changed: whether the network is another than the one that was planned.
        changes: where the stored plan and the new one differ.
        fresh: the new plan.
    """

    model_changed: bool
    changes: tuple[Change, ...]
    fresh: Plan

    @property
    def ok(self) -> bool:
        """Whether nothing drifted."""
        return not (self.model_changed or self.changes)


def check_plan(file: str | Path, *, model: str | Path | None = None) -> Verdict:
    """Plan again what a stored plan records, and compare.

    Where the model has changed so that the recorded solver no longer suits it, the cheapest exact one is
    taken: what drifted is then shown all the same.

    Args:
        file: the plan file.
        model: the model file, if it is not found by the plan's model name: beside the plan, in the current
            folder or its ``models/``, or among the models that hypar brings.

    Raises:
        InputError: the plan or its model cannot be read.
    """
    stored = read_plan(file)
    graph = _model_of(stored, Path(file), model)
    changed = graph.digest != stored.model.digest
    try:
        fresh = _followed(stored, graph, changed=changed)
        changes = diff_plans(stored, fresh)
    except InputError as error:
        raise PlanError(f"{file}: {error.where}", error.found, error.allowed, error.hint) from None
    return Verdict(model_changed=changed, changes=changes, fresh=fresh)


def _followed(stored: Plan, graph: LayerGraph, *, changed: bool) -> Plan:
    """What planning gives today, by another solver where a changed model no longer suits the recorded one."""
    recipe, graph = Recipe.of(stored), graph.with_batch(stored.model.batch)
    try:
        return follow(recipe, graph)
    except (ProblemError, TableLimitError):
        if not changed:
            raise
        return follow(replace(recipe, solver=None), graph)


def _model_of(plan: Plan, file: Path, model: str | Path | None) -> LayerGraph:
    """The network that a plan is for."""
    name = plan.model.name
    if model is not None:
        graph = load_model(model)
        if graph.name != name:
            raise PlanError(f"{file}: model.name", f"found {shown(name)}", f"{graph.name!r}, as --model says")
        return graph
    looked = "looked beside the plan, here, in models/ and among hypar's own; name its file with --model"
    unknown = PlanError(f"{file}: model.name", f"no model {shown(name)}", hint=looked)
    if len(name) > LONGEST_NAME or set(name) & {"/", "\\", "\0"}:
        raise unknown
    for folder in (file.parent, Path(), Path("models")):
        for ending in (".yaml", ".yml"):
            beside = folder / f"{name}{ending}"
            if beside.is_file():
                return load_model(beside)
    if name not in data_names("models"):
        raise unknown
    return load_model(name)
