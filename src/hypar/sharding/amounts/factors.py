"""The factors of one level: the fraction of a tensor between two layers that all devices of a group have together.

A factor is an array of three axes: options of the producer, tuples of the consumer above the level, options of the
consumer. An axis along which it does not vary has one entry.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.amounts.rows import border_of, cut_windows, rest_of
from hypar.sharding.grids.intersection import boxes, shared_elements
from hypar.sharding.grids.layouts import layout
from hypar.sharding.grids.manners import CODE, back, forth, undivided
from hypar.sharding.grids.tensor_dims import INNER, divided
from hypar.sharding.transfers import Border, halo, simple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hypar.network.ops.base import Einsum
    from hypar.sharding.grids.layouts import Layout
    from hypar.sharding.grids.manners import Codes, Names
    from hypar.sharding.levels import LocalSizes
    from hypar.sharding.placement import Choice, Options
    from hypar.solve.edge import Costs


class Between(NamedTuple):
    """A tensor between two layers, without sizes.

    Attributes:
        made: the producer's dims.
        read: the consumer's dims.
        dims: the dims of the tensor as the consumer reads it.
        contracted: the producer's dims that ops on the way sum.
        onward: whether the producer's sums go straight to the consumer.
    """

    made: Einsum
    read: Einsum
    dims: tuple[str, ...]
    contracted: frozenset[str]
    onward: bool


class Factors(NamedTuple):
    """The factors of one level.

    Attributes:
        need: fraction that the consumer reads; also that of E_in of which it has terms.
        hold: fraction that the producer holds of F once its sums are everywhere, and needs of E.
        kept: fraction at the places between: the producer's, or the consumer's where sums go straight there.
        both: fraction that devices need as F and hold already.
        back: fraction that they need as E and hold already.
        owned: fraction at one owner of each element of E, of which it has a term.
        alone: the part of ``kept`` that has no terms of the sums that ops between the layers take.
        terms: fraction of the producer's F_out of which it has terms, before the ops between; also that of E_out.
        left: fraction of F_out at the places to which its sums go.
    """

    need: Costs
    hold: Costs
    kept: Costs
    both: Costs
    back: Costs
    owned: Costs
    alone: Costs
    terms: Costs
    left: Costs


class AtLevel(NamedTuple):
    """The factors of one level.

    Attributes:
        factors: the factors.
        growth: the factors less 1: by how much the level multiplies what is there.
    """

    factors: Factors
    growth: Factors


class Manners(NamedTuple):
    """The collectives of one level, as indices into ``COLLECTIVES``, ``[made, read]``.

    Attributes:
        forward: of F.
        backward: of E.
        sums: of the producer's sums that go straight to the consumer.
        errors: of E sent as terms.
    """

    forward: Codes
    backward: Codes
    sums: Codes
    errors: Codes


class Plain(NamedTuple):
    """The factors and collectives of one level if no window reads across a border.

    Attributes:
        factors: the factors.
        growth: the factors less 1: by how much a level multiplies what is there.
        manners: the collectives.
        apart: whether the producer keeps other shards than the consumer reads, ``[made, read]``.
    """

    factors: Factors
    growth: Factors
    manners: Manners
    apart: NDArray[np.bool_]


def less_one(factors: Factors) -> Factors:
    """Return each factor less 1."""
    return Factors(*[factor - 1.0 for factor in factors])


@lru_cache(maxsize=4096)
def plain(between: Between, options: tuple[Options, Options], ways: int) -> Plain:
    """Return the factors of a level without halos."""
    made, read = layout(options[0], ways), layout(options[1], ways)
    names = _names(between)
    tables = [divided(own, theirs, made.of(own), read.of(theirs), 0.0, 1.0) for own, theirs in names]
    need = boxes(read, [(table.read, table.needed) for table in tables])
    hold = boxes(made, [(table.made, table.held) for table in tables])
    both = np.broadcast_to(
        shared_elements(made, read, [table.core for table in tables]), (len(hold), len(need))
    )
    straight = _straight(between, made, ways)[:, None] & _divides(names, options[1], ways)
    kept, both = np.where(straight, need, hold[:, None]), np.where(straight, need, both)
    summed = np.ones(len(hold))
    for op, tensor in between.made.output.items():
        summed = summed * (made.degree(op) if tensor in between.contracted else 1)
    terms = _terms(between.made, made, "output")
    shared, whole = both[:, None], hold[:, None, None]
    flat = Factors(
        need=need[None, None],
        hold=whole,
        kept=kept[:, None] if between.onward else whole,
        both=shared,
        back=shared,
        owned=np.minimum(shared, 1.0),
        alone=(kept / summed[:, None])[:, None],
        terms=terms[:, None, None],
        left=np.where(straight, need, terms[:, None])[:, None],
    )
    apart = np.array([[_apart(names, maker, reader) for reader in options[1]] for maker in options[0]])
    return Plain(flat, less_one(flat), _manners(between, (made, read), names, straight), apart & ~straight)


def factors_of(
    ends: tuple[Einsum, Einsum],
    between: Between,
    options: tuple[Options, Options],
    sizes: LocalSizes,
    ways: int,
) -> AtLevel:
    """Return the factors of a level below the levels above, whose choices leave the consumer some sizes."""
    found = plain(between, options, ways)
    dims = cut_windows(ends[1], options[1])
    if not dims:
        return AtLevel(found.factors, found.growth)
    rests = {dim: rest_of(ends[1], dim, sizes) for dim in dims}
    if all(simple(choice, ways) for end in options for choice in end):
        factors = _with_halos(ends[1], options[1], found, rests)
    else:
        factors = _grids_with_halos(ends[1], between, options, found.factors, rests, ways)
    return AtLevel(factors, less_one(factors))


def _with_halos(einsum: Einsum, options: Options, found: Plain, rests: dict[str, Costs]) -> Factors:
    """Add the halos of simple choices: a device lacks the halo only if the producer divides the same dim."""
    beyond = np.zeros((len(next(iter(rests.values()))), len(options)))
    for column, choice in enumerate(options):
        for dim in choice.divided:
            if dim in rests:
                border = Border(dim, border_of(einsum, dim), choice.degree(dim), 1)
                beyond[:, column] = halo(border, rests[dim])
    factors = found.factors
    shared = factors.both * (1 + beyond * found.apart[:, None])
    return _reaching(factors, factors.need * (1 + beyond), shared)


def _reaching(factors: Factors, need: Costs, both: Costs) -> Factors:
    """Replace what is read, and of it what is held, by amounts with halos; terms of E reach as far."""
    return factors._replace(need=need, both=both, owned=np.minimum(both, 1.0))


def _grids_with_halos(
    einsum: Einsum,
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
        halos = {dim: min(1.0, border_of(einsum, dim) / left) for dim, left in rest.items()}
        tables = [
            divided(own, theirs, made.of(own), read.of(theirs), halos.get(theirs or "", 0.0), 1.0)
            for own, theirs in _names(between)
        ]
        needs.append(boxes(read, [(table.read, table.needed) for table in tables]))
        shares.append(shared_elements(made, read, [table.intersections for table in tables]))
    index = which.reshape(-1)
    both = np.stack(shares, axis=1)[:, index]
    straight = factors.kept != factors.hold
    both = np.where(straight, factors.both, both)
    return _reaching(factors, np.stack(needs)[index][None], both)


def _names(between: Between) -> Names:
    """Return the op dims of producer and consumer for each dim of the tensor."""
    makes = {tensor: op for op, tensor in between.made.output.items() if tensor not in between.contracted}
    reads = {tensor: op for op, tensor in between.read.input.items()}
    return tuple((makes.get(dim), reads.get(dim)) for dim in ("batch", *between.dims, INNER))


def _apart(names: Names, maker: Choice, reader: Choice) -> bool:
    return not any(maker.degree(own or "") > 1 and reader.degree(theirs or "") > 1 for own, theirs in names)


def _terms(einsum: Einsum, own: Layout, tensor: str) -> Costs:
    """Return the number of devices that have terms of each element, ``[choices]``."""
    terms: Costs = own.working.astype(np.float64)
    if not einsum.weight:
        return np.ones_like(terms)
    for dim in einsum.dims(tensor):
        terms = terms / own.degree(dim)
    return terms


def _straight(between: Between, made: Layout, ways: int) -> NDArray[np.bool_]:
    """Return whether every device has terms of the whole F_out, so that its sum may go to any of them."""
    return np.asarray(_terms(between.made, made, "output") == ways) & (between.onward and ways > 1)


def _divides(names: Names, readers: Options, ways: int) -> NDArray[np.bool_]:
    """Return whether a consumer's choice divides one dim of the tensor over all devices; groups stay together."""
    dims = {theirs for _, theirs in names} - {"groups", None}
    return np.array([simple(choice, ways) and bool({*choice.divided} & dims) for choice in readers])


def _manners(
    between: Between, ends: tuple[Layout, Layout], names: Names, straight: NDArray[np.bool_]
) -> Manners:
    """Return the collectives of a level."""
    no_terms = np.zeros(1, bool).tobytes()
    shape = straight.shape
    forward = np.broadcast_to(forth(*ends, names).collectives, shape)
    backward = np.broadcast_to(back(*ends, names, no_terms).collectives, shape)
    sums = np.where(straight, CODE["reduce_scatter"], CODE["all_reduce"])
    whole = undivided(ends[0], [own for own, _ in names])[:, None] & ~straight
    added = np.where(whole, CODE["all_reduce"], CODE["reduce_scatter"])
    has_terms = _terms(between.read, ends[1], "input") > 1
    unlike = np.where(straight, CODE["all_to_all"], backward)
    return Manners(
        np.where(straight, CODE["neighbours"], forward),
        backward,
        np.broadcast_to(sums, shape),
        np.where(has_terms, added, unlike),
    )
