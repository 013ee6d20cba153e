"""Documents of problems that were written for another tool."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Note, Table

if TYPE_CHECKING:
    from hypar.reports.exports.base import Exported
    from hypar.studies.pieces import Problem

_WRITTEN = (
    Column(key="name"),
    *(Column(key=key, show=False) for key in ("layer", "phase", "piece")),
    Column(key="devices", unit="whole"),
    Column(key="times", unit="whole"),
    Column(key="macs", head="MACs each", unit="whole"),
)


def _place(problem: Problem) -> dict[str, Any]:
    return {"layer": problem.layer, "phase": problem.phase, "piece": problem.number}


def export_data(found: Exported) -> dict[str, Any]:
    """Return the problems that were written, and those that were not, each with the reason."""
    refused = [{**_place(problem), "reason": reason} for problem, reason in found.refused]
    return {"written": document_of(found).records(), "refused": refused}


def document_of(found: Exported) -> Document:
    """Return one row for each problem that was written, and name what was not."""
    rows = [
        {**entry._asdict(), **_place(problem), "devices": problem.devices} for problem, entry in found.entries
    ]
    notes = [
        Note("devices", "number of devices that compute it"),
        Note("times", "how often each of them does: samples and groups that the format cannot express"),
    ]
    reasons = defaultdict[str, list[str]](list)
    for problem, reason in found.refused:
        reasons[reason].append(problem.name)
    for reason, names in reasons.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        notes.append(Note("left out", f"{', '.join(names[:3])}{more}: {reason}"))
    return Document(title="", parts=(Table(_WRITTEN, rows),), notes=tuple(notes))


plugin = document_of
