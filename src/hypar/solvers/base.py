"""What every solver answers, and how the cheapest exact one is picked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from hypar.errors import TableLimitError
from hypar.registry import load_plugin, plugin_names

if TYPE_CHECKING:
    from hypar.problem import CostGraph, Solution, Structure

TABLE_LIMIT = 2**28
"""Entries of the largest table that a solver may hold: 2 GiB of 64-bit numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables that a solver needs, known before it starts.

    Attributes:
        largest: entries of the largest table held at once.
        total: entries computed altogether, a measure of the time.
    """

    largest: int
    total: int


class Solver(Protocol):
    """Minimises the sum that an assignment picks from a CostGraph."""

    @property
    def exact(self) -> bool:
        """Whether the result is always an optimum."""

    def tables(self, structure: Structure) -> Tables | None:
        """The tables that it would need, or None where the graph is not of its kind."""

    def solve(self, problem: CostGraph) -> Solution:
        """An assignment and its cost.

        Raises:
            ProblemError: the graph is not of the solver's kind.
            TableLimitError: the tables would be too large.
        """


def load_solver(name: str) -> Solver:
    """The solver of a name.

    Raises:
        UnknownNameError: there is none.
    """
    solver: Solver = load_plugin("solvers", name)
    return solver


@lru_cache(maxsize=16)
def cheapest_exact(structure: Structure) -> str:
    """The name of the exact solver that computes the fewest table entries on a graph; ties to the first name.

    Raises:
        TableLimitError: none of them fits.
    """
    fits: list[tuple[int, str]] = []
    least = None
    for name in plugin_names("solvers"):
        solver = load_solver(name)
        tables = solver.tables(structure) if solver.exact else None
        if tables is None:
            continue
        if tables.largest <= TABLE_LIMIT:
            fits.append((tables.total, name))
        least = tables.largest if least is None else min(least, tables.largest)
    if not fits:
        raise table_limit_error("every exact solver", least or 0)
    return min(fits)[1]


def require_tables(name: str, tables: Tables, limit: int = TABLE_LIMIT) -> None:
    """Refuse tables past the limit.

    Raises:
        TableLimitError: the largest table has more entries than allowed.
    """
    if tables.largest > limit:
        raise table_limit_error(f"solver {name!r}", tables.largest, limit)


def table_limit_error(who: str, entries: int, limit: int = TABLE_LIMIT) -> TableLimitError:
    """The error for tables past the limit, with both sizes."""
    return TableLimitError(f"{who} needs a table of {entries:,} entries; allowed: {limit:,}", entries, limit)
