"""The interface of every solver, and the selection of the cheapest exact one."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple, Protocol

from hypar.errors import TableLimitError
from hypar.registry import load_plugin, own_plugins
from hypar.solve.cost_graph import CostGraph, Solution, Structure
from hypar.solve.limits import ENTRY_BYTES, Budget
from hypar.solve.minsum import min_sum
from hypar.units import format_bytes

STORED_LIMIT = 2**28
"""Limit of table entries held at once: 2 GiB of 64-bit numbers."""

FALLBACK = "bounded"
"""The solver for graphs too large for every exact solver."""

WORK_LIMIT = 2**34
"""Limit of table entries computed: some minutes."""


class Tables(NamedTuple):
    """The size of a solver's tables, known before it starts.

    Attributes:
        stored: entries held at once.
        work: entries computed altogether, a measure of the time.
        width: the largest number of nodes of a table; 0 if the solver has no such number.
        complete: whether all tables are counted; if not, the last one alone exceeds the limits.
    """

    stored: int
    work: int
    width: int = 0
    complete: bool = True

    @property
    def fit(self) -> bool:
        """Whether both sizes are within the limits."""
        return self.stored <= STORED_LIMIT and self.work <= WORK_LIMIT

    def within(self, budget: Budget) -> bool:
        """Return whether both sizes are within the limits of all solvers, and those of a search."""
        return self.fit and budget.allows(stored=self.stored, work=self.work)


class Solver(Protocol):
    """A minimiser of the cost of a CostGraph's assignments.

    One with a method ``improving(problem, budget)`` yields solutions within a budget, each with no higher a cost and no lower a bound
    than those before.
    """

    @property
    def exact(self) -> bool:
        """Whether the result is always an optimum."""

    def tables(self, structure: Structure) -> Tables | None:
        """Return the size of the tables needed, or None if the solver does not support the graph."""

    def solve(self, problem: CostGraph) -> Solution:
        """Return an assignment and its cost.

        Raises:
            ProblemError: the solver does not support the graph.
            TableLimitError: the tables would be too large.
        """


@lru_cache(maxsize=64)
def tables_of(structure: Structure) -> Tables:
    """Return the size of the tables of an elimination."""
    search = min_sum(structure)
    # Every table is kept for the way back, and beside them there is one sum before its minimum is taken.
    kept = structure.entries + sum(step.entries for step in search.steps)
    return Tables(
        stored=kept + max((step.summed for step in search.steps), default=0),
        work=search.work + sum(structure.sizes),
        width=max((len(step.scope) for step in search.steps), default=0),
        complete=search.complete,
    )


def load_solver(name: str) -> Solver:
    """Return the solver with a name; raises ``UnknownNameError``."""
    solver: Solver = load_plugin("solvers", name)
    return solver


@lru_cache(maxsize=16)
def cheapest(structures: tuple[Structure, ...]) -> str:
    """Return the name of the exact solver with the least work on some graphs, of those that come with hypar.

    A solver of another package is used where it is named, so that a plan does not depend on what is installed. Ties go to the
    first name. If no exact solver's tables fit, the result is ``bounded``, which reports a gap.
    """
    found: list[tuple[int, str]] = []
    for name in sorted(own_plugins("solvers")):
        solver = load_solver(name)
        tables = [solver.tables(structure) for structure in structures] if solver.exact else [None]
        known = [need for need in tables if need is not None and need.fit]
        if len(known) == len(tables):
            found.append((sum(need.work for need in known), name))
    return min(found)[1] if found else FALLBACK


def require_tables(name: str, tables: Tables, most_bytes: float = math.inf) -> None:
    """Raise ``TableLimitError`` if tables exceed the limits, those of all solvers or the memory of a search."""
    stored = int(min(STORED_LIMIT, most_bytes / ENTRY_BYTES))
    if tables.stored <= stored and tables.work <= WORK_LIMIT:
        return
    held = tables.stored > stored
    entries, limit, verb = (tables.stored, stored, "hold") if held else (tables.work, WORK_LIMIT, "compute")
    number = f"{entries:,}" if entries < 10**15 else f"10^{int(math.log10(entries))}"
    size = f" ({format_bytes(ENTRY_BYTES * entries)})" if held and entries < 10**15 else ""
    width = f", width {tables.width}" if tables.width else ""
    least = "" if tables.complete and entries < 10**15 else "more than "
    hint = "" if name == FALLBACK else f"; solver {FALLBACK!r} says how far from the optimum it may be"
    message = f"solver {name!r} would {verb} tables of {least}{number} entries{size}{width}; allowed: {limit:,}{hint}"
    raise TableLimitError(message, entries, limit)
