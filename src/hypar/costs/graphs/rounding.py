"""The rounding of costs that count halos, whose errors would hide that sums are equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.dims import SPATIAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypar.ops.nest import Nest
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs

GRAIN = 1024.0
"""Parts of a byte to which amounts are rounded."""


def reaching(offered: Iterable[Options]) -> bool:
    """Return whether some choice divides a dim along which windows reach across borders."""
    return any(not {*SPATIAL}.isdisjoint(choice.divided) for own in offered for choice in own)


def even(costs: Costs, nest: Nest) -> Costs:
    """Return bytes of a layer with windows without the errors of products of fractions: to a thousandth of a byte."""
    if not nest.windows:
        return costs
    scaled = costs * GRAIN
    np.rint(scaled, out=scaled)
    scaled /= GRAIN
    return scaled
