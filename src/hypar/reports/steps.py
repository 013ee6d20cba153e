"""What a training step takes, in the notes and tables that documents of plans and of scores share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Note, Table
from hypar.plan.stages import stage_name, stage_of
from hypar.planning.counting import score_convention
from hypar.reports.words import against, fit, items, on_machine, tone_of
from hypar.sharding.conventions import MOVED
from hypar.units import format_bytes, format_joules, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hypar.plan.plan import Plan
    from hypar.plan.score import GroupScore, Score
    from hypar.plan.stages import StagesRecord
    from hypar.planning.replay import ScoredStep


def headed(name: str, score: Score, base: Score | None = None) -> str:
    """Return the answer in a line: the time of a step, whether it fits, and how it compares with dp.

    Args:
        name: the network; empty if it is not known.
        score: the score.
        base: the score of dp on the same machine, if it is known.
    """
    where = on_machine(score)
    subject = f"{name} {where}" if name else where.removeprefix("on ")
    parts = [f"{format_seconds(score.time_s)} a step", fit(score)]
    parts.append("" if base is None else against("dp", base, score))
    return f"{subject}: {', '.join(filter(None, parts))}"


def step_notes(plan: Plan | None, score: Score, ran: ScoredStep | None = None) -> Iterator[Note]:
    """Yield the totals of a step with the items of each.

    Args:
        plan: the plan; None if it is not known.
        score: its score.
        ran: its step, for the share of the peak that it uses.
    """
    overlap = ""
    if score.overlapped_s:
        added = format_seconds(math.fsum(score.time.values()))
        overlap = f"; together {added}, of which {format_seconds(score.overlapped_s)} overlap"
    yield Note(
        "time", f"{format_seconds(score.time_s)}: {items(score.time, 'seconds')}{overlap}{_peak_share(ran)}"
    )
    if score.overlapped_s:
        yield Note(
            "critical", f"the path that sets the time: {items(score.critical, 'seconds')}", detail=True
        )
    moved = f"{format_bytes(score.communication_bytes)} received"
    convention = MOVED if plan is None else score_convention(plan, score)
    counted = "" if convention == MOVED else f" by the convention {convention!r}"
    yield Note("bytes", f"{moved}{counted}: {items(score.communication, 'bytes')}")
    energy = "not known: the machine's file gives none"
    if score.energy_j is not None:
        energy = format_joules(score.energy_j) + (
            f": {items(score.energy, 'joules')}" if score.energy else ""
        )
    yield Note("energy", energy)
    of = "" if score.capacity_bytes is None else f" of {format_bytes(score.capacity_bytes)}"
    held = f"{format_bytes(score.memory_bytes)}{of} on {'the fullest' if score.groups else 'each'} device"
    yield Note("memory", f"{held}: {items(score.memory, 'bytes')} ({score.optimizer})")
    if score.element_bytes != score.word_bytes:
        sizes = f"{score.element_bytes} B each in the network, {score.word_bytes:g} B on {score.hardware}"
        yield Note("numbers", f"{sizes}, whose speed and energy are those of its own", detail=True)


def _peak_share(ran: ScoredStep | None) -> str:
    """Return the model FLOP utilisation: the FLOP of all phases of the weighted layers over those at the devices' peak."""
    machine = None if ran is None or ran.plan.heterogeneous else ran.lanes[0].setting.machine
    if ran is None or machine is None or machine.measured is not None or not ran.score.time_s:
        return ""
    units = machine.content.assumptions.units_per_device.value
    flop = math.fsum(layer.einsum.step_flop for layer in ran.graph.contracted.layers)
    done = ran.score.time_s * ran.plan.num_devices * machine.compute.flop_per_s(units)
    return f"; {100 * flop / done:.2g}% of the peak FLOP/s used"


_UNITS = {
    "group": "text", "stage": "whole", "layers": "text", "devices": "whole", "computes": "seconds", "receives": "seconds",
    "idle": "seconds", "in flight": "whole", "staleness": "whole", "memory": "bytes", "of": "bytes", "": "text",
}  # fmt: skip
"""The columns of groups and stages; those that say one thing of all rows are left out."""

_CHUNK_UNITS = {
    "chunk": "whole", "layers": "text", "gradients": "bytes", "ready": "seconds", "begins": "seconds", "ends": "seconds", "": "text",
}  # fmt: skip


def _table(units: Mapping[str, str], rows: Sequence[dict[str, Any]]) -> Table:
    """Return a table of columns that are given as the unit by the head."""
    columns = (Column(key=head, unit=unit, prose=head == "layers") for head, unit in units.items())
    return Table(tuple(columns), [*rows])


def groups_table(score: Score | None, stages: StagesRecord | None = None) -> list[Table]:
    """Return a row for each group of devices, or for each stage; no table for identical devices without stages."""
    if score is None or not score.groups:
        return []
    rows = [_group_row(group, stages) for group in score.groups]
    alike = [key for key in ("devices", "staleness", "of") if len({row.get(key) for row in rows}) == 1]
    return [_table(_UNITS, [{**row, **dict.fromkeys(alike)} for row in rows])]


def _group_row(group: GroupScore, stages: StagesRecord | None) -> dict[str, Any]:
    tone = tone_of(group)
    row = {
        "devices": group.devices,
        "computes": group.computing_s,
        "receives": group.communicating_s,
        "idle": group.idle_s,
        "memory": group.memory_bytes,
        "of": group.capacity_bytes,
        "": "" if group.fits else "does not fit",
        "tone": "" if tone == "good" else tone,
    }
    if stages is None or not stages.pipelined:
        return {"group": group.group, **row}
    at = stage_of(group.group)
    stage, own = stages.stages[at], group.group.removeprefix(stage_name(at)).strip()
    row |= {"stage": at + 1, "layers": stage.ends, "in flight": stage.in_flight, "staleness": stage.staleness}
    return row | {"devices": f"{group.devices} {own or stage.group or ''}".rstrip()}


def chunks_table(ran: ScoredStep | None) -> list[Table]:
    """Return the exchange of each chunk of gradients; no table without chunks."""
    if ran is None or ran.plan.chunks is None:
        return []
    from hypar.studies.step import StepRows  # noqa: PLC0415 (only of a plan with chunks)

    rows = []
    for row in StepRows(ran).chunks:
        layers, waits = row["layers"], "critical" if row["critical"] else ""
        named = " to ".join(dict.fromkeys((layers[0], layers[-1]))) + f" x{len(layers)}" * (len(layers) > 1)
        times = (row[key] for key in ("bytes", "ready_s", "start_s", "end_s"))
        rows.append(dict(zip(_CHUNK_UNITS, (row["chunk"], named, *times, waits), strict=True)))
    return [_table(_CHUNK_UNITS, rows)] if rows else []


def stages_memory(ran: ScoredStep | None) -> list[Table]:
    """Return what a device of each stage holds and receives from other stages; no table without stages."""
    if ran is None or ran.stages is None:
        return []
    from hypar.studies.step import HELD, StepRows  # noqa: PLC0415 (only of a plan with stages)

    return [_table({"stage": "whole", **dict.fromkeys((*HELD, "received"), "bytes")}, StepRows(ran).stages)]
