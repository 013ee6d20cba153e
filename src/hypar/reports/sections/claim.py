"""What is claimed of the plan, and what its numbers assume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.formats.base import share_lines, summary
from hypar.reports.page.blocks import details, note
from hypar.reports.page.blocks import section as section_of
from hypar.reports.page.html import Markup, tag
from hypar.reports.page.numbers import prose
from hypar.reports.sections.machine import Value, values_of

if TYPE_CHECKING:
    from hypar.studies.report.gather import Gathered


def section(found: Gathered) -> Markup:
    """Return the claim and the assumptions."""
    claim = found.plan.claim
    parts = [tag("p", tag("b", f"{claim[:1].upper()}{claim[1:]}."))]
    parts += [note(prose(line)) for line in _lines(found)]
    if found.machine is None:
        parts.append(tag("p", "Nothing is said about time, energy and memory: the plan names no machine."))
        return section_of("claim", "What is claimed, and what is assumed", *parts)
    values = values_of(found.machine)
    assumed = [value for value in values if value.assumed]
    parts.append(tag("p", "Times, energies and bytes are those of a model of the machine, not measured."))
    if assumed:
        text = f"{len(assumed)} of the machine\u2019s {len(values)} numbers are assumed or left open by their source"
        parts.append(details(text, tag("ul", *map(_item, assumed), class_="small")))
    return section_of("claim", "What is claimed, and what is assumed", *parts)


def _lines(found: Gathered) -> list[str]:
    """Return the lines of the plan's summary that say how it was found."""
    plan = found.plan.model_copy(update={"score": None})
    above = {plan.claim, *share_lines(plan)}
    return [*(line for line in summary(plan) if line not in above), *found.notes]


def _item(value: Value) -> Markup:
    return tag(
        "li",
        tag("span", value.what, class_="m any"),
        f" = {value.shown}: ",
        tag("span", value.source, class_="muted"),
    )
