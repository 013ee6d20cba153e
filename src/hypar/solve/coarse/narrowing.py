"""The states that a plan of a known cost, or a cheaper one, may have, and a lower bound of all plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.solve.cliques import AT_ONCE, Cliques, entries_of
from hypar.solve.marginals import marginals

if TYPE_CHECKING:
    from hypar.solve.coarse.states import Coarse
    from hypar.solve.edge import Costs
    from hypar.solve.limits import Budget

ROUNDING = 1e-12
"""Largest rounding error of a sum, relative to it."""


def by_trees(coarse: Coarse, known: float, budget: Budget) -> tuple[Coarse, float]:
    """Return the problem without the states that cost more than a known plan by spanning trees, and a lower bound."""
    bound = 0.0
    for far in (False, True):
        budget.spend(2 * coarse.entries)
        bound, coarse = _left(
            coarse, marginals(coarse.nodes, coarse.ladder.ends, coarse.pairs, far=far), bound, known
        )
        if bound >= known * (1 - ROUNDING):
            break
    return coarse, bound


def by_cliques(coarse: Coarse, known: float, budget: Budget) -> tuple[Coarse, float]:
    """Return the same by the cliques of an elimination, which trees leave small; the problem as it is if they do not fit."""
    bound = 0.0
    tables = entries_of([len(own) for own in coarse.states], coarse.ladder.ends)
    # Both ways: two tables over the same neighbours are held, and each sum is computed twice.
    if budget.allows(stored=coarse.entries + 2 * tables.held + AT_ONCE, work=2 * tables.computed):
        budget.spend(2 * tables.computed)
        cliques = Cliques(coarse.nodes, coarse.ladder.ends, coarse.pairs)
        bound, coarse = _left(coarse, cliques.marginals, bound, known)
    return coarse, bound


def _left(coarse: Coarse, least: list[Costs], bound: float, known: float) -> tuple[float, Coarse]:
    """Return the higher bound and the states within a cost."""
    higher = max(bound, float(least[0].min()))
    most = max(known, higher) * (1 + ROUNDING)
    return higher, coarse.kept([own <= most for own in least])
