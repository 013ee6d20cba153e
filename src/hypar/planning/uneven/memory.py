"""The memory of a heterogeneous machine's devices, and the shares that fit it."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from hypar.planning.uneven.tree import lanes_of, leaves_of
from hypar.schedule.memory import held_at_most, holds
from hypar.schedule.step import transfers_of
from hypar.sharding.levels import TENSORS
from hypar.sharding.uneven.remainder import graph_of_group

if TYPE_CHECKING:
    from hypar.network.contraction import ContractedGraph
    from hypar.planning.nodes.leaf import Leaf
    from hypar.planning.uneven.tree import Branch, Branching

HALVINGS = 16
"""Number of halvings of the interval of shares that may fit."""


@lru_cache(maxsize=4)
def fits(branch: Branch) -> bool:
    """Return whether the shards of every device below fit its memory; where even whole tensors do, without counting."""
    if all(_holds_whole(leaf, branch.graph) for leaf in leaves_of(branch)):
        return True
    lanes, crossings = lanes_of(branch)
    return holds(lanes, transfers_of(lanes, crossings))


def _holds_whole(leaf: Leaf, moved: ContractedGraph) -> bool:
    """Return whether the devices of a group fit all its tensors whole, and transfers between the layers of a graph."""
    sizes = (layer.elements(tensor) for layer in moved.layers for tensor in TENSORS)
    made = (layer.einsum.elements("output") for layer in moved.layers)
    largest = max(chain(sizes, made, (tensor.elements for tensor in moved.tensors)), default=0)
    setting = leaf.lane.setting
    return setting.machine.fits(held_at_most(leaf.graph, setting, largest))


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
