"""The places of stages on a machine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypar.machine.machine import Machine


def places_for(machine: Machine, array: tuple[int, ...], stages: int) -> int:
    """Return the ways of the level that stages divide, each of them an array.

    A machine is divided evenly: of more places than stages, the least number that divides it, the last ones stay empty.
    """
    inside, devices = math.prod(array), machine.num_devices
    most = devices // inside
    return next((ways for ways in range(stages, most + 1) if devices % (ways * inside) == 0), stages)
