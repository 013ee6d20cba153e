"""The search from coarse to fine.

Idea: with all levels of a run in one block a state of a node is how often it takes each option, which is few; the best
order of each node and each pair of nodes gives a lower bound. States that no plan as cheap as the known one can have
leave, blocks are halved, and so on until the bound meets the plan or blocks are single levels, which is exact.
Cost: tables over pairs of states, and over cliques of an elimination where they fit the limits.
Guarantee: bound <= optimum <= cost at any moment; equal if it ends by itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hypar.solve.coarse.exchanges import best_of, exchanged
from hypar.solve.coarse.lattice import number_of
from hypar.solve.coarse.narrowing import ROUNDING, narrowed
from hypar.solve.coarse.states import Coarse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.solve.coarse.ladder import Ladder
    from hypar.solve.edge import Indices
    from hypar.solve.limits import Budget

AT_ONCE = 2**26
"""Entries of tables of pairs up to which all blocks are halved at once."""

MOST_STATES = 4000
"""Most states of a node with all levels of a run in one block."""


class Found(NamedTuple):
    """A plan and what is proven of it.

    Attributes:
        orders: the option of each node at each level, ``[nodes, levels]``.
        cost: its cost.
        bound: a lower bound of every plan's cost; equal to the cost if the plan is proven optimal.
    """

    orders: Indices
    cost: float
    bound: float

    @property
    def exact(self) -> bool:
        """Whether the plan is proven optimal."""
        return self.bound >= self.cost

    def better(self, orders: Indices, cost: float) -> Found:
        """Return the same with a better plan."""
        return Found(orders, cost, min(self.bound, cost))

    def above(self, bound: float) -> Found:
        """Return the same with the higher of two bounds."""
        proven = bound >= self.cost * (1 - ROUNDING)
        return self._replace(bound=self.cost if proven else max(self.bound, bound))


def improving(ladder: Ladder, orders: Indices, budget: Budget) -> Iterator[Found]:
    """Yield plans that are no dearer and bounds that are no lower than those before.

    Args:
        ladder: the problem.
        orders: a plan, ``[nodes, levels]``.
        budget: what may be computed.
    """
    coarse = Coarse.coarsest(ladder)
    found = Found(orders, coarse.spans.cost(orders), 0.0)
    first = True
    while True:
        coarse, bound = narrowed(coarse, found.cost, budget)
        found = found.above(bound)
        yield found
        if found.exact:
            return
        if first:
            for plan in exchanged(coarse.spans, found.orders, found.cost, budget):
                found = found.better(*plan)
                yield found
            first = False
            continue
        if coarse.fine:
            best = best_of(coarse, budget)
            if best is not None:
                yield Found(best[0], best[1], best[1])
            return
        which = _next(coarse, budget)
        if which is None:
            return
        coarse = coarse.halved(which)
        budget.spend(coarse.entries * len(coarse.blocks))


def fits(ladder: Ladder, budget: Budget) -> bool:
    """Return whether the tables of the coarsest blocks fit."""
    sizes = [
        math.prod(number_of(*own) for own in zip(options, ladder.runs, strict=True))
        for options in ladder.options
    ]
    pairs = {
        (id(terms), sizes[source], sizes[target]): sizes[source] * sizes[target]
        for source, target, terms in ladder.links
    }
    return max(sizes) <= MOST_STATES and budget.allows(stored=2 * sum(pairs.values()))


def _next(coarse: Coarse, budget: Budget) -> list[int] | None:
    """Return the blocks that are halved next: all if that is little work, otherwise the one that adds the fewest states.

    None if even that is more than the limits allow.
    """
    wide = [block for block, width in enumerate(coarse.blocks) if width > 1]
    if coarse.entries_after(wide) > AT_ONCE:
        wide = min(([block] for block in wide), key=coarse.entries_after)
    entries = coarse.entries_after(wide)
    blocks = len(coarse.blocks) + len(wide)
    return wide if budget.allows(stored=2 * entries + coarse.entries, work=entries * blocks) else None
