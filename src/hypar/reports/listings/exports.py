"""Listings of problems that were written for another tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Note
from hypar.reports.listings.base import Data, make_table

if TYPE_CHECKING:
    from hypar.reports.columns import Sheet
    from hypar.reports.exports.base import Exported


def export_data(found: Exported) -> dict[str, Any]:
    """Return the problems that were written, and those that were not, each with the reason."""
    written: Data = [
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
    refused: Data = [
        {"layer": problem.layer, "phase": problem.phase, "piece": problem.number, "reason": reason}
        for problem, reason in found.refused
    ]
    return {"written": written, "refused": refused}


def export_table(found: Exported) -> Sheet:
    """Return one row for each problem that was written."""
    table = make_table(["name", "devices", "times", "MACs each"], "lrrr")
    for problem, entry in found.entries:
        table.add_row(entry.name, f"{problem.devices:,}", f"{entry.times:,}", f"{entry.macs:,}")
    return table


def export_notes(found: Exported) -> list[Note]:
    """Explain the columns, and name what was not written."""
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
    return notes
