"""How much of a network its model file says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.errors import ModelError
from hypar.importers.reading import OPAQUE
from hypar.units import format_count

if TYPE_CHECKING:
    from hypar.importers.reading import Reading

LEAST = 0.99
"""Share of operations and of parameters below which a network is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The shares that are recognised.

    Attributes:
        flop: operations of all contractions of the example.
        said_flop: those of layers that are not opaque.
        parameters: elements of all trained tensors.
        said_parameters: those of layers that are not opaque.
        opaque: number of opaque layers by the framework's name of their operations.
    """

    flop: int
    said_flop: int
    parameters: int
    said_parameters: int
    opaque: dict[str, int]

    @property
    def shares(self) -> tuple[float, float]:
        """Recognised share of operations, and of parameters."""
        return (
            self.said_flop / self.flop if self.flop else 1.0,
            self.said_parameters / self.parameters if self.parameters else 1.0,
        )

    def __str__(self) -> str:
        """Return one line."""
        flop, parameters = self.shares
        text = (
            f"recognised {_percent(flop)} of {format_count(self.flop)} FLOP"
            f" and {_percent(parameters)} of {format_count(self.parameters)} parameters"
        )
        if not self.opaque:
            return text
        kinds = ", ".join(f"{number} {kind}" for kind, number in self.opaque.items())
        return f"{text}; opaque, cut in the batch alone: {kinds}"

    def require(self, where: str) -> None:
        """Refuse a network of which too little is recognised.

        Raises:
            ModelError: a share is below ``LEAST``.
        """
        if min(self.shares) < LEAST:
            raise ModelError(where, str(self), f"{_percent(LEAST)} of both, or --partial (partial=True)")


def _percent(share: float) -> str:
    """Format a share, rounded down so that 100 % means all."""
    tenths = int(share * 1000)
    return f"{tenths / 10:g} %"


def coverage_of(reading: Reading) -> Coverage:
    """Return the coverage of a network; a trained tensor counts once, however many layers read it."""
    said = [draft for draft in reading.drafts if draft.op != OPAQUE]
    known = frozenset[str]().union(*(draft.weights for draft in said))
    return Coverage(
        flop=reading.flop,
        said_flop=sum(draft.flop for draft in said),
        parameters=sum(reading.sizes.values()),
        said_parameters=sum(reading.sizes[identity] for identity in known),
        opaque=dict(Counter(draft.kind for draft in reading.drafts if draft.op == OPAQUE)),
    )
