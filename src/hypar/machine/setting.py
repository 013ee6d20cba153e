"""Setting of a training step: machine, array and numerics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hypar.network.training import OPTIMIZERS
from hypar.sharding.conventions import PAPER

if TYPE_CHECKING:
    from hypar.machine.machine import Machine
    from hypar.machine.work import LayerTime


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
