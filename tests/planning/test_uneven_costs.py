"""Every cost at uneven splits: the best of all choices on small problems, and plans of every shipped heterogeneous machine."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from hypar import load_machine, plan_model
from hypar.execution.exchange import moved
from hypar.program.lowering import layouts_of, lower
from hypar.studies.alternatives import explain_plan
from tests.effort import late
from tests.heterogeneous import group, kind, write_machine, written

if TYPE_CHECKING:
    from pathlib import Path

    from hypar import LayerGraph, Plan
    from hypar.machine.machine import Machine

TYPES = ("batch", "in_channels", "out_channels")

THREE = """
  - {op: input, channels: 16}
  - {name: a, op: linear, out_features: 32, bias: false}
  - {name: b, op: linear, out_features: 8, bias: false}
  - {name: c, op: linear, out_features: 64, bias: false}
"""


def pair(folder: Path, **second: Any) -> Machine:
    """Two devices beside each other, equal ones unless the second has other fields."""
    kinds = {"a": kind(devices=1), "b": {**kind(devices=1, **second)}}
    machine: Machine = load_machine(write_machine(folder, kinds, [group("a.yaml"), group("b.yaml")]))
    return machine


def every(graph: LayerGraph) -> list[list[str]]:
    """The pins of every assignment of one dim to each layer."""
    names = [layer.name for layer in graph.contracted.layers]
    return [
        [f"{name}={dim}" for name, dim in zip(names, dims, strict=True)]
        for dims in itertools.product(TYPES, repeat=len(names))
    ]


def bytes_by_program(plan: Plan, graph: LayerGraph, convention: str) -> int:
    lowered = lower(graph, *layouts_of(plan), convention)
    return graph.element_bytes * sum(
        int(moved(lowered.places, step.transfer).sum()) for step in lowered.transfers.values()
    )


@pytest.mark.parametrize("convention", late(["moved", "fused"], "fused"))
def test_the_least_volume_is_that_of_all_choices_by_the_program(tmp_path: Path, convention: str) -> None:
    graph, machine = written(THREE, 16), pair(tmp_path)

    def planned(*pins: str) -> Plan:
        return plan_model(
            graph, hardware=machine, space=", ".join(TYPES), cost="volume", convention=convention, pins=pins
        )

    found = planned()
    assert found.claim.startswith("each uneven split is optimal")
    assert found.cost.value == bytes_by_program(found, graph, convention)
    others = [planned(*pins) for pins in every(graph)]
    assert [plan.cost.value for plan in others] == [
        bytes_by_program(plan, graph, convention) for plan in others
    ]
    assert found.cost.value == min(plan.cost.value for plan in others)


def test_an_alternative_costs_what_a_pin_of_it_does(tmp_path: Path) -> None:
    """Of summed costs an uneven split is planned anew with each choice of a layer held."""
    graph, machine = written(THREE, 16), pair(tmp_path)
    asked: dict[str, Any] = {"space": ", ".join(TYPES), "cost": "volume", "convention": "moved"}
    plan = plan_model(graph, hardware=machine, **asked)
    for one in explain_plan(plan, graph, layer="*", machine=machine).explained:
        assert one.place == "H1 all"
        for each in one.alternatives:
            (dim,) = each.choice.divided
            held = plan_model(graph, hardware=machine, pins=f"{one.layer}={dim}", **asked)
            assert each.replanned == held.cost.value - plan.cost.value
