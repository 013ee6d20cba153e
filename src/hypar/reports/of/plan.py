"""The documents of a plan and of a score: the answer, each layer's choices with what they take, and notes."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Note, Table
from hypar.errors import InputError
from hypar.network.training import AS_USUAL
from hypar.plan.records import Score, origin_of
from hypar.planning.resolved import cost_convention
from hypar.reports import steps, words
from hypar.reports.text import faster_than
from hypar.studies.remarks import baseline_scores, on_this_machine, remarks
from hypar.units import amount, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.plan.plan import Plan
    from hypar.plan.records import TrainingRecord
    from hypar.plan.stages import StagesRecord
    from hypar.sharding.tree import Split
    from hypar.studies.step import StepRows


def plugin(made: Plan | Score) -> Document:
    """Return the document of a plan or of a score."""
    if not isinstance(made, Score):
        return plan_document(made)
    from hypar.planning import sources  # noqa: PLC0415 (only for a score)

    rows = None
    with suppress(InputError):
        if plan := origin_of(made).plan:
            machine, graph = sources.machine_of(made), sources.network_of(made)
            rows = _step_rows(plan, hardware=machine, model=graph, optimizer=made.optimizer)
    return score_document(made, rows)


def _step_rows(plan: Plan, **given: Any) -> StepRows:
    """Return the rows of a step, whose modules a plan without a machine does not need."""
    from hypar.planning.replay import run_plan  # noqa: PLC0415 (as said)
    from hypar.studies.step import StepRows  # noqa: PLC0415 (as said)

    return StepRows(run_plan(plan, **given))


def plan_document(plan: Plan, *, full: bool = False, costs: bool = False) -> Document:
    """Return the document of a plan, of one that knows its network with the remarks on it, and its machine with its step.

    ``full`` gives a large network a row for each layer too, ``costs`` more of its step. Without pins it is compared with dp.
    """
    score, cells, most = plan.score, words.cells_of(plan), len(plan.layers) if full else words.MOST_ROWS
    made, scores = origin_of(plan), baseline_scores(plan)
    said = remarks(plan, scores) if made.network else []
    rows = _step_rows(plan) if made.network and made.machine else None
    base = None if plan.pins or plan.strategy == "dp" else scores.get("dp")
    cost = f"{plan.model.name}: {plan.cost.name} {amount(plan.cost.value, plan.cost.unit)} a step"
    beyond = ", in more shards than elements" * any(note.label == "shards" for note in said)
    return Document(
        title=(cost if score is None else steps.headed(plan.model.name, score, base)) + beyond,
        about=f"strategy {plan.strategy}, {words.asked(plan)}",
        tone=words.tone_of(score),
        parts=(
            words.data([*_choice_rows(plan)]),
            layers_table(plan, rows, most=most, costs=costs),
            *([steps.step_timeline(rows, most=most)] if rows else []),
            *steps.groups_table(score, plan.stages, rows if full or costs else None),
            *(steps.chunks_table(rows) if rows else []),
        ),
        notes=(
            *_schedule_notes(plan.stages),
            *_training_notes(plan.training),
            _cost_note(plan),
            *([] if score is None else steps.step_notes(plan, score, rows)),
            *_request_notes(plan),
            *(Note("" if at else "search", line) for at, line in enumerate(plan.claim.splitlines())),
            *said,
            *words.choice_notes(cells(split, layer) for split in plan.splits for layer in plan.layers),
        ),
    )


def score_document(score: Score, rows: StepRows | None = None) -> Document:
    """Return the document of a score, with its step if that is known."""
    ran = rows.ran if rows else None
    plan = ran.plan if ran else None
    return Document(
        title=steps.headed(plan.model.name if plan else "", score),
        about=f"strategy {plan.strategy}, {words.asked(plan)}" if plan else "",
        tone=words.tone_of(score),
        parts=(
            words.data([*_item_rows(score)]),
            *steps.groups_table(score, ran.stages if ran else None),
            *([steps.step_timeline(rows)] if rows else []),
        ),
        notes=(
            *steps.step_notes(plan, score, rows),
            *(on_this_machine(ran.plan, ran.machine) if ran else ()),
        ),
    )


def _item_rows(score: Score) -> Iterator[dict[str, Any]]:
    quantities = {
        ("time", "s"): (score.time_s, score.time),
        ("critical path", "s"): (score.time_s, score.critical),
        ("busy", "s"): (score.time_s, score.busy),
        ("energy", "J"): (score.energy_j, score.energy or {}),
        ("communication", "B"): (score.communication_bytes, score.communication),
        ("memory", "B"): (score.memory_bytes, score.memory),
    }
    for (quantity, unit), (total, items) in quantities.items():
        for item, value in {"total": total, **items}.items():
            yield {"quantity": quantity, "item": item, "value": value, "unit": unit}


def _choice_rows(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield a row for each layer and level, for data frames; one for each layer if no level cuts it."""
    stages, cells = words.stage_numbers(plan), words.cells_of(plan)
    for layer in plan.layers:
        first: dict[str, Any] = {"layer": layer, **({"stage": stages[layer]} if stages else {})}
        own = [split for split in plan.splits if layer in split.choices]
        for split in own:
            yield {
                **first, **({"group": split.group} if plan.heterogeneous else {}),
                "level": f"H{split.level + 1}", "ways": split.ways, "dim": split.dim(layer) or "whole",
                "choice": cells(split, layer).text, "cost": split.costs[layer], "unit": plan.cost.unit,
            }  # fmt: skip
        if not own:
            yield first


