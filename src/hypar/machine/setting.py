"""Setting of a training step: machine, array and numerics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from hypar.network.training import OPTIMIZERS
from hypar.ops.dims import CUTTABLE
from hypar.sharding.conventions import PAPER

if TYPE_CHECKING:
    from hypar.machine.machine import Machine
    from hypar.machine.work import LayerTime
    from hypar.sharding.placement import Options


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


@lru_cache(maxsize=16384)
def degrees(chosen: Options, dims: tuple[str, ...] = CUTTABLE) -> tuple[int, ...]:
    """Return the product of the degrees of all levels, for each of some dims: a layer's ``counted``."""
    return tuple(math.prod(choice.degree(dim) for choice in chosen) for dim in dims)


@lru_cache(maxsize=16384)
def working(chosen: Options, array: tuple[int, ...]) -> int:
    """Return the number of devices of an array that work for a layer."""
    return math.prod(choice.devices(ways) for choice, ways in zip(chosen, array, strict=False))
