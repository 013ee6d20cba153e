"""What a training step takes, in the notes, tables and pictures that documents of plans, of scores and reports share."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Note, Span, Table, Timeline
from hypar.plan.plan import Plan
from hypar.plan.records import GroupScore, Score, StagesRecord
from hypar.planning.resolved import score_convention
from hypar.reports import words
from hypar.reports.text import faster_than
from hypar.schedule.lanes import level_name
from hypar.sharding.conventions import MOVED
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from hypar.planning.replay import ScoredStep
    from hypar.studies.step import StepRows, StepTask


def headed(name: str, score: Score, base: Score | None = None, zero: int = 0) -> str:
    """Return the answer in a line: a step's time on a network, empty if it is not known, its fit, and a comparison with dp's score."""
    where = words.on_machine(score)
    subject = f"{name} {where}" if name else where.removeprefix("on ")
    parts = [f"{format_seconds(score.time_s)} a step", words.fit(score)]
    if base is not None:
        parts.append(faster_than(f"dp with ZeRO {zero}" if zero else "dp", base.time_s, score.time_s))
        parts += ["which does not fit" + " either" * (not score.fits)] * (not base.fits)
    return f"{subject}: {', '.join(filter(None, parts))}"


def step_notes(plan: Plan | None, score: Score, rows: StepRows | None = None) -> Iterator[Note]:
    """Yield the totals of a step with the items of each, and of its run, if it is known, the share of the peak that it uses."""
    took = f"{format_seconds(score.time_s)}: {words.items(score.time, 'seconds')}"
    if score.overlapped_s:
        added = format_seconds(math.fsum(score.time.values()))
        took += f"; together {added}, of which {format_seconds(score.overlapped_s)} overlap"
    yield Note("time", took + (_peak_share(rows.ran) if rows else ""))
    if rows:
        yield from _rates(rows.ran)
    if score.overlapped_s:
        path = f"the path that sets the time: {words.items(score.critical, 'seconds')}"
        yield Note("critical", path, detail=True)
    moved = f"{format_bytes(score.communication_bytes)} received"
    convention = MOVED if plan is None else score_convention(plan, score)
    counted = "" if convention == MOVED else f" by the convention {convention!r}"
    yield Note("bytes", f"{moved}{counted}: {words.items(score.communication, 'bytes')}")
    energy = "not known: the machine's file gives none"
    if score.energy_j is not None:
        listed = f": {words.items(score.energy, 'joules')}" if score.energy else ""
        energy = f"{format_seconds(score.energy_j, 'J')}{listed}"
    yield Note("energy", energy)
    of = "" if score.capacity_bytes is None else f" of {format_bytes(score.capacity_bytes)}"
    held = f"{format_bytes(score.memory_bytes)}{of} on {'the fullest' if score.groups else 'each'} device"
    yield Note("memory", f"{held}: {words.items(score.memory, 'bytes')} ({score.optimizer})")
    if score.element_bytes != score.word_bytes:
        sizes = f"{score.element_bytes} B each in the network, {score.word_bytes:g} B on {score.hardware}"
        whose = "whose energy is that of its own, and whose speed unless its file has an fp32_peak"
        yield Note("numbers", f"{sizes}, {whose}", detail=True)


def _rates(ran: ScoredStep) -> Iterator[Note]:
    """Yield what a network over tokens trains in a second, and the model FLOP/s of a device."""
    batch, seconds, devices = ran.graph.batch, ran.score.time_s, ran.plan.num_devices
    if ran.graph.over_tokens and seconds:
        tokens = ran.graph.layers[0].shape["sequence"]
        each = f"{batch * tokens / seconds:,.0f} tokens/s, {batch * tokens / seconds / devices:,.0f} a device"
        flop = float(f"{_flop(ran) / seconds / devices / 1e12:.3g}")
        rate = f"{each}; {batch / seconds:,.1f} samples/s; {flop:,g} model TFLOP/s a device"
        yield Note("rate", rate)


def _flop(ran: ScoredStep) -> float:
    return math.fsum(sum(layer.nest.flop.values()) for layer in ran.graph.contracted.layers)


def _peak_share(ran: ScoredStep) -> str:
    """Return the model FLOP utilisation: the FLOP of all phases of the weighted layers over those at the devices' peak."""
    machine = None if ran.plan.heterogeneous else ran.lanes[0].setting.machine
    if machine is None or machine.measured is not None or not ran.score.time_s:
        return ""
    units = machine.content.assumptions.units_per_device.value
    peak = machine.compute.of_format(ran.score.element_bytes).flop_per_s(units)
    done = ran.score.time_s * ran.plan.num_devices * peak
    return f"; {100 * _flop(ran) / done:.2g}% of the peak FLOP/s used"


