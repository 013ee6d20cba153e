"""Where the step goes: kinds of work, groups or stages, levels, energy, and each layer's part of energy and memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.reports.page.blocks import (
    bars,
    cell,
    counted,
    details,
    head,
    name,
    note,
    number,
    region,
    row,
    stack,
    table,
    wide,
)
from hypar.reports.page.blocks import section as section_of
from hypar.reports.page.html import Markup, tag
from hypar.reports.page.numbers import DASH, joules, num_bytes, seconds
from hypar.reports.page.rows import MOST_ROWS, Row, parts
from hypar.reports.sections.levels import levels_picture

if TYPE_CHECKING:
    from hypar.plan.score import GroupScore, Score
    from hypar.studies.report.gather import Gathered, StepUse

SHADES = {
    "arithmetic": "gradient",
    "registers": "update",
    "array": "update",
    "buffer": "backward",
    "memory": "forward",
    "communication": "communication",
    "link": "communication",
    "static": "update",
}
"""The tones of energy."""

AT_REST = "Power at rest, of all devices for the whole step, belongs to no layer."


RECEIVES = "receives"


def section(found: Gathered) -> Markup:
    """Return what a step spends."""
    step = found.step
    if step is None:
        return section_of("costs", "Where the step goes", note("Not known: the plan names no machine."))
    return section_of(
        "costs",
        "Where the step goes",
        *_kinds(step.score),
        *_groups(step.score),
        tag("h3", "By level, in the machine\u2019s shape"),
        levels_picture(found.plan, step),
        _levels(step),
        tag("h3", "Energy of a step"),
        *_energy(step.score),
        tag("h3", "Bytes, energy and memory by layer"),
        _layers(found, step),
    )


def _kinds(score: Score) -> list[Markup]:
    """Return the time by kind of work on the critical path."""
    items = [
        (RECEIVES if kind == "communication" else kind, kind, spent) for kind, spent in score.critical.items()
    ]
    if score.overlapped_s:
        about = f"Along the critical path; they sum to the step. {seconds(score.overlapped_s)} more of work runs beside it."
    else:
        about = "One thing after another: nothing overlaps, so these sum to the step."
    return [stack(items, [seconds(spent) for _, _, spent in items]), note(about)]


def _groups(score: Score) -> list[Markup]:
    """Return what the step is to each group of devices, or to each stage."""
    if score.groups is None:
        return []
    heads = [
        head("", None), head("devices", "r"), head("computes, receives, idle", "hide-s"), head("computes", "r"),
        head("receives", "r"), head("idle", "r"), head("memory", "r"),
    ]  # fmt: skip
    body = (_group(group, score.time_s) for group in score.groups)
    return [
        tag("h3", "By group of devices" if not score.groups[0].group.startswith("stage ") else "By stage"),
        region("Groups", table(heads, body, class_="full")),
    ]


def _group(group: GroupScore, step_s: float) -> Markup:
    whole = step_s or 1.0
    held = num_bytes(group.memory_bytes)
    of = "" if group.capacity_bytes is None else f" of {num_bytes(group.capacity_bytes)}"
    unfit = "" if group.fits else ", does not fit"
    return row(
        name(group.group),
        number(f"{group.devices}"),
        wide(
            bars([(group.computing_s / whole, "backward"), (group.communicating_s / whole, "communication")])
        ),
        number(seconds(group.computing_s)),
        number(seconds(group.communicating_s)),
        number(seconds(group.idle_s)),
        number(f"{held}{of}{unfit}"),
    )


def _levels(step: StepUse) -> Markup:
    """Return bytes, time and energy of each level."""
    heads = [head("level"), head("bytes received", "r"), head("time receiving", "r"), head("energy", "r")]
    body = (
        row(
            name(level.level),
            number(num_bytes(level.num_bytes)),
            number(seconds(level.receiving_s)),
            number(joules(level.energy_j)),
        )
        for level in step.levels
    )
    return details("The numbers", note("Time on the critical path."), region("Levels", table(heads, body)))


def _energy(score: Score) -> list[Markup]:
    """Return the energy by place."""
    if score.energy is None:
        return [note("Not known: the machine\u2019s file gives no energies.")]
    items = [
        (RECEIVES if place == "communication" else place, SHADES[place], number)
        for place, number in score.energy.items()
    ]
    return [stack(items, [joules(number) for _, _, number in items])]


def _layers(found: Gathered, step: StepUse) -> Markup:
    """Return each layer's, or each part's, bytes, time, energy and memory."""
    uses, layers = {use.layer: use for use in step.layers}, found.plan.layers
    rows = parts(layers) if len(layers) > MOST_ROWS else [Row(one, (one,)) for one in layers]

    def totals(part: str) -> list[float]:
        return [math.fsum(getattr(uses[layer], part) or 0.0 for layer in each.layers) for each in rows]

    energies, weights, kept = totals("energy_j"), totals("weight_bytes"), totals("kept_bytes")
    no_energy = step.score.energy is None
    numbers: tuple[tuple[str, list[str], list[tuple[list[float], str]]], ...] = (
        ("bytes received", [*map(num_bytes, totals("num_bytes"))], [(totals("num_bytes"), "communication")]),
        ("energy", [DASH if no_energy else joules(each) for each in energies], [(energies, "backward")]),
        ("weights, gradients, state", [*map(num_bytes, weights)], []),
        (
            "activations kept",
            [DASH if step.stages else num_bytes(each) for each in kept],
            [(weights, "gradient"), (kept, "forward")],
        ),
    )
    heads = [head("layer")]
    cells = [[counted(each.label, len(each.layers))] for each in rows]
    for title, texts, drawn in numbers:
        heads += [head(title, "r"), *([head("", "hide-s")] if drawn else [])]
        most = max((sum(each) for each in zip(*(own for own, _ in drawn), strict=True)), default=0.0) or 1.0
        for at, text in enumerate(texts):
            cells[at].append(number(text))
            if drawn:
                cells[at].append(cell(bars([(own[at] / most, kind) for own, kind in drawn]), "hide-s third"))
    body = (row(*own) for own in cells)
    about = f"Bytes and energy of all devices; memory of {_fullest(step)}."
    if "static" in (step.score.energy or {}):
        about += f" {AT_REST}"
    if step.stages:
        about += " Activations are kept for several microbatches at once, so they are given by stage, below."
    return details(
        f"{len(rows)} {'parts' if len(rows) < len(layers) else 'layers'}",
        note(about),
        region("Bytes, energy and memory by layer", table(heads, body, class_="full")),
    )


def _fullest(step: StepUse) -> str:
    """Name the device on which a layer has its memory."""
    if step.stages:
        return "a device of the layer\u2019s stage"
    return "a device of the fullest group" if len(step.lanes) > 1 else "a device"
