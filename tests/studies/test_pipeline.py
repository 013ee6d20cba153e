"""Networks divided into stages, beside every partition there is and beside the whole network on one device."""

from __future__ import annotations

import itertools
import math
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hypar import LayerGraph, Pipeline, load_machine, load_model, pipeline_model, plan_model
from hypar.errors import HardwareError, HyparError, OptionError, TableLimitError, UnknownNameError
from hypar.files.yaml_file import parse_yaml
from hypar.machine.setting import Setting
from hypar.network.build import build_graph
from hypar.network.spec.load import parse_spec
from hypar.schedule.scoring import totals
from hypar.studies.pipeline.costs import BALANCES
from hypar.studies.pipeline.starts import MOST_STAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.machine.machine import Machine

LENET = load_model("lenet-c").with_batch(16)
HMC = load_machine("hmc")
OVERLAPPING = load_machine("hmc", {"overlap": "full"})


def received(found: Pipeline) -> list[int]:
    """What each stage receives of its neighbours."""
    ahead = [0, *(stage.sent_bytes for stage in found.stages[:-1])]
    back = [*(stage.returned_bytes for stage in found.stages[1:]), 0]
    return [one + other for one, other in zip(ahead, back, strict=True)]


def bottleneck(found: Pipeline, balance: str) -> float:
    """The cost of the costliest stage, from what is known of the stages."""
    own = found.stages
    if balance == "traffic":
        sent = (stage.sent_bytes + stage.returned_bytes for stage in own)
        return max(one + other for one, other in zip(sent, received(found), strict=True))
    if balance == "time":
        return max(stage.busy_s or 0.0 for stage in own)
    return max(stage.memory_bytes if balance == "memory" else stage.macs for stage in own)


def every(stages: int, hardware: Machine | None, schedule: str) -> Iterator[Pipeline]:
    """All pipelines of Lenet-c of so many stages."""
    names = [layer.name for layer in LENET.layers]
    for inner in itertools.combinations(names[2:], stages - 1):
        yield pipeline_model(LENET, starts=[names[0], *inner], hardware=hardware, schedule=schedule)


@pytest.mark.parametrize("schedule", ["layer-block", "1f1b"])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("balance", BALANCES)
def test_no_partition_is_better(balance: str, stages: int, schedule: str) -> None:
    machine = HMC if balance == "time" else None
    found = pipeline_model(LENET, stages=stages, balance=balance, hardware=machine, schedule=schedule)
    assert found.bottleneck == pytest.approx(bottleneck(found, balance), rel=1e-12)
    others = [bottleneck(one, balance) for one in every(stages, machine, schedule)]
    assert len(others) == math.comb(8, stages - 1)
    assert found.bottleneck == pytest.approx(min(others), rel=1e-12)


@pytest.mark.parametrize("machine", [HMC, OVERLAPPING], ids=["one after another", "overlapping"])
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_of_layer_block_pipelines_none_has_shorter_steps(stages: int, machine: Machine) -> None:
    """What is minimised is what the engine then measures."""
    found = pipeline_model(LENET, stages=stages, hardware=machine)
    assert found.balance == "time"
    assert found.time_s == pytest.approx(found.bottleneck, rel=1e-9)
    times = [one.time_s or math.inf for one in every(stages, machine, "layer-block")]
    assert found.time_s == pytest.approx(min(times), rel=1e-9)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("stages", [1, 3])
def test_with_overlap_and_flushes_the_busiest_stage_or_link_counts(stages: int, schedule: str) -> None:
    def busiest(found: Pipeline) -> float:
        return max(found.timeline.busy.values()) / 2

    found = pipeline_model(LENET, stages=stages, hardware=OVERLAPPING, schedule=schedule)
    assert found.bottleneck == pytest.approx(busiest(found), rel=1e-9)
    others = [busiest(one) for one in every(stages, OVERLAPPING, schedule)]
    assert found.bottleneck == pytest.approx(min(others), rel=1e-9)


