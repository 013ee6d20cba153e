"""The document of a score: the time, energy, bytes and memory of a training step, with the items of each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Note, Table, origin_of
from hypar.plan.splits import stage_name, stage_of
from hypar.planning.counting import score_convention
from hypar.reports.tables import csv_text
from hypar.reports.words import against, asked, fit, items, on_machine, tone_of
from hypar.sharding.conventions import MOVED
from hypar.studies.remarks import counting, on_this_machine
from hypar.units import format_bytes, format_joules, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hypar.plan.plan import Plan
    from hypar.plan.score import GroupScore, Score
    from hypar.plan.splits import StagesRecord
    from hypar.planning.replay import ScoredStep
    from hypar.timeline import Timeline


def document_of(score: Score) -> Document:
    """Return the document of a score, with what its plan asked for where that is known."""
    return score_document(score, origin_of(score).plan)


plugin = document_of


def score_document(score: Score, plan: Plan | None = None, ran: ScoredStep | None = None) -> Document:
    """Return the document of a score.

    Args:
        score: the score.
        plan: the plan that was run, if it is known.
        ran: its step.
    """
    name = "" if plan is None else plan.model.name
    stages = (ran.stages if ran else plan.stages) if plan else None
    said = (
        [*counting(plan, ran.graph, score), *on_this_machine(plan, ran.graph, ran.machine)]
        if plan and ran
        else []
    )
    return Document(
        title=headed(name, score),
        about="" if plan is None else f"strategy {plan.strategy}, {asked(plan)}",
        tone=tone_of(score),
        parts=(
            Table(columns=data_columns("quantity", "item", "value", "unit"), rows=[*_item_rows(score)]),
            *groups_table(score, stages),
        ),
        notes=(*step_notes(plan, score, ran), *said),
    )


def timeline_csv(timeline: Timeline) -> str:
    """Return one line for each task: name, kind, resource, start and end in seconds."""
    rows = [
        {"task": task.name, "kind": task.kind, "resource": task.resource, "start_s": start, "end_s": end}
        for task, start, end in zip(timeline.tasks, timeline.starts, timeline.ends, strict=True)
    ]
    return csv_text(rows)


def data_columns(*keys: str) -> tuple[Column, ...]:
    """Return columns of plain values that data frames and CSV alone have."""
    return tuple(Column(key=key, show=False) for key in keys)


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


def _item_rows(score: Score) -> Iterator[dict[str, Any]]:
    """Yield a row for each item of each quantity, the totals first."""
    quantities: tuple[tuple[str, str, float | None, Mapping[str, float]], ...] = (
        ("time", "s", score.time_s, score.time),
        ("critical path", "s", score.time_s, score.critical),
        ("busy", "s", score.time_s, score.busy),
        ("energy", "J", score.energy_j, score.energy or {}),
        ("communication", "B", score.communication_bytes, score.communication),
        ("memory", "B", score.memory_bytes, score.memory),
    )
    for quantity, unit, total, own in quantities:
        for item, value in {"total": total, **own}.items():
            yield {"quantity": quantity, "item": item, "value": value, "unit": unit}


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
    compute = getattr(ran and ran.machine, "compute", None)
    if ran is None or compute is None or not ran.score.time_s:
        return ""
    peak = compute.flop_per_s(ran.machine.content.assumptions.units_per_device.value)
    flop = math.fsum(layer.einsum.step_flop for layer in ran.graph.contracted.layers)
    return f"; {100 * flop / (ran.score.time_s * peak * ran.plan.num_devices):.2g}% of the peak FLOP/s used"


def groups_table(score: Score | None, stages: StagesRecord | None = None) -> list[Table]:
    """Return a row for each group of devices, or for each stage; no table for identical devices without stages."""
    if score is None or not score.groups:
        return []
    staged = stages is not None and stages.pipelined
    rows = [
        _group_row(group) | (_stage_row(group, stages) if stages and staged else {}) for group in score.groups
    ]
    differ = len({group.capacity_bytes for group in score.groups}) > 1
    columns = (
        Column(key="stage", unit="count") if staged else Column(key="group"),
        Column(key="layers", prose=True),
        Column(key="devices", unit="text" if staged else "count"),
        Column(key="busy", unit="seconds", show=False),
        *(Column(key=key, unit="seconds") for key in ("computes", "receives", "idle")),
        Column(key="in_flight", head="in flight", unit="count"),
        Column(key="staleness", unit="count", show=any(row.get("staleness") for row in rows)),
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
