"""The document of a plan: the answer, each layer's choices with what they cost, and notes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hypar.document import Cell, Column, Document, Grid, Note, Table, origin_of
from hypar.planning.counting import cost_convention
from hypar.reports.steps import data_table, groups_table, headed, step_notes
from hypar.reports.words import (
    MOST_ROWS,
    Level,
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
from hypar.studies.remarks import baseline_scores, in_headline, remarks
from hypar.units import amount, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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

SHOWN_BY_THE_STEP = {"volume", "time"}
"""The costs that are not shown layer by layer beside the bytes and the time of a step."""


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
    """Return the document of a plan beside those of its baselines.

    Args:
        plan: the plan.
        graph: the network that it is for.
        machine: the machine of its score.
        profile: the measured times that its cost used.
        full: whether a large network has a row for each layer too.
    """
    scores, ran = baseline_scores(plan, graph, machine, profile), None
    if machine is not None:
        from hypar.planning.replay import run_plan  # noqa: PLC0415 (only where a machine is named)

        ran = run_plan(plan, hardware=machine, model=graph)
    return plan_document(
        plan,
        ran=ran,
        base=scores.get("dp") if in_headline(plan) else None,
        said=remarks(plan, graph, machine, profile, scores),
        full=full,
    )


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
        base: the score of dp on the same machine; None if it is not known.
        said: remarks on the plan.
        full: whether a large network has a row for each layer too.
    """
    score, cells = plan.score, cells_of(plan)
    cost = f"{plan.cost.name} {amount(plan.cost.value, plan.cost.unit)} a step"
    name = plan.model.name
    used = (cells(split, layer) for split in plan.splits for layer in plan.layers)
    remarked = dict.fromkeys(note.label for note in said)
    return Document(
        title=f"{name}: {cost}" if score is None else headed(name, score, base),
        about=f"strategy {plan.strategy}, {asked(plan)}",
        tone=tone_of(score),
        parts=(
            data_table([*_choice_rows(plan)]),
            _layers_table(plan, ran, most=len(plan.layers) if full else MOST_ROWS),
            *groups_table(score, plan.stages),
            plan_grid(plan, ran),
        ),
        notes=(
            *_schedule_notes(plan.stages),
            *_cost_notes(plan),
            *([] if score is None else step_notes(plan, score, ran)),
            *_request_notes(plan),
            *(Note("" if at else "search", line) for at, line in enumerate(plan.claim.splitlines())),
            *(note for label in remarked for note in said if note.label == label),
            *choice_notes(used),
        ),
    )


def plan_grid(plan: Plan, ran: ScoredStep | None = None) -> Grid:
    """Return the picture of a plan: a row for each layer or part, a cell for each level, and bars of the time or of the cost."""
    cells, levels, costs = cells_of(plan), levels_of(plan, joined=False), layer_costs(plan)
    parts, steps = parts_of(plan), {} if ran is None else _steps(ran)
    rows = [tuple(cells(level.splits[0], part.layers[0]) for level in levels) for part in parts]
    bars = [{plan.cost.name: math.fsum(map(costs.__getitem__, part.layers))} for part in parts]
    if steps:
        spent = [
            [math.fsum(own) for own in zip(*map(steps.__getitem__, part.layers), strict=True)]
            for part in parts
        ]
        bars = [{"computes": computes, "receives": receives} for _, computes, receives in spent]
    return Grid(
        title=f"{plan.model.name}, {asked(plan)}",
        columns=tuple(f"{level.group} {level.name}".strip() for level in levels),
        rows=tuple((part.title, row) for part, row in zip(parts, rows, strict=True)),
        bars=tuple(bars),
        unit="seconds" if steps else plan.cost.unit,
        keys=choice_keys(cell for row in rows for cell in row),
    )


