"""Whether a stored plan still is what planning gives: for CI jobs that fail when a plan drifts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hypar.errors import PlanError, UnknownNameError
from hypar.graph import load_model
from hypar.plan import Change, diff_plans, read_plan
from hypar.planner import Recipe, follow

if TYPE_CHECKING:
    from hypar.graph import LayerGraph
    from hypar.plan import Plan


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

    Args:
        file: the plan file.
        model: the model file, if it is not found by the plan's model name: beside the plan, in the current
            folder or its ``models/``, or among the models that hypar brings.

    Raises:
        InputError: the plan or its model cannot be read.
    """
    stored = read_plan(file)
    graph = _model_of(stored, Path(file), model).with_batch(stored.model.batch)
    fresh = follow(Recipe.of(stored), graph)
    changes = diff_plans(stored, fresh)
    if not changes and stored.claim != fresh.claim:
        changes = (Change(layer="", level=None, before=stored.claim, after=fresh.claim, what="claim"),)
    return Verdict(model_changed=graph.digest != stored.model.digest, changes=changes, fresh=fresh)


def _model_of(plan: Plan, file: Path, model: str | Path | None) -> LayerGraph:
    """The network that a plan is for."""
    if model is not None:
        return load_model(model)
    name = f"{plan.model.name}.yaml"
    for folder in (file.parent, Path(), Path("models")):
        if (folder / name).is_file():
            return load_model(folder / name)
    try:
        return load_model(plan.model.name)
    except UnknownNameError:
        raise PlanError(
            f"{file}: model.name", f"no model {plan.model.name!r}", hint="name its file with --model"
        ) from None
