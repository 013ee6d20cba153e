"""What the devices of a mixed machine hold, and the shares that they can."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.planning.uneven.tree import lanes_of
from hypar.schedule.step import lower_lanes
from hypar.schedule.totals import holds
from hypar.sharding.uneven.remainder import part_of

if TYPE_CHECKING:
    from hypar.planning.uneven.tree import Branch, Branching

HALVINGS = 16
"""Halvings of the shares that may fit."""


def fits(branch: Branch) -> bool:
    """Whether every device below holds its part."""
    lanes, crossings = lanes_of(branch)
    return holds(lanes, lower_lanes(lanes, crossings))


def limits(branching: Branching) -> tuple[float, ...]:
    """The largest share of each side of which its devices hold their part by the choices made so far.

    What a fork above makes a device receive is left out: whoever asks looks at the whole again.
    """
    found = []
    for side, below in enumerate(branching.below):
        if below is None:
            found.append(0.0)
        elif fits(below):
            found.append(1.0)
        else:
            found.append(_limit(branching, side, below))
    return tuple(found)


def _limit(branching: Branching, side: int, below: Branch) -> float:
    """The largest share of one side that fits, by halving; 0 where none does."""
    choices = [offer.choice for offer in branching.offers]
    low, high = 0.0, branching.shares[side]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        part = part_of(branching.graph, choices, [middle] * len(choices))
        low, high = (middle, high) if fits(below.of(part)) else (low, middle)
    return low
