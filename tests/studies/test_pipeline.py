"""Networks in stages of one device each, beside every partition there is and beside the whole network on one device."""

import itertools
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hypar import LayerGraph, Plan, load_machine, load_model, machines, models
from hypar.errors import HyparError, TableLimitError
from hypar.files.yaml_file import parse_yaml
from hypar.machine.machine import Machine
from hypar.network.graph import build_graph
from hypar.plan.records import BALANCES, FLUSHES, StagesRecord
from hypar.planning.replay import run_plan
from hypar.studies.step import StepRows
from tests.effort import crossed
from tests.kit import known
from tests.staged import pipeline, staging_of

ALEXNET = load_model("alexnet").with_batch(16)
HMC = load_machine("hmc")
OVERLAPPING = load_machine("hmc", {"overlap": "full"})


def record(plan: Plan) -> StagesRecord:
    assert plan.stages is not None
    return plan.stages


def time_s(plan: Plan) -> float:
    return known(plan.score).time_s


def held(plan: Plan) -> list[float]:
    return [group.memory_bytes for group in known(plan.score).groups or ()]


def bottleneck(plan: Plan, graph: LayerGraph, machine: Machine, balance: str) -> float:
    """The cost of the costliest stage, from the plan's score and from the layers."""
    if balance == "time":
        return max(stage.busy_s for stage in record(plan).stages)
    if balance == "memory":
        return max(held(plan))
    if balance == "macs":
        macs = {layer.name: layer.macs(graph.batch) for layer in graph.layers}
        return max(sum(macs[name] for name in stage.layers) for stage in record(plan).stages)
    staging = staging_of(plan, graph, machine)
    spans = [span.work.received.from_stages + span.work.returned.from_stages for span in staging.stages]
    return record(plan).microbatches * max(spans)


def least(plan: Plan) -> float:
    own = record(plan)
    return own.bottleneck_s if own.bottleneck is None else own.bottleneck


@cache
def every(stages: int, hardware: Machine, schedule: str, **asked: Any) -> list[Plan]:
    names = [layer.name for layer in ALEXNET.contracted.layers]
    return [
        pipeline(ALEXNET, starts=[names[0], *inner], hardware=hardware, schedule=schedule, **asked)
        for inner in itertools.combinations(names[1:], stages - 1)
    ]


@crossed({"balance": BALANCES, "stages": [1, 2, 3, 4], "schedule": ["layer-block", "1f1b"]})
def test_no_partition_is_better(balance: str, stages: int, schedule: str) -> None:
    found = pipeline(ALEXNET, stages=stages, balance=balance, hardware=HMC, schedule=schedule)
    assert least(found) == pytest.approx(bottleneck(found, ALEXNET, HMC, balance), rel=1e-12)
    others = [bottleneck(one, ALEXNET, HMC, balance) for one in every(stages, HMC, schedule)]
    assert len(others) == math.comb(7, stages - 1)
    assert least(found) == pytest.approx(min(others), rel=1e-12)


@pytest.mark.parametrize("machine", [HMC, OVERLAPPING], ids=["one after another", "overlapping"])
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_of_layer_block_pipelines_none_has_shorter_steps(stages: int, machine: Machine) -> None:
    """What is minimised is what the engine then measures, but for what overlaps of single layers."""
    found = pipeline(ALEXNET, stages=stages, hardware=machine)
    near = 0.05 if machine.overlap else 1e-9
    assert time_s(found) == pytest.approx(least(found), rel=near)
    times = [time_s(one) for one in every(stages, machine, "layer-block")]
    assert time_s(found) == pytest.approx(min(times), rel=near)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("stages", [1, 3])
def test_with_overlap_and_flushes_the_busiest_stage_or_link_counts(stages: int, schedule: str) -> None:
    def busiest(plan: Plan) -> float:
        return max(known(plan.score).busy.values())

    found = pipeline(ALEXNET, stages=stages, hardware=OVERLAPPING, schedule=schedule)
    assert least(found) == pytest.approx(busiest(found), rel=1e-9)
    others = [busiest(one) for one in every(stages, OVERLAPPING, schedule)]
    assert least(found) == pytest.approx(min(others), rel=1e-9)


@pytest.mark.parametrize(("batch", "stages", "expected"), [(16, 4, 4), (16, 3, 2), (7, 4, 1), (12, 5, 4)])
def test_there_are_as_many_microbatches_as_stages_or_the_next_fewer(
    batch: int, stages: int, expected: int
) -> None:
    found = pipeline("vgg-f", batch=batch, stages=stages, schedule="gpipe", hardware="p100-4x4")
    assert record(found).microbatches == expected


QUICK = [
    ("vgg16", "h100-8x"),
    ("vgg16", "p100-4x4"),
    ("resnet18", "hmc"),
    ("lenet-c", "hmc"),
    ("bert-large", "tpu-v2-v3"),
]
ALL = [pair for pair in itertools.product(models(), machines()) if pair not in QUICK]


@crossed(
    {
        "model,hardware": [*QUICK, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in ALL)],
        "schedule": FLUSHES,
    }
)
def test_stages_named_one_by_one_are_the_same(model: str, hardware: str, schedule: str) -> None:
    """But for what was asked; and each has a row that adds up."""
    asked: dict[str, Any] = {"batch": 32, "schedule": schedule, "hardware": hardware, "optimizer": "adam"}
    # Language models in stages without given ends would be planned by ``fit``.
    asked["strategy"] = "hypar"
    try:
        whole = pipeline(model, stages=4, **asked)
    except HyparError:
        return
    starts = [layers[0] for _, layers in record(whole).spans]
    given = pipeline(model, **asked, starts=starts)
    assert given.score == whole.score
    assert record(given).stages == record(whole).stages
    rows, score = StepRows(run_plan(whole)).stages, whole.score
    assert score is not None
    assert math.fsum(row["received"] for row in rows) == pytest.approx(score.communication["stages"])
    for row, own, stage, group in zip(
        rows, held(whole), record(whole).stages, score.groups or (), strict=True
    ):
        assert sum(row[item] for item in row if item not in {"stage", "received"}) == pytest.approx(
            own, abs=5
        )
        # What overlaps with its work, or adds up a tied gradient, is no stage's own.
        assert stage.busy_s + (group.idle_s or 0.0) <= score.time_s * (1 + 1e-9)


def chain(layers: int, batch: int = 4) -> LayerGraph:
    lines = [f"  - {{name: fc{n}, op: linear, out_features: 8}}" for n in range(layers)]
    text = f"source: made up\nbatch: {batch}\nlayers:\n  - {{op: input, channels: 8}}\n" + "\n".join(lines)
    return build_graph(parse_yaml(text, Path("chain.yaml")), "chain")


def test_a_very_long_network_takes_given_starts_alone() -> None:
    graph = chain(600)
    message = "stages: found 600 layers that are cut; allowed: 512; try --starts$"
    with pytest.raises(TableLimitError, match=message):
        pipeline(graph, stages=2, hardware=HMC)
    found = pipeline(graph, starts=["input", "fc200"], hardware=HMC)
    assert [len(stage.layers) for stage in record(found).stages] == [200, 400]
