"""The phases of a layer's training, and the optimizers."""

from __future__ import annotations

from typing import NamedTuple


class Phase(NamedTuple):
    """One of the three contractions of a layer, of two operands to one result."""

    operands: tuple[str, str]
    result: str


PHASES = {
    "forward": Phase(("input", "weight"), "output"),
    "backward": Phase(("output", "weight"), "input"),
    "gradient": Phase(("input", "output"), "weight"),
}


OPTIMIZERS = {"sgd": 0, "momentum": 1, "adam": 2}
"""Numbers of optimizer state for each weight."""
