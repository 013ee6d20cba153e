"""Rebuild the chunks of a stored plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.errors import PlanError, shown

if TYPE_CHECKING:
    from hypar.plan.records import ChunksRecord
    from hypar.schedule.record import Buckets
    from hypar.schedule.stages import StepWork


def chunks_of(record: ChunksRecord | None, work: StepWork, place: str) -> Buckets | None:
    """Return the chunks that a plan records, by the indices of their layers; None if it records no chunks.

    Args:
        record: chunks of layers that the plan has, in the order of the backward phase.
        work: the devices that run it, with their work.
        place: the place of the record, for error messages.

    Raises:
        PlanError: a layer exchanges gradients and is in no chunk, or is in a chunk and exchanges none.
    """
    if record is None:
        return None
    layers = {layer.name: number for number, layer in enumerate(work.layers)}
    found = tuple(tuple(layers[name] for name in chunk) for chunk in record.layers)
    planned = {number for chunk in found for number in chunk}
    needed = {*work.run().exchanging}
    for name, number in layers.items():
        if (number in planned) != (number in needed):
            words = ("exchanges no gradients", "exchanges gradients and is in no chunk")[number in needed]
            raise PlanError(
                place, f"{shown(name)} {words}", "every layer that does, in one chunk, and no other"
            )
    return found