_UNITS = {
    "name": "text", "group": "text", "stage": "whole", "chunk": "whole", "layers": "text", "bytes": "bytes", "devices": "whole",
    "computing_s": "seconds", "communicating_s": "seconds", "idle_s": "seconds", "in_flight": "whole", "staleness": "whole",
    "memory_bytes": "bytes", "capacity_bytes": "bytes", **dict.fromkeys(("weights", "gradients", "optimizer", "activations", "errors", "buffers"), "bytes"),
    "ready_s": "seconds", "start_s": "seconds", "end_s": "seconds", "level": "text", "layer": "text", "forward": "bytes", "backward": "bytes",
    "received": "bytes", "energy": "joules", "time": "seconds", "share": "percent", "bar": "bar", "said": "text",
}  # fmt: skip
_HEADS = {
    "name": "", "bytes": "gradients", "computing_s": "computes", "communicating_s": "receives", "idle_s": "idle", "in_flight": "in flight",
    "memory_bytes": "memory", "capacity_bytes": "of", "ready_s": "ready", "start_s": "begins", "end_s": "ends", "bar": "", "said": "",
}  # fmt: skip
_COLUMNS = tuple(Column(key, _HEADS.get(key), unit, key == "layers") for key, unit in _UNITS.items())
"""The columns of groups, stages, chunks and levels, in their order; a table shows those of which its rows have values."""


def groups_table(
    score: Score | None, stages: StagesRecord | None = None, rows: StepRows | None = None
) -> Iterator[Table]:
    """Yield a row for each group of devices, or for each stage, of a run with what it holds; no table for identical devices alone."""
    groups = score.groups if score and score.groups else []
    held = (rows.stages if rows else []) or [{} for _ in groups]
    found = [{**_group_row(group, stages), **own} for group, own in zip(groups, held, strict=True)]
    alike = ("devices", "staleness", "capacity_bytes")
    same = dict.fromkeys(key for key in alike if len({row.get(key) for row in found}) == 1)
    if found:
        yield Table(_COLUMNS, [{**row, **same} for row in found])


def _group_row(group: GroupScore, stages: StagesRecord | None) -> dict[str, Any]:
    unfit = {"said": "does not fit" * (not group.fits), "tone": words.tone_of(group).replace("good", "")}
    row = {**dict(group), **unfit}
    if stages is None or not stages.pipelined:
        return row
    _, number, *own = group.group.split(maxsplit=2)
    stage = stages.stages[int(number) - 1]
    devices = " ".join([str(group.devices), *(own or filter(None, [stage.group]))])
    shown = {"group": None, "stage": int(number), "layers": stage.ends, "devices": devices}
    return {**row, **dict(stage), **shown}


def chunks_table(rows: StepRows) -> Iterator[Table]:
    """Yield the exchange of each chunk of gradients; no table without chunks."""
    found = []
    for row in rows.chunks:
        layers = row["layers"]
        part = words.Part(" to ".join(dict.fromkeys((layers[0], layers[-1]))), layers)
        found.append({**row, "layers": part.title, "said": "critical" * row["critical"]})
    if found:
        yield Table(_COLUMNS, found)


def step_timeline(rows: StepRows, title: str = "", *, most: int = words.MOST_ROWS) -> Timeline:
    """Return when each task runs: a track for each row of layers, of several device groups for each row on each.

    Of stages there is a track for each stage, with the microbatches' numbers on their forward and backward phases.
    """
    staged, parts = bool(rows.ran.stages), words.parts_of(rows.ran.plan, most=most)
    row_of = {layer: part.title for part in parts for layer in part.layers}

    def track(layer: str, group: str) -> str:
        return group if staged else _track(row_of[layer], group)

    tracks = dict.fromkeys(track(layer, group) for layer in row_of for group in rows.groups)
    spans = (
        Span(track(task.layer, rows.groups[lane]), task.start_s, task.end_s, *_work(task, staged))
        for task in rows.tasks
        for lane in (task.piece.groups if task.piece.seconds else ())
    )
    return Timeline(title, (*tracks,), (*spans,))


def _work(task: StepTask, staged: bool) -> tuple[str, str, bool]:
    """Return the kind of a task, in stages the direction, the number of its microbatch, and whether it is critical."""
    kind = task.piece.kind
    if not staged:
        return kind, "", task.critical
    if kind in {"update", "communication"}:
        return kind, "", kind == "update"
    return "forward" if kind == "forward" else "backward", str((task.item or 0) + 1), True


def _track(layer: str, group: str) -> str:
    return layer if group == WHOLE_ARRAY else f"{layer} ({group})"