def test_equal_stages_end_where_least_is_sent() -> None:
    """A pool multiplies nothing, so it goes where its smaller output is what is sent."""
    found = pipeline_model("vgg-f", stages=3, balance="macs")
    sums = [stage.macs for stage in found.stages]
    assert max(sums) == found.bottleneck
    assert found.stages[0].layers[-1] == "pool1"


@pytest.mark.parametrize("schedule", ["layer-block", "gpipe", "1f1b"])
@pytest.mark.parametrize("model", ["lenet-c", "resnet18"])
def test_one_stage_is_the_whole_network(model: str, schedule: str) -> None:
    graph = load_model(model).with_batch(16)
    found = pipeline_model(graph, stages=1, hardware=HMC, schedule=schedule)
    (stage,) = found.stages
    assert stage.layers == tuple(layer.name for layer in graph.layers)
    assert (stage.sent_bytes, stage.returned_bytes, stage.memory["received"]) == (0, 0, 0)
    assert stage.macs == graph.macs(16)
    nodes = graph.contracted
    setting = Setting(machine=HMC, array=(), element_bytes=4)
    alone = totals(nodes, [()] * len(nodes.layers), setting).time_s
    assert found.time_s == stage.busy_s == found.bottleneck == pytest.approx(alone, rel=1e-12)
    assert stage.idle_s == 0
    own = found.data_parallel
    assert (own.devices, own.moved_bytes) == (1, 0)
    assert own.time_s == pytest.approx(alone, rel=1e-12)
    if schedule != "layer-block":
        assert (stage.in_flight, stage.staleness, dict(stage.memory)) == (1, 0, own.memory)


@pytest.mark.parametrize("schedule", ["layer-block", "gpipe", "1f1b"])
def test_stages_are_the_network_and_meet(schedule: str) -> None:
    graph = load_model("googlenet").with_batch(32)
    found = pipeline_model(graph, stages=5, schedule=schedule, microbatches=None, balance="memory")
    layers = [name for stage in found.stages for name in stage.layers]
    assert layers == [layer.name for layer in graph.layers]
    assert sum(stage.macs for stage in found.stages) == graph.macs(32)
    for stage, behind in pairwise(found.stages):
        assert behind.memory["received"] == behind.in_flight * stage.sent_bytes // found.microbatches
        assert behind.returned_bytes == stage.sent_bytes


@pytest.mark.parametrize(("batch", "stages", "expected"), [(16, 4, 4), (16, 3, 2), (7, 4, 1), (12, 5, 4)])
def test_there_are_as_many_microbatches_as_stages_or_the_next_fewer(
    batch: int, stages: int, expected: int
) -> None:
    found = pipeline_model("vgg-f", batch=batch, stages=stages, schedule="gpipe")
    assert found.microbatches == expected


def test_a_microbatch_holds_and_moves_its_part() -> None:
    whole, parts = (
        pipeline_model(LENET, starts="conv1,conv2", schedule="gpipe", microbatches=count, hardware=HMC)
        for count in (1, 8)
    )
    for one, other in zip(whole.stages, parts.stages, strict=True):
        assert (other.in_flight, other.sent_bytes, other.macs) == (8, one.sent_bytes, one.macs)
        assert other.memory["activations"] == one.memory["activations"]
        assert other.memory["errors"] * 8 == one.memory["errors"]


def test_data_parallelism_is_the_score_of_a_plan() -> None:
    found = pipeline_model(LENET, stages=4, hardware=HMC)
    plan = plan_model(LENET.with_batch(64), array=[4], strategy="dp", hardware=HMC)
    assert plan.score is not None
    own = found.data_parallel
    assert own.time_s == plan.score.time_s
    assert found.data_parallel_samples_per_s == 64 / plan.score.time_s
    # A plan's volume is of weights without biases.
    biases = sum(layer.num_parameters for layer in LENET.layers) - sum(
        layer.einsum.elements("weight") for layer in LENET.contracted.layers
    )
    assert own.moved_bytes == plan.cost.value + 2 * 3 * 4 * biases
    assert pipeline_model(LENET, stages=3, hardware=HMC).data_parallel.time_s is None


