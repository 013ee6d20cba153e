"""Stages over the split outside all levels, each cut by itself."""

from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import replace
from functools import cache
from itertools import accumulate, combinations, pairwise, product, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypar_2019 import NETWORKS

from hypar import Plan, check_plan, diff_plans, explain_plan, load_machine, load_model, plan_model, read_plan
from hypar.cli.main import main
from hypar.errors import HardwareError, OptionError, PlanError, TableLimitError
from hypar.machine.setting import Setting, degrees
from hypar.plan.splits import BALANCES
from hypar.planning.replay import run_plan
from hypar.planning.request import Request
from hypar.planning.stages.lower_bounds import LowerBounds
from hypar.planning.stages.partition import best_partition
from hypar.planning.stages.running import estimated_s, kept_in_flight
from hypar.planning.stages.spans import CutSpans
from hypar.registry import data_file, plugin_names
from hypar.reports.formats.tabular.page import plan_page
from hypar.reports.listings.machines import layer_times_data
from hypar.reports.terminal import as_text
from hypar.schedule.scoring import score_step
from hypar.schedule.step import lower_lanes
from hypar.sharding.placement import cut
from hypar.solve.partition import partition
from hypar.studies.notes import finer_than_whole, notes
from hypar.studies.verification.run import verify_plan
from tests.effort import crossed, late
from tests.prose import unbroken
from tests.reports.test_traces import check_step_trace
from tests.staged import BruteForce
from tests.studies.test_pipeline import chain
from tests.transformers import gpt

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from hypar import LayerGraph, Machine
    from hypar.planning.nodes.leaf import Node
    from hypar.planning.stages.span import CutSpan

HMC = load_machine("hmc")
OVERLAPPING = load_machine("hmc", {"overlap": "full"})
LENET = load_model("lenet-c")


def spans_of(
    plan: Plan, graph: LayerGraph, machine: Machine, stages: int = 1, microbatches: int = 1
) -> CutSpans:
    """All spans of a network, cut as a plan without stages is."""
    return CutSpans.of(Request.of(plan, machine), graph, (stages, microbatches))


# Spans


@crossed(
    {
        "machine": [pytest.param(HMC, id="one after another"), pytest.param(OVERLAPPING, id="overlapping")],
        "model": ["lenet-c", "resnet18"],
        "asked": [
            {"strategy": "hypar", "levels": 3},
            {"strategy": "accpar", "levels": 2, "cost": "time", "search": "joint"},
            {"strategy": "deepa", "array": [8]},
            {"strategy": "deepa", "array": [8], "mode": "serial"},
        ],
    }
)
def test_a_block_of_all_layers_is_a_plan_without_stages(
    machine: Machine, model: str, asked: dict[str, Any]
) -> None:
    graph = load_model(model).with_batch(32)
    plan = plan_model(graph, hardware=machine, optimizer="adam", **asked, convention="paper")
    assert plan.score is not None
    whole = spans_of(plan, graph, machine).span(0, len(plan.layers))
    assert [tuple(chosen) for chosen in whole.cuts.lane.choices] == [*map(plan.choices, plan.layers)]
    assert whole.seconds(1) == pytest.approx(plan.score.time_s, rel=1e-12)
    assert whole.held(1) == plan.score.memory
    assert math.fsum(
        move.total_bytes for move in lower_lanes([whole.cuts.lane]).moves if move
    ) == pytest.approx(plan.score.communication_bytes, rel=1e-12)


def test_what_comes_from_another_stage_is_kept_by_each_layer_and_not_by_joins() -> None:
    """A shortcut's convolution reads what the first one beside it does, each a copy of its own; an addition keeps nothing.

    Each normalisation keeps its convolution's output, with two numbers a channel, and relu its own.
    """
    graph = load_model("resnet18").with_batch(8)
    names = [layer.name for layer in graph.contracted.layers]
    spans = CutSpans.of(Request.of(plan_model(graph, convention="paper"), HMC).over(()), graph, (2, 4))
    samples, size = 2, 4
    forked = spans.span(names.index("layer2.0.conv1"), names.index("layer2.0.add"))
    read, halved = 64 * 56 * 56, 128 * 28 * 28
    # Two copies, three outputs before they are normalised, and one between two convolutions; no op reads those that are sent again.
    assert forked.held(1)["activations"] == size * (samples * (2 * read + 4 * halved) + 3 * 2 * 128)
    assert forked.held(3)["activations"] == 3 * forked.held(1)["activations"]
    joined = spans.span(names.index("layer2.0.add"), names.index("layer2.1.conv2"))
    # Relu's behind the addition, and conv1's before and behind its normalisation.
    assert joined.held(1)["activations"] == size * (samples * 3 * halved + 2 * 128)


def test_a_stage_has_a_buffer_for_what_it_receives() -> None:
    """Lenet-c: 12 x 12 x 20 to the second convolution, 4 x 4 x 50 to the first linear layer, 500 to the second."""
    graph = LENET.with_batch(64)
    spans = CutSpans.of(Request.of(plan_model(graph, convention="paper"), HMC).over(()), graph, (4, 4))
    sent = [16 * 4 * elements for elements in (12 * 12 * 20, 4 * 4 * 50, 500)]
    assert [spans.span(*ends).held(1)["buffers"] for ends in ((0, 1), (1, 2), (2, 4), (3, 4))] == [
        sent[0], sent[0], sent[1], sent[2],
    ]  # fmt: skip


