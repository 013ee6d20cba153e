"""The memory of a heterogeneous machine's devices, and the shares that fit it."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from hypar.schedule.memory import held_with, holds
from hypar.schedule.stages import StepWork

if TYPE_CHECKING:
    from hypar.network.nodes import PlanGraph
    from hypar.planning.uneven.tree import Branch, Branching
    from hypar.schedule.lanes import Ends

BROUGHT = 4
"""The most that a transfer brings a device, in whole tensors: the shards that it lacks, terms, its sum, rows on two sides."""

HALVINGS = 16
"""Number of halvings of the interval of shares that may fit."""


@lru_cache(maxsize=4)
def fits(branch: Branch) -> bool:
    """Return whether the shards of every device below fit its memory."""
    return _fits(branch, ())


def _fits(branch: Branch, above: Ends) -> bool:
    """Return whether devices with their shares at the splits above fit; bounds that tell save the count of transfers."""
    largest, most_fit = largest_of(branch.graph), True
    for lane in branch.in_whole_elements().sharing(above):
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


def limits(branching: Branching) -> tuple[float, ...]:
    """Return the largest share of each group that fits its devices' memory, given the choices made so far.

    Buffers for the transfers of splits above are left out: the caller checks the whole tree again.
    """
    found = []
    for group, below in enumerate(branching.below):
        if below is None:
            found.append(0.0)
        elif _share_fits(branching, group):
            found.append(1.0)
        else:
            found.append(_limit(branching, group))
    return tuple(found)


def _share_fits(branching: Branching, group: int) -> bool:
    """Return whether the share of one group fits, in whole elements as its devices hold them."""
    whole = branching.in_whole_elements()
    below, every = whole.below[group], dict(zip(whole.at_work, whole.left(()), strict=True))
    return below is None or _fits(below, every[group])


def _limit(branching: Branching, group: int) -> float:
    """Return the largest share of one group that fits, by bisection; 0 if none fits."""
    low, high = 0.0, branching.shares[group]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        fit = _share_fits(branching.with_share(group, middle), group)
        low, high = (middle, high) if fit else (low, middle)
    return low
