"""The memory of a heterogeneous machine's devices, and the shares that fit it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from hypar.planning.uneven.tree import lanes_of
from hypar.schedule.memory import holds
from hypar.schedule.step import transfers_of
from hypar.sharding.uneven.remainder import graph_of_group

if TYPE_CHECKING:
    from hypar.planning.uneven.tree import Branch, Branching

HALVINGS = 16
"""Number of halvings of the interval of shares that may fit."""


@lru_cache(maxsize=4)
def fits(branch: Branch) -> bool:
    """Return whether the shards of every device below fit its memory."""
    lanes, crossings = lanes_of(branch)
    return holds(lanes, transfers_of(lanes, crossings))


def limits(branching: Branching) -> tuple[float, ...]:
    """Return the largest share of each group that fits its devices' memory, given the choices made so far.

    Buffers for the transfers of splits above are left out: the caller checks the whole tree again.
    """
    found = []
    for group, below in enumerate(branching.below):
        if below is None:
            found.append(0.0)
        elif fits(below):
            found.append(1.0)
        else:
            found.append(_limit(branching, group, below))
    return tuple(found)


def _limit(branching: Branching, group: int, below: Branch) -> float:
    """Return the largest share of one group that fits, by bisection; 0 if none fits."""
    choices = [offer.choice for offer in branching.offers]
    low, high = 0.0, branching.shares[group]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        remaining = graph_of_group(branching.graph, choices, [middle] * len(choices))
        low, high = (middle, high) if fits(below.of(remaining)) else (low, middle)
    return low
