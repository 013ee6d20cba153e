"""What a device keeps and holds over a step, by hand on small networks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import pytest

from hypar.machine.load import load_machine
from hypar.machine.setting import Setting
from hypar.network.graph import load_model
from hypar.planning.planner import plan_model
from hypar.schedule.lanes import Lane
from hypar.schedule.memory import layers_of, memory_of
from tests.heterogeneous import written

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph


class On(NamedTuple):
    """The bytes of activations on a device, the most bytes with errors, and the most of each layer's phases."""

    activations: float
    peak: float
    most: list[tuple[float, float]]


def course(graph: LayerGraph) -> On:
    """On one device."""
    setting = Setting(machine=load_machine("hmc"), array=(), element_bytes=4)
    lane = Lane(graph.contracted, [()] * len(graph.contracted.layers), setting)
    held = memory_of(lane)
    return On(held["activations"], held["activations"] + held["errors"], layers_of(lane))


RESIDUAL = """
  - {op: input, channels: 8}
  - {name: before, op: linear, out_features: 8}
  - {name: inner, op: linear, out_features: 32}
  - {name: back, op: linear, out_features: 8}
  - {name: sum, op: add, inputs: [back, before]}
  - {name: last, op: linear, out_features: 8}
"""


def test_a_residual_branch_holds_its_error_until_the_other_has_come_back() -> None:
    """At ``back`` its errors of 8 and 32 numbers are there, the first being the addition's, and at ``inner`` one more of 8."""
    found = course(written(RESIDUAL, 2))
    kept = {"before": 8, "inner": 8, "back": 32, "last": 8, "loss": 8}
    assert found.activations == 4 * 2 * sum(kept.values())
    before, inner, back, _, last = (num_bytes / (4 * 2) for _, num_bytes in found.most)
    assert last == sum(kept.values()) + 8 + 8
    assert back == kept["before"] + kept["inner"] + kept["back"] + 8 + 32
    assert inner == kept["before"] + kept["inner"] + 8 + 32 + 8
    assert before == kept["before"] + 8
    assert found.peak == 4 * 2 * back


@pytest.mark.parametrize(("levels", "least"), [((2,), 1.0), ((3, 5), 0.998)])
def test_samples_of_a_very_large_batch_count_together(levels: tuple[int, ...], least: float) -> None:
    """All of a device's samples are as many times those of a batch that is counted one by one; thirds are rounded."""
    held = {}
    for batch in (1024, 2**20):
        graph = load_model("lenet-c").with_batch(batch)
        plan = plan_model(graph, array=levels, strategy="dp", hardware=load_machine("dojo"))
        assert plan.score is not None
        held[batch] = plan.score.memory["activations"]
    assert (
        least
        <= held[2**20]
        / (1024 * held[1024])
        * (math.ceil(1024 / math.prod(levels)) / 1024 * math.prod(levels))
        <= 1.002
    )
