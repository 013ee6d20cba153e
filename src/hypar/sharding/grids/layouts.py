"""The degrees of the choices of a layer at a level, and the shards of each device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.numbering import Numbers, device_order

if TYPE_CHECKING:
    from hypar.sharding.placement import Options


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """The choices of a layer at a level, as arrays.

    Attributes:
        choices: the choices.
        ways: number of devices.
        working: number of working devices, ``[choices]``.
        chosen: degree of each divided dim in each choice, ``[choices]``.
    """

    choices: Options
    ways: int
    working: Numbers
    chosen: dict[str, Numbers]

    def degree(self, dim: str | None) -> Numbers:
        """Return the degree of a dim in each choice, ``[choices]``."""
        return self.chosen.get(dim or "", np.ones_like(self.working))


@lru_cache(maxsize=512)
def layout(choices: Options, ways: int) -> Layout:
    """Return the choices of a layer as arrays."""
    dims = device_order({dim for choice in choices for dim in choice.divided})
    chosen = {dim: np.array([choice.degree(dim) for choice in choices]) for dim in dims}
    return Layout(choices, ways, np.array([choice.devices(ways) for choice in choices]), chosen)
