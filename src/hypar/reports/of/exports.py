"""Documents of problems that were written for another tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Note, Table

if TYPE_CHECKING:
    from hypar.reports.exports.base import Exported

_WRITTEN = (
    Column(key="name"),
    Column(key="layer", show=False),
    Column(key="phase", show=False),
    Column(key="piece", show=False),
    Column(key="devices", unit="whole"),
    Column(key="times", unit="whole"),
    Column(key="macs", head="MACs each", unit="whole"),
)


def export_data(found: Exported) -> dict[str, Any]:
    """Return the problems that were written, and those that were not, each with the reason."""
    refused = [
        {"layer": problem.layer, "phase": problem.phase, "piece": problem.number, "reason": reason}
        for problem, reason in found.refused
    ]
    return {"written": document_of(found).records(), "refused": refused}


def document_of(found: Exported) -> Document:
    """Return one row for each problem that was written, and name what was not."""
    rows = [
        {
            "name": entry.name,
            "layer": problem.layer,
            "phase": problem.phase,
            "piece": problem.number,
            "devices": problem.devices,
            "times": entry.times,
            "macs": entry.macs,
        }
        for problem, entry in found.entries
    ]
    notes = [
        Note("devices", "number of devices that compute it"),
        Note("times", "how often each of them does: samples and groups that the format cannot express"),
    ]
    reasons: dict[str, list[str]] = {}
    for problem, reason in found.refused:
        reasons.setdefault(reason, []).append(problem.name)
    for reason, names in reasons.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        notes.append(Note("left out", f"{', '.join(names[:3])}{more}: {reason}"))
    return Document(title="", parts=(Table(_WRITTEN, rows),), notes=tuple(notes))


plugin = document_of
