"""Plans as coloured HTML grids, for a notebook or a page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from hypar.reports.formats.base import (
    Report,
    grid,
    headline,
    level_names,
    stage_numbers,
    summary,
    unfit_line,
)
from hypar.reports.palette import colours_of
from hypar.units import amount

if TYPE_CHECKING:
    from hypar.plan.plan import Plan


class Html:
    """A report with one row for each layer, one column for each level, and a colour for each dim."""

    def render(self, plan: Plan) -> str:
        """Return one table with inline styles."""
        devices = ["devices"] if plan.in_grids else []
        stages = stage_numbers(plan)
        stage = ["stage"] * bool(stages)
        names = ["layer", *stage, *level_names(plan), plan.cost.name, *devices]
        heads = "".join(f"<th>{escape(name)}</th>" for name in names)
        rows = []
        for layer, words, dims, cost in grid(plan):
            cells = "".join(
                f'<td title="{escape(dim or "whole")}" style="background:{colours_of(dim).light};'
                f'color:{colours_of(dim).light_text};text-align:center">{escape(word)}</td>'
                for word, dim in zip(words, dims, strict=True)
            )
            rows.append(
                f'<tr><th style="text-align:left">{escape(layer)}</th>'
                f"{''.join(f'<td>{stages[layer]}</td>' for _ in stage)}{cells}"
                f"<td>{escape(amount(cost, plan.cost.unit))}</td>"
                f"{''.join(f'<td>{plan.devices(layer)}</td>' for _ in devices)}</tr>"
            )
        below = "".join(f"<div>{escape(line)}</div>" for line in summary(plan))
        unfit = unfit_line(plan.score)
        above = f'<div style="color:#c00"><strong>{escape(unfit)}</strong></div>' if unfit else ""
        return (
            f"<div>{above}<strong>{escape(headline(plan))}</strong><table><thead><tr>{heads}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table>{below}</div>\n"
        )


plugin: Report = Html()
