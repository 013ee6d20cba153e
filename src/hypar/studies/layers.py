"""Each phase of each layer of a plan's step, on one device: time, energy, accesses, mapping and transfers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.machine.energy import phase_energy
from hypar.network.training import PHASES
from hypar.planning.replay import run_plan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import LayerTime, Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.planning.replay import ScoredStep

Rows = list[dict[str, Any]]


def score_layers(
    plan: Plan | str | Path,
    *,
    hardware: Machine | HeterogeneousMachine | str | Path | None = None,
    model: LayerGraph | str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    convention: str | None = None,
) -> Rows:
    """Score a plan layer by layer; arguments and errors as in ``score_plan``.

    Returns:
        For each phase of each layer on a device a dict: ``layer``, ``phase``; ``time_s`` of computation, ``macs``,
        ``accesses`` to each memory in words, the ``mapping`` of a compute model that searches one, ``energy`` in joules by
        component, 0 where the machine's file gives none; ``transfers``, each with its ``level`` from 0, its
        ``collective``, ``time_s`` and the ``bytes`` that all devices receive, and ``communication_s``, their sum. Joins and
        pools have transfers alone. On a heterogeneous machine each row names its ``group``.

    Examples:
        >>> import hypar
        >>> rows = score_layers(hypar.plan_model("lenet-c", levels=1, hardware="hmc"))
        >>> sum(each["bytes"] for row in rows if row["phase"] == "gradient" for each in row["transfers"])
        204000.0
    """
    return layers_of(run_plan(plan, hardware=hardware, model=model, changes=changes, convention=convention))


def layers_of(ran: ScoredStep) -> Rows:
    """Return the rows of ``score_layers`` for a step that was run."""
    step, groups = ran.step, ran.score.groups
    sent: dict[tuple[int, int, str], Rows] = {}
    for task, layer, move, lanes in zip(step.tasks, step.layers, step.moves, step.lanes, strict=True):
        if move is not None:
            own = {"level": move.level, "collective": move.collective, "time_s": task.seconds}
            for lane in lanes:
                sent.setdefault((lane, layer, move.phase), []).append({**own, "bytes": move.total_bytes})
    found = []
    for lane, work in enumerate(step.work):
        machine, group = ran.lanes[lane].setting.machine, {"group": groups[lane].group} if groups else {}
        for number, (layer_name, time) in enumerate(zip(ran.plan.layers, work.times, strict=True)):
            for row in phases_of(layer_name, time, machine):
                moved = sent.get((lane, number, row["phase"]), [])
                spent = sum(each["time_s"] for each in moved)
                found.append({**group, **row, "communication_s": spent, "transfers": moved})
    return found


def phases_of(layer: str, time: LayerTime | None, machine: Machine) -> Rows:
    """Return the three phases of a layer; a join has names alone, as it computes nothing."""
    if time is None:
        return [{"layer": layer, "phase": phase} for phase in PHASES]
    return [
        {
            "layer": layer,
            "phase": phase,
            "time_s": time.seconds[phase],
            "macs": time.macs,
            "accesses": dict(time.work[phase].accesses),
            "mapping": dict(time.work[phase].mapping),
            "energy": phase_energy(machine, time, phase),
        }
        for phase in PHASES
    ]
