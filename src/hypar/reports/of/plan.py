"""The document of a plan: the answer, each layer's choices with what they cost, and notes."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Grid, Note, Table
from hypar.plan.records import origin_of
from hypar.planning.counting import cost_convention
from hypar.reports.charts import pieces
from hypar.reports.of.base import data
from hypar.reports.steps import chunks_table, groups_table, headed, stages_memory, step_notes
from hypar.reports.words import (
    MOST_ROWS,
    PLACES,
    asked,
    cells_of,
    choice_notes,
    layer_costs,
    level_of,
    parts_of,
    stage_numbers,
    tone_of,
)
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.studies.remarks import baseline_scores, remarks
from hypar.units import amount, faster_than, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hypar.document import Cell
    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.plan.stages import StagesRecord
    from hypar.planning.replay import ScoredStep
    from hypar.reports.words import Part
    from hypar.sharding.tree import Split


def document_of(plan: Plan) -> Document:
    """Return the document of a plan, with its step and the remarks on it where the network that it was made from is known."""
    origin = origin_of(plan)
    if origin.network is None:
        return plan_document(plan)
    return planned_document(plan, origin.network, origin.machine, origin.profile)


plugin = document_of


def planned_document(
    plan: Plan,
    graph: LayerGraph,
    machine: Machine | HeterogeneousMachine | None = None,
    profile: Profile | None = None,
    *,
    full: bool = False,
) -> Document:
    """Return the document of a plan of a network, with its step on the machine of its score and the remarks on it."""
    scores, ran = baseline_scores(plan, graph, machine, profile), None
    if machine is not None:
        from hypar.planning.replay import run_plan  # noqa: PLC0415 (only where a machine is named)

        ran = run_plan(plan, hardware=machine, model=graph)
    said = remarks(plan, graph, machine, profile, scores)
    return plan_document(plan, ran=ran, base=scores.get("dp"), said=said, full=full)


def plan_document(
    plan: Plan,
    *,
    ran: ScoredStep | None = None,
    base: Score | None = None,
    said: Sequence[Note] = (),
    full: bool = False,
) -> Document:
    """Return the document of a plan; ``full`` gives a large network a row for each layer too.

    Its step gives the bytes and the time of each layer; without pins it is compared with ``base``, the score of dp.
    """
    score, cells = plan.score, cells_of(plan)
    base = None if plan.pins or plan.strategy == "dp" else base
    cost = f"{plan.model.name}: {plan.cost.name} {amount(plan.cost.value, plan.cost.unit)} a step"
    return Document(
        title=cost if score is None else headed(plan.model.name, score, base),
        about=f"strategy {plan.strategy}, {asked(plan)}",
        tone=tone_of(score),
        parts=(
            data([*_choice_rows(plan)]),
            _layers_table(plan, ran, most=len(plan.layers) if full else MOST_ROWS),
            *groups_table(score, plan.stages),
            *(stages_memory(ran) if full else ()),
            *chunks_table(ran),
            plan_grid(plan, ran),
        ),
        notes=(
            *_schedule_notes(plan.stages),
            _cost_note(plan),
            *([] if score is None else step_notes(plan, score, ran)),
            *_request_notes(plan),
            *(Note("" if at else "search", line) for at, line in enumerate(plan.claim.splitlines())),
            *said,
            *choice_notes(cells(split, layer) for split in plan.splits for layer in plan.layers),
        ),
    )


def plan_grid(plan: Plan, ran: ScoredStep | None = None) -> Grid:
    """Return the picture of a plan: a row for each layer or part, a cell for each level, and bars of the time or of the cost."""
    cells, parts = cells_of(plan), parts_of(plan)
    rows = {part: tuple(cells(split, part.layers[0]) for split in plan.splits) for part in parts}
    sums, bars = _sums(plan, ran), ("computes", "receives") if ran else ("cost",)
    spent = [sums(part.layers) for part in parts]
    return Grid(
        title=f"{plan.model.name}, {asked(plan)}",
        columns=tuple(map(level_of, plan.splits)),
        rows=tuple((part.title, row) for part, row in rows.items()),
        bars=tuple({name if ran else plan.cost.name: own[name] for name in bars} for own in spent),
        unit="seconds" if ran else plan.cost.unit,
        keys=_colour_keys(cell for row in rows.values() for cell in row),
    )


def _sums(plan: Plan, ran: ScoredStep | None) -> Callable[[Sequence[str]], dict[str, float]]:
    """Return the function that adds up what layers take: of a step the bytes and the seconds, otherwise their cost."""
    bar = "receives" if plan.cost.unit == "bytes" else "computes"
    each = {layer: {"cost": cost, bar: cost} for layer, cost in layer_costs(plan).items()}
    if ran is not None:
        from hypar.studies.step import StepRows  # noqa: PLC0415 (only where a machine is named)

        for row in StepRows(ran=ran).layers:
            times = {"computes": row.computes_s, "receives": row.receives_s}
            each[row.name] = {"received": row.num_bytes, "time": math.fsum(times.values()), **times}

    def added(layers: Sequence[str]) -> dict[str, float]:
        return {key: math.fsum(each[layer][key] for layer in layers) for key in each[layers[0]]}

    return added


def _colour_keys(cells: Iterable[Cell]) -> dict[str, str]:
    """Return what the colour of each dim means, with its word."""
    found: dict[str, str] = {}
    for word, dim, _ in (piece for cell in dict.fromkeys(cells) for piece in pieces(cell)):
        own = word.rstrip("0123456789")
        if own.isidentifier():
            found.setdefault(dim, f"{own} cuts {PLACES[dim]}" if dim in PLACES else own)
    return found


def _choice_rows(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield a row for each layer and level, for data frames; one for each layer if no level cuts it."""
    stages, cells = stage_numbers(plan), cells_of(plan)
    for layer in plan.layers:
        first: dict[str, Any] = {"layer": layer, **({"stage": stages[layer]} if stages else {})}
        own = [split for split in plan.splits if layer in split.choices]
        for split in own:
            yield {
                **first,
                **({"group": split.group} if plan.heterogeneous else {}),
                "level": f"H{split.level + 1}",
                "ways": split.ways,
                "dim": split.dim(layer) or "whole",
                "choice": cells(split, layer).text,
                "cost": split.costs[layer],
                "unit": plan.cost.unit,
            }
        if not own:
            yield first