@pytest.mark.parametrize("microbatches", [1, 2, 8])
def test_microbatches_move_what_a_mini_batch_does_and_gradients_once(microbatches: int) -> None:
    graph = load_model("resnet18").with_batch(32)
    plan = plan_model(graph, levels=2, pins="layer1*=mp", hardware=HMC, convention="paper")
    assert plan.score is not None
    whole = spans_of(plan, graph, HMC, microbatches=microbatches).span(0, len(plan.layers))
    moves = [move for move in lower_lanes([whole.cuts.lane]).moves if move]
    once, each = (
        math.fsum(move.total_bytes for move in moves if (move.phase == "gradient") is gradients)
        for gradients in (True, False)
    )
    assert min(once, each) > 0
    assert once + microbatches * each == pytest.approx(plan.score.communication_bytes, rel=1e-12)
    assert whole.received.num_bytes == whole.returned.num_bytes == 0


def test_a_shortcut_crosses_a_seam_once_each_way() -> None:
    """Elements of ResNet-18: 64 x 56 x 56 at first, 128 x 28 x 28 then."""
    graph = load_model("resnet18").with_batch(8)
    names = [layer.name for layer in graph.contracted.layers]
    spans = CutSpans.of(Request.of(plan_model(graph, convention="paper"), HMC).over(()), graph, (2, 4))
    wide, deep = (2 * 4 * size for size in (64 * 56 * 56, 128 * 28 * 28))
    for first, crossing in {
        "layer1.0.conv1": wide,  # read there, and added behind
        "layer1.0.conv2": 2 * wide,  # the first convolution's, and the shortcut
        "layer1.0.add": 2 * wide,
        "layer2.0.conv1": wide,  # read by two convolutions
        "layer2.0.conv2": deep + wide,
        "layer2.0.downsample.0": deep + wide,
        "layer2.0.add": 2 * deep,
        "layer2.1.conv1": deep,
    }.items():
        place = names.index(first)
        assert spans.span(place, len(names)).received.from_stages == crossing
        assert spans.span(0, place).returned.from_stages == crossing
    # The shortcut only goes through the stage of one convolution.
    alone = spans.span(names.index("layer1.0.conv2"), names.index("layer1.0.add"))
    assert (alone.received.from_stages, alone.returned.from_stages) == (2 * wide, 2 * wide)


@pytest.mark.parametrize("convention", ["moved", "fused"])
def test_each_stage_gets_what_it_reads_once_and_hands_it_on(convention: str) -> None:
    """ResNet-18's first block as a stage of two devices: the shortcut is read there; behind it nothing of it is."""
    graph = load_model("resnet18").with_batch(8)
    names = [layer.name for layer in graph.contracted.layers]
    plan = plan_model(graph, levels=1, strategy="dp", hardware=HMC, convention=convention)
    spans = spans_of(plan, graph, HMC, stages=2, microbatches=2)
    wide = 4 * 4 * 64 * 56 * 56

    def span(first: str, end: str, *dims: str) -> CutSpan:
        start = names.index(first)
        cuts = tuple((cut(dim, 2),) for dim in dims)
        return spans.given(start, names.index(end), cuts)

    whole = span("layer1.0.conv1", "layer1.0.add", "batch", "batch")
    assert (whole.received.num_bytes, whole.returned.num_bytes) == (wide, wide)
    joined = span("layer1.0.conv2", "layer1.1.conv1", "batch", "batch")
    assert (joined.received.num_bytes, joined.returned.num_bytes) == (2 * wide, 2 * wide)
    # Both devices read all channels of F, which one of them hands on; each has half of the error's channels back.
    wide_out = span("layer1.0.conv1", "layer1.0.conv2", "out_channels")
    assert wide_out.received.from_stages == wide
    assert [(move.collective, move.total_bytes) for move in wide_out.received.moves] == [("all_gather", wide)]
    assert (wide_out.returned.from_stages, wide_out.returned.moves) == (wide, ())
    # Its error is a sum over both, which is added up before it leaves; alone it would be the network's first layer.
    assert [move.phase for move in lower_lanes([wide_out.cuts.lane]).moves if move is not None] == [
        "backward"
    ]


@crossed(
    {
        "strategy": late(["hypar", "mp", "accpar"], "hypar", "accpar"),
        "stages": late([2, 4], 4),
        "convention": late(["moved", "fused"], "fused"),
    }
)
def test_stages_count_what_their_program_moves(strategy: str, stages: int, convention: str) -> None:
    for model, alike in (("lenet-c", "ja"), ("sfc", "j"), ("alexnet", "j")):
        asked: dict[str, Any] = {"strategy": strategy, "stages": stages, "convention": convention}
        plan = plan_model(model, levels=2, microbatches=2, batch=64, hardware=HMC, **asked)
        found = verify_plan(plan, count=True)
        # Biases are no part of the amounts; lenet's 50 channels are uneven behind a flatten.
        assert {difference.case for difference in found.differences} <= {*alike}
        assert found.levels[0].planned == found.levels[0].counted


# Partitions


def bounds_of(plan: Plan) -> tuple[int, ...]:
    """Where stages start, and the number of layers."""
    assert plan.stages is not None
    return tuple(accumulate((len(stage.layers) for stage in plan.stages.stages), initial=0))


@crossed(
    {
        "model": late(["sfc", "sconv", "lenet-c", "cifar-c", "alexnet"], "alexnet"),
        "asked": [
            pytest.param({}, id="volume"),
            pytest.param({"strategy": "accpar", "cost": "time", "search": "joint"}, id="time"),
        ],
        "levels": [1, 0, 2],
    }
)
def test_no_partition_is_better(model: str, asked: dict[str, Any], levels: int) -> None:
    graph = load_model(model).with_batch(64)
    for stages, microbatches in ((2, 4), (4, 1)):
        every = BruteForce(graph, HMC, (stages, microbatches, levels), **asked)
        plan = plan_model(
            graph,
            stages=stages,
            microbatches=microbatches,
            levels=levels,
            hardware=HMC,
            **asked,
            convention="paper",
        )
        assert plan.stages is not None
        assert plan.stages.bottleneck_s == pytest.approx(every.best, rel=1e-9)
        own = [every.alone(*ends) for ends in pairwise(bounds_of(plan))]
        choices = tuple(choice for stage in own for choice in stage.choices)
        assert [stage.busy_s for stage in plan.stages.stages] == pytest.approx(
            [stage.seconds for stage in own], rel=1e-9
        )
        assert plan.score is not None
        assert plan.score.communication["stages"] == pytest.approx(
            microbatches * sum(sum(stage.received) for stage in own), rel=1e-12
        )
        if levels:
            assert tuple(plan.choices(layer) for layer in plan.layers) == choices


