"""What a training step takes, in the notes, tables and pictures that documents of plans, of scores and reports share."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Note, Span, Table, Timeline
from hypar.plan.stages import stage_name, stage_of
from hypar.planning.counting import score_convention
from hypar.reports.text import faster_than
from hypar.reports.words import (
    MOST_ROWS,
    Part,
    cells_of,
    fit,
    grouped,
    items,
    levels_of,
    on_machine,
    parts_of,
    rows_of,
    tone_of,
)
from hypar.sharding.conventions import MOVED
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hypar.plan.plan import Plan
    from hypar.plan.records import GroupScore, Score
    from hypar.plan.stages import StagesRecord
    from hypar.planning.replay import ScoredStep
    from hypar.studies.step import DeviceMemory, StepRows, StepTask
    from hypar.studies.step import Part as Spent


def headed(name: str, score: Score, base: Score | None = None) -> str:
    """Return the answer in a line: a step's time on a network, empty if it is not known, its fit, and a comparison with dp's score."""
    where = on_machine(score)
    subject = f"{name} {where}" if name else where.removeprefix("on ")
    parts = [f"{format_seconds(score.time_s)} a step", fit(score)]
    if base is not None:
        parts.append(faster_than("dp", base.time_s, score.time_s))
        parts += ["which does not fit" + " either" * (not score.fits)] * (not base.fits)
    return f"{subject}: {', '.join(filter(None, parts))}"


def step_notes(plan: Plan | None, score: Score, ran: ScoredStep | None = None) -> Iterator[Note]:
    """Yield the totals of a step with the items of each, and of its run, if it is known, the share of the peak that it uses."""
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
        listed = f": {items(score.energy, 'joules')}" if score.energy else ""
        energy = f"{format_seconds(score.energy_j, 'J')}{listed}"
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
    "group": "text", "stage": "whole", "chunk": "whole", "layers": "text", "devices": "whole", "computes": "seconds",
    "receives": "seconds", "idle": "seconds", "in flight": "whole", "staleness": "whole", "memory": "bytes", "of": "bytes",
    **dict.fromkeys(("weights", "gradients", "activations", "errors", "buffers"), "bytes"), "ready": "seconds", "begins": "seconds", "ends": "seconds",
    "level": "text", "layer": "text", "forward": "bytes", "backward": "bytes", "received": "bytes", "time": "seconds", "energy": "joules", "share": "percent", "bar": "bar", "": "text",
}  # fmt: skip
"""The columns of groups, stages, chunks and levels, in their order."""

LAYER_HELD = ("weights, gradients, state", "activations kept")
"""What a device holds of a layer."""


def _table(rows: Sequence[dict[str, Any]], title: str = "", total: dict[str, Any] | None = None) -> Table:
    """Return a table of rows whose keys are the heads of columns."""
    named = dict.fromkeys(key for row in rows for key in row)
    units = {"": "text", **_UNITS} if "" in next(iter(rows), {}) and "bar" in named else _UNITS
    columns = (
        Column(key=head, head="" if unit == "bar" else None, unit=unit, prose=head == "layers")
        for head, unit in units.items()
        if head in named
    )
    return Table(tuple(columns), [*rows], total, title)


def step_rows(ran: ScoredStep) -> StepRows:
    """Return the rows of a step, whose modules a plan without a machine does not need."""
    from hypar.studies import step  # noqa: PLC0415 (as said)

    return step.StepRows(ran)


def groups_table(
    score: Score | None, stages: StagesRecord | None = None, ran: ScoredStep | None = None
) -> list[Table]:
    """Return a row for each group of devices, or for each stage, of a run with what it holds; none for identical devices alone."""
    if score is None or not score.groups:
        return []
    held = (step_rows(ran).stages if ran else []) or [{} for _ in score.groups]
    rows = [{**_group_row(group, stages), **own} for group, own in zip(score.groups, held, strict=True)]
    alike = [key for key in ("devices", "staleness", "of") if len({row.get(key) for row in rows}) == 1]
    return [_table([{**row, **dict.fromkeys(alike)} for row in rows])]


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
    rows = [
        {
            "chunk": row["chunk"],
            "layers": Part(
                " to ".join(dict.fromkeys((row["layers"][0], row["layers"][-1]))), row["layers"]
            ).title,
            "gradients": row["bytes"],
            "ready": row["ready_s"],
            "begins": row["start_s"],
            "ends": row["end_s"],
            "": "critical" * row["critical"],
        }
        for row in (step_rows(ran).chunks if ran else ())
    ]
    return [_table(rows)] if rows else []


def step_timeline(ran: ScoredStep | None, title: str = "", *, most: int = MOST_ROWS) -> list[Timeline]:
    """Return when each task runs: a track for each row of layers, of several device groups for each row on each.

    Of stages there is a track for each stage, with the microbatches' numbers on their forward and backward phases.
    """
    if ran is None:
        return []
    rows, row_of = step_rows(ran), rows_of(ran.plan, most=most)

    def track(layer: str, group: str) -> str:
        return group if ran.stages else _track(row_of[layer], group)

    tracks = dict.fromkeys(track(layer, group) for layer in row_of for group in rows.groups)
    spans = (
        Span(track(task.layer, rows.groups[lane]), task.start_s, task.end_s, *_work(task, bool(ran.stages)))
        for task in rows.tasks
        for lane in task.lanes
        if task.seconds
    )
    return [Timeline(title, (*tracks,), (*spans,))]


def _work(task: StepTask, staged: bool) -> tuple[str, str, bool]:
    """Return the kind of a task, in stages the direction, the number of its microbatch, and whether it is critical."""
    if not staged:
        return task.kind, "", task.critical
    if task.kind in {"update", "communication"}:
        return task.kind, "", task.kind == "update"
    label = "" if task.item is None else str(task.item + 1)
    return "forward" if task.kind == "forward" else "backward", label, True


def _track(layer: str, group: str) -> str:
    return layer if group == WHOLE_ARRAY else f"{layer} ({group})"


def step_trace(ran: ScoredStep) -> str:
    """Return the JSON of a step that was run, in microseconds, for Perfetto: a track for each layer and, in a second process, each resource.

    Perfetto colours a slice by its name alone, so slices are named by their phase, and transfers ``receives``.

    Source: Trace Event Format (Google, 2016), complete events ``X`` and metadata events ``M``.
    """
    tasks, groups = step_rows(ran).tasks, step_rows(ran).groups
    choices = {layer: _choices(ran.plan, layer) for layer in ran.plan.layers}
    places = grouped((_track(task.layer, groups[lane]), task) for task in tasks for lane in task.lanes)
    resources = grouped((task.resource, task) for task in tasks)
    events = [*_process(1, "layers", places, choices), *_process(2, "resources", resources, choices)]
    lines = ",\n".join(json.dumps(event) for event in events)
    return f'{{"displayTimeUnit": "ms", "traceEvents": [\n{lines}\n]}}\n'


def _choices(plan: Plan, layer: str) -> str:
    """Return a layer's choices in words, level by level."""
    cells = cells_of(plan)
    named = ((levels_of(split.group, [split.level]), cells(split, layer).text) for split in plan.splits)
    return ", ".join(f"{level} {word}" for level, word in named if word)


