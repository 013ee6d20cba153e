"""Compiled eliminations against folding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from hypar.solve.elimination import program, ties
from hypar.solve.elimination.program import program_of
from tests.effort import examples
from tests.problems import cost_graphs, structure

if TYPE_CHECKING:
    from hypar.solve.cost_graph import CostGraph


@settings(max_examples=examples(200))
@given(problem=cost_graphs())
def test_a_compiled_elimination_is_that_of_folding(problem: CostGraph) -> None:
    exact, own = problem.summable(), problem.structure
    found = ties.eliminated(exact, own)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ties, "program_of", lambda _: None)
        assert ties.eliminated(exact, own) == found


def test_nodes_that_are_independent_leave_at_once() -> None:
    compiled = program_of(structure([3] * 4, [(0, 1), (0, 2), (0, 3)]))
    assert compiled is not None
    leaving = [[node for node, _ in group.rows] for group in compiled.groups]
    assert leaving == [[1, 2, 3], [0]]


def test_large_tables_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert program_of(structure([40, 60], [(0, 1)])) is None
    chain = [(node, node + 1) for node in range(299)]
    assert program_of(structure([4] * 300, chain)) is not None
    assert program_of(structure([9] * 300, chain)) is None
    monkeypatch.setattr(program, "MOST_WORK", 0)
    assert program_of(structure([4, 6], [(0, 1)])) is None
