"""The least costs of some levels in a row, over all orders of what is taken there: of one node, and of two.

Two nodes may take different orders beside different others, so that sums of these costs are lower bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.solve.limits import checkpoint

if TYPE_CHECKING:
    from hypar.solve.coarse.lattice import Lattice
    from hypar.solve.edge import Costs


def node_span(terms: tuple[Costs, ...], lattice: Lattice, first: int, width: int) -> Costs:
    """Return the least cost of a node over some levels, ``[states above, counts]``."""
    run = lattice.run(first)
    best: Costs = np.zeros((lattice.number(first), 1))
    for at in range(width):
        costs = best[:, :, None] + terms[first + at][lattice.below(first, at)]
        best = np.full((len(best), len(run.counts[at + 1])), np.inf)
        for option, states in enumerate(run.after[at].T):
            best[:, states] = np.minimum(best[:, states], costs[:, :, option])
    return best


def pair_work(ends: tuple[Lattice, Lattice], first: int, width: int) -> int:
    """Return the entries that ``pair_span`` computes."""
    made, read = (end.run(first) for end in ends)
    above = ends[1].number(first)
    return above * sum(made.after[at].size * read.after[at].size for at in range(width))


def pair_span(terms: tuple[Costs, ...], ends: tuple[Lattice, Lattice], first: int, width: int) -> Costs:
    """Return the least cost between two nodes over some levels, ``[counts of the source, states above, counts]``."""
    made, read = (end.run(first) for end in ends)
    if width == 1:
        return terms[first]
    best: Costs = np.zeros((1, ends[1].number(first), 1))
    for at in range(width):
        checkpoint()
        costs = terms[first + at][:, ends[1].below(first, at)]
        left = np.full((len(made.counts[at + 1]), best.shape[1], len(read.counts[at + 1])), np.inf)
        for other, targets in enumerate(read.after[at].T):
            # Rows of the source first: whole ones move fast.
            here = np.full((len(left), *best.shape[1:]), np.inf)
            for option, sources in enumerate(made.after[at].T):
                here[sources] = np.minimum(here[sources], best + costs[option, :, :, other])
            left[:, :, targets] = np.minimum(left[:, :, targets], here)
        best = left
    return best
