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

if TYPE_CHECKING:
    from pathlib import Path

    from hypar.network.graph import LayerGraph

CHAIN = """
source: a test
batch: 2
layers:
  - {op: input, channels: 4, height: 8, width: 8}
  - {name: first, op: conv, out_channels: 6, kernel: 3, padding: 1}
OPS
  - {name: whole, op: pool, mode: average, window: global}
  - {name: flat, op: flatten}
  - {name: last, op: linear, out_features: 3}
"""
READ, MADE, ENDS = 2 * 4 * 64, 2 * 6 * 64, 2 * 6 + 2 * 3
"""Numbers that the convolution reads and writes, and those that the linear layer keeps and the loss."""


def network(folder: Path, text: str) -> LayerGraph:
    file = folder / "net.yaml"
    file.write_text(text, encoding="utf-8")
    return load_model(file)


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


@pytest.mark.parametrize(
    ("ops", "num_bytes"),
    [
        ("", 0),
        ("  - {op: batch_norm}", 4 * (MADE + 2 * 6)),
        ("  - {op: relu}", 4 * MADE),
        ("  - {op: batch_norm}\n  - {op: relu}", 4 * (2 * MADE + 2 * 6)),
        ("  - {op: relu}\n  - {op: dropout}", 4 * MADE + MADE),
        ("  - {op: relu}\n  - {op: pointwise, function: lrn}", 4 * 2 * MADE),
        ("  - {op: pointwise, function: gelu}\n  - {op: pointwise, function: tanh}", 4 * 2 * MADE),
        ("  - {op: relu}\n  - {op: pool, mode: max, kernel: 2}", 4 * MADE + 8 * MADE // 4),
        ("  - {op: relu}\n  - {op: pool, mode: average, kernel: 2}", 4 * MADE),
    ],
)
def test_ops_behind_a_layer_keep_their_part(ops: str, num_bytes: int, tmp_path: Path) -> None:
    graph = network(tmp_path, CHAIN.replace("OPS", ops))
    assert course(graph).activations == 4 * (READ + ENDS) + num_bytes


RESIDUAL = """
source: a test
batch: 2
layers:
  - {op: input, channels: 8}
  - {name: before, op: linear, out_features: 8}
  - {name: inner, op: linear, out_features: 32}
  - {name: back, op: linear, out_features: 8}
  - {name: sum, op: add, inputs: [back, before]}
  - {name: last, op: linear, out_features: 8}
"""


def test_a_residual_branch_holds_its_error_until_the_other_has_come_back(tmp_path: Path) -> None:
    """At ``back`` its errors of 8 and 32 numbers are there, the first being the addition's, and at ``inner`` one more of 8."""
    found = course(network(tmp_path, RESIDUAL))
    kept = {"before": 8, "inner": 8, "back": 32, "last": 8, "loss": 8}
    assert found.activations == 4 * 2 * sum(kept.values())
    before, inner, back, _, last = (num_bytes / (4 * 2) for _, num_bytes in found.most)
    assert last == sum(kept.values()) + 8 + 8
    assert back == kept["before"] + kept["inner"] + kept["back"] + 8 + 32
    assert inner == kept["before"] + kept["inner"] + 8 + 32 + 8
    assert before == kept["before"] + 8
    assert found.peak == 4 * 2 * back


def test_a_shard_of_what_a_device_keeps_is_no_copy(tmp_path: Path) -> None:
    """Relu keeps all of its output, of which the next layer reads a half; without relu only that half is kept."""
    text = CHAIN.replace("{name: whole, op: pool, mode: average, window: global}", "{op: OP}")
    pins = ["first=dp", "last=in_channels"]
    held = {}
    for op in ("relu", "crop, margin: 0"):
        graph = network(tmp_path, text.replace("OPS", "").replace("OP", op))
        plan = plan_model(graph, levels=1, pins=pins, hardware=load_machine("hmc"), convention="paper")
        assert plan.score is not None
        held[op] = plan.score.memory["activations"]
    # Halves of the batch on the way to the linear layer, halves of the channels there: a copy in both cases.
    assert held["relu"] - held["crop, margin: 0"] == 4 * MADE / 2
    whole = ["first=in_channels", "last=in_channels"]
    graph = network(tmp_path, text.replace("OPS", "").replace("OP", "relu"))
    plan = plan_model(graph, levels=1, pins=whole, hardware=load_machine("hmc"), convention="paper")
    assert plan.score is not None
    assert plan.score.memory["activations"] == 4 * (READ / 2 + MADE + 2 * 3)


def test_resnet_50_needs_twice_what_its_weighted_layers_read() -> None:
    """At a mini-batch of 128 one device keeps 11.0 GB, and has no room for it in a cube of 8 GB."""
    found = course(load_model("resnet50").with_batch(128))
    assert found.activations == pytest.approx(11.0e9, rel=0.001)
    assert not load_machine("hmc").fits(found.peak)


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
