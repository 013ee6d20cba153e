"""Bounds of a device's memory that count no transfers, against what is held."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import load_machine, plan_model
from hypar.errors import InputError
from hypar.planning.resolved import Resolved
from hypar.planning.uneven.memory import BROUGHT, largest_of
from hypar.planning.uneven.tree import branch_of
from hypar.schedule.memory import held_with, memory_of
from hypar.schedule.stages import StepWork
from tests.effort import examples
from tests.heterogeneous import machines, networks, write_machine

if TYPE_CHECKING:
    import pytest

    from hypar import LayerGraph
    from tests.heterogeneous import Drawn


@settings(max_examples=examples(150, 6), deadline=None)
@given(
    networks,
    machines(most=6),
    st.sampled_from(["dp", "mp", "hypar", "accpar", "deepa"]),
    st.sampled_from(["linear", "exact", "layers"]),
    st.sampled_from(["paper", "moved", "fused"]),
)
def test_a_device_of_a_group_holds_no_less_and_no_more(
    tmp_path_factory: pytest.TempPathFactory,
    graph: LayerGraph,
    drawn: Drawn,
    strategy: str,
    shares: str,
    convention: str,
) -> None:
    """Whatever the shares, of which devices hold whole elements, and whatever the convention of the run."""
    machine = load_machine(write_machine(tmp_path_factory.mktemp("tree"), *drawn))
    asked = {"shares": shares} if strategy == "accpar" else {}
    try:
        plan = plan_model(graph, hardware=machine, strategy=strategy, **asked)  # type: ignore[arg-type]
    except InputError:
        return
    nodes = graph.nodes(plan.graph)
    request = replace(Resolved.of(plan, machine), optimizer="adam", counted=convention)
    branch = branch_of(plan, request, graph)
    lanes, crossings = branch.lanes()
    transfers = StepWork.of(lanes, crossings).run()
    for number, (lane, (sharing, _)) in enumerate(
        zip(lanes, branch.in_whole_elements().reached(), strict=True)
    ):
        held = math.fsum(memory_of(lane, transfers.pieces, number).values())
        least = held_with(sharing)
        most = least + BROUGHT * largest_of(nodes) * graph.element_bytes
        assert least <= held <= most * (1 + 1e-12)
