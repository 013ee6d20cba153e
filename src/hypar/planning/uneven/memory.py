"""Whether the shards of device groups fit their memory, and the largest shares that do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.schedule.memory import holds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.planning.uneven.tree import Branch, Branching
    from hypar.schedule.lanes import Ends

LEAST_STEP = 0.01
"""Least fraction by which a limit of a share is lowered where the same choices do not fit again: elements are whole."""

HALVINGS = 16
"""Number of halvings of the interval of shares that may fit."""


def fits(branch: Branch, above: Ends = ()) -> bool:
    """Return whether the shards of every device below fit its memory, with their shares at the splits above."""
    return holds(lane for lane, _ in branch.in_whole_elements().reached(above))


def limits(made: Branching) -> tuple[float, ...]:
    """Return the largest share of each group that works that fits its devices' memory by bisection, given the choices made so far."""

    def fit(one: Branching, group: int) -> bool:
        whole = one.in_whole_elements()
        return fits(whole.below[group], [*whole.left(())][group])

    found = []
    for group, share in enumerate(made.shares):
        low, high = (1.0, 1.0) if fit(made, group) else (0.0, share)
        for _ in range(HALVINGS if low < high else 0):
            middle = (low + high) / 2
            low, high = (middle, high) if fit(made.with_share(group, middle), group) else (low, middle)
        found.append(low)
    return tuple(found)


def tightened(most: Sequence[float], room: Sequence[float]) -> tuple[float, ...]:
    """Return the limits of shares, lowered for groups whose shares within the limits so far do not fit."""
    pairs = zip(most, room, strict=True)
    return tuple(before if own >= 1 else min(own, before * (1 - LEAST_STEP)) for before, own in pairs)