def _apart(tasks: Sequence[StepTask]) -> list[list[StepTask]]:
    """Divide tasks into as few lists as there are tasks at once, so that none in a list overlap."""
    found: list[list[StepTask]] = []
    for task in sorted(tasks, key=lambda task: (task.start_s, task.end_s)):
        free = next((track for track in found if track[-1].end_s <= task.start_s), None)
        if free is None:
            found.append(free := [])
        free.append(task)
    return found


def _process(
    number: int, name: str, places: Mapping[str, Sequence[StepTask]], choices: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the names of a process and of its tracks, and its slices."""
    tracks = [(title, track) for title, own in places.items() for track in _apart(own)]
    yield {"ph": "M", "pid": number, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": number, "name": "process_sort_index", "args": {"sort_index": number}}
    for at, (title, tasks) in enumerate(tracks):
        place = {"pid": number, "tid": at}
        yield {"ph": "M", **place, "name": "thread_name", "args": {"name": title}}
        yield {"ph": "M", **place, "name": "thread_sort_index", "args": {"sort_index": at}}
        for task in tasks:
            name = "receives" if task.kind == "communication" else task.kind
            span = {"cat": task.kind, "ts": task.start_s * 1e6, "dur": task.seconds * 1e6}
            yield {"ph": "X", **place, "name": name, **span, "args": _arguments(task, choices)}


def _arguments(task: StepTask, choices: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of a slice; those that a task has not are left out."""
    from hypar.schedule.totals import level_name  # noqa: PLC0415 (only for a step that was run)

    found = {
        "task": task.name,
        "layer": task.layer,
        "phase": task.phase or None,
        "level": None if task.level is None else level_name(task.level),
        "microbatch": None if task.item is None else task.item + 1,
        "choice": choices.get(task.layer),
        "bytes": task.num_bytes,
        "resource": task.resource,
        "critical": task.critical,
    }
    return {name: value for name, value in found.items() if value is not None}


def shares_table(title: str, unit: str, amounts: Mapping[str, float]) -> Table:
    """Return the parts of an amount of a step, as its joules by place."""
    whole, head = math.fsum(amounts.values()), "energy" if unit == "joules" else "time"
    rows = [{"": name, head: own, "share": own / whole, "bar": own} for name, own in amounts.items() if own]
    return _table(rows, title, {"": "a step", head: whole})


def levels_table(rows: StepRows) -> Table:
    """Return the bytes, the seconds on the critical path and the joules of the transfers of each level."""
    listed = [{"level": level.name, **_spent(rows, [level])} for level in rows.levels]
    return _table(listed, "What devices receive, by level from the outermost")


def layers_spent(ran: ScoredStep) -> Callable[[Sequence[str]], dict[str, Any]]:
    """Return what some layers take of a step, with the memory of a device; kept activations not where microbatches share them."""
    rows = step_rows(ran)
    own = {part.name: part for part in rows.layers}

    def spent(layers: Sequence[str]) -> dict[str, Any]:
        weights, kept = map(math.fsum, zip(*(rows.layer_memory[layer] for layer in layers), strict=True))
        held = dict(zip(LAYER_HELD, (weights, None if ran.stages else kept), strict=True))
        return _spent(rows, [own[layer] for layer in layers]) | held

    return spent


def _spent(rows: StepRows, parts: Sequence[Spent]) -> dict[str, Any]:
    """Return the bytes, the seconds on the critical path and the joules of parts of a step."""
    spans = [(part.computes_s, part.receives_s) for part in parts]
    computes, receives = map(math.fsum, zip(*spans, strict=True))
    return {
        "received": math.fsum(part.num_bytes for part in parts),
        "time": computes + receives,
        "bar": (computes, receives),
        "energy": rows.energy and math.fsum(rows.energy[part.name] for part in parts),
    }


def memory_tables(rows: StepRows) -> Iterator[Table]:
    """Yield the most bytes of a device of each group during the phases of layers; none with stages, whose microbatches share them."""
    for memory in (own for own in rows.memory if own.phases):
        found = [_held(memory, part) for part in parts_of(rows.ran.plan)]
        of = "" if memory.group == WHOLE_ARRAY else f" of {memory.group}"
        top, always = (format_bytes(own) for own in (max(row["bar"] for row in found), memory.always_bytes))
        yield _table(found, f"Memory of a device{of} by phase, up to {top}, of which {always} all along")


def _held(memory: DeviceMemory, part: Part) -> dict[str, Any]:
    both = zip(*(memory.phases[layer] for layer in part.layers), strict=True)
    forward, backward = (memory.always_bytes + max(own) for own in both)
    return {"layer": part.title, "forward": forward, "backward": backward, "bar": max(forward, backward)}
