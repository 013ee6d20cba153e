"""Trees: the H-tree, a binary fat tree whose links are twice as wide one level up, and the switch, a tree of one level.

Source: HyPar (HPCA 2019), section 6.1; Leiserson, Fat-Trees (1985).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from hypar.machine.topologies.base import Loads, Topology

if TYPE_CHECKING:
    from hypar.machine.topologies.base import Traffic


class _Tree(Topology):
    """Tree with a leaf for each device; wider links count as as many of a leaf."""

    def height(self, devices: int) -> int:
        return int(devices > 1)

    def loads(self, sent: Traffic, devices: int) -> Loads:
        return climbed(sent, self.height(devices))

    def num_links(self, devices: int) -> int:
        return devices


class HTree(_Tree):
    """Tree with a leaf for each device; the link up from 2**h leaves is as wide as 2**h links of a leaf.

    Attributes:
        reduction: ``in_tree`` if the inner nodes add up the messages of an all-reduce.
    """

    reduction: Literal["at_leaves", "in_tree"] = "at_leaves"

    @property
    def adds_up(self) -> bool:
        """Whether the inner nodes add up messages."""
        return self.reduction == "in_tree"

    def height(self, devices: int) -> int:
        """Return the number of levels; the links of each sum to the width of the leaves' ones."""
        return devices.bit_length() - 1

    def fault(self, devices: int) -> str | None:
        """Refuse a number of devices that is no power of two."""
        return None if devices & (devices - 1) == 0 else f"{devices} devices; allowed: a power of two"


class Switch(_Tree):
    """One link of each device to a non-blocking switch."""


def climbed(sent: Traffic, height: int) -> Loads:
    """Return what messages load that climb from leaf to leaf over the links of some levels."""
    busy, crossed, hops = [np.zeros((2, 1))], 0.0, np.zeros(len(sent[0]), np.int64)
    for level in range(height):
        out, into, moved = sent.leaving(1 << level)
        loads = np.stack([out, into])
        busy.append(loads / (1 << level))
        crossed, hops = crossed + float(loads.sum()), hops + 2 * moved
    return Loads(np.concatenate(busy, axis=1), crossed, hops)


plugins: dict[str, type[Topology]] = {"h_tree": HTree, "switch": Switch}
