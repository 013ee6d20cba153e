"""Compiled eliminations against folding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from hypar.solve.elimination import ties
from tests.effort import examples
from tests.problems import cost_graphs

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
