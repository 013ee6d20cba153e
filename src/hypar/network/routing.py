"""The routing of positions to experts: how many positions share a slot, and how many slots an expert has.

A *round* is a run of positions that fill one slot of each expert: as many positions as experts have room for, where each
position goes to ``count`` experts. A division of the positions is then a division of the slots.
"""

from __future__ import annotations

from hypar.network.windows import ShapeError, TransposedWindow, Window


def round_of(experts: int, count: int) -> int:
    """Return the positions of a round.

    Raises:
        ShapeError: positions go to more experts than there are.

    Examples:
        >>> round_of(8, 2)
        4
    """
    if count > experts:
        raise ShapeError(f"found count {count} for {experts} experts; allowed: at most {experts}")
    return experts // count


def slots_of(positions: int, experts: int, count: int) -> int:
    """Return the slots of each expert: one for each round, so that no position is dropped.

    Examples:
        >>> slots_of(4096, 8, 2)
        1024
    """
    return -(-positions // round_of(experts, count))


def sent(experts: int, count: int) -> Window:
    """Return the window of positions that a slot reads."""
    size = round_of(experts, count)
    return Window(kernel=size, stride=size)


def brought_back(experts: int, count: int) -> Window:
    """Return the window of slots that a position reads."""
    size = round_of(experts, count)
    return TransposedWindow(kernel=size, stride=size)
