"""How a step trains a network: what a plan says of it beside its choices."""

from __future__ import annotations

from typing import NamedTuple


class Training(NamedTuple):
    """How a step trains.

    Attributes:
        microbatches: microbatches in a mini-batch, taken one after another without stages; gradients are added up, and weights
            updated once.
    """

    microbatches: int = 1


AS_USUAL = Training()
"""How a step trains where nothing is said of it."""
