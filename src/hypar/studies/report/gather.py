"""Gather what a report of a plan shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.errors import OptionError
from hypar.machine.load_heterogeneous import as_hardware
from hypar.plan.plan import read_plan
from hypar.plan.records import of_score
from hypar.plan.request import checked
from hypar.planning.asked import plan_command
from hypar.planning.replay import run_plan
from hypar.planning.sources import as_planned, machine_of, model_of, profile_of
from hypar.sharding.conventions import PAPER
from hypar.studies.notes import notes
from hypar.studies.report.memory import memory_uses
from hypar.studies.report.strategies import rivals_of
from hypar.studies.report.tasks import lane_names, step_tasks
from hypar.studies.report.uses import layer_uses, level_uses
from hypar.studies.report.why import why_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.plan.stages import StagesRecord
    from hypar.planning.replay import ScoredStep
    from hypar.studies.report.memory import MemoryUse
    from hypar.studies.report.strategies import Rivals
    from hypar.studies.report.tasks import StepTask
    from hypar.studies.report.uses import LayerUse, LevelUse
    from hypar.studies.report.why import Why


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUse:
    """A step that was run on a machine, with its parts.

    Attributes:
        score: its totals.
        stages: the stages, as run; None without stages.
        lanes: names of the groups of identical devices, or of the stages.
        tasks: its tasks.
        layers: the part of each layer.
        levels: the part of each level.
        memory: the memory of a device of each group over the step; empty with stages.
    """

    score: Score
    stages: StagesRecord | None
    lanes: tuple[str, ...]
    tasks: tuple[StepTask, ...]
    layers: tuple[LayerUse, ...]
    levels: tuple[LevelUse, ...]
    memory: tuple[MemoryUse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """All that a report of a plan shows.

    Attributes:
        plan: the plan.
        file: name of its file.
        command: the command that leads to it again.
        options: the options of the report, as words of a command.
        machine: the machine; None if none is named.
        step: its step on the machine; None without a machine.
        rivals: the strategies beside it.
        why: the alternatives of its layers.
        notes: the lines that ``hypar plan`` prints below it.
    """

    plan: Plan
    file: str
    command: str
    options: tuple[str, ...]
    machine: Machine | HeterogeneousMachine | None
    step: StepUse | None
    rivals: Rivals
    why: Why
    notes: tuple[str, ...]

    @property
    def score(self) -> Score | None:
        """Return the score of the step."""
        return None if self.step is None else self.step.score


def gather_report(
    file: str | Path,
    *,
    hardware: str | Path | None = None,
    model: str | Path | None = None,
    profile: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    convention: str | None = None,
) -> Gathered:
    """Run a stored plan, compare it with other strategies, and explain it.

    Args:
        file: the plan file.
        hardware: a machine, if not the one of the plan's score.
        model: the model file, if the plan's model name does not find it.
        profile: the measured times that the plan's cost counted, if they are not found beside it.
        changes: changes to the machine.
        convention: how bytes are counted: ``paper``, ``moved`` or ``fused``; if it is not given, as ``score_plan`` does.

    Raises:
        InputError: a file cannot be read, or the plan is for another network or does not fit the machine.
    """
    path = Path(file)
    plan = read_plan(path)
    graph = model_of(plan, path, model)
    sized = as_planned(plan, graph, path)
    machine = (
        machine_of(plan, path, changes=changes) if hardware is None else as_hardware(hardware, changes or {})
    )
    step = None
    if machine is None and changes:
        raise OptionError("--set", "no machine is named", "one, as --hardware hmc")
    if machine is not None:
        step = _step(run_plan(plan, hardware=machine, model=sized, convention=convention))
    score = None if step is None else step.score
    measured = profile_of(plan, path, profile)
    named = {"hardware": hardware, "model": model, "profile": profile, "convention": convention}
    words = [word for name, file in named.items() if file is not None for word in (f"--{name}", str(file))]
    return Gathered(
        plan=plan,
        file=path.name,
        command=plan_command(plan, path.name, graph.batch, machine),
        options=(
            *words,
            *(word for name, value in (changes or {}).items() for word in ("--set", f"{name}={value}")),
        ),
        machine=machine,
        step=step,
        rivals=rivals_of(plan, sized, machine, score, _convention(plan, score, convention)),
        why=why_of(plan, sized, machine, measured),
        notes=tuple(notes(plan, sized, machine, measured)),
    )


def _convention(plan: Plan, score: Score | None, asked: str | None) -> str | None:
    """Return the convention by which a plan and other strategies are counted; None on a heterogeneous machine."""
    if plan.heterogeneous:
        return None
    if score is not None:
        return score.convention or PAPER
    return of_score(plan.convention or PAPER) if asked is None else checked("convention", asked)


def _step(ran: ScoredStep) -> StepUse:
    tasks = step_tasks(ran)
    return StepUse(
        score=ran.score,
        stages=ran.stages,
        lanes=lane_names(ran),
        tasks=tasks,
        layers=layer_uses(ran, tasks),
        levels=level_uses(ran, tasks),
        memory=memory_uses(ran, tasks),
    )