def step_trace(rows: StepRows) -> str:
    """Return the JSON of a step that was run, in microseconds, for Perfetto: a track for each layer and, in a second process, each resource.

    Perfetto colours a slice by its name alone, so slices are named by their phase, and transfers ``receives``.

    Source: Trace Event Format (Google, 2016), complete events ``X`` and metadata events ``M``.
    """
    plan, cells = rows.ran.plan, words.cells_of(rows.ran.plan)
    levels = [(words.levels_of(split.group, [split.level]), split) for split in plan.splits]
    named = ((layer, f"{level} {cells(split, layer)}") for level, split in levels for layer in split.choices)
    chosen = words.grouped(named)
    choices = {layer: ", ".join(chosen.get(layer, ())) for layer in plan.layers}
    each = ((task, rows.groups[lane]) for task in rows.tasks for lane in task.piece.groups)
    places = words.grouped((_track(task.layer, group), task) for task, group in each)
    resources = words.grouped((task.piece.resource, task) for task in rows.tasks)
    events = [*_process(1, "layers", places, choices), *_process(2, "resources", resources, choices)]
    lines = ",\n".join(json.dumps(event) for event in events)
    return f'{{"displayTimeUnit": "ms", "traceEvents": [\n{lines}\n]}}\n'


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
    tracks = [(title, track) for title, own in places.items() for track in _apart(own)]
    yield {"ph": "M", "pid": number, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": number, "name": "process_sort_index", "args": {"sort_index": number}}
    for at, (title, tasks) in enumerate(tracks):
        place = {"pid": number, "tid": at}
        yield {"ph": "M", **place, "name": "thread_name", "args": {"name": title}}
        yield {"ph": "M", **place, "name": "thread_sort_index", "args": {"sort_index": at}}
        for task in tasks:
            kind = task.piece.kind
            name = "receives" if kind == "communication" else kind
            span = {"cat": kind, "ts": task.start_s * 1e6, "dur": task.piece.seconds * 1e6}
            yield {"ph": "X", **place, "name": name, **span, "args": _arguments(task, choices)}


def _arguments(task: StepTask, choices: Mapping[str, str]) -> dict[str, Any]:
    piece = task.piece
    found = {
        "task": task.name, "layer": task.layer, "phase": piece.phase or None,
        "level": None if task.level is None else level_name(task.level),
        "microbatch": None if task.item is None else task.item + 1, "choice": choices.get(task.layer),
        "bytes": piece.num_bytes if piece.collective else None, "resource": piece.resource, "critical": task.critical,
    }  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


def shares_table(title: str, key: str, amounts: Mapping[str, float]) -> Table:
    """Return the parts of the ``time`` or of the ``energy`` of a step, as its joules by place."""
    whole, before = math.fsum(amounts.values()), (0.0, 0.0) * (key == "energy")
    shown = ((name, own) for name, own in amounts.items() if own)
    rows = [{"name": name, key: own, "share": own / whole, "bar": (*before, own)} for name, own in shown]
    return Table(_COLUMNS, rows, {"name": "a step", key: whole}, title)


def levels_table(rows: StepRows) -> Table:
    """Return the bytes, the seconds on the critical path and the joules of the transfers of each level."""
    named = zip(rows.ran.score.communication, [*rows.parts][len(rows.ran.plan.layers) :], strict=True)
    listed = [{"level": level, **spent(rows, [place])} for level, place in named]
    return Table(_COLUMNS, listed, title="What devices receive, by level from the outermost")


def spent(rows: StepRows, places: Sequence[str | int]) -> dict[str, Any]:
    """Return what some layers or levels take of a step: bytes, seconds and joules."""
    received, computes, receives, joules = zip(*(rows.parts[place] for place in places), strict=True)
    return {
        "received": math.fsum(received), "energy": None if None in joules else math.fsum(joules),
        "time": math.fsum((*computes, *receives)), "bar": (math.fsum(computes), math.fsum(receives)),
    }  # fmt: skip


def memory_tables(rows: StepRows) -> Iterator[Table]:
    """Yield the most bytes of a device of each group during the phases of layers; none with stages, whose microbatches share them."""
    for group, always, phases in rows.memory_by_layer():
        found = []
        for part in words.parts_of(rows.ran.plan):
            both = zip(*(phases[layer] for layer in part.layers), strict=True)
            forward, backward = (always + max(own) for own in both)
            held = {"forward": forward, "backward": backward, "bar": max(forward, backward)}
            found.append({"layer": part.title, **held})
        of = "" if group == WHOLE_ARRAY else f" of {group}"
        top = format_bytes(max(row["bar"] for row in found))
        title = f"Memory of a device{of} by phase, up to {top}, of which {format_bytes(always)} all along"
        yield Table(_COLUMNS, found, title=title)
