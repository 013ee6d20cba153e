"""The cost of a tensor between two layers, for pairs of tuples of their choices at several levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.amounts.between import mapped
from hypar.sharding.amounts.priced import (
    LevelOf,
    direct_costs,
    least_costs,
    level_costs,
    prices_of,
)
from hypar.sharding.amounts.products import OUTERMOST, Places, columns, descended, spread
from hypar.sharding.amounts.transfers import names_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.nodes import Content
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.between import Between
    from hypar.sharding.amounts.products import Products
    from hypar.sharding.amounts.transfers import Part
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options
    from hypar.sharding.rates import Rates
    from hypar.solve.edge import Costs, Indices

Kept = tuple["Indices | None", "Indices | None"] | None
"""The tuples of two layers that are left to choose from; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A tensor between two layers, with their options at some levels.

    Attributes:
        rates: the rates inside layers and between them, at each level.
        between: the tensor's dims at both ends.
        parts: its transfers.
        content: its size and shape, where shards have whole elements.
        ends: producer and consumer.
        options: the options of both ends at each level.
        sizes: their sizes above each level.
        products: the products of the levels above the first one, of one tuple, as arrays.
        least: whether lower bounds are asked for.
    """

    rates: tuple[tuple[Rates, Rates], ...]
    between: Between
    parts: tuple[Part, ...]
    content: Content | None
    ends: tuple[Nest, Nest]
    options: tuple[tuple[Options, ...], tuple[Options, ...]]
    sizes: tuple[list[LocalSizes], list[LocalSizes]]
    products: Products
    least: bool

    def costs(self, levels: Sequence[Level], kept: Kept = None) -> Costs:
        """Return the cost of each pair of tuples, ``[tuples of the producer, tuples of the consumer]``.

        Args:
            levels: the levels.
            kept: the tuples of both; None for all of them.
        """
        here, products = [self.at(at, level) for at, level in enumerate(levels)], self.products
        if self.least:
            return least_costs(self.parts, here[0], products, self.rates[0])[:, 0]
        total = np.zeros((1, 1))
        for level, rates, places in zip(here, self.rates, self.places(kept), strict=True):
            above = self.descended(products, places)
            total = descended(total, places) + level_costs(self.parts, above, level, rates, places)
            if level is not here[-1]:
                products = self.raised(above, level, places)
        return total

    def descended(self, above: Products, places: Places) -> Products:
        """Return the products above a level for each pair of tuples down to it."""
        return mapped(lambda own: descended(own, places), above, names=names_of(self.parts))

    def raised(self, above: Products, level: LevelOf, places: Places) -> Products:
        """Return the products below a level for each pair of tuples, from those above it."""
        return mapped(
            lambda own, factor: own * spread(factor, places), above, level.factors, names=names_of(self.parts)
        )

    @property
    def prices(self) -> tuple[float, float] | None:
        """The costs of an element inside layers and between two, if they are the same at every level."""
        found = {prices_of(rates) for rates in self.rates}
        return found.pop() if len(found) == 1 else None

    def at(self, at: int, level: Level) -> LevelOf:
        """Return one of the levels as both layers see it."""
        options = (self.options[0][at], self.options[1][at])
        made, read = self.sizes[0][at], self.sizes[1][at]
        sizes = (read if self.between.apart else made, read)
        return LevelOf(level, self.between, self.ends[1], options, sizes)

    def terms(self, levels: Sequence[Level]) -> tuple[Costs, ...]:
        """Return the cost of each level that is counted by itself, ``[options of producer, tuples above, of consumer]``."""
        found = []
        for number, (level, rates) in enumerate(zip(levels, self.rates, strict=True)):
            own = self.at(number, level)
            if self.content is None:
                products = OUTERMOST._replace(need=level.copies(own.sizes[1], self.between.operand)[:, None])
                found.append(level_costs(self.parts, products, own, rates))
            else:
                found.append(
                    direct_costs(
                        self.ends,
                        self.content,
                        self.between.operand,
                        own.options,
                        own.sizes[1],
                        level,
                        rates[1],
                    )
                )
        return tuple([term.min(axis=1, keepdims=True) for term in found] if self.least else found)

    def places(self, kept: Kept) -> list[Places]:
        """Return the tuples of both layers, seen from each level."""
        made, read = (
            columns([len(options) for options in of_layer], own)
            for of_layer, own in zip(self.options, kept or (None, None), strict=True)
        )
        return [Places(*both) for both in zip(made, read, strict=True)]

    def alone(self, levels: Sequence[Level], end: int) -> Costs | float:
        """Return the least cost of each tuple of one end, whatever that of the other; 0 if rates differ by level."""
        if self.prices is None or not any(
            _alone(one.gets, one.has) for own in self.parts for one in own.changes
        ):
            return 0.0
        places = self.places((None, np.zeros(1, np.intp)) if end == 0 else (np.zeros(1, np.intp), None))
        products = self.products
        for at, (level, own) in enumerate(zip(levels, places, strict=True)):
            products = self.raised(self.descended(products, own), self.at(at, level), own)
        inside, between = self.prices
        total: Costs | float = 0.0
        for part in self.parts:
            for change in part.changes:
                if ("need" if end else "terms") == change.gets and _alone(change.gets, change.has):
                    price = inside if part.inside else between
                    more = getattr(products, change.gets) - getattr(self.products, change.gets)
                    total = total + price * change.elements * more.reshape(-1)
        return total


def _alone(gets: str, has: str) -> bool:
    """Return whether a change is at least ``gets - 1``, which depends on one end."""
    return gets in {"need", "terms"} and has in {"", "owned"}
