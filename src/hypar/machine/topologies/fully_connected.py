"""Fully connected topology: a link between any two devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.machine.topologies.base import Topology
from hypar.machine.traffic import Loads

if TYPE_CHECKING:
    from hypar.machine.traffic import Traffic

MOST = 512
"""Most devices."""


class FullyConnected(Topology):
    """Topology with one hop between any two devices."""

    def loads(self, sent: Traffic, devices: int) -> Loads:
        """Return what messages load."""
        there, moved = sent.pairs(devices)
        one, other = np.triu_indices(devices, 1)
        busy = np.stack([there[:, one, other], there[:, other, one]]).reshape(2, -1)
        return Loads(busy, float(there.sum()), moved)

    def num_links(self, devices: int) -> int:
        """Return the number of pairs."""
        return devices * (devices - 1) // 2

    def fault(self, devices: int) -> str | None:
        """Refuse too many devices, as links grow with their square."""
        many = f"{devices} devices; allowed: at most {MOST}, as each pair has a link"
        return many if devices > MOST else None


plugins: dict[str, type[Topology]] = {"fully_connected": FullyConnected}
