"""Setting of a training step: machine, array and numerics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.network.training import OPTIMIZERS
from hypar.sharding.conventions import PAPER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hypar.machine.machine import Machine
    from hypar.machine.work import LayerTime
    from hypar.ops.nest import Nest


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Machine, array and numerics of a training step.

    Attributes:
        machine: the devices and links.
        array: ways of each level, outermost first.
        element_bytes: bytes of one element.
        optimizer: one of ``OPTIMIZERS``.
        convention: the convention by which transfers are counted.
    """

    machine: Machine
    array: tuple[int, ...]
    element_bytes: int
    optimizer: str = "sgd"
    convention: str = PAPER

    def __hash__(self) -> int:
        """Return the hash of the fields, which is computed once, as most of what is cached is cached by setting."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.machine, self.array, self.element_bytes, self.optimizer, self.convention))

    @property
    def update_accesses(self) -> int:
        """Memory accesses per weight: it and its state read and written, its gradient read."""
        return 3 + 2 * OPTIMIZERS[self.optimizer]

    def update_seconds(self, time: LayerTime) -> float:
        """Return the time of an update: that of its memory accesses on the fullest device."""
        return self.machine.memory_seconds(self.update_accesses * time.fullest["weight"] * self.element_bytes)

    def layer_seconds(self, nest: Nest, degrees: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the seconds of a layer's phases and update on one device, for each row of degrees ``[rows, dims]``.

        A compute model that takes arrays is called once, another one for each distinct row.
        """

        def whole(time: LayerTime) -> Any:
            return sum(time.seconds.values()) + self.update_seconds(time)

        if self.machine.compute.takes_arrays:
            columns = tuple(own if own.max() > 1 else 1 for own in degrees.T)
            time = self.machine.timed(nest, columns, self.element_bytes)
            return np.broadcast_to(np.asarray(whole(time), np.float64), len(degrees))
        rows, which = np.unique(degrees, axis=0, return_inverse=True)
        times = [self.machine.layer_time(nest, tuple(row), self.element_bytes) for row in rows.tolist()]
        return np.array([whole(time) for time in times])[which.reshape(-1)]
