"""Listings of steps whose gradients are exchanged in chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Note
from hypar.reports.listings.base import make_table
from hypar.reports.steps import step_notes
from hypar.reports.words import asked, on_machine
from hypar.units import format_bytes, format_gain, format_seconds

if TYPE_CHECKING:
    from hypar.reports.columns import Sheet
    from hypar.studies.overlap.result import Chunk, Overlap


def overlap_data(found: Overlap) -> dict[str, Any]:
    """Return the step and every chunk with its parameters."""
    graph, machine, time = found.graph, found.machine, found.ran.score.time
    return {
        "model": {"name": graph.name, "digest": graph.digest, "batch": graph.batch if machine else None},
        "hardware": machine and machine.name,
        "hardware_changes": dict(machine.changes) if machine else {},
        "array": list(found.array),
        "table": found.table,
        "exchange": found.exchange,
        "chunks_by": found.by,
        "step_s": found.step_s,
        "typical_s": found.typical_s,
        "speedup": found.speedup,
        "forward_s": time["forward"],
        "backward_s": time["backward"] + time["gradient"],
        "exchange_s": time["communication"],
        "update_s": time["update"],
        "critical_layer": found.critical_layer,
        "chunks": [_chunk_data(chunk) for chunk in found.chunks],
    }


def _chunk_data(chunk: Chunk) -> dict[str, Any]:
    """Return one chunk."""
    return {
        "layers": list(chunk.layers),
        "parameters": list(chunk.parameters),
        "bytes": chunk.num_bytes,
        "ready_s": chunk.ready_s,
        "start_s": chunk.start_s,
        "end_s": chunk.end_s,
    }


def overlap_table(found: Overlap) -> Sheet:
    """Return one row for each chunk: its first and last parameter, its size, and the times of its exchange."""
    heads = ["chunk", "layers", "from", "to", "gradients", "ready", "begins", "ends"]
    table = make_table(heads, "rrllrrrr")
    for number, chunk in enumerate(found.chunks):
        names = chunk.parameters or chunk.layers
        times = map(format_seconds, (chunk.ready_s, chunk.start_s, chunk.end_s))
        sizes = (str(number + 1), str(len(chunk.layers)), names[0], names[-1], format_bytes(chunk.num_bytes))
        table.add_row(*sizes, *times)
    return table


def overlap_head(found: Overlap) -> str:
    """Describe the network, the source of its times, and the exchange of its gradients."""
    manner = f"exchange {found.exchange}, chunks {found.by}"
    times = "" if found.table is None else f", measured times {found.table!r}"
    if found.machine is None:
        return f"{found.graph.name}{times}, {manner}"
    return f"{found.plan.model.name}, {asked(found.plan)} {on_machine(found.ran.score)}{times}, {manner}"


def overlap_answer(found: Overlap) -> str:
    """Return the time of a step, and how much faster it is than the exchange after the backward phase."""
    over = format_gain(found.typical_s, found.step_s, digits=4)
    count = len(found.chunks)
    than = f", {over} faster than without chunks" if over else ""
    chunks = f"{count} chunk{'s' * (count != 1)}"
    return f"{found.graph.name}: {format_seconds(found.step_s)} a step with {chunks}{than}\n{overlap_head(found)}"


def overlap_notes(found: Overlap) -> list[Note]:
    """Compare the step with the typical one, and state its critical layer and the claim made for the chunks."""
    typical = format_seconds(found.typical_s)
    over = format_gain(found.typical_s, found.step_s, digits=4) or "1.000x"
    critical = "computation alone"
    if found.critical is not None:
        critical = f"layer {found.critical_layer}, the last of chunk {found.critical + 1}"
    return [
        Note(
            "step",
            f"{format_seconds(found.step_s)}; exchanged after the backward phase {typical}, {over} that",
        ),
        *(note for note in step_notes(found.plan, found.ran.score) if note.label == "time"),
        Note("critical", critical),
        *(Note("" if at else "claim", line) for at, line in enumerate(_claim(found))),
    ]


def _claim(found: Overlap) -> list[str]:
    """State how the chunks were found, and whether they can gain by more than their number."""
    lines = []
    if found.by == "best":
        lines.append("the fastest chunks found, and no slower than every layer by itself")
    if not found.overlaps:
        nothing = "its assumption overlap is none, so nothing is sent beside the backward phase"
        lines.append(f"{found.ran.score.hardware}: {nothing}")
    return lines
