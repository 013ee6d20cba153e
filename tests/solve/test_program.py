"""Eliminations in one vector against those of a table for each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from hypar.solve.minsum import MinSum, optimum
from tests.effort import examples
from tests.problems import cost_graphs

if TYPE_CHECKING:
    from hypar.solve.cost_graph import CostGraph


@settings(max_examples=examples(200))
@given(problem=cost_graphs())
def test_an_elimination_in_one_vector_is_that_table_by_table(problem: CostGraph) -> None:
    exact = problem.summable()
    found = optimum(exact)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MinSum, "program", None)
        assert optimum(exact) == found
