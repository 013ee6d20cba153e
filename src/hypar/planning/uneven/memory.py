"""The memory of a heterogeneous machine's devices, and the shares that fit it."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from hypar.planning.uneven.tree import shares_above
from hypar.schedule.memory import held_with, holds
from hypar.schedule.stages import StepWork

if TYPE_CHECKING:
    from hypar.network.nodes import PlanGraph
    from hypar.planning.uneven.tree import Branch, Branching
    from hypar.schedule.lanes import WholeShares

BROUGHT = 4
"""The most that a transfer brings a device, in whole tensors: the shards that it lacks, terms, its sum, rows on two sides."""

HALVINGS = 16
"""Number of halvings of the interval of shares that may fit."""


@lru_cache(maxsize=4)
def fits(branch: Branch) -> bool:
    """Return whether the shards of every device below fit its memory."""
    return _fits(branch, None)


def _fits(branch: Branch, above: WholeShares | None) -> bool:
    """Return whether shards fit the memory; bounds that tell save the count of transfers.

    Args:
        branch: the devices.
        above: what the uneven splits above leave them; None if there are none.
    """
    largest = largest_of(branch.graph)
    most_fit, sharing = True, [*branch.sharing(above)]
    for lane in sharing:
        machine, least = lane.setting.machine, held_with(lane)
        if not machine.fits(least):
            return False
        most_fit = most_fit and machine.fits(least + BROUGHT * largest * lane.setting.element_bytes)
    if most_fit:
        return True
    run, crossings = branch.lanes()
    if above is not None:
        run = [lane._replace(shares=own.shares) for lane, own in zip(run, sharing, strict=True)]
    return holds(run, StepWork.of(run, crossings).run())


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
        elif _share_fits(branching, group, below):
            found.append(1.0)
        else:
            found.append(_limit(branching, group, below))
    return tuple(found)


def _share_fits(branching: Branching, group: int, below: Branch) -> bool:
    """Return whether the share of one group fits, in whole elements as its devices hold them."""
    above = branching.whole_shares(shares_above(branching))[branching.at_work.index(group)]
    return _fits(below, above)


def _limit(branching: Branching, group: int, below: Branch) -> float:
    """Return the largest share of one group that fits, by bisection; 0 if none fits."""
    low, high = 0.0, branching.shares[group]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        trial = branching.with_share(group, middle)
        fit = _share_fits(trial, group, below.of(trial.graph_of(group)))
        low, high = (middle, high) if fit else (low, middle)
    return low