@pytest.mark.parametrize("overlap", ["none", "full"])
def test_half_duplex_links_carry_one_thing_at_a_time(overlap: str) -> None:
    both = [
        pipeline_model(
            LENET, starts="conv1,conv2", hardware=load_machine("hmc", {"overlap": overlap, "duplex": duplex})
        )
        for duplex in ("full", "half")
    ]
    resources = [{*found.timeline.busy} - {"steps"} for found in both]
    if overlap == "none":
        assert resources == [{"stage 1", "stage 2"}] * 2
    else:
        assert resources[0] == {"stage 1", "stage 2", "link 1-2", "link 2-1"}
        assert resources[1] == {"stage 1", "stage 2", "link 1-2"}


def test_stages_fit_the_memory_where_others_are_faster() -> None:
    free = pipeline_model("vgg16", batch=64, stages=4, hardware="hmc", schedule="gpipe", microbatches=16)
    held = pipeline_model("vgg16", batch=128, stages=4, hardware="hmc", schedule="gpipe", microbatches=16)
    capacity = HMC.memory_bytes or 0.0
    assert max(stage.memory_bytes for stage in held.stages) <= capacity
    assert free.stages[0].layers != held.stages[0].layers
    assert held.bottleneck is not None
    assert free.bottleneck is not None
    assert held.bottleneck > 2 * free.bottleneck


def test_the_same_question_has_the_same_answer() -> None:
    one, other = (pipeline_model("resnet18", batch=8, stages=6, hardware="hmc") for _ in range(2))
    assert one.stages == other.stages
    assert one.timeline.to_chrome_trace() == other.timeline.to_chrome_trace()
    assert repr(one) == "<Pipeline of resnet18: 6 stages, layer-block>"


def chain(layers: int) -> LayerGraph:
    """So many linear layers."""
    lines = [f"  - {{name: fc{n}, op: linear, out_features: 8}}" for n in range(layers)]
    text = "source: made up\nbatch: 4\nlayers:\n  - {op: input, channels: 8}\n" + "\n".join(lines)
    return build_graph(parse_spec(parse_yaml(text, Path("chain.yaml")), "chain"))


def test_as_many_stages_as_layers() -> None:
    found = pipeline_model(chain(6), stages=6)
    assert [stage.layers for stage in found.stages] == [("input", "fc0"), *((f"fc{n}",) for n in range(1, 6))]


def test_a_very_long_network_takes_given_starts_alone() -> None:
    graph = chain(5000)
    with pytest.raises(
        TableLimitError, match=r"5,000 items in 2 spans would take .*; allowed: .*; try --starts$"
    ):
        pipeline_model(graph, stages=2)
    assert len(pipeline_model(graph, starts=["input", "fc2000"]).stages) == 2
    with pytest.raises(OptionError, match=f"allowed: a whole number from 1 to {MOST_STAGES}$"):
        pipeline_model(graph, stages=MOST_STAGES + 1)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"stages": True}, OptionError, "stages: found true; allowed: a whole number from 1 to 9"),
        ({"stages": 2.5}, OptionError, "stages: found 2.5; allowed: a whole number"),
        ({"starts": ()}, OptionError, "starts: found none; allowed: 'conv1' first"),
        ({"starts": [3]}, OptionError, "starts: no layer is named 3"),
        ({"schedule": 3}, UnknownNameError, "no schedule '3'; allowed: layer-block, gpipe, 1f1b"),
        ({"balance": 3}, UnknownNameError, "no balance '3'; allowed: time, memory, traffic, macs"),
        ({"optimizer": "x"}, UnknownNameError, "no optimizer 'x'"),
        ({"schedule": "gpipe", "microbatches": True}, OptionError, "microbatches: found true; allowed: a divisor"),
        ({"hardware": "eyeriss"}, HardwareError, "hardware 'eyeriss': found 4 stages; allowed: at most 1, one a device"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_is_refused(asked: dict[str, object], error: type[HyparError], message: str) -> None:
    with pytest.raises(error, match=message):
        pipeline_model(LENET, **asked)  # type: ignore[arg-type]