def _choice_rows(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield a row for each layer and level, for data frames; one for each layer if no level cuts it."""
    stages, cells = stage_numbers(plan), cells_of(plan)
    for layer in plan.layers:
        first: dict[str, Any] = {"layer": layer, **({"stage": stages[layer]} if stages else {})}
        own = [split for split in plan.splits if layer in split.choices]
        yield from ({**first, **_choice(plan, split, layer, cells(split, layer))} for split in own)
        if not own:
            yield first


def _choice(plan: Plan, split: Split, layer: str, cell: Cell) -> dict[str, Any]:
    return {
        **({"group": split.group} if plan.heterogeneous else {}),
        "level": f"H{split.level + 1}",
        "ways": split.ways,
        "dim": split.dim(layer) or "whole",
        "choice": cell.text,
        "cost": split.costs[layer],
        "unit": plan.cost.unit,
    }


def _layers_table(plan: Plan, ran: ScoredStep | None, *, most: int) -> Table:
    """Return a row for each layer or part, and their sum."""
    parts, levels = parts_of(plan, most=most), levels_of(plan)
    steps = {} if ran is None or plan.heterogeneous or plan.staged else _steps(ran)
    weighs = plan.cost.parameters.get("inter_weight", 1) != 1
    costs = not steps or weighs or plan.cost.name not in SHOWN_BY_THE_STEP
    values = _Values(plan, levels, steps, with_cost=costs)
    folded = len(parts) < len(plan.layers)
    columns = (
        Column(key="layer", head="layers" if folded else "layer"),
        Column(key="stage", unit="count"),
        *(Column(key=_key(level), head=level.name, group=level.group) for level in levels),
        Column(key="received", unit="bytes"),
        Column(key="time", unit="seconds"),
        Column(key="cost", head=plan.cost.name, unit=plan.cost.unit),
        Column(key="devices", unit="count"),
        Column(key="bar", head="", unit="bar"),
    )
    total = {"layer": f"all {len(plan.layers)} layers" if folded else "all layers"} | values.sums(plan.layers)
    if costs:
        total["cost"] = plan.cost.value
    return Table(columns=columns, rows=[values.row(part) for part in parts], total=total)


def _steps(ran: ScoredStep) -> dict[str, tuple[float, float, float]]:
    """Return the bytes that all devices receive for each layer, and its seconds of computation and of receiving."""
    from hypar.studies.step import StepRows  # noqa: PLC0415 (only where a machine is named)

    return {
        part.name: (part.num_bytes, part.computes_s, part.receives_s) for part in StepRows(ran=ran).layers
    }


def _key(level: Level) -> str:
    return f"{level.group} {level.name}".strip()


class _Values:
    """The values of the rows of a plan's table."""

    def __init__(
        self,
        plan: Plan,
        levels: Sequence[Level],
        steps: Mapping[str, tuple[float, float, float]],
        *,
        with_cost: bool,
    ) -> None:
        self.plan, self.levels, self.steps, self.with_cost = plan, levels, steps, with_cost
        self.cells, self.stages, self.costs = cells_of(plan), stage_numbers(plan), layer_costs(plan)

    def row(self, part: Part) -> dict[str, Any]:
        """Return the values of a row."""
        first = part.layers[0]
        own: dict[str, Any] = {"layer": part.title, "stage": self.stages.get(first)}
        own |= {_key(level): self.cells(level.splits[0], first) for level in self.levels}
        own |= {"devices": self.plan.devices(first)} if self.plan.in_grids else {}
        return own | self.sums(part.layers) | {"bar": self._bar(part.layers)}

    def sums(self, layers: Sequence[str]) -> dict[str, float]:
        """Return the numbers of several layers together."""
        found = {"cost": math.fsum(map(self.costs.__getitem__, layers))} if self.with_cost else {}
        if self.steps:
            received, *spent = (
                math.fsum(own) for own in zip(*map(self.steps.__getitem__, layers), strict=True)
            )
            found |= {"received": received, "time": math.fsum(spent)}
        return found

    def _bar(self, layers: Sequence[str]) -> tuple[float, float]:
        """Return what a bar shows as computation and as communication."""
        if self.steps:
            _, computes, receives = (
                math.fsum(own) for own in zip(*map(self.steps.__getitem__, layers), strict=True)
            )
            return computes, receives
        cost = math.fsum(map(self.costs.__getitem__, layers))
        return (0.0, cost) if self.plan.cost.unit == "bytes" else (cost, 0.0)


def _schedule_notes(stages: StagesRecord | None) -> Iterator[Note]:
    """Yield the schedule of several stages and the time of the costliest."""
    if stages is None or not stages.pipelined:
        return
    from hypar.schedule.pipeline_orders import SCHEDULES  # noqa: PLC0415 (only of stages)

    count = f"{len(stages.stages)} stage{'s' * (len(stages.stages) > 1)} by {stages.schedule}"
    each = ", mini-batches whole"
    if SCHEDULES[stages.schedule].flushes:
        parts = f" in {stages.parts} parts" if stages.parts_of_each else ""
        several = f"{stages.microbatches} microbatch{'es' * (stages.microbatches > 1)}"
        each = f"{parts}, {several} a mini-batch"
    yield Note("stages", f"{count}{each}; the costliest is busy {format_seconds(stages.bottleneck_s)} a step")


def _cost_notes(plan: Plan) -> Iterator[Note]:
    """Yield the cost that was minimised, level by level; a detail beside a score, unless both are times that differ."""
    alone = ", summed over all stages" if plan.staged else ""
    differs = plan.score is not None and bool(plan.score.overlapped_s) and plan.cost.name == "time"
    if differs:
        alone = ", without overlap"
    levels = ", ".join(
        f"{level.group} {level.name} ".lstrip()
        + amount(math.fsum(split.cost for split in level.splits), plan.cost.unit)
        for level in levels_of(plan, joined=plan.heterogeneous)
    )
    total = f"{plan.cost.name} {amount(plan.cost.value, plan.cost.unit)} a step{alone}"
    counted = f"by the convention {cost_convention(plan)!r}"
    yield Note(
        "cost", f"{total}, {counted}" + f": {levels}" * bool(levels), plan.score is not None and not differs
    )


def _request_notes(plan: Plan) -> Iterator[Note]:
    """Yield what was asked for beyond a strategy and an array, and what came of it."""
    yield from (Note("shares", line) for line in share_lines(plan))
    weight = plan.cost.parameters.get("inter_weight", 1)
    if weight != 1:
        yield Note("weight", f"communication between layers counts {weight} times")
    if plan.pins:
        yield Note("pins", ", ".join(plan.pins))
    if plan.baselines is not None:
        times = (f"{name} {format_seconds(seconds)}" for name, seconds in plan.baselines.step_s.items())
        yield Note("timed", f"{', '.join(times)} a step; taken: {plan.baselines.taken}")
    if plan.refined is not None:
        yield Note("refined", _refinement(plan))
    if plan.chunks is not None:
        yield Note("chunks", f"gradients in {plan.chunks.words}{_chunks_gain(plan)}")


def share_lines(plan: Plan) -> Iterator[str]:
    """Yield the shares at every uneven split of a heterogeneous machine, with the idle groups."""
    for split in plan.splits:
        if split.sides is None:
            continue
        named = [
            f"{record.group} {share:.4g}" if share else f"{record.group} idle"
            for record, share in zip(split.sides, split.shares, strict=True)
        ]
        own = len(split.layer_shares or ())
        apart = f"; {own} layer{'s' * (own > 1)} with shares of their own" if own else ""
        group = "" if split.group == "all" else f" of {split.group}"
        yield f"H{split.level + 1}{group}: {', '.join(named)}{apart}"


def _refinement(plan: Plan) -> str:
    assert plan.refined is not None  # noqa: S101 (asked by the caller)
    before, after, changed = plan.refined.before_s, plan.refined.after_s, plan.refined.changed
    gain = 1 - after / before if before else 0.0
    times = f"{format_seconds(before)} to {format_seconds(after)}, {gain:.2%} less"
    return f"{changed} choice{'s' * (changed != 1)} changed for the time of the whole step: {times}"


def _chunks_gain(plan: Plan) -> str:
    score, chunks = plan.score, plan.chunks
    if score is None or chunks is None or not 0 < chunks.alone_s != score.time_s:
        return ""
    gain = 1 - score.time_s / chunks.alone_s
    times = f"{format_seconds(score.time_s)} against {format_seconds(chunks.alone_s)}"
    return f"; {times} with each layer by itself, {abs(gain):.2%} {'less' if gain > 0 else 'more'}"
