"""Each phase of each layer of a plan's step, on one device: time, energy, accesses, mapping and transfers."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
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
        For each phase of each layer on a device: ``time_s`` of computation, ``macs``, ``accesses`` to each memory in words,
        the ``mapping`` that a compute model searches, ``energy`` in joules by component, the ``transfers``, and their seconds
        ``communication_s``. A transfer has its ``level`` from 0, ``collective``, ``time_s``, and the ``bytes`` that all devices
        receive. Joins and pools have transfers alone; on a heterogeneous machine each row names its ``group``.

    Examples:
        >>> import hypar
        >>> rows = score_layers(hypar.plan_model("lenet-c", levels=1, hardware="hmc"))
        >>> sum(each["bytes"] for row in rows if row["phase"] == "gradient" for each in row["transfers"])
        204000.0
    """
    return layers_of(run_plan(plan, hardware=hardware, model=model, changes=changes, convention=convention))


def layers_of(ran: ScoredStep) -> Rows:
    """Return the rows of ``score_layers`` for a step that was run."""
    step, found = ran.step, []
    sent = defaultdict[tuple[int, int, str], Rows](list)
    for task, layer, move, lanes in zip(step.tasks, step.layers, step.moves, step.lanes, strict=True):
        if move is not None:
            own = {"level": move.level, "collective": move.collective, "time_s": task.seconds}
            for lane in lanes:
                sent[lane, layer, move.phase].append({**own, "bytes": move.total_bytes})
    names = [{"group": own.group} for own in ran.score.groups or ()] or [{}]
    for lane, (work, group) in enumerate(zip(step.work, names, strict=True)):
        machine = ran.lanes[lane].setting.machine
        for (layer, time), phase in product(enumerate(work.times), PHASES):
            own = {} if time is None else phase_of(phase, time, machine)
            moved = sent[lane, layer, phase]
            own |= {"communication_s": sum(each["time_s"] for each in moved), "transfers": moved}
            found.append({**group, "layer": ran.plan.layers[layer], "phase": phase, **own})
    return found


def phase_of(phase: str, time: LayerTime, machine: Machine) -> dict[str, Any]:
    """Return what a phase of a layer takes on a device."""
    return {
        "time_s": time.seconds[phase],
        "macs": time.macs,
        "accesses": dict(time.work[phase].accesses),
        "mapping": dict(time.work[phase].mapping),
        "energy": phase_energy(machine, time, phase),
    }
