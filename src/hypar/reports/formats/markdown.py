"""Plans as Markdown tables, for a pull request or a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.formats.base import Report, grid, headline, level_names, stage_numbers, summary, unfit_line
from hypar.units import amount

if TYPE_CHECKING:
    from hypar.plan.plan import Plan


_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", "[": "\\["})
"""Characters of names that Markdown would take for HTML or for a link; the report has none of its own."""


class Markdown:
    """A report in GitHub's table syntax."""

    def render(self, plan: Plan) -> str:
        """Return the title, the grid and the summary."""
        names, devices = level_names(plan), ["devices"] if plan.in_grids else []
        stages = stage_numbers(plan)
        stage = ["stage"] * bool(stages)
        unfit = unfit_line(plan.score)
        lines = [
            *([f"**{unfit}**", ""] if unfit else []),
            f"**{headline(plan)}**",
            "",
            f"| {' | '.join(['layer', *stage, *names, plan.cost.name, *devices])} |",
            f"|---|{'--:|' * len(stage)}{':-:|' * len(names)}--:|{'--:|' * len(devices)}",
        ]
        for layer, words, _, cost in grid(plan):
            used = [str(plan.devices(layer)) for _ in devices]
            number = [str(stages[layer]) for _ in stage]
            lines.append(f"| {' | '.join([layer, *number, *words, amount(cost, plan.cost.unit), *used])} |")
        lines += ["", *(f"- {line}" for line in summary(plan)), ""]
        return "\n".join(lines).translate(_TEXT)


plugin: Report = Markdown()
