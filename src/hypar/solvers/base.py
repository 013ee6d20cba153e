"""What every solver answers, and how the cheapest exact one is picked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from hypar.errors import TableLimitError
from hypar.registry import load_plugin, plugin_names
from hypar.units import format_bytes

if TYPE_CHECKING:
    from hypar.problem import CostGraph, Solution, Structure

STORED_LIMIT = 2**28
"""Table entries that a solver may hold: 2 GiB of 64-bit numbers."""

WORK_LIMIT = 2**34
"""Table entries that a solver may compute: some minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables that a solver needs, known before it starts.

    Attributes:
        stored: entries held at once.
        work: entries computed altogether, a measure of the time.
        width: the most nodes that a table is over; 0 where the solver has no such number.
    """

    stored: int
    work: int
    width: int = 0

    @property
    def fit(self) -> bool:
        """Whether both are within the limits."""
        return self.stored <= STORED_LIMIT and self.work <= WORK_LIMIT


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
def cheapest_exact(structures: tuple[Structure, ...]) -> str:
    """The name of the exact solver that computes the fewest table entries on some graphs; ties to the first name.

    Where none fits all of them it is the one that needs the least, and says so when it is asked to solve.
    """
    found: list[tuple[bool, int, str]] = []
    for name in plugin_names("solvers"):
        solver = load_solver(name)
        tables = [solver.tables(structure) for structure in structures] if solver.exact else [None]
        known = [need for need in tables if need is not None]
        if len(known) == len(tables):
            found.append((not all(need.fit for need in known), sum(need.work for need in known), name))
    return min(found)[2]


def require_tables(name: str, tables: Tables) -> None:
    """Refuse tables past the limits.

    Raises:
        TableLimitError: they are.
    """
    if not tables.fit:
        hint = "" if name == "bounded" else "--solver bounded says how far from the optimum it may be"
        raise table_limit_error(f"solver {name!r}", tables, hint)


def table_limit_error(who: str, tables: Tables, hint: str = "") -> TableLimitError:
    """The error for tables past a limit, with both sizes."""
    if tables.stored > STORED_LIMIT:
        entries, limit, verb = tables.stored, STORED_LIMIT, "hold"
    else:
        entries, limit, verb = tables.work, WORK_LIMIT, "compute"
    size = f" ({format_bytes(8 * entries)})" if verb == "hold" else ""
    width = f", width {tables.width}" if tables.width else ""
    message = f"{who} would {verb} tables of {entries:,} entries{size}{width}; allowed: {limit:,}"
    return TableLimitError(f"{message}; {hint}" if hint else message, entries, limit)
