"""The document of a plan: the answer, each layer's choices with what they cost, and notes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from hypar.document import Column, Document, Grid, Note, Table, origin_of
from hypar.planning.counting import cost_convention
from hypar.reports.charts import pieces
from hypar.reports.of.base import data
from hypar.reports.steps import chunks_table, groups_table, headed, stages_memory, step_notes
from hypar.reports.words import (
    MOST_ROWS,
    asked,
    cells_of,
    choice_keys,
    choice_notes,
    layer_costs,
    levels_of,
    parts_of,
    stage_numbers,
    tone_of,
)
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.studies.remarks import baseline_scores, remarks
from hypar.units import amount, format_seconds

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
    """Return the document of a plan.

    Args:
        plan: the plan.
        ran: its step, which gives the bytes and the time of each layer.
        base: the score of dp on the same machine, which a plan without pins is compared with.
        said: remarks on the plan.
        full: whether a large network has a row for each layer too.
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
    cells, levels, parts = cells_of(plan), levels_of(plan, joined=False), parts_of(plan)
    sums = _sums(plan, ran)
    rows = [tuple(cells(level.splits[0], part.layers[0]) for level in levels) for part in parts]
    spent = [sums(part.layers) for part in parts]
    return Grid(
        title=f"{plan.model.name}, {asked(plan)}",
        columns=tuple(level.key for level in levels),
        rows=tuple((part.title, row) for part, row in zip(parts, rows, strict=True)),
        bars=tuple(
            {"computes": own.computes, "receives": own.receives} if ran else {plan.cost.name: own.cost}
            for own in spent
        ),
        unit="seconds" if ran else plan.cost.unit,
        keys=_colour_keys(cell for row in rows for cell in row),
    )


class _Sums(NamedTuple):
    """What layers cost, the bytes that all devices receive for them, and their seconds of computation and of receiving."""

    cost: float
    received: float = 0.0
    computes: float = 0.0
    receives: float = 0.0


def _sums(plan: Plan, ran: ScoredStep | None) -> Callable[[Sequence[str]], _Sums]:
    """Return the function that adds up layers; without a step its bytes and seconds are 0."""
    each = {layer: _Sums(cost) for layer, cost in layer_costs(plan).items()}
    if ran is not None:
        from hypar.studies.step import StepRows  # noqa: PLC0415 (only where a machine is named)

        for row in StepRows(ran=ran).layers:
            each[row.name] = _Sums(each[row.name].cost, row.num_bytes, row.computes_s, row.receives_s)

    def added(layers: Sequence[str]) -> _Sums:
        return _Sums(*map(math.fsum, zip(*map(each.__getitem__, layers), strict=True)))

    return added


def _colour_keys(cells: Iterable[Cell]) -> dict[str, str]:
    """Return what the colour of each dim means, with its word."""
    used = [*dict.fromkeys(cells)]
    means, found = choice_keys(used), dict[str, str]()
    for word, dim, _ in (piece for cell in used for piece in pieces(cell)):
        own = word if word in means else word.rstrip("0123456789")
        if own in means:
            found.setdefault(dim, f"{own} {means[own]}".rstrip())
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
    parts, levels, sums = parts_of(plan, most=most), levels_of(plan), _sums(plan, ran)
    cells, stages = cells_of(plan), stage_numbers(plan)
    folded = len(parts) < len(plan.layers)

    def numbers(name: str, layers: Sequence[str]) -> dict[str, Any]:
        own = sums(layers)
        step = {"received": own.received, "time": own.computes + own.receives}
        return {"layer": name, **(step if ran else {"cost": own.cost})}

    def row(part: Part) -> dict[str, Any]:
        first, own = part.layers[0], sums(part.layers)
        alone = (0.0, own.cost) if plan.cost.unit == "bytes" else (own.cost, 0.0)
        return {
            **numbers(part.title, part.layers),
            **{level.key: cells(level.splits[0], first) for level in levels},
            "stage": stages.get(first),
            "devices": plan.devices(first) if plan.in_grids else None,
            "bar": (own.computes, own.receives) if ran else alone,
        }

    columns = (
        Column(key="layer", head="layers" if folded else "layer"),
        Column(key="stage", unit="whole"),
        *(Column(key=level.key, head=level.name, group=level.group) for level in levels),
        Column(key="received", unit="bytes"),
        Column(key="time", unit="seconds"),
        Column(key="cost", head=plan.cost.name, unit=plan.cost.unit),
        Column(key="devices", unit="whole"),
        Column(key="bar", head="", unit="bar"),
    )
    total = numbers(f"all {len(plan.layers)} layers" if folded else "all layers", plan.layers)
    return Table(columns=columns, rows=[*map(row, parts)], total=total)


def _schedule_notes(stages: StagesRecord | None) -> Iterator[Note]:
    """Yield the schedule of several stages and the time of the costliest."""
    if stages is None or not stages.pipelined:
        return
    from hypar.schedule.pipeline_orders import SCHEDULES  # noqa: PLC0415 (only of stages)

    each = ", mini-batches whole"
    if SCHEDULES[stages.schedule].flushes:
        parts = f" in {stages.parts} parts" if stages.parts_of_each else ""
        each = f"{parts}, {_count(stages.microbatches, 'microbatch', 'es')} a mini-batch"
    by = f"{_count(len(stages.stages), 'stage')} by {stages.schedule}{each}"
    yield Note("stages", f"{by}; the costliest is busy {format_seconds(stages.bottleneck_s)} a step")


def _count(number: int, name: str, plural: str = "s") -> str:
    return f"{number} {name}{plural * (number != 1)}"


def _cost_note(plan: Plan) -> Note:
    """Return the cost that was minimised, level by level; a detail beside a score."""
    levels = ", ".join(
        f"{level.key} " + amount(math.fsum(split.cost for split in level.splits), plan.cost.unit)
        for level in levels_of(plan, joined=plan.heterogeneous)
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
        gain = _gain(plan.refined.after_s, plan.refined.before_s)
        yield Note(
            "refined", f"{_count(plan.refined.changed, 'choice')} by the time of the whole step: {gain}"
        )
    if plan.chunks is not None:
        own, alone = plan.score.time_s if plan.score else 0.0, plan.chunks.alone_s
        gain = f"; {_gain(own, alone)} with each layer by itself" if own and 0 < alone != own else ""
        yield Note("chunks", f"gradients in {plan.chunks.words}{gain}")


def _gain(own: float, other: float) -> str:
    """Compare two times: ``7.37 ms, 12.50% less than 8.42 ms``."""
    share = 1 - own / other if other else 0.0
    word = "more" if share < 0 else "less"
    return f"{format_seconds(own)}, {abs(share):.2%} {word} than {format_seconds(other)}"


def _shares(split: Split) -> str:
    """Name the shares of the device groups at an uneven split, and the idle groups."""
    named = [
        f"{record.group} {share:.4g}" if share else f"{record.group} idle"
        for record, share in zip(split.sides or (), split.shares, strict=True)
    ]
    own = len(split.layer_shares or ())
    apart = f"; {_count(own, 'layer')} with shares of their own" if own else ""
    group = "" if split.group == WHOLE_ARRAY else f" of {split.group}"
    return f"H{split.level + 1}{group}: {', '.join(named)}{apart}"