def layers_table(plan: Plan, rows: StepRows | None, *, most: int, costs: bool) -> Table:
    """Return a row for each layer or part, and their sum: of identical devices what it takes of a step, or else the cost.

    Seconds on the critical path add up to the step; with stages they are a layer's own. With ``costs`` rows have energies too.
    """
    parts, levels, cells = words.parts_of(plan, most=most), _levels(plan), words.cells_of(plan)
    folded, stages = len(parts) < len(plan.layers), words.stage_numbers(plan)
    rows = rows if costs or not (plan.heterogeneous or plan.staged) else None
    devices = words.devices_of(plan)
    takes = words.layers_cost(plan) if rows is None else partial(steps.spent, rows)

    def row(part: words.Part) -> dict[str, Any]:
        first = part.layers[0]
        choices = {column.key: cells(split, first) for column, split in levels}
        own = {"layer": part.title, "stage": stages.get(first), "devices": devices.get(first)}
        return own | choices | takes(part.layers)

    columns = (
        Column("layer", "layers" if folded else "layer"), Column("stage", unit="whole"),
        *(column for column, _ in levels),
        Column("devices", unit="whole"), Column("received", unit="bytes"),
        Column("energy", unit="joules", show=costs), Column("time", unit="seconds"),
        Column("cost", plan.cost.name, plan.cost.unit), Column("bar", "computes, receives" * (rows is not None), "bar"),
    )  # fmt: skip
    total = {"layer": f"all {len(plan.layers)} layers" if folded else "all layers", **takes(plan.layers)}
    apart = {"bar", "time"} if stages else {"bar"}
    return Table(columns, [*map(row, parts)], {key: own for key, own in total.items() if key not in apart})


def _levels(plan: Plan) -> list[tuple[Column, Split]]:
    """Return a column, as ``H1-H4``, of each group's successive levels at which every layer has one choice, and the first one."""
    cell, found = words.cells_of(plan), []
    choices = ((split, [cell(split, layer) for layer in plan.layers]) for split in plan.splits)
    for (group, _), run in groupby(choices, lambda pair: (pair[0].group, pair[1])):
        own = [split for split, _ in run]
        found.append((Column(key=words.levels_of(group, [split.level for split in own])), own[0]))
    return found


def _schedule_notes(stages: StagesRecord | None) -> Iterator[Note]:
    if stages is None or not stages.pipelined:
        return
    parts = f" in {stages.parts} parts" if stages.parts_of_each else ""
    each = f"{parts}, {_count(stages.microbatches, 'microbatch', 'es')} a mini-batch"
    by = f"{_count(len(stages.stages), 'stage')} by {stages.schedule}{each}"
    yield Note("stages", f"{by}; the costliest is busy {format_seconds(stages.bottleneck_s)} a step")


def _training_notes(own: TrainingRecord) -> Iterator[Note]:
    parts = f"{own.microbatches} microbatches a mini-batch" if own.microbatches > 1 else ""
    shares = f"ZeRO {own.zero}" if own.zero else ""
    again = f"recompute {own.recompute}" if own.recompute != AS_USUAL.recompute else ""
    if said := ", ".join(filter(None, (parts, own.precision, shares, again))):
        yield Note("training", said)


def _count(number: int, name: str, plural: str = "s") -> str:
    return f"{number} {name}{plural * (number != 1)}"


def _cost_note(plan: Plan) -> Note:
    """Return the cost that was minimised, level by level; a detail beside a score."""
    levels = ", ".join(
        f"{words.levels_of(split.group, [split.level])} {amount(split.cost, plan.cost.unit)}"
        for split in plan.splits
    )
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
    pairs = zip(split.sides or (), split.shares, strict=True)
    named = ", ".join(f"{side.group} {format(share, '.4g') if share else 'idle'}" for side, share in pairs)
    own = len(split.layer_shares or ())
    apart = f"; {_count(own, 'layer')} with shares of their own" if own else ""
    return f"{words.levels_of(split.group, [split.level])}: {named}{apart}"
