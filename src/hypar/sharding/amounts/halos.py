"""The factors of one level with the rows that windows read across borders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.amounts.between import names_at
from hypar.sharding.amounts.rows import beyond, border_of
from hypar.sharding.grids.intersection import boxes, shared_elements
from hypar.sharding.grids.layouts import layout
from hypar.sharding.grids.tensor_dims import divided

if TYPE_CHECKING:
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.between import Between, Factors, Plain
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs


def with_halos(nest: Nest, options: Options, found: Plain, rests: dict[str, Costs]) -> Factors:
    """Add the halos of simple choices: a device lacks the halo only if the producer divides the same dim."""
    more = sum(beyond(nest, dim, options, rest) for dim, rest in rests.items())
    factors = found.factors
    shared = factors.both * (1 + more * found.apart[:, None])
    return _reaching(factors, factors.need * (1 + more), shared)


def _reaching(factors: Factors, need: Costs, both: Costs) -> Factors:
    """Replace what is read, and of it what is held, by amounts with halos; terms of E reach as far."""
    return factors._replace(need=need, both=both, owned=np.minimum(both, 1.0))


def grids_with_halos(
    nest: Nest,
    between: Between,
    options: tuple[Options, Options],
    factors: Factors,
    rests: dict[str, Costs],
    ways: int,
) -> Factors:
    """Add the halos of grids, for each distinct size that the levels above leave."""
    made, read = layout(options[0], ways), layout(options[1], ways)
    rows, which = np.unique(np.stack([*rests.values()], axis=1), axis=0, return_inverse=True)
    needs, shares = [], []
    for row in rows.tolist():
        rest = dict(zip(rests, row, strict=True))
        halos = {dim: min(1.0, border_of(nest, dim) / left) for dim, left in rest.items()}
        tables = [
            divided(own, theirs, made.of(own), read.of(theirs), halos.get(theirs or "", 0.0), 1.0)
            for own, theirs in names_at(between)
        ]
        needs.append(boxes(read, [(table.read, table.needed) for table in tables]))
        shares.append(shared_elements(made, read, [table.intersections for table in tables]))
    index = which.reshape(-1)
    both = np.stack(shares, axis=1)[:, index]
    straight = factors.kept != factors.hold
    both = np.where(straight, factors.both, both)
    return _reaching(factors, np.stack(needs)[index][None], both)
