"""Notes below a plan's table in a terminal: its costs with their items, and what it is optimal over."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hypar.network.dims import in_order
from hypar.plan.stages import stage_name, stage_of
from hypar.planning.counting import cost_convention, score_convention
from hypar.reports.columns import Column, Sheet
from hypar.reports.formats.base import (
    baselines_line,
    chunk_lines,
    columns,
    items,
    memory_line,
    refinement_line,
    schedule_line,
    share_lines,
)
from hypar.reports.prose import Note
from hypar.sharding.dims import WORDS
from hypar.units import amount, format_bytes, format_joules, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.plan.stages import StagesRecord

PLACES = {
    "batch": "the batch",
    "in_channels": "its input channels",
    "out_channels": "its output channels",
    "height": "its height",
    "width": "its width",
    "groups": "its groups",
    "channels": "its channels",
}
"""Each dim as the legend names it."""


def plan_notes(plan: Plan, said: Sequence[str] = ()) -> list[Note]:
    """Return the notes below a plan's table.

    Args:
        plan: the plan.
        said: findings on it, as of its distance from the optimum.
    """
    notes = [_cost_note(plan), *score_notes(plan, plan.score)]
    notes += [Note("shares", line) for line in share_lines(plan)]
    weight = plan.cost.parameters.get("inter_weight", 1)
    if weight != 1:
        notes.append(Note("weight", f"communication between layers weighs {weight}"))
    if plan.pins:
        notes.append(Note("pins", f"pinned: {', '.join(plan.pins)}"))
    if plan.baselines is not None:
        notes.append(Note("timed", baselines_line(plan.baselines)))
    if plan.refined is not None:
        notes.append(Note("refined", refinement_line(plan.refined)))
    notes += [Note("chunks", line) for line in chunk_lines(plan.chunks, plan.score)]
    claims = [*plan.claim.splitlines(), *said]
    return [*notes, *(Note("" if at else "claim", line) for at, line in enumerate(claims))]


def _cost_note(plan: Plan) -> Note:
    """Return the cost that was minimised, with that of each level unless these are a score's bytes."""
    alone = ", in all stages together" if plan.staged else ""
    if plan.score and plan.score.overlapped_s and plan.cost.name == "time":
        alone = ", one thing after another"
    each = ""
    convention = cost_convention(plan)
    scored = plan.cost.name == "volume" and plan.score is not None and convention == score_convention(plan)
    if not scored or plan.cost.parameters.get("inter_weight", 1) != 1:
        levels = ", ".join(f"{level.name} {amount(level.cost, plan.cost.unit)}" for level in columns(plan))
        each = f": {levels}" if levels else ""
    total = f"{plan.cost.name} {amount(plan.cost.value, plan.cost.unit)} a step{alone}"
    return Note("cost", f"{total}, counted by {convention}{each}")


def score_notes(plan: Plan, score: Score | None) -> list[Note]:
    """Return the totals of a score of a plan with the items of each."""
    if score is None:
        return []
    overlapped = f", {format_seconds(score.overlapped_s)} of it overlapped" if score.overlapped_s else ""
    notes = [Note("time", f"{format_seconds(score.time_s)}: {items(score.time, format_seconds)}{overlapped}")]
    if score.overlapped_s:
        notes.append(Note("critical", f"{items(score.critical, format_seconds)} on the critical path"))
    moved = f"{format_bytes(score.communication_bytes)} of communication"
    counted = f"counted by {score_convention(plan, score)}"
    notes.append(Note("levels", f"{moved}, {counted}: {items(score.communication, format_bytes)}"))
    energy = "not known, as the machine's file gives none"
    if score.energy_j is not None:
        energy = format_joules(score.energy_j)
        energy += f": {items(score.energy, format_joules)}" if score.energy is not None else ""
    notes.append(Note("energy", energy))
    memory = f"{memory_line(score)}: {items(score.memory, format_bytes)} ({score.optimizer})"
    notes.append(Note("memory", memory))
    if score.element_bytes != score.word_bytes:
        sizes = f"elements are {score.element_bytes} B, words of {score.hardware} {score.word_bytes} B"
        notes.append(Note("words", f"{sizes}: its arithmetic is for its words"))
    return notes


