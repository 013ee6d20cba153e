"""The memory of a heterogeneous machine's devices, and the shares that fit it."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from hypar.schedule.memory import held_at_most, held_besides, holds
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
    """Return whether the shards of every device below fit its memory; without counting what whole tensors show to fit."""
    largest = _largest(branch.graph)
    if all(_holds_whole(leaf, branch.graph, largest) for leaf in branch.leaves()):
        return True
    if all(lane.setting.machine.fits(held_besides(lane, largest)) for lane in branch.sharing()):
        return True
    lanes, crossings = branch.lanes()
    return holds(lanes, transfers_of(lanes, crossings))


def _largest(moved: ContractedGraph) -> float:
    """Return the elements of the largest tensor that is moved between the layers of a graph, or inside one."""
    sizes = (layer.elements(tensor) for layer in moved.layers for tensor in TENSORS)
    made = (layer.einsum.elements("output") for layer in moved.layers)
    return max(chain(sizes, made, (tensor.elements for tensor in moved.tensors)), default=0)


def _holds_whole(leaf: Leaf, graph: ContractedGraph, largest: float) -> bool:
    """Return whether the devices of a group fit all tensors whole, and transfers of the largest that is moved.

    The tensors are those above all splits: what a group holds of them may be more than its share, by rounding.
    """
    setting = leaf.lane.setting
    return setting.machine.fits(held_at_most(graph, setting, largest))


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
