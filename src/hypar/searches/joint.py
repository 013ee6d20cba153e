"""All levels at once: a layer's choice is a tuple with one choice a level.

Cost: one search over the product of the levels' choices; its tables are known beforehand, and a search
that would not fit is refused with what does. Guarantee: the optimum over all levels together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.levels import WHOLE_LAYER
from hypar.searches.base import Answer, Question, Search, costs_by_level
from hypar.solvers.base import table_limit_error

if TYPE_CHECKING:
    from hypar.errors import TableLimitError
    from hypar.placement import Options
    from hypar.solvers.base import Tables


class Joint:
    """Exact over all levels."""

    claim = "optimal, all levels jointly,"
    at_once = True

    def run(self, question: Question) -> Answer:
        """One cost graph for all levels."""
        last = len(question.levels)
        structure = question.structure(0, last)
        name, solver = question.pick_solver(structure)
        tables = solver.tables(structure)
        if tables is not None and not tables.fit:
            raise _refusal(question, tables)
        solution = solver.solve(question.cost_graph(0, last, [WHOLE_LAYER] * len(question.graph.layers)))
        choices = tuple(
            _decoded(options, chosen)
            for options, chosen in zip(question.options, solution.assignment, strict=True)
        )
        return Answer(
            choices=choices,
            costs=costs_by_level(question, choices),
            solver=name,
            exact=solver.exact,
            bounds=() if solution.bound is None else (solution.bound,),
        )


def _refusal(question: Question, tables: Tables) -> TableLimitError:
    """What does not fit, how large it is, and what does fit."""
    levels = len(question.levels)
    fitting = next((count for count in range(levels - 1, 0, -1) if _fits(question, count)), 0)
    fit = f"{fitting} of the {levels} levels would fit" if fitting else "not even one level fits"
    return table_limit_error(f"joint search over {levels} levels", tables, f"{fit}, or use --search greedy")


def _fits(question: Question, count: int) -> bool:
    """Whether the first ``count`` levels by themselves could be searched jointly."""
    structure = question.structure(0, count)
    tables = question.pick_solver(structure)[1].tables(structure)
    return tables is not None and tables.fit


def _decoded(options: tuple[Options, ...], chosen: int) -> Options:
    """The tuple that an index into the product of the levels' options stands for."""
    indices = np.unravel_index(chosen, [len(at_level) for at_level in options])
    return tuple(at_level[int(index)] for at_level, index in zip(options, indices, strict=True))


plugin: Search = Joint()
