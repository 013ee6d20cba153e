"""H-tree topology: a binary fat tree whose links are twice as wide one level up.

Source: HyPar (HPCA 2019), section 6.1; Leiserson, Fat-Trees (1985).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Literal

from hypar.machine.listed import messages_on_tree
from hypar.machine.sets import on_tree
from hypar.machine.topologies.base import Link, Node, Path, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.listed import Busy, Listed
    from hypar.machine.sets import Loads, Sets


class HTree(Topology):
    """Tree with a leaf for each device; the link up from 2**h leaves is as wide as 2**h links of a leaf.

    Attributes:
        reduction: ``in_tree`` if the inner nodes add up the messages of an all-reduce.
    """

    counts_sets: ClassVar[bool] = True

    reduction: Literal["at_leaves", "in_tree"] = "at_leaves"

    @property
    def adds_up(self) -> bool:
        """Whether the inner nodes add up messages."""
        return self.reduction == "in_tree"

    def links(self, devices: int) -> Mapping[Link, float]:
        """Return the links up and down of every node but the root."""
        found: dict[Link, float] = {}
        for height in range(_height(devices)):
            for number in range(devices >> height):
                pair = _node(height, number), _node(height + 1, number // 2)
                found[pair] = found[pair[::-1]] = float(1 << height)
        return found

    def paths(self, source: int, target: int, devices: int) -> Sequence[Path]:  # noqa: ARG002
        """Return the path up to the first common node, and down."""
        common = (source ^ target).bit_length()
        heights = range(common + 1)
        up = [_node(height, source >> height) for height in heights]
        down = [_node(height, target >> height) for height in reversed(heights)]
        return [(1.0, (*pairwise(up), *pairwise(down)))]

    def sets_loads(self, sets: Sets, devices: int, *, summed: bool) -> Loads:  # noqa: ARG002
        """Return the loads of links if the devices of sets exchange messages."""
        return on_tree(sets, summed=summed)

    def messages_loads(self, sent: Listed, devices: int) -> Busy:
        """Return the loads of links by messages."""
        return messages_on_tree(sent, devices)

    def num_links(self, devices: int) -> int:
        """Return the number of leaf links; the wider links of each level above sum to the same width."""
        return devices

    def fault(self, devices: int) -> str | None:
        """Refuse a number of devices that is no power of two."""
        return None if devices & (devices - 1) == 0 else f"{devices} devices; allowed: a power of two"


def _height(devices: int) -> int:
    return devices.bit_length() - 1


def _node(height: int, number: int) -> Node:
    """Return a device, or the root of a subtree of ``2**height`` devices."""
    return number if height == 0 else (f"h{height}", number)


plugin: type[Topology] = HTree
