"""All levels at once: a layer's choice is a tuple with one choice a level.

Cost: one search over the product of the levels' choices; its tables are known beforehand, and a search
that would not fit is refused with what does. Guarantee: the optimum over all levels together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hypar.costs.base import WHOLE_LAYER
from hypar.errors import TableLimitError
from hypar.searches.base import Answer, Question, Search, layer_costs
from hypar.units import format_bytes

if TYPE_CHECKING:
    from hypar.costs.base import Options

EDGE_LIMIT = 2**29
"""Entries of all edge matrices together: 4 GiB."""


class Joint:
    """Exact over all levels."""

    claim = "optimal, all levels jointly,"

    def run(self, question: Question) -> Answer:
        """One cost graph for all levels."""
        last = len(question.levels)
        self._require_edges(question)
        structure = question.structure(0, last)
        try:
            name, solver = question.pick_solver(structure)
        except TableLimitError as error:
            raise self._refusal(question, error.entries, error.limit) from None
        solution = solver.solve(question.cost_graph(0, last, [WHOLE_LAYER] * len(question.graph.layers)))
        choices = tuple(
            _decoded(options, chosen)
            for options, chosen in zip(question.options, solution.assignment, strict=True)
        )
        return Answer(choices=choices, costs=_by_level(question, choices), solver=name, exact=solver.exact)

    def _require_edges(self, question: Question) -> None:
        """Refuse edge matrices that would not fit, before any is built."""
        entries = _edge_entries(question, len(question.levels))
        if entries > EDGE_LIMIT:
            raise self._refusal(question, entries, EDGE_LIMIT)

    @staticmethod
    def _refusal(question: Question, entries: int, limit: int) -> TableLimitError:
        """What does not fit, how large it is, and what does fit."""
        levels = len(question.levels)
        fitting = next((count for count in range(levels - 1, 0, -1) if _fits(question, count)), 0)
        fit = f"{fitting} of the {levels} levels would fit" if fitting else "not even one level fits"
        return TableLimitError(
            f"joint search over {levels} levels needs tables of {entries:,} entries"
            f" ({format_bytes(8 * entries)}); allowed: {limit:,}; {fit}, or use --search greedy",
            entries,
            limit,
        )


def _edge_entries(question: Question, count: int) -> int:
    """Entries of the edge matrices of the first ``count`` levels."""
    structure = question.structure(0, count)
    return sum(structure.sizes[a] * structure.sizes[b] for a, b in structure.pairs)


def _fits(question: Question, count: int) -> bool:
    """Whether the first ``count`` levels by themselves could be searched jointly."""
    try:
        question.pick_solver(question.structure(0, count))
    except TableLimitError:
        return False
    return _edge_entries(question, count) <= EDGE_LIMIT


def _decoded(options: tuple[Options, ...], chosen: int) -> Options:
    """The tuple that an index into the product of the levels' options stands for."""
    indices = np.unravel_index(chosen, [len(at_level) for at_level in options])
    return tuple(at_level[int(index)] for at_level, index in zip(options, indices, strict=True))


def _by_level(question: Question, choices: tuple[Options, ...]) -> tuple[tuple[float, ...], ...]:
    """What every layer costs at each level, once the choices are made."""
    made = replace(question, options=tuple(tuple((choice,) for choice in at_layer) for at_layer in choices))
    sizes = [WHOLE_LAYER] * len(choices)
    costs = []
    for index in range(len(question.levels)):
        problem = made.cost_graph(index, index + 1, sizes)
        costs.append(layer_costs(problem, [0] * len(choices)))
        sizes = question.below(sizes, [at_layer[index] for at_layer in choices])
    return tuple(costs)


plugin: Search = Joint()
