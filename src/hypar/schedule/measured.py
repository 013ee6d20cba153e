"""Measured times in place of a machine's own: of the layers of a step, and of the exchange of their gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.errors import ProfileError
from hypar.machine.setting import degrees
from hypar.ops.dims import CUTTABLE
from hypar.schedule.moves import PHASE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.step_times import StepTimes
    from hypar.machine.work import LayerTime
    from hypar.schedule.moves import Move
    from hypar.sharding.placement import Options


def measured_time(times: StepTimes, layer: str, chosen: Options, time: LayerTime) -> LayerTime:
    """Return a layer's time with its phases as measured; the errors and the gradients were measured together.

    Args:
        times: the measured times.
        layer: the layer's name.
        chosen: its choice at each level.
        time: its time by the machine's compute model, for work and memory.

    Raises:
        ProfileError: the layer was not measured, or is not cut in the batch alone.
    """
    if layer not in times.by_name:
        raise ProfileError(
            "measured times", f"no layer {layer!r}", "the layers of the network that was measured"
        )
    cut = [dim for dim, degree in zip(CUTTABLE, degrees(chosen), strict=True) if degree > 1]
    if cut not in ([], ["batch"]):
        found = f"{layer!r} is cut in {', '.join(cut)}"
        raise ProfileError("measured times", found, "data parallelism, in which they were measured")
    own = times.by_name[layer]
    return replace(time, seconds={"forward": own.forward_s, "backward": own.backward_s, "gradient": 0.0})


def measured_moves(times: StepTimes | None, layers: Sequence[str], moves: Sequence[Move]) -> Sequence[Move]:
    """Return transfers in which the gradients of some layers take the measured time of their exchange.

    The first transfer of gradients takes it all, whatever the number of levels.

    Args:
        times: the measured times; None if the machine's own count.
        layers: the names of the layers that exchange their gradients together.
        moves: their transfers of all phases.
    """
    if times is None or not times.exchanges:
        return moves
    found, left_s = [], times.chunk_s(layers)
    for move in moves:
        own = move.phase == PHASE
        found.append(move._replace(seconds=left_s) if own else move)
        left_s = 0.0 if own else left_s
    return found
