"""Any network under any cuts computes on devices what one device does, and moves what was counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.execution.verify import verify_program
from hypar.program.lowering import lower
from tests.effort import examples
from tests.program.machines import machines
from tests.program.networks import networks

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from tests.program.machines import Machine


def disagreements(graph: LayerGraph, machine: Machine, convention: str) -> list[object]:
    """Return the tensors that are wrong, and the transfers that moved something else than was counted."""
    program = lower(graph, machine.places, machine.cuts, convention)
    found = verify_program(program, microbatches=machine.microbatches)
    wrong: list[object] = [one for one in found.errors.items() if one[1] > 1e-10]
    wrong += [one for one in found.transfers if not one.agrees]
    return wrong if found.agrees or wrong else [found.loss, found.expected_loss]


@settings(max_examples=examples(1000, 20))
@given(networks().flatmap(lambda graph: st.tuples(st.just(graph), machines(graph))), st.data())
def test_any_network_under_any_cuts(case: tuple[LayerGraph, Machine], data: st.DataObject) -> None:
    graph, machine = case
    convention = data.draw(st.sampled_from(["moved", "fused", "direct"]))
    assert disagreements(graph, machine, convention) == []
