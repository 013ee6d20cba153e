"""The machine: every number with its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypar.reports.formats.base import on_machine
from hypar.reports.of.machines import machine_data
from hypar.reports.of.machines import value_text as shown
from hypar.reports.page.blocks import cell, details, head, name, note, number, region, row, table
from hypar.reports.page.blocks import section as section_of
from hypar.reports.page.html import Markup, markup, tag
from hypar.reports.page.numbers import printed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.studies.report.gather import Gathered

OPEN = ("open in ", "not given", "assumed")
"""How a source begins that leaves a number open."""


class Value(NamedTuple):
    """A number of a machine's file.

    Attributes:
        what: its field.
        shown: the number with its unit.
        source: its source.
        assumed: whether its source leaves it open.
    """

    what: str
    shown: str
    source: str
    assumed: bool


def values_of(machine: Machine | HeterogeneousMachine) -> list[Value]:
    """Return every number of a machine."""
    found = []
    for entry in machine_data(machine):
        source = str(entry["source"])
        text = shown(entry["value"], entry["unit"])
        found.append(Value(entry["what"], printed(text), source, source.startswith(OPEN)))
    return found


def section(found: Gathered) -> Markup:
    """Return the machine's numbers."""
    if found.machine is None:
        return section_of("machine", "The machine", note("None is named; hypar plan --hardware names one."))
    values = values_of(found.machine)
    heads = [head("what"), head("value", "r"), head("source")]
    body = (row(name(value.what), number(value.shown), _source(value)) for value in values)
    return section_of(
        "machine",
        "The machine",
        tag("p", tag("b", found.machine.name), ": every number with its source."),
        *(note(line) for line in _notes(found)),
        details(
            f"{len(values)} numbers and their sources", region("Sources", table(heads, body)), printed=True
        ),
    )


def _notes(found: Gathered) -> Iterator[str]:
    """Yield how the machine differs from its file, and from the one that the plan was made for."""
    score, planned = found.score, found.plan.score
    if score is None:
        return
    if score.hardware_changes:
        yield f"With changes: {on_machine(score)}."
    if planned is None:
        yield "The plan itself names no machine."
    elif on_machine(planned) != on_machine(score):
        yield f"The plan itself was scored {on_machine(planned)}."
    elif planned.hardware_digest != score.hardware_digest:
        yield "The machine\u2019s file has changed since the plan was made."


def _source(value: Value) -> Markup:
    flag = markup(tag("span", "assumed", class_="flag"), " ") if value.assumed else None
    return cell(markup(flag, value.source))
