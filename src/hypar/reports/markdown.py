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
        names = level_names(plan)
        lines = [
            f"**{headline(plan)}**",
            "",
            f"| layer | {' | '.join(names)} | {plan.cost.name} |",
            f"|---|{':-:|' * len(names)}--:|",
        ]
        for layer, words, _, cost in grid(plan):
            lines.append(f"| {layer} | {' | '.join(words)} | {amount(cost, plan.cost.unit)} |")
        return "\n".join([*lines, "", *(f"- {line}" for line in summary(plan))]) + "\n"


plugin: Report = Markdown()