FORKED = """
source: made up
batch: 32
layers:
  - {op: input, channels: 8, height: 8, width: 8}
  - {name: stem, op: conv, out_channels: 16, kernel: 3, padding: 1}
  - {op: relu}
  - {op: pool, name: pool, mode: max, kernel: 2}
  - {name: a1, op: conv, out_channels: 16, kernel: 3, padding: 1}
  - {name: a2, op: conv, out_channels: 16, kernel: 3, padding: 1}
  - {name: a, op: add, inputs: [a2, pool]}
  - {name: b1, op: conv, out_channels: 32, kernel: 3, stride: 2, padding: 1}
  - {name: b2, op: conv, out_channels: 32, kernel: 1}
  - {name: side, op: conv, out_channels: 32, kernel: 1, stride: 2, inputs: a}
  - {name: b, op: add, inputs: [b2, side]}
  - {op: pool, name: ends, mode: average, window: global}
  - {op: flatten}
  - {name: fc1, op: linear, out_features: 64}
  - {name: fc2, op: linear, out_features: 10}
"""


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> LayerGraph:
    """Two shortcuts, one with a convolution of its own."""
    file = tmp_path_factory.mktemp("model") / "forked.yaml"
    file.write_text(FORKED)
    return load_model(file)


def of_memory(tmp_path: Path, capacity: str, overlap: str = "none") -> Machine:
    """HyPar's machine with other memories."""
    file = tmp_path / "small.yaml"
    file.write_text(data_file("hardware", "hmc").read_text().replace("capacity: {value: 8 GB", f"capacity: {{value: {capacity}"))  # fmt: skip
    return load_machine(file, {"overlap": overlap})


@cache
def known_answers(_asked: str, _array: tuple[int, ...], _overlap: str) -> dict[object, Node]:
    """The best cuts of the spans known so far: memory, microbatches and stages do not change them."""
    return {}


