"""A plan as a Markdown table, for a pull request or a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.base import Report, amount, grid, headline, level_names, summary

if TYPE_CHECKING:
    from hypar.plan import Plan


class Markdown:
    """GitHub's table syntax."""

    def render(self, plan: Plan) -> str:
        """Title, grid, summary."""
        names, devices = level_names(plan), ["devices"] if plan.in_grids else []
        lines = [
            f"**{headline(plan)}**",
            "",
            f"| {' | '.join(['layer', *names, plan.cost.name, *devices])} |",
            f"|---|{':-:|' * len(names)}--:|{'--:|' * len(devices)}",
        ]
        for layer, words, _, cost in grid(plan):
            used = [str(plan.devices(layer)) for _ in devices]
            lines.append(f"| {' | '.join([layer, *words, amount(cost, plan.cost.unit), *used])} |")
        return "\n".join([*lines, "", *(f"- {line}" for line in summary(plan))]) + "\n"


plugin: Report = Markdown()
