"""Setting of a training step, machine, array and numerics, and what transfers and computation cost in it.

Rates of one per byte give the communication, rates in seconds per byte of a machine give time. Both use the same
transfers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.network.layer import OPTIMIZERS
from hypar.sharding.collectives import COLLECTIVES
from hypar.sharding.conventions import PAPER
from hypar.sharding.levels import divided_einsum

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


class Rate(NamedTuple):
    """Cost of a transfer as a line over its elements, for each of ``COLLECTIVES``.

    Attributes:
        per_element: cost of an element received.
        once: fixed cost of a transfer.
    """

    per_element: tuple[float, ...]
    once: tuple[float, ...]


class Rates(NamedTuple):
    """Costs of moving elements.

    Attributes:
        lines: the costs of a transfer by several algorithms, of which the least one counts.
        together: whether all devices receive at the same time, so that the elements of one device count;
            otherwise those of all devices count.
    """

    lines: tuple[Rate, ...]
    together: bool = False

    @property
    def price(self) -> float | None:
        """The cost of an element if it is the same for every collective, and transfers cost nothing else."""
        (first, *others), per_element = self.lines, {*self.lines[0].per_element}
        same = not (others or len(per_element) > 1 or self.late or self.together)
        return float(first.per_element[0]) if same else None

    @property
    def late(self) -> bool:
        """Whether transfers cost something whatever their elements."""
        return any(any(rate.once) for rate in self.lines)


def even_rates(per_element: float) -> Rates:
    """Return rates with the same cost per element for every collective."""
    return Rates((Rate((per_element,) * len(COLLECTIVES), (0.0,) * len(COLLECTIVES)),))


@lru_cache(maxsize=256)
def time_rates(setting: Setting, level: int, *, shared: bool = True) -> Rates:
    """Return the seconds per element that a device receives at one level; all receive at the same time.

    Args:
        setting: the machine and the settings of a step.
        level: the level.
        shared: whether devices share the ports of their group, as they do unless they send one after another.
    """
    link = setting.machine.links(setting.array, shared=shared)[level]
    own = [link.lines[kind] for kind in COLLECTIVES]
    # A collective of fewer algorithms than others has its last one several times.
    columns = zip(*([*lines, *lines[-1:] * (max(map(len, own)) - len(lines))] for lines in own), strict=True)
    found = tuple(
        Rate(
            tuple(line.seconds_per_byte * setting.element_bytes for line in column),
            tuple(line.latency_s for line in column),
        )
        for column in columns
    )
    return Rates(found, together=True)


@lru_cache(maxsize=16384)
def group_seconds(setting: Setting, nest: Nest, dim: str | None, share: float, devices: int) -> float:
    """Return the seconds of a layer's phases and update on each of some devices that share a part of it.

    Args:
        setting: the machine and the settings of a step.
        nest: the whole layer.
        dim: the dim of which the devices have a part; None for the whole layer.
        share: the fraction of it that they have.
        devices: their number; they divide the same dim further, or the batch.
    """
    own = nest if dim is None else divided_einsum(nest, dim, share, integral=False)
    further = "batch" if dim is None else dim
    counts = [devices if name == further else 1 for name in own.counted]
    return float(setting.layer_seconds(own, np.array([counts], dtype=np.int64))[0])