def _layers_table(plan: Plan, ran: ScoredStep | None, *, most: int) -> Table:
    """Return a row for each layer or part, and their sum: of identical devices the bytes and time of a step, or else the cost."""
    ran = None if plan.heterogeneous or plan.staged else ran
    parts, levels, sums = parts_of(plan, most=most), _levels(plan), _sums(plan, ran)
    cells, stages = cells_of(plan), stage_numbers(plan)
    folded = len(parts) < len(plan.layers)

    def row(part: Part) -> dict[str, Any]:
        first, own = part.layers[0], sums(part.layers)
        return {
            "layer": part.title,
            "stage": stages.get(first),
            **{column.key: cells(split, first) for column, split in levels},
            **own,
            "devices": plan.devices(first) if plan.in_grids else None,
            "bar": (own.get("computes", 0.0), own.get("receives", 0.0)),
        }

    columns = (
        Column(key="layer", head="layers" if folded else "layer"),
        Column(key="stage", unit="whole"),
        *(column for column, _ in levels),
        Column(key="received", unit="bytes"),
        Column(key="time", unit="seconds"),
        Column(key="cost", head=plan.cost.name, unit=plan.cost.unit),
        Column(key="devices", unit="whole"),
        Column(key="bar", head="", unit="bar"),
    )
    total = {"layer": f"all {len(plan.layers)} layers" if folded else "all layers", **sums(plan.layers)}
    return Table(columns=columns, rows=[*map(row, parts)], total=total)


def _levels(plan: Plan) -> list[tuple[Column, Split]]:
    """Return a column, as ``H1-H4``, of each group's successive levels at which every layer has one choice, and the first one."""
    cell, found = cells_of(plan), []
    for (group, _), run in groupby(
        plan.splits, lambda split: (split.group, [cell(split, layer) for layer in plan.layers])
    ):
        own = [*run]
        head = "-".join(dict.fromkeys(f"H{split.level + 1}" for split in (own[0], own[-1])))
        name = "" if group == WHOLE_ARRAY else group
        found.append((Column(key=f"{name} {head}".lstrip(), head=head, group=name), own[0]))
    return found


def _schedule_notes(stages: StagesRecord | None) -> Iterator[Note]:
    """Yield the schedule of several stages and the time of the costliest."""
    if stages is None or not stages.pipelined:
        return
    parts = f" in {stages.parts} parts" if stages.parts_of_each else ""
    each = f"{parts}, {_count(stages.microbatches, 'microbatch', 'es')} a mini-batch"
    by = f"{_count(len(stages.stages), 'stage')} by {stages.schedule}{each}"
    yield Note("stages", f"{by}; the costliest is busy {format_seconds(stages.bottleneck_s)} a step")


def _count(number: int, name: str, plural: str = "s") -> str:
    return f"{number} {name}{plural * (number != 1)}"


def _cost_note(plan: Plan) -> Note:
    """Return the cost that was minimised, level by level; a detail beside a score."""
    levels = ", ".join(f"{level_of(split)} {amount(split.cost, plan.cost.unit)}" for split in plan.splits)
    total = f"{plan.cost.name} {amount(plan.cost.value, plan.cost.unit)} a step"
    counted = ", summed over all stages" * plan.staged + f", by the convention {cost_convention(plan)!r}"
    return Note("cost", total + counted + f": {levels}" * bool(levels), plan.score is not None)


def _request_notes(plan: Plan) -> Iterator[Note]:
    """Yield what was asked for beyond a strategy and an array, and what came of it."""
    yield from (Note("shares", _shares(split)) for split in plan.splits if split.sides is not None)
    weight = plan.cost.parameters.get("inter_weight", 1)
    if weight != 1:
        yield Note("weight", f"communication between layers counts {weight} times")
    if plan.pins:
        yield Note("pins", ", ".join(plan.pins))
    if plan.baselines is not None:
        times = (f"{name} {format_seconds(seconds)}" for name, seconds in plan.baselines.step_s.items())
        yield Note("timed", f"{', '.join(times)} a step; taken: {plan.baselines.taken}")
    if plan.refined is not None:
        gain = faster_than("before", plan.refined.before_s, plan.refined.after_s)
        changed = _count(plan.refined.changed, "choice")
        yield Note("refined", f"{changed} by the time of the whole step: {gain}")
    if plan.chunks is not None:
        own, alone = plan.score.time_s if plan.score else 0.0, plan.chunks.alone_s
        gain = f"; {faster_than('with each layer by itself', alone, own)}" if own and 0 < alone != own else ""
        yield Note("chunks", f"gradients in {plan.chunks.words}{gain}")


def _shares(split: Split) -> str:
    """Name the shares of the device groups at an uneven split, and the idle groups."""
    pairs = zip(split.sides or (), split.shares, strict=True)
    named = ", ".join(f"{side.group} {format(share, '.4g') if share else 'idle'}" for side, share in pairs)
    own = len(split.layer_shares or ())
    apart = f"; {_count(own, 'layer')} with shares of their own" if own else ""
    return f"{level_of(split)}: {named}{apart}"