def all_costs(spans: CutSpans, microbatches: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds of all spans, and for how many microbatches in flight they have memory."""
    layers = len(spans.microbatch.layers)
    seconds, room = np.full((layers, layers + 1), np.inf), np.zeros((layers, layers + 1))
    for start, end in combinations(range(layers + 1), 2):
        span = spans.span(start, end)
        seconds[start, end] = span.seconds(microbatches)
        fits = (spans.setting.machine.fits(math.fsum(span.held(count).values())) for count in range(1, 9))
        room[start, end] = sum(takewhile(bool, fits))
    return seconds, room


@crossed(
    {
        "asked,array,overlap": [
            pytest.param(asked, array, overlap, marks=[] if overlap == quick else [pytest.mark.slow])
            for asked, array, quick in (
                ({"strategy": "hypar"}, (), "none"),
                ({"strategy": "hypar"}, (2, 2), None),
                ({"strategy": "accpar", "cost": "time", "search": "joint"}, (2,), "none"),
                ({"strategy": "deepa"}, (4,), "full"),
                ({"strategy": "hypar", "convention": "moved"}, (2, 2), "none"),
                ({"strategy": "accpar", "convention": "fused"}, (2, 2), None),
            )
            for overlap in ("none", "full")
        ],
        "capacity": late(["8 GB", "150 kB", "90 kB"], "150 kB"),
    }
)
def test_blocks_that_are_not_planned_are_in_no_better_partition(
    forked: LayerGraph,
    asked: dict[str, Any],
    array: tuple[int, ...],
    overlap: str,
    capacity: str,
    tmp_path: Path,
) -> None:
    machine = of_memory(tmp_path, capacity, overlap)
    plan = plan_model(forked, hardware=machine, **({"convention": "paper"} | asked))
    request = Request.of(plan, machine).over(array)
    answers = known_answers(str(asked), array, overlap)
    for schedule, stages, microbatches in (("1f1b", 2, 4), ("gpipe", 4, 8), ("layer-block", 4, 1)):
        every, few = (CutSpans.of(request, forked, (stages, microbatches), answers) for _ in range(2))
        seconds, room = all_costs(every, microbatches)
        least = LowerBounds(every, microbatches)
        assert (least.seconds <= seconds).all()
        assert (least.room(machine.memory_bytes) >= np.where(seconds < np.inf, room, 0)).all()
        kept = kept_in_flight(schedule, stages, microbatches)
        expected = partition(
            lambda stage: np.where(room >= kept[stage], seconds, np.inf),  # noqa: B023
            stages,
            every.crossing_bytes,
        )
        assert best_partition([few] * stages, microbatches, kept) == expected
        if expected is not None:
            assert best_partition([few] * stages, microbatches, kept, expected.bottleneck) == expected
            assert best_partition([few] * stages, microbatches, kept, expected.bottleneck * 0.999) is None


@crossed(
    {
        "asked,array": [
            ({"strategy": "hypar"}, ()),
            ({"strategy": "hypar", "convention": "moved"}, (2, 2)),
            ({"strategy": "accpar", "convention": "fused"}, (2, 2)),
        ],
        "balance": [name for name in BALANCES if name != "time"],
        "capacity": late(["8 GB", "150 kB"], "8 GB"),
    }
)
def test_the_best_partition_by_another_balance_is_that_of_all_blocks(
    forked: LayerGraph,
    asked: dict[str, Any],
    array: tuple[int, ...],
    balance: str,
    capacity: str,
    tmp_path: Path,
) -> None:
    machine = of_memory(tmp_path, capacity)
    plan = plan_model(forked, hardware=machine, **({"convention": "paper"} | asked))
    request = Request.of(plan, machine).over(array)
    answers = known_answers(str(asked), array, "none")
    for schedule, stages, microbatches in (("1f1b", 3, 4), ("gpipe", 4, 8), ("layer-block", 4, 1)):
        every, few = (CutSpans.of(request, forked, (stages, microbatches), answers) for _ in range(2))
        seconds, room = all_costs(every, microbatches)
        least = LowerBounds(every, microbatches)
        kept = kept_in_flight(schedule, stages, microbatches)
        exact = {count: np.full(seconds.shape, np.inf) for count in kept}
        for (start, end), count in product(combinations(range(len(seconds) + 1), 2), exact):
            exact[count][start, end] = every.span(start, end).cost(balance, microbatches, count)
        for count, costs in exact.items():
            assert (least.of(balance, count) <= costs).all()
        expected = partition(
            lambda stage: np.where(room >= kept[stage], exact[kept[stage]], np.inf),  # noqa: B023
            stages,
            every.crossing_bytes,
        )
        assert best_partition([few] * stages, microbatches, kept, balance=balance) == expected


def test_a_network_of_very_many_layers_is_refused() -> None:
    with pytest.raises(
        TableLimitError, match=r"stages: found 513 layers that are cut; allowed: 512; try --starts$"
    ):
        plan_model(chain(513), stages=2, levels=1, hardware=HMC, convention="paper")


def test_stages_fit_the_memory_where_others_are_cheaper(tmp_path: Path) -> None:
    graph = load_model("cifar-c").with_batch(64)
    asked: dict[str, Any] = {"stages": 2, "levels": 1, "hardware": of_memory(tmp_path, "8 GB")}
    free = plan_model(graph, **asked, convention="paper")
    assert free.score is not None
    least = f"{int(free.score.memory_bytes) - 1} B"
    held = plan_model(graph, **asked | {"hardware": of_memory(tmp_path, least)}, convention="paper")
    assert bounds_of(held) != bounds_of(free)
    assert held.score is not None
    assert held.score.fits
    assert held.score.memory_bytes < free.score.memory_bytes
    assert free.stages is not None
    assert held.stages is not None
    assert held.stages.bottleneck_s > free.stages.bottleneck_s
    with pytest.raises(
        HardwareError, match=r"hardware 'small': no 2 stages fit 10.0 kB, the memory of a device"
    ):
        plan_model(graph, **asked | {"hardware": of_memory(tmp_path, "10 kB")}, convention="paper")


def test_what_fits_is_better_than_a_plan_without_stages_that_does_not(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"batch": 256, "levels": 2}
    machine = of_memory(tmp_path, "8 GB")
    whole = plan_model("sconv", hardware=machine, **asked, convention="paper")
    assert whole.score is not None
    assert not plan_model("sconv", stages="best", hardware=machine, **asked, convention="paper").staged
    small = of_memory(tmp_path, f"{int(whole.score.memory_bytes) - 1} B")
    best = plan_model("sconv", stages="best", hardware=small, **asked, convention="paper")
    assert best.staged
    assert best.score is not None
    assert best.score.fits
    assert best.score.time_s > whole.score.time_s


@pytest.mark.parametrize("model", late(NETWORKS, "vgg-b", "vgg-c", "vgg-d"))
def test_one_stage_is_the_plan_without_stages(model: str) -> None:
    one, whole = (
        plan_model(model, stages=stages, levels=2, hardware=HMC, convention="paper") for stages in (1, None)
    )
    assert one.to_json() == whole.to_json()


@pytest.mark.parametrize("model", late(NETWORKS, "vgg-a", "vgg-b", "vgg-c", "vgg-d", "vgg-e"))
def test_the_best_stages_are_as_fast_as_cuts_alone_and_as_stages_alone(model: str) -> None:
    graph = load_model(model).with_batch(64)
    best = plan_model(graph, stages="best", levels=4, hardware=HMC, convention="paper")
    counts = [stages for stages in (2, 4, 8, 16) if stages <= len(best.layers)]
    others = [plan_model(graph, levels=4, hardware=HMC, convention="paper")]
    others += [
        plan_model(graph, stages=stages, levels=0, hardware=HMC, convention="paper") for stages in counts
    ]
    assert best.score is not None
    assert best.score.time_s <= min(other.score.time_s for other in others if other.score)
    assert best.num_devices <= 16


def test_the_best_stages_have_any_mini_batch() -> None:
    """No multiple of the stages divides 50: then as many microbatches are tried as are taken by themselves."""
    best = plan_model("sfc", batch=50, stages="best", hardware=HMC, convention="paper")
    assert best.stages is not None
    assert best.staged
    assert best.stages.microbatches in {1, 2}


def test_the_same_question_has_the_same_answer() -> None:
    one, other = (
        plan_model("resnet18", batch=64, stages="best", levels=3, hardware=HMC, convention="paper")
        for _ in range(2)
    )
    assert one.to_json() == other.to_json()


# Microbatches


def test_a_timeline_has_only_so_many_tasks() -> None:
    with pytest.raises(
        OptionError, match=r"microbatches: found 1,048,576; allowed: at most 26,214 in 2 stages$"
    ):
        plan_model(
            LENET, batch=2**20, stages=2, levels=1, microbatches=2**20, hardware=HMC, convention="paper"
        )


# Score


REQUESTS: dict[str, dict[str, Any]] = {
    "not cut": {"model": "lenet-c", "levels": 0},
    "cut once": {"model": "lenet-c", "levels": 1, "batch": 64},
    "cut twice": {"model": "resnet18", "levels": 2, "batch": 32, "optimizer": "adam"},
    "grids": {"model": "resnet18", "array": [2], "batch": 32, "strategy": "deepa"},
}
"""Requests for four stages."""
SCHEDULES = ["1f1b", "gpipe", "layer-block"]
QUICK = {"cut twice": {("none", "1f1b"), ("none", "gpipe")}, "grids": {("none", "layer-block")}}
"""What the quick run tries of requests most of whose spans are planned."""
STAGED = [
    pytest.param(
        *(asked, overlap, schedule),
        marks=[pytest.mark.slow]
        if (overlap, schedule) not in QUICK.get(asked, {(overlap, schedule)})
        else [],
    )
    for asked in REQUESTS
    for overlap in ("none", "full")
    for schedule in SCHEDULES
]
"""Requests, overlap and schedules."""


@cache
def staged_plan(asked: str, overlap: str, schedule: str) -> Plan:
    """The plan of one of the requests; several tests read it."""
    machine = {"none": HMC, "full": OVERLAPPING}[overlap]
    return plan_model(stages=4, hardware=machine, schedule=schedule, **REQUESTS[asked], convention="paper")


@pytest.mark.parametrize(("asked", "overlap", "schedule"), STAGED)
def test_items_of_a_score_sum_to_its_totals(asked: str, overlap: str, schedule: str) -> None:
    plan = staged_plan(asked, overlap, schedule)
    levels = len(plan.array)
    score = plan.score
    assert score is not None
    assert score.groups is not None
    assert math.fsum(score.critical.values()) == pytest.approx(score.time_s, rel=1e-12)
    assert math.fsum(score.time.values()) - score.overlapped_s == pytest.approx(score.time_s, rel=1e-12)
    assert math.fsum((score.energy or {}).values()) == score.energy_j
    assert math.fsum(score.memory.values()) == pytest.approx(score.memory_bytes, rel=1e-12)
    assert score.memory_bytes == max(group.memory_bytes for group in score.groups)
    assert math.fsum(score.communication.values()) == score.communication_bytes
    assert [*score.communication] == ["stages", *(f"H{level + 1}" for level in range(levels))]
    names = [f"stage {stage}" for stage in range(1, 5)]
    assert [group.group for group in score.groups] == names
    assert [*score.busy][:4] == [f"{name} devices" for name in names]
    for group in score.groups:
        assert score.busy[f"{group.group} devices"] == pytest.approx(group.computing_s, rel=1e-9)
        worked = group.computing_s + group.communicating_s + group.idle_s
        assert worked >= score.time_s * (1 - 1e-9)
        if overlap == "none":
            assert worked == pytest.approx(score.time_s, rel=1e-9)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("levels", [0, 2])
def test_where_nothing_overlaps_a_step_takes_what_is_estimated(levels: int, schedule: str) -> None:
    plan = plan_model("resnet18", batch=32, stages=4, levels=levels, hardware=HMC, schedule=schedule)
    assert plan.stages is not None
    assert plan.score is not None
    graph, bounds = load_model("resnet18").with_batch(32), bounds_of(plan)
    request, parts = replace(Request.of(plan, HMC), counted="moved"), plan.stages.microbatches
    spans = CutSpans.of(request, graph, (4, parts))
    choices = [plan.choices(layer) if levels else () for layer in plan.layers]
    stages = [spans.given(start, end, tuple(choices[start:end])) for start, end in pairwise(bounds)]
    assert estimated_s(request, parts, stages) == pytest.approx(plan.score.time_s, rel=1e-12)


def test_every_second_of_two_stages_and_two_microbatches() -> None:
    """1F1B where sending takes longest, and a stage receives just before it computes.

    Stage 1: F F _ _ _ e e B B e e B B U; stage 2: _ f f F B f f F B U.
    """
    graph = LENET.with_batch(256)
    plan = plan_model(graph, stages=2, levels=0, microbatches=2, hardware=HMC, convention="paper")
    score = plan.score
    assert plan.stages is not None
    assert score is not None
    assert score.groups is not None
    half = graph.with_batch(128)
    setting = Setting(machine=HMC, array=(), element_bytes=4)
    forward, backward, update = [], [], []
    layers = {layer.name: layer.einsum for layer in half.contracted.layers}
    for stage in plan.stages.stages:
        times = [HMC.layer_time(layers[name], degrees(()), 4) for name in stage.layers]
        forward.append(sum(time.seconds["forward"] for time in times))
        backward.append(sum(time.seconds["backward"] + time.seconds["gradient"] for time in times))
        update.append(sum(setting.update_seconds(time) for time in times))
    sent = 128 * 4 * {1: 12 * 12 * 20, 2: 4 * 4 * 50, 3: 500}[len(plan.stages.stages[0].layers)]
    (link,) = HMC.links((2,))
    receive = link.seconds("neighbours", sent)
    assert forward[0] < receive > forward[1] + backward[1]
    assert backward[0] > forward[1] + backward[1]
    # The error goes back before the gradient of the second stage's first layer is computed.
    first = HMC.layer_time(layers[plan.stages.stages[1].layers[0]], degrees(()), 4).seconds["gradient"]
    step = forward[0] + 3 * receive + forward[1] + backward[1] - first + 2 * backward[0] + update[0]
    assert score.time_s == pytest.approx(step, rel=1e-12)
    busy = [2 * (forward[stage] + backward[stage] + receive) + update[stage] for stage in (0, 1)]
    assert [stage.busy_s for stage in plan.stages.stages] == pytest.approx(busy, rel=1e-12)
    assert [group.idle_s for group in score.groups] == pytest.approx([step - own for own in busy], rel=1e-12)
    assert score.critical == pytest.approx(
        {
            "forward": forward[0] + forward[1],
            "backward": backward[0] + backward[1] / 2,
            "gradient": backward[0] + backward[1] / 2 - first,
            "update": update[0],
            "communication": 3 * receive,
        },
        rel=1e-12,
    )
    assert score.communication == {"stages": 2 * 2 * sent}
    assert [stage.in_flight for stage in plan.stages.stages] == [2, 1]


def test_stages_without_cuts_take_the_energy_of_one_device_and_of_sending() -> None:
    graph = load_model("cifar-c").with_batch(64)
    nodes = graph.contracted
    setting = Setting(machine=HMC, array=(), element_bytes=4)
    alone = score_step(nodes, [()] * len(nodes.layers), setting)
    whole, parts = (
        plan_model(graph, stages=4, levels=0, microbatches=count, hardware=HMC, convention="paper").score
        for count in (1, 4)
    )
    assert whole is not None
    assert parts is not None
    assert alone.energy is not None
    assert whole.energy is not None
    assert parts.energy is not None
    # A word that is received is read and written in memory, 640 pJ each.
    sending = whole.communication["stages"] / 4 * 2 * 640e-12
    assert whole.energy == pytest.approx(alone.energy | {"communication": sending}, rel=1e-12)
    # Weights are read for every microbatch.
    assert parts.energy["arithmetic"] == pytest.approx(alone.energy["arithmetic"], rel=1e-12)
    assert parts.energy["memory"] > alone.energy["memory"]


# Plan files


@pytest.mark.parametrize("solver", [None, "elimination"])
def test_a_plan_of_stages_is_read_and_planned_again(tmp_path: Path, solver: str | None) -> None:
    """Stages without branches are solved by another solver than those with them."""
    asked: dict[str, Any] = {"stages": 4, "levels": 1, "hardware": HMC, "pins": "fc=mp", "solver": solver}
    plan = plan_model("resnet18", batch=16, **asked, convention="paper")
    assert plan.solver == ("elimination, chain" if solver is None else solver)
    file = tmp_path / "plan.json"
    plan.write(file)
    assert read_plan(file) == plan
    assert read_plan(file).to_json() == plan.to_json() == file.read_text()
    assert "null" not in plan.to_json()
    assert plan.pins == ["fc=in_channels"]
    verdict = check_plan(file)
    assert verdict.changes == ()
    assert verdict.fresh.to_json() == plan.to_json()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"stages": 2, "levels": 0, "pins": "fc1=mp"}, "pins: given where no layer is cut; allowed: levels inside"),
        ({"stages": 2, "levels": 1, "pins": "fc1@H2=mp"}, "pin 'fc1@H2=mp': found level 'H2'; allowed: H1 to H1"),
        ({"stages": "best", "pins": "fc1@H2=mp"},
         "pin 'fc1@H2=mp': a level where the best stages are sought; allowed: one for all levels, as fc1=mp"),
    ],
    ids=str,
)  # fmt: skip
def test_pins_that_cannot_hold_are_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        plan_model(LENET, hardware=HMC, **asked, convention="paper")


def test_pins_hold_inside_every_stage() -> None:
    plan = plan_model(
        LENET, hardware=HMC, stages=2, levels=2, pins=["conv*@H2=mp", "fc2=dp"], convention="paper"
    )
    assert [plan.dims(layer)[1] for layer in ("conv1", "conv2")] == ["in_channels"] * 2
    assert plan.dims("fc2") == ("batch", "batch")


@pytest.fixture(scope="module")
def plan() -> Plan:
    """ResNet-18 in four stages of two devices."""
    return plan_model("resnet18", batch=32, stages=4, levels=1, hardware=HMC, convention="paper")


@pytest.mark.parametrize(("asked", "overlap", "schedule"), STAGED)
def test_a_stored_plan_runs_as_it_was_planned(asked: str, overlap: str, schedule: str) -> None:
    plan = staged_plan(asked, overlap, schedule)
    ran = run_plan(plan, hardware={"none": HMC, "full": OVERLAPPING}[overlap])
    assert (ran.score, ran.stages) == (plan.score, plan.stages)
    assert ran.timeline.makespan == ran.score.time_s
    names = {f"{group.group} devices" for group in ran.score.groups or ()}
    assert {task.resource for task in ran.timeline.tasks if task.kind != "communication"} == names
    rows = layer_times_data(ran)
    assert plan.stages is not None
    weighted = [layer.name for layer in ran.graph.contracted.layers if layer.weighted]
    assert [(row["group"], row["layer"]) for row in rows] == [
        (f"stage {number}", layer)
        for number, stage in enumerate(plan.stages.stages, 1)
        for layer in stage.layers
        if layer in weighted
        for _ in range(3)
    ]


def test_a_stored_plan_keeps_its_partition_on_another_machine(plan: Plan) -> None:
    ran = run_plan(plan, hardware="p100-4x4", optimizer="momentum", changes={"latency": "1 us"})
    planned = plan_model("resnet18", batch=32, stages=4, levels=1, hardware="p100-4x4", convention="paper")
    assert plan.stages is not None
    assert ran.stages is not None
    assert bounds_of(planned) != bounds_of(plan)
    assert [stage.layers for stage in ran.stages.stages] == [stage.layers for stage in plan.stages.stages]
    assert (ran.score.hardware, ran.score.optimizer) == ("p100-4x4", "momentum")
    assert ran.score.communication == (plan.score and plan.score.communication)
    with pytest.raises(HardwareError, match=r"hardware 'eyeriss': found an array of 8 devices \(4x2\)"):
        run_plan(plan, hardware="eyeriss")
    with pytest.raises(PlanError, match="a plan for identical devices"):
        run_plan(plan, hardware="tpu-v2-v3")


def test_layers_and_cuts_moved_by_hand_count(plan: Plan) -> None:
    data = plan.to_data()
    first, second = (data["stages"]["stages"][number]["layers"] for number in (0, 1))
    second.insert(0, first.pop())
    moved = Plan.model_validate(data)
    before, after = run_plan(plan, hardware=HMC), run_plan(moved, hardware=HMC)
    assert after.stages is not None
    assert [len(stage.layers) for stage in after.stages.stages[:2]] == [len(first), len(second)]
    assert after.score.time_s != before.score.time_s
    assert [str(change) for change in diff_plans(plan, moved)] == [f"{second[0]} stage: 1 -> 2"]
    data["splits"][0]["choices"]["conv1"] = {"in_channels": 2}
    assert run_plan(Plan.model_validate(data), hardware=HMC).score.time_s > after.score.time_s


@pytest.mark.parametrize("report", plugin_names("reports"))
def test_reports_show_which_stage_a_layer_is_in(plan: Plan, report: str) -> None:
    text = plan.render(report)
    asked = "batch 32, 8 devices (4 stages of 2)"
    assert (f"strategy hypar, {asked}" if report == "table" else f"resnet18, {asked}, strategy hypar") in text
    assert "volume" in text
    assert "4 stages by 1f1b, 4 microbatches a mini-batch; bottleneck: the costliest is busy" in unbroken(
        text
    )
    if report == "table":
        text = output_in_full(plan)
    for number, kept in ((1, 4), (2, 3), (3, 2), (4, 1)):
        if report == "table":
            assert re.search(rf"\n{number} +\w\S+ to \S+ +2 +\d+ ms ", text)
            assert re.search(rf"\n{number} +\S+ ms +{kept} +0 +\S+ MB +8.00 GB\n", text)
            continue
        assert re.search(rf"stage {number}, \S+( to \S+)?: 2 devices, busy .*, {kept} in flight, staleness 0, .* held", text)  # fmt: skip
    row = {"table": r"\n{} +{}  \w", "markdown": r"\| {} \| {} \|", "html": r">{}</th> <td>{}</td>"}[report]
    assert plan.stages is not None
    for number, stage in enumerate(plan.stages.stages, 1):
        for layer in stage.layers:
            assert re.search(row.format(re.escape(layer), number), text), (layer, number)


def test_a_table_numbers_the_stages() -> None:
    lines = plan_model("lenet-c", stages=4, levels=0, hardware=HMC, convention="paper").render().splitlines()
    assert [line.split()[:2] for line in lines[3:8]] == [
        ["layer", "stage"], ["conv1", "1"], ["conv2", "2"], ["fc1", "3"], ["fc2", "4"],
    ]  # fmt: skip


def output_in_full(plan: Plan) -> str:
    """The table of a plan with every layer."""
    return as_text(plan_page(plan, full=True))


def test_where_no_stages_are_faster_the_plan_says_so(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"hardware": HMC, "levels": 1}
    best, whole = (
        plan_model("sconv", stages="best", **asked, convention="paper"),
        plan_model("sconv", **asked, convention="paper"),
    )
    assert not best.staged
    assert best.splits == whole.splits
    assert best.score == whole.score
    assert best.claim == f"{whole.claim}; no stages that were tried are faster"
    assert best.stages is not None
    assert (best.stages.asked, best.stages.array, len(best.stages.stages)) == ("best", [2], 1)
    best.write(tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == best
    assert check_plan(tmp_path / "plan.json").ok
    ran = run_plan(tmp_path / "plan.json")
    assert (ran.score, ran.stages) == (whole.score, None)
    assert "stage" not in best.render().split("volume")[0]


def test_check_seeks_the_best_stages_again(tmp_path: Path) -> None:
    """A faster machine of the same name is better used otherwise."""
    hardware, file = tmp_path / "small.yaml", tmp_path / "plan.json"
    of_memory(tmp_path, "8 GB")
    best = plan_model("lenet-c", stages="best", hardware=hardware, convention="paper")
    assert best.staged
    best.write(file)
    assert check_plan(file).ok
    hardware.write_text(
        hardware.read_text().replace("1600 Mb/s", "16000 Gb/s").replace("25.6 Gb/s", "256000 Gb/s")
    )
    verdict = check_plan(file)
    assert not verdict.fresh.staged
    changes = [str(change) for change in verdict.changes]
    assert any(change.startswith("plan stages: ") for change in changes)
    assert "plan stage array: 2x2x2 -> 2x2x2x2" in changes
    assert not verdict.ok


def test_a_difference_of_stages_is_said_layer_by_layer() -> None:
    two, four = (
        plan_model("lenet-c", stages=stages, levels=0, hardware=HMC, convention="paper") for stages in (2, 4)
    )
    changes = [str(change) for change in diff_plans(two, four)]
    assert "plan stages: 2 -> 4" in changes
    assert "plan microbatches: 2 -> 4" in changes
    assert "fc2 stage: 2 -> 4" in changes
    assert "plan stage 4 in_flight: none -> 1" in changes
    assert any(change.startswith("plan bottleneck_s: ") for change in changes)


@pytest.mark.parametrize("stages", [2, "best"])
def test_remarks_do_not_take_stages_for_a_plan_without_them(stages: int | str) -> None:
    graph = load_model("cifar-c").with_batch(8)
    plan = plan_model(graph, stages=stages, levels=2, pins="fc1=dp", hardware=HMC, convention="paper")
    said = [*notes(plan, graph, HMC)]
    free = plan_model(graph, stages=stages, levels=2, hardware=HMC, convention="paper")
    assert plan.score is not None
    assert free.score is not None
    assert any(line.startswith("the pins cost ") for line in said)
    assert not [line for line in said if "joint optimum" in line] or not plan.staged


def test_pins_may_save_time_or_be_what_lets_stages_fit(tmp_path: Path) -> None:
    graph = load_model("sfc").with_batch(16)
    asked: dict[str, Any] = {"stages": 2, "levels": 2, "strategy": "dp", "pins": "fc*=mp"}
    plan = plan_model(graph, hardware=HMC, **asked, convention="paper")
    assert any(re.match(r"the pins save .* \(-", line) for line in notes(plan, graph, HMC))
    assert plan.score is not None
    small = of_memory(tmp_path, f"{int(plan.score.memory_bytes)} B")
    said = [*notes(plan_model(graph, hardware=small, **asked, convention="paper"), graph, small)]
    assert "the cost of the pins is unknown: without them no stages fit" in said


def test_pieces_are_counted_of_a_microbatch() -> None:
    graph = load_model("sconv").with_batch(16)
    plan = plan_model(
        graph, stages=2, levels=2, microbatches=8, strategy="dp", hardware=HMC, convention="paper"
    )
    assert finer_than_whole(plan, graph) == tuple(f"{layer} batch" for layer in plan.layers)
    plan = plan_model(
        graph, stages=2, levels=2, microbatches=4, strategy="dp", hardware=HMC, convention="paper"
    )
    assert finer_than_whole(plan, graph) == ()


def test_an_explanation_of_stages_costs_a_layer_s_alternatives_in_its_stage(plan: Plan) -> None:
    assert plan.stages is not None
    found = explain_plan(plan, load_model("resnet18"), layer="*", machine=HMC)
    assert {one.layer for one in found.explained} == {*plan.layers}
    bounds = bounds_of(plan)
    costs = dict(plan.splits[0].costs)
    for one in found.explained:
        assert one.chosen.total >= 0
        assert one.chosen.replanned == 0
    # Only what is inside a stage is counted: its first layers receive nothing there.
    firsts = [plan.layers[start] for start in bounds[1:-1]]
    assert [one.chosen.received for one in found.explained if one.layer in firsts] == [0] * len(firsts)
    assert math.fsum(
        sum(one.chosen.items.values()) + one.chosen.received for one in found.explained
    ) == pytest.approx(math.fsum(costs.values()))
    with pytest.raises(OptionError, match="explain: no layer is cut inside the stages"):
        explain_plan(plan_model("sfc", stages=2, levels=0, hardware=HMC), load_model("sfc"), machine=HMC)


@pytest.mark.parametrize("asked", [{"levels": 2}, {"levels": 1, "microbatches": 4, "schedule": "gpipe"}])
def test_stages_are_refined_with_the_engine(asked: dict[str, Any], tmp_path: Path) -> None:
    plain = plan_model("alexnet", stages=2, hardware=HMC, **asked)
    found = plan_model("alexnet", stages=2, hardware=HMC, refine=True, **asked)
    assert found.refined is not None
    assert found.score is not None
    assert plain.score is not None
    assert found.refined.before_s == plain.score.time_s
    assert found.refined.after_s == found.score.time_s <= plain.score.time_s
    assert (found.refined.changed > 0) == (found.refined.after_s < found.refined.before_s)
    assert math.fsum(split.cost for split in found.splits) == pytest.approx(found.cost.value)
    found.write(tmp_path / "plan.json")
    assert check_plan(tmp_path / "plan.json").ok


def test_a_timeline_and_a_trace_of_stages_are_of_one_step(plan: Plan, tmp_path: Path) -> None:
    file, table, trace = (tmp_path / name for name in ("plan.json", "step.csv", "step.json"))
    plan.write(file)
    asked = ["score", str(file), "--timeline", str(table), "--trace", str(trace), "--json"]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 0
    assert json.loads(result.stdout) == plan.to_data()["score"]
    rows = [*csv.DictReader(table.read_text().splitlines())]
    computing = [row for row in rows if row["resource"].endswith("devices")]
    assert {row["resource"] for row in computing} == {f"stage {stage} devices" for stage in range(1, 5)}
    assert plan.score is not None
    assert max(float(row["end_s"]) for row in rows) == plan.score.time_s
    # Forwards, backwards and gradients of four microbatches and an update of each layer; what is sent over three seams.
    weighted = [layer for layer in load_model("resnet18").contracted.layers if layer.weighted]
    assert len(computing) == len(weighted) * (3 * 4 + 1)
    assert sum(row["resource"].startswith("link ") for row in rows) == 3 * 2 * 4
    check_step_trace(trace.read_text(), run_plan(plan, hardware=HMC))


def test_a_score_of_stages_is_shown_with_a_line_a_stage(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    plan.write(file)
    text = CliRunner().invoke(main, ["score", str(file)]).stdout
    assert text.startswith(
        "resnet18 on hmc: 205 ms a step\nstrategy hypar, batch 32, 8 devices (4 stages of 2)\n"
    )
    assert [text.count(f"\n{number}  ") for number in range(6)] == [0, 2, 2, 2, 2, 0]
    assert plan.stages is not None
    table = CliRunner().invoke(main, ["score", str(file), "--layers"]).stdout
    weighted = {layer.name for layer in load_model("resnet18").contracted.layers if layer.weighted}
    for number, stage in enumerate(plan.stages.stages, 1):
        assert table.split("\n\n")[1].count(f"group: stage {number}, ") == 3 * len(
            weighted.intersection(stage.layers)
        )


def test_heads_of_attention_are_divided_inside_a_stage() -> None:
    """Errors of all its operands are added up, of a second and a third input too."""
    graph = gpt(8)
    plan = plan_model(graph, hardware="hmc", stages=2, levels=1, strategy="optimal", space="all")
    assert verify_plan(plan, model=graph, hardware="hmc").ok
