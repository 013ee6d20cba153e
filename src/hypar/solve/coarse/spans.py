"""The least costs of some levels in a row, over all orders of what is taken there: of one node, and of two.

Two nodes may take different orders beside different others, so that sums of these costs are lower bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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


def pair_span(terms: tuple[Costs, ...], ends: tuple[Lattice, Lattice], first: int, width: int) -> Costs:
    """Return the least cost between two nodes over some levels, ``[counts of the source, states above, counts]``."""
    made, read = (end.run(first) for end in ends)
    if width == 1:
        return terms[first]
    best: Costs = np.zeros((1, ends[1].number(first), 1))
    for at in range(width):
        costs = terms[first + at][:, ends[1].below(first, at)]
        shape = (len(made.counts[at + 1]), best.shape[1], len(read.counts[at + 1]))
        left = np.full(shape, np.inf)
        for option, sources in enumerate(made.after[at].T):
            for other, targets in enumerate(read.after[at].T):
                place = np.ix_(sources, np.arange(shape[1]), targets)
                left[place] = np.minimum(left[place], best + costs[option, :, :, other])
        best = left
    return best
