"""Whether the shards of device groups fit their memory, and the largest shares that do."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from hypar.schedule.memory import held_with, holds
from hypar.schedule.stages import StepWork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.nodes import PlanGraph
    from hypar.planning.uneven.tree import Branch, Branching
    from hypar.schedule.lanes import Ends

LEAST_STEP = 0.01
"""Least fraction by which a limit of a share is lowered where the same choices do not fit again: elements are whole."""

BROUGHT = 4
"""The most that a transfer brings a device, in whole tensors: the shards that it lacks, terms, its sum, rows on two sides."""

HALVINGS = 16
"""Number of halvings of the interval of shares that may fit."""


def fits(branch: Branch, above: Ends = ()) -> bool:
    """Return whether the shards of every device below fit its memory, with their shares at the splits above.

    Bounds that tell save the count of transfers.
    """
    largest, most_fit = largest_of(branch.graph), True
    for lane, _ in branch.in_whole_elements().reached(above):
        machine, least = lane.setting.machine, held_with(lane)
        if not machine.fits(least):
            return False
        most_fit = most_fit and machine.fits(least + BROUGHT * largest * lane.setting.element_bytes)
    if most_fit:
        return True
    lanes, crossings = branch.lanes(above)
    return holds(lanes, StepWork.of(lanes, crossings).run())


def largest_of(moved: PlanGraph) -> float:
    """Return the elements of the largest tensor that is moved between the layers of a graph, or inside one."""
    sizes = (layer.elements(tensor) for layer in moved.layers for tensor in ("input", "weight", "output"))
    made = (layer.nest.elements("output") for layer in moved.layers)
    return max(chain(sizes, made, (tensor.elements for tensor in moved.tensors)), default=0)


def limits(made: Branching) -> tuple[float, ...]:
    """Return the largest share of each group that works that fits its devices' memory by bisection, given the choices made so far.

    Buffers for the transfers of splits above are left out: the caller checks the whole tree again.
    """

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
