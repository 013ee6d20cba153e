"""A training step that was run: its pieces, what each is for, when it ran, and its name in a trace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.machine.machine import OUTWARD
from hypar.schedule.pieces import BETWEEN_STAGES, COMMUNICATION, PHASE, level_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.schedule.pieces import Piece
    from hypar.schedule.tasks import Place
    from hypar.schedule.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A training step that was run.

    Attributes:
        timeline: when each task ran.
        pieces: for each task its piece of an op.
        places: for each task the layer and the microbatch that it is for.
    """

    timeline: Timeline
    pieces: tuple[Piece, ...]
    places: tuple[Place, ...]

    @property
    def exchanging(self) -> tuple[int, ...]:
        """The layers that exchange gradients, in the order of the backward phase."""
        every = zip(self.places, self.pieces, strict=True)
        found = {place.layer for place, piece in every if piece.collective and piece.phase == PHASE}
        return tuple(sorted(found, reverse=True))

    def received(self, levels: int, *, stages: bool = False) -> dict[str, float]:
        """Sum the bytes that all devices receive at each level, and between stages if there are any."""
        every = range(BETWEEN_STAGES if stages else 0, levels)
        found: dict[int, list[float]] = {level: [] for level in every}
        for piece in self.pieces:
            if piece.collective:
                found[piece.level].append(piece.num_bytes)
        return {level_name(level): math.fsum(amounts) for level, amounts in found.items()}

    def names(self, lanes: Sequence[str], layers: Sequence[str], *, staged: bool = False) -> tuple[str, ...]:
        """Return the name of each task in a trace, as ``conv1 gradient all_reduce H1``.

        Args:
            lanes: the names of the lanes, empty for the only one.
            layers: the names of the layers.
            staged: whether there are stages, so that names say the microbatch.
        """
        found = []
        for piece, place in zip(self.pieces, self.places, strict=True):
            group = piece.resource.removesuffix(OUTWARD)
            group = lanes[piece.groups[0]] if group == piece.resource else group
            of = " to ".join(dict.fromkeys((layers[place.first], layers[place.layer])))
            inside = not piece.collective or piece.level != BETWEEN_STAGES
            words = (f"{group}:" * bool(group), of * inside, _what(piece), f"#{place.item + 1}" * staged)
            found.append(" ".join(filter(None, words)))
        return tuple(found)


def _what(piece: Piece) -> str:
    """Return what a piece does, as its name says."""
    if not piece.collective:
        return "synchronisation" if piece.kind == COMMUNICATION else piece.kind
    if piece.level == BETWEEN_STAGES:
        return f"{piece.phase} from other stages"
    return f"{piece.phase} {piece.collective} {level_name(piece.level)}"