def groups_table(score: Score | None, stages: StagesRecord | None = None) -> list[Sheet]:
    """Return one row for each group of devices, or for each stage; no table for identical devices without stages."""
    if score is None or not score.groups:
        return []
    staged = stages is not None and stages.pipelined
    extra = ["layers", "busy"] if staged else []
    heads = [
        "stage" if staged else "group",
        *extra[:1],
        "devices",
        *extra[1:],
        "computes",
        "receives",
        "idle",
    ]
    heads += ["in flight", "staleness"] * staged + ["memory", "of", ""]
    left = {"stage", "group", "layers", ""}
    table = Sheet(
        columns=[
            Column(head=head, cells=(), right=head not in left, key=at == 0) for at, head in enumerate(heads)
        ],
        turns=True,
    )
    for group in score.groups:
        times = [format_seconds(time) for time in (group.computing_s, group.communicating_s, group.idle_s)]
        of = "-" if group.capacity_bytes is None else format_bytes(group.capacity_bytes)
        held = [format_bytes(group.memory_bytes), of, "" if group.fits else "does not fit"]
        if stages is None or not staged:
            table.add_row(group.group, str(group.devices), *times, *held)
            continue
        at = stage_of(group.group)
        stage, own = stages.stages[at], group.group.removeprefix(stage_name(at)).strip()
        kept = [str(stage.in_flight), str(stage.staleness)]
        devices = f"{group.devices} {own or stage.group or ''}".rstrip()
        table.add_row(str(at + 1), stage.ends, devices, format_seconds(stage.busy_s), *times, *kept, *held)
    return [table]


def stages_notes(stages: StagesRecord | None) -> list[Note]:
    """Return the schedule of several stages."""
    if stages is None or not stages.pipelined:
        return []
    return [Note("stages", schedule_line(stages))]


def legend(words: Sequence[str], dims: Sequence[str | None]) -> list[Note]:
    """Explain the words of the cells, each dim once.

    Args:
        words: the words of the cells.
        dims: the dim of each of them.
    """
    named = dict.fromkeys(zip(words, dims, strict=True))
    plain = [(word, dim) for word, dim in named if not word[-1:].isdecimal()]
    grids = [word for word, _ in named if word[-1:].isdecimal()]
    found = [*_cuts(plain)]
    letters = {letter for word in grids for letter in re.findall(r"[a-z]+", word)}
    joins = {WORDS["channels"][2] for dim in dims if "channels" in (dim or "").split("*")}
    counted = [
        f"{WORDS[dim][2]} of {place}" + " (of a join its channels)" * (WORDS[dim][2] in joins)
        for dim, place in PLACES.items()
        if WORDS[dim][2] in letters and dim != "channels"
    ]
    if counted:
        found.append(f"{grids[0]}: the shards of a layer, {', '.join(counted)}")
    return [Note("choices", "; ".join(found))] if found else []


def _cuts(plain: Sequence[tuple[str, str | None]]) -> Iterator[str]:
    """Yield the words of single dims, and that of a layer that is not cut."""
    places: dict[str, str] = {}
    for dim in (*PLACES, *in_order({own for _, own in plain if own is not None} - {*PLACES})):
        for word, own in plain:
            if own == dim:
                places.setdefault(word, PLACES.get(dim, f"its dim {dim}"))
    for word, own in plain:
        if own == "channels" and places[word] != PLACES[own]:
            places[word] += " (a join in its channels)"
    if places:
        (first, place), *others = places.items()
        join = WORDS["channels"][1]
        more = (f"{word} {'a join ' * (word == join)}in {place}" for word, place in others)
        yield ", ".join([f"{first} cuts {'a join' if first == join else 'a layer'} in {place}", *more])
    if WORDS[None][0] in dict(plain):
        yield f"{WORDS[None][0]} leaves it whole on every device"
