"""The rows of an image that several devices read, below the levels above."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.amounts.between import names_at
from hypar.sharding.grids.intersection import boxes, shared_elements
from hypar.sharding.grids.layouts import layout
from hypar.sharding.grids.tensor_dims import divided
from hypar.sharding.transfers import halo

if TYPE_CHECKING:
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.between import Between, Factors, Plain
    from hypar.sharding.levels import LocalSizes
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs


@lru_cache(maxsize=4096)
def border_of(nest: Nest, dim: str) -> float:
    """Return the fraction of F_in that two neighbouring shards of a dim both read."""
    window = nest.windows.get(dim)
    return 0.0 if window is None or not nest.input_sizes[dim] else window.halo / nest.input_sizes[dim]


@lru_cache(maxsize=4096)
def windowed(nest: Nest) -> tuple[str, ...]:
    """Return the dims in which neighbouring shards read the same rows."""
    return tuple(dim for dim in nest.windows if border_of(nest, dim))


@lru_cache(maxsize=4096)
def cut_windows(nest: Nest, options: Options) -> tuple[str, ...]:
    """Return the dims of ``windowed`` that some option divides."""
    return tuple(dim for dim in windowed(nest) if any(choice.degree(dim) > 1 for choice in options))


def beyond(nest: Nest, dim: str, options: Options, rest: Costs) -> Costs:
    """Return how much more than its shards of a dim each option reads below some rests of it, ``[tuples above, options]``."""
    found = np.zeros((len(rest), len(options)))
    for column, choice in enumerate(options):
        if choice.degree(dim) > 1:
            found[:, column] = halo(border_of(nest, dim), choice.degree(dim), rest)
    return found


def rest_of(nest: Nest, dim: str, sizes: LocalSizes) -> Costs:
    """Return the fraction of a dim's rows that one group reads on average, border rows included, ``[tuples]``."""
    left = sizes.of(dim)
    return left * rows_read(border_of(nest, dim), left)


def rows_read(border: float, left: Costs) -> Costs:
    """Return the rows that all shards read together, as a multiple of the rows, for the fraction of each shard.

    Examples:
        >>> rows_read(0.0625, np.array([1.0, 0.5, 0.25])).tolist()
        [1.0, 1.0625, 1.1875]
    """
    shards = np.rint(1.0 / left)
    return np.asarray(1.0 + halo(border, shards, 1.0))


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
