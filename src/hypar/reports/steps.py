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
    from collections.abc import Iterator, Sequence

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


def groups_table(score: Score | None, stages: StagesRecord | None = None) -> list[Table]:
    """Return a row for each group of devices, or for each stage; no table for identical devices without stages."""
    if score is None or not score.groups:
        return []
    staged = stages is not None and stages.pipelined
    rows = [
        _group_row(group) | (_stage_row(group, stages) if stages and staged else {}) for group in score.groups
    ]
    differ = len({group.capacity_bytes for group in score.groups}) > 1
    alike = staged and len({row["devices"] for row in rows}) == 1
    columns = (
        Column(key="stage", unit="whole") if staged else Column(key="group"),
        Column(key="layers", prose=True),
        Column(key="devices", unit="text" if staged else "whole", show=not alike),
        Column(key="busy", unit="seconds", show=False),
        *(Column(key=key, unit="seconds") for key in ("computes", "receives", "idle")),
        Column(key="in_flight", head="in flight", unit="whole"),
        Column(key="staleness", unit="whole", show=any(row.get("staleness") for row in rows)),
        Column(key="memory", unit="bytes"),
        Column(key="of", unit="bytes", show=differ),
        Column(key="fits", head=""),
    )
    return [Table(columns=columns, rows=rows)]


def _group_row(group: GroupScore) -> dict[str, Any]:
    return {
        "group": group.group,
        "devices": group.devices,
        "computes": group.computing_s,
        "receives": group.communicating_s,
        "idle": group.idle_s,
        "memory": group.memory_bytes,
        "of": group.capacity_bytes,
        "fits": None if group.fits else "does not fit",
        "tone": "" if tone_of(group) == "good" else tone_of(group),
    }


def _stage_row(group: GroupScore, stages: StagesRecord) -> dict[str, Any]:
    at = stage_of(group.group)
    stage, own = stages.stages[at], group.group.removeprefix(stage_name(at)).strip()
    return {
        "stage": at + 1,
        "layers": stage.ends,
        "devices": f"{group.devices} {own or stage.group or ''}".rstrip(),
        "busy": stage.busy_s,
        "in_flight": stage.in_flight,
        "staleness": stage.staleness,
    }


def chunks_table(ran: ScoredStep | None) -> list[Table]:
    """Return the exchange of each chunk of gradients; no table without chunks."""
    if ran is None or ran.plan.chunks is None:
        return []
    from hypar.studies.chunks_stages import chunk_rows  # noqa: PLC0415 (only of a plan with chunks)

    columns = (
        Column(key="chunk", unit="whole"),
        Column(key="layers", prose=True),
        Column(key="bytes", head="gradients", unit="bytes"),
        Column(key="ready_s", head="ready", unit="seconds"),
        Column(key="start_s", head="begins", unit="seconds"),
        Column(key="end_s", head="ends", unit="seconds"),
        Column(key="waits", head=""),
    )
    rows = [
        {**row, "layers": _ends(row["layers"]), "waits": "critical" if row["critical"] else ""}
        for row in chunk_rows(ran)
    ]
    return [Table(columns=columns, rows=rows)] if rows else []


def _ends(layers: Sequence[str]) -> str:
    count = f" x{len(layers)}" if len(layers) > 1 else ""
    return " to ".join(dict.fromkeys((layers[0], layers[-1]))) + count


def stages_memory(ran: ScoredStep | None) -> list[Table]:
    """Return what a device of each stage holds and receives from other stages; no table without stages."""
    if ran is None or ran.stages is None:
        return []
    from hypar.studies.chunks_stages import HELD, stage_rows  # noqa: PLC0415 (only of a plan with stages)

    columns = (
        Column(key="stage", unit="whole"),
        *(Column(key=key, unit="bytes") for key in HELD),
        Column(key="received", unit="bytes"),
    )
    return [Table(columns=columns, rows=stage_rows(ran))]
