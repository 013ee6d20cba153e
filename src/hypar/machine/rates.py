"""Costs of transfers at a rate for each collective; seconds of them and of the computation of a device on a machine.

Rates of one per byte give the communication, rates in seconds per byte of a machine give time. Both use the same
transfers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.collectives import COLLECTIVES
from hypar.sharding.levels import divided_einsum

if TYPE_CHECKING:
    from hypar.machine.setting import Setting
    from hypar.ops.nest import Nest


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
