"""Plans as tables for a terminal, one row for each layer and one column for each level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.formats.base import Report, unfit_line
from hypar.reports.formats.tabular.page import plan_page
from hypar.reports.terminal import as_text, width
from hypar.reports.text import hanging

if TYPE_CHECKING:
    from hypar.plan.plan import Plan


class PlanTable:
    """A report as a table, plain or coloured by a console."""

    def render(self, plan: Plan) -> str:
        """Return the table without colours."""
        unfit = unfit_line(plan.score)
        return "".join(f"{line}\n" for line in hanging(unfit, width()) if line) + as_text(plan_page(plan))


plugin: Report = PlanTable()
