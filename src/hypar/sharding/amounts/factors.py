"""The factors of one level, and the collectives of its transfers."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.amounts.between import (
    Between,
    Factors,
    Manners,
    Plain,
    names_at,
    numbers,
)
from hypar.sharding.amounts.rows import cut_windows, grids_with_halos, rest_of, with_halos
from hypar.sharding.grids.intersection import boxes, shared_elements
from hypar.sharding.grids.layouts import layout
from hypar.sharding.grids.manners import CODE, back, forth, undivided
from hypar.sharding.grids.tensor_dims import divided
from hypar.sharding.numbering import digits_of
from hypar.sharding.placement import terms
from hypar.sharding.rates import COLLECTIVES
from hypar.sharding.transfers import all_simple, simple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hypar.ops.nest import Nest
    from hypar.sharding.grids.layouts import Layout
    from hypar.sharding.grids.manners import Names
    from hypar.sharding.levels import LocalSizes
    from hypar.sharding.placement import Choice, Options
    from hypar.solve.edge import Costs


@lru_cache(maxsize=4096)
def plain(between: Between, options: tuple[Options, Options], ways: int) -> Plain:
    """Return the factors of a level without halos."""
    made, read = layout(options[0], ways), layout(options[1], ways)
    names = names_at(between)
    tables = [divided(own, theirs, made.of(own), read.of(theirs), 0.0, 1.0) for own, theirs in names]
    need = boxes(read, [(table.read, table.needed) for table in tables])
    hold = boxes(made, [(table.made, table.held) for table in tables])
    both = np.broadcast_to(
        shared_elements(made, read, [table.core for table in tables]), (len(hold), len(need))
    )
    straight = _straight(between, made, ways)[:, None] & _divides(names, options[1], ways)
    kept = np.where(straight, need, hold[:, None])
    summed = np.ones(len(hold))
    for op, tensor in between.made.names["output"].items():
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
    if made.ordered or read.ordered:
        flat = _with_orders(flat, between, options, ways)
    return Plain(flat, _manners(between, (made, read), names, straight), apart & ~straight)


def _with_orders(flat: Factors, between: Between, options: tuple[Options, Options], ways: int) -> Factors:
    """Return factors with those of the pairs of which one has an order of its own: the products over their digits."""
    shape = (len(options[0]), 1, len(options[1]))
    found = Factors(*[np.broadcast_to(factor, shape).copy() for factor in flat])
    for row, maker in enumerate(options[0]):
        for column, reader in enumerate(options[1]):
            digits = digits_of((ways,), ((maker,), (reader,))) if maker.order or reader.order else None
            if digits is not None:
                levels = [
                    _plain_pair(between, (one, other), own)[0]
                    for one, other, own in zip(*digits.chosen, digits.array, strict=True)
                ]
                for table, factors in zip(found, zip(*levels, strict=True), strict=True):
                    table[row, 0, column] = math.prod(factors)
    return found


def factors_of_pair(
    reader: Nest, between: Between, pair: tuple[Choice, Choice], sizes: LocalSizes, ways: int
) -> tuple[Factors, dict[str, str]]:
    """Return the factors of one pair of choices below one tuple as numbers, and their collectives."""
    found = _plain_pair(between, pair, ways)
    if cut_windows(reader, (pair[1],)):
        here = factors_of(reader, between, ((pair[0],), (pair[1],)), sizes, ways)
        return numbers(here), found[1]
    return found


@lru_cache(maxsize=16384)
def _plain_pair(between: Between, pair: tuple[Choice, Choice], ways: int) -> tuple[Factors, dict[str, str]]:
    """Return the same without halos."""
    found = plain(between, ((pair[0],), (pair[1],)), ways)
    kinds = {name: COLLECTIVES[codes[0, 0]] for name, codes in found.manners._asdict().items()}
    return numbers(found.factors), kinds


def factors_of(
    reader: Nest,
    between: Between,
    options: tuple[Options, Options],
    sizes: LocalSizes,
    ways: int,
) -> Factors:
    """Return the factors of a level below the levels above, whose choices leave the consumer some sizes."""
    found = plain(between, options, ways)
    dims = cut_windows(reader, options[1])
    if not dims:
        return found.factors
    rests = {dim: sizes.of(dim) if between.apart else rest_of(reader, dim, sizes) for dim in dims}
    if all(all_simple(end, ways) for end in options):
        return with_halos(reader, options[1], found, rests)
    return grids_with_halos(reader, between, options, found.factors, rests, ways)


def _apart(names: Names, maker: Choice, reader: Choice) -> bool:
    return not any(maker.degree(own or "") > 1 and reader.degree(theirs or "") > 1 for own, theirs in names)


def _terms(nest: Nest, own: Layout, tensor: str) -> Costs:
    """Return the number of devices that have terms of each element, ``[choices]``."""
    return np.asarray(terms(nest, tensor, own.chosen) * np.ones(len(own.working)))


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
    forward = np.broadcast_to(forth(*ends, names), shape)
    backward = np.broadcast_to(back(*ends, names, no_terms), shape)
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
