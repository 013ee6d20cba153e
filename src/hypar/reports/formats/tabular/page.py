"""Pages of plans: one row for each layer and one column for each level, with notes below."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hypar.reports.columns import Cell, Column, Sheet
from hypar.reports.formats.base import namer, on_machine, question, stage_numbers
from hypar.reports.formats.tabular.notes import groups_table, legend, plan_notes, stages_notes
from hypar.reports.formats.tabular.parts import MOST_ROWS, Row, fold
from hypar.reports.palette import colours_of
from hypar.reports.terminal import Page
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.units import amount, faster_than, format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.planning.replay import ScoredStep
    from hypar.sharding.tree import Split

SHOWN_BY_THE_STEP = {"volume", "time"}
"""The costs that are not shown layer by layer beside the bytes and the time of a step."""


class LevelColumn(NamedTuple):
    """A column of choices: successive levels at which each row has one choice.

    Attributes:
        group: the group of devices; empty if there is one.
        splits: the levels.
    """

    group: str
    splits: tuple[Split, ...]

    @property
    def head(self) -> str:
        """Return the names of the levels, as ``H1-H4``."""
        return "-".join(dict.fromkeys(f"H{split.level + 1}" for split in (self.splits[0], self.splits[-1])))


class LayerStep(NamedTuple):
    """The part of a step that belongs to a layer.

    Attributes:
        received_bytes: the bytes that all devices receive for it.
        computes_s: seconds that a device computes.
        receives_s: seconds that it receives.
    """

    received_bytes: float
    computes_s: float
    receives_s: float


def plan_page(
    plan: Plan,
    *,
    ran: ScoredStep | None = None,
    dp_s: float | None = None,
    full: bool = False,
    said: Sequence[str] = (),
) -> Page:
    """Return a plan with its costs and its claim.

    Args:
        plan: the plan.
        ran: its step, which gives the bytes and the time of each layer.
        dp_s: the time of a step by dp on the same machine; None if it is not known.
        full: whether a large network has a row for each layer too.
        said: findings on the plan, to print with its claim.
    """
    levels = _levels(plan)
    steps = {} if ran is None or plan.heterogeneous or plan.staged else layer_steps(ran)
    rows = list(_rows(plan, levels, steps))
    words = [word for row in rows for word in row.words]
    dims = [dim for row in rows for dim in row.dims]
    folded = not full and len(rows) > MOST_ROWS
    more = "; --full shows every layer" if folded else ""
    return Page(
        above=f"{heading(plan, plan.score, dp_s)}{more}",
        tables=[
            _sheet(plan, levels, fold(rows) if folded else rows, layers=len(rows), ran=bool(steps)),
            *groups_table(plan.score, plan.stages),
        ],
        below=[*stages_notes(plan.stages), *plan_notes(plan, said), *legend(words, dims)],
    )


def heading(plan: Plan, score: Score | None, dp_s: float | None = None) -> str:
    """Return the time of a step on a machine, otherwise the cost that was minimised, and below it the question.

    Args:
        plan: the plan.
        score: its score on the machine, if there is one.
        dp_s: the time of a step by dp on that machine; None if it is not known.
    """
    name = plan.model.name
    answer = f"{name}: {plan.cost.name} {amount(plan.cost.value, plan.cost.unit)} a step"
    if score is not None:
        answer = f"{name} {on_machine(score)}: {format_seconds(score.time_s)} a step"
        answer += "" if dp_s is None else f", {faster_than('dp', dp_s, score.time_s)}"
    return f"{answer}\nstrategy {plan.strategy}, {question(plan).removeprefix(f'{name}, ')}"


def layer_steps(ran: ScoredStep) -> dict[str, LayerStep]:
    """Sum the tasks of each layer in a step of identical devices: its computation, and the transfers to it."""
    sums = [[0.0, 0.0, 0.0] for _ in ran.plan.layers]
    for task, layer, move in zip(ran.step.tasks, ran.step.layers, ran.step.moves, strict=True):
        if move is None:
            sums[layer][1] += task.seconds
        else:
            sums[layer][0] += move.total_bytes
            sums[layer][2] += task.seconds
    return {name: LayerStep(*own) for name, own in zip(ran.plan.layers, sums, strict=True)}


def _levels(plan: Plan) -> list[LevelColumn]:
    """Return a column for each level, or for several levels at which every layer has one choice."""
    word = namer(plan)
    found: list[LevelColumn] = []
    last: list[str] = []
    for split in plan.splits:
        group = "" if split.group == WHOLE_ARRAY else split.group
        words = [word(split, layer) for layer in plan.layers]
        if found and words == last and group == found[-1].group:
            found[-1] = LevelColumn(group, (*found[-1].splits, split))
        else:
            found.append(LevelColumn(group, (split,)))
        last = words
    return found


def _rows(plan: Plan, levels: Sequence[LevelColumn], steps: dict[str, LayerStep]) -> Iterator[Row]:
    """Yield a row for each layer, with its cost and the sums of its step."""
    word, stages = namer(plan), stage_numbers(plan)
    for layer in plan.layers:
        splits = [level.splits[0] for level in levels]
        yield Row(
            name=layer,
            stage=stages.get(layer, 0),
            words=tuple(word(split, layer) for split in splits),
            dims=tuple(split.dim(layer) if layer in split.choices else None for split in splits),
            amounts=(
                math.fsum(split.costs.get(layer, 0) for split in plan.summed),
                *steps.get(layer, LayerStep(0.0, 0.0, 0.0)),
            ),
            devices=plan.devices(layer) if plan.in_grids else 0,
        )


def _sheet(
    plan: Plan, levels: Sequence[LevelColumn], rows: Sequence[Row], *, layers: int, ran: bool
) -> Sheet:
    """Return the table of rows, with a last row for their sum."""
    weighs = plan.cost.parameters.get("inter_weight", 1) != 1
    costs = not ran or weighs or plan.cost.name not in SHOWN_BY_THE_STEP
    staged, grids = any(row.stage for row in rows), any(row.devices for row in rows)
    heads = [("stage", staged), *[("", True)] * len(levels), ("received", ran), ("time", ran)]
    heads += [(plan.cost.name, costs), ("devices", grids)]
    shown = [has for _, has in heads]
    columns = [Column(head="layer" if len(rows) == layers else "part", cells=(), key=True)]
    columns += [Column(head=head, cells=(), right=True) for head, _ in heads]
    for at, level in enumerate(levels, 2):
        columns[at] = Column(head=level.head, cells=(), group=level.group)
    sheet = Sheet(
        columns=[
            *(column for column, has in zip(columns, [True, *shown], strict=True) if has),
            Column(head="", cells=(), bar=True),
        ]
    )
    largest = max(_lengths(row, ran=ran)[2] for row in rows)
    for row in rows:
        cost, received, *times = row.amounts
        cells = [
            Cell(str(row.stage)),
            *(Cell(word, _style(dim)) for word, dim in zip(row.words, row.dims, strict=True)),
            Cell(format_bytes(received)),
            Cell(format_seconds(math.fsum(times))),
            Cell(amount(cost, plan.cost.unit)),
            Cell(str(row.devices)),
        ]
        computes, receives, _ = _lengths(row, ran=ran, unit=plan.cost.unit)
        bar = Cell(computes=computes / largest, receives=receives / largest) if largest else Cell()
        sheet.add_row(row.title, *(cell for cell, has in zip(cells, shown, strict=True) if has), bar)
    sums = [math.fsum(own) for own in zip(*(row.amounts for row in rows), strict=True)]
    last = ["", *[""] * len(levels), format_bytes(sums[1]), format_seconds(sums[2] + sums[3])]
    last += [amount(plan.cost.value, plan.cost.unit), ""]
    name = "all layers" if len(rows) == layers else f"all {layers} layers"
    totals = [Cell(text, "bold") for text, has in zip(last, shown, strict=True) if has]
    sheet.add_row(Cell(name, "bold"), *totals, Cell())
    return sheet


def _style(dim: str | None) -> str:
    """Return the colour of a choice; none for several dims at once."""
    return "" if dim and "*" in dim else colours_of(dim).terminal


def _lengths(row: Row, *, ran: bool, unit: str = "") -> tuple[float, float, float]:
    """Return what a row's bar shows as computation and as communication, and their sum."""
    cost, _, computes, receives = row.amounts
    if not ran:
        computes, receives = (0.0, cost) if unit == "bytes" else (cost, 0.0)
    return computes, receives, computes + receives
