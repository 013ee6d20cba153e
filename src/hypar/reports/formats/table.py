"""Plans as tables for a terminal, one row for each layer and one column for each level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from hypar.reports.formats.base import (
    Report,
    columns,
    grid,
    headline,
    level_names,
    stage_numbers,
    summary,
    unfit_line,
)
from hypar.reports.palette import colours_of
from hypar.reports.terminal import as_text
from hypar.units import amount

if TYPE_CHECKING:
    from hypar.plan.plan import Plan


class PlanTable:
    """A report as a table, plain or coloured by a console."""

    def render(self, plan: Plan) -> str:
        """Return the table without colours."""
        above = "\n".join(filter(None, [unfit_line(plan.score), headline(plan)]))
        return as_text(self.table(plan), above=above, below=summary(plan))

    @staticmethod
    def table(plan: Plan) -> Table:
        """Return the grid with its costs."""
        table, stages = Table(), stage_numbers(plan)
        table.add_column("layer", no_wrap=True)
        for name in ["stage"] * bool(stages):
            table.add_column(name, justify="right", no_wrap=True)
        for name in level_names(plan):
            table.add_column(name, justify="center", no_wrap=True)
        table.add_column(plan.cost.name, justify="right", no_wrap=True)
        devices = plan.in_grids
        if devices:
            table.add_column("devices", justify="right", no_wrap=True)
        ends = set() if plan.stages is None else {own.layers[-1] for own in plan.stages.stages}
        rows: list[tuple[str | Text, ...]] = []
        for layer, words, dims, cost in grid(plan):
            cells = [
                Text(word, style=colours_of(dim).terminal) for word, dim in zip(words, dims, strict=True)
            ]
            used = [str(plan.devices(layer))] if devices else []
            stage = [str(stages[layer])] if stages else []
            rows.append((layer, *stage, *cells, amount(cost, plan.cost.unit), *used))
            if layer in ends:
                _add_lines(table, rows)
                rows = []
        _add_lines(table, rows)
        costs = [amount(column.cost, plan.cost.unit) for column in columns(plan)]
        table.add_row("all layers", *[""] * bool(stages), *costs, amount(plan.cost.value, plan.cost.unit))
        return table


def _add_lines(table: Table, rows: list[tuple[str | Text, ...]]) -> None:
    """Add a section of rows as one row of as many lines, which rich lays out in less than half the time."""
    if rows:
        table.add_row(*[Text("\n").join(map(Text.assemble, cells)) for cells in zip(*rows, strict=True)])
        table.add_section()


plugin: Report = PlanTable()
