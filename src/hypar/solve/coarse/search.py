"""The search from coarse to fine.

Idea: with all levels of a run in one block a state of a node is how often it takes each option, which is few; the best
order of each node and each pair of nodes gives a lower bound. Where options are many, those that are alike are one at first,
and only these are searched if the tables of all would take too long. States that no plan as cheap as the known one can have
leave, blocks are halved, and so on until the bound meets the plan or blocks are single levels, which is exact.
Cost: tables over pairs of states, and over cliques of an elimination where they fit the limits.
Guarantee: bound <= optimum <= cost at any moment; equal if it ends by itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.solve.coarse.exchanges import best_of, exchanged
from hypar.solve.coarse.lattice import number_of
from hypar.solve.coarse.narrowing import ROUNDING, by_cliques, by_trees
from hypar.solve.coarse.spans import pair_work
from hypar.solve.coarse.states import Coarse, Spans
from hypar.solve.limits import timed

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


def improving(ladder: Ladder, thin: Ladder, orders: Indices, budget: Budget) -> Iterator[Found]:
    """Yield plans that are no dearer and bounds that are no lower than those before.

    Args:
        ladder: the problem.
        thin: the same with options merged, of which every cost is a lower bound; or the problem itself.
        orders: a plan, ``[nodes, levels]``.
        budget: what may be computed.
    """
    # An answer has a bound, whatever the clock says.
    with timed(math.inf):
        coarse = Coarse.coarsest(thin)
    spans = coarse.spans if thin is ladder else Spans(ladder)
    found = Found(orders, spans.cost(orders), 0.0)
    first = True
    while True:
        for narrow in (by_trees, by_cliques):
            coarse, bound = narrow(coarse, found.cost, budget)
            found = found.above(bound)
            yield found
            if found.exact:
                return
        if first:
            for plan in exchanged(spans, found.orders, found.cost, budget):
                found = found.better(*plan)
                yield found
            first = False
            if thin is not ladder and fits(ladder, budget, work=(work := span_work(ladder))):
                budget.spend(work)
                coarse = Coarse.coarsest(ladder, spans)
            continue
        if coarse.fine:
            best = best_of(coarse, budget)
            if best is not None:
                yield Found(best[0], best[1], best[1]) if coarse.ladder is ladder else found.above(best[1])
            return
        which = _next(coarse, budget)
        if which is None:
            return
        coarse = coarse.halved(which)
        budget.spend(coarse.entries * len(coarse.blocks))


def fits(ladder: Ladder, budget: Budget, *, work: float = 0) -> bool:
    """Return whether the tables of the coarsest blocks fit, and some work for them."""
    sizes = [
        math.prod(number_of(*own) for own in zip(options, ladder.runs, strict=True))
        for options in ladder.options
    ]
    pairs = {
        (id(terms), sizes[source], sizes[target]): sizes[source] * sizes[target]
        for source, target, terms in ladder.links
    }
    return max(sizes) <= MOST_STATES and budget.allows(stored=2 * sum(pairs.values()), work=work)


def span_work(ladder: Ladder) -> int:
    """Return the entries that the costs of the coarsest blocks between two nodes take."""
    distinct = {id(link.terms): link for link in ladder.links}
    firsts = np.cumsum((0, *ladder.runs[:-1])).tolist()
    return sum(
        pair_work((ladder.lattice(source), ladder.lattice(target)), first, width)
        for source, target, _ in distinct.values()
        for first, width in zip(firsts, ladder.runs, strict=True)
    )


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
