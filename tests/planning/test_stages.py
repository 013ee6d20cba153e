"""Stages over the split outside all levels, each cut by itself."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import accumulate, combinations, pairwise, product, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hypar import Plan, diff_plans, load_machine, load_model, plan_model
from hypar.errors import HardwareError, PlanError
from hypar.machine.setting import Setting
from hypar.plan.records import BALANCES
from hypar.planning.replay import run_plan
from hypar.planning.resolved import Resolved
from hypar.planning.stages.partition import LowerBounds, best_partition
from hypar.planning.stages.running import kept_in_flight
from hypar.planning.stages.spans import spans_of
from hypar.schedule.lanes import Lane
from hypar.schedule.stages import StepWork, summarise
from hypar.sharding.placement import degrees
from hypar.solve.partition import partition
from hypar.studies.remarks import remarks
from hypar.studies.verify import verify_plan
from tests.effort import crossed, late
from tests.estimates import estimated_s
from tests.planning.parts import scored, staged
from tests.test_invariants import NETWORKS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hypar import LayerGraph, Machine
    from hypar.planning.stages.spans import CutSpans, Known

HMC = load_machine("hmc")
LENET = load_model("lenet-c")


def planned(model: str | LayerGraph, **asked: Any) -> Plan:
    """A plan on HyPar's machine, as papers count bytes."""
    return plan_model(model, **{"hardware": HMC, "convention": "paper", **asked})


# Spans


def test_what_comes_from_another_stage_is_kept_by_each_layer_and_not_by_joins() -> None:
    """A shortcut's convolution reads what the first one beside it does, each a copy of its own; an addition keeps nothing.

    Each normalisation keeps its convolution's output, with two numbers a channel, and relu its own.
    """
    graph = load_model("resnet18").with_batch(8)
    names = [layer.name for layer in graph.contracted.layers]
    spans = spans_of(Resolved.of(planned(graph), HMC).over(()), graph, [None] * 2, 4)[0]
    samples, size = 2, 4
    forked = spans.span(names.index("layer2.0.conv1"), names.index("layer2.0.add"))
    read, halved = 64 * 56 * 56, 128 * 28 * 28
    # Two copies, three outputs before they are normalised, and one between two convolutions; no op reads those that are sent again.
    kept = size * (samples * (2 * read + 4 * halved) + 3 * 2 * 128)
    assert forked.memory[0]["activations"] == kept
    assert forked.held_bytes(3)[0] == forked.held_bytes(1)[0] + 2 * kept
    joined = spans.span(names.index("layer2.0.add"), names.index("layer2.1.conv2"))
    # Relu's behind the addition, and conv1's before and behind its normalisation.
    assert joined.memory[0]["activations"] == size * (samples * 3 * halved + 2 * 128)


def test_a_stage_has_a_buffer_for_what_it_receives() -> None:
    """Lenet-c: 12 x 12 x 20 to the second convolution, 4 x 4 x 50 to the first linear layer, 500 to the second."""
    graph = LENET.with_batch(64)
    spans = spans_of(Resolved.of(planned(graph), HMC).over(()), graph, [None] * 4, 4)[0]
    sent = [16 * 4 * elements for elements in (12 * 12 * 20, 4 * 4 * 50, 500)]
    assert [spans.span(*ends).memory[0]["buffers"] for ends in ((0, 1), (1, 2), (2, 4), (3, 4))] == [
        sent[0], sent[0], sent[1], sent[2],
    ]  # fmt: skip


def test_a_shortcut_crosses_a_seam_once_each_way() -> None:
    """Elements of ResNet-18: 64 x 56 x 56 at first, 128 x 28 x 28 then."""
    graph = load_model("resnet18").with_batch(8)
    names = [layer.name for layer in graph.contracted.layers]
    spans = spans_of(Resolved.of(planned(graph), HMC).over(()), graph, [None] * 2, 4)[0]
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
        assert spans.span(place, len(names)).work.received.from_stages == crossing
        assert spans.span(0, place).work.returned.from_stages == crossing
    # The shortcut only goes through the stage of one convolution.
    alone = spans.span(names.index("layer1.0.conv2"), names.index("layer1.0.add"))
    assert (alone.work.received.from_stages, alone.work.returned.from_stages) == (2 * wide, 2 * wide)


@crossed(
    {
        "strategy": late(["hypar", "mp", "accpar"], "hypar", "accpar"),
        "stages": late([2, 4], 4),
        "convention": late(["moved", "fused"], "fused"),
    }
)
def test_stages_count_what_their_program_moves(strategy: str, stages: int, convention: str) -> None:
    for model in ("lenet-c", "sfc", "alexnet"):
        asked: dict[str, Any] = {"strategy": strategy, "stages": stages, "convention": convention}
        plan = plan_model(model, levels=2, microbatches=2, batch=64, hardware=HMC, **asked)
        found = verify_plan(plan, count=True)
        # Biases are no part of the amounts; lenet's 50 channels are uneven behind a flatten, alexnet's 3 where terms are scattered.
        uneven = model == "alexnet" and (strategy, stages, convention) == ("mp", 2, "fused")
        near = 0.1 if model == "lenet-c" else 0.01 * uneven
        for each in (own for own in found.tensors if own.tensor != "gradients"):
            assert each.planned == pytest.approx(each.counted, rel=near, abs=0), (model, each)
        assert found.levels[0].planned == found.levels[0].counted


# Partitions


def bounds_of(plan: Plan) -> tuple[int, ...]:
    """Where stages start, and the number of layers."""
    return tuple(accumulate((len(stage.layers) for stage in staged(plan).stages), initial=0))


FORKED = load_model(
    {"source": "made up", **NETWORKS["two shortcuts, one with a convolution of its own"]}, name="forked"
)


def of_memory(capacity: str) -> Machine:
    """HyPar's machine with other memories."""
    machine: Machine = load_machine("hmc", {"memory.capacity": capacity})
    return machine


@cache
def known_answers(_asked: str, _array: tuple[int, ...]) -> Known:
    """The best cuts of the spans known so far: memory, microbatches and stages do not change them."""
    return {}


def all_costs(spans: CutSpans) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds of all spans, and for how many microbatches in flight they have memory."""
    layers = len(spans.microbatch.layers)
    seconds, room = np.full((layers, layers + 1), np.inf), np.zeros((layers, layers + 1))
    for start, end in combinations(range(layers + 1), 2):
        span = spans.span(start, end)
        seconds[start, end] = span.seconds
        fits = (spans.setting.machine.fits(span.held_bytes(count)[0]) for count in range(1, 9))
        room[start, end] = sum(takewhile(bool, fits))
    return seconds, room


@crossed(
    {
        "asked,array": [
            ({"strategy": "hypar"}, ()),
            ({"strategy": "hypar", "convention": "moved"}, (2, 2)),
            ({"strategy": "accpar", "convention": "fused"}, (2, 2)),
        ],
        "balance": BALANCES,
        "capacity": late(["8 GB", "150 kB"], "8 GB"),
    }
)
def test_the_best_partition_is_that_of_all_spans_by_every_balance(
    asked: dict[str, Any],
    array: tuple[int, ...],
    balance: str,
    capacity: str,
) -> None:
    machine = of_memory(capacity)
    plan = planned(FORKED, hardware=machine, **asked)
    request = Resolved.of(plan, machine).over(array)
    for schedule, stages, microbatches in (("1f1b", 3, 4), ("gpipe", 4, 8), ("layer-block", 4, 1)):
        own = replace(request, schedule=schedule, microbatches=microbatches)
        known = known_answers(str(asked), array)
        (every, *_), few = (spans_of(own, FORKED, [None] * stages, microbatches, known) for _ in range(2))
        seconds, room = all_costs(every)
        least = LowerBounds(every)
        kept = kept_in_flight(own, stages)
        exact = {count: np.full(seconds.shape, np.inf) for count in kept}
        for (start, end), count in product(combinations(range(len(seconds) + 1), 2), exact):
            exact[count][start, end] = every.span(start, end).cost(balance, count)
        for count, costs in exact.items():
            assert (least.of(balance, count) <= costs).all()
        expected = partition(
            lambda stage: np.where(room >= kept[stage], exact[kept[stage]], np.inf),  # noqa: B023
            stages,
            every.crossing_bytes,
        )
        assert best_partition(few, balance=balance) == expected
        if expected is not None:
            bound = expected.bottleneck * 0.999
            assert best_partition(few, bound, balance=balance) is None


def test_stages_fit_the_memory_where_others_are_cheaper() -> None:
    graph = load_model("cifar-c").with_batch(64)
    asked: dict[str, Any] = {"stages": 2, "levels": 1, "hardware": of_memory("8 GB")}
    free = planned(graph, **asked)
    least = f"{int(scored(free).memory_bytes) - 1} B"
    held = planned(graph, **asked | {"hardware": of_memory(least)})
    assert bounds_of(held) != bounds_of(free)
    assert scored(held).fits
    assert scored(held).memory_bytes < scored(free).memory_bytes
    assert staged(held).bottleneck_s > staged(free).bottleneck_s
    with pytest.raises(
        HardwareError,
        match=r"hardware 'hmc': no 2 stages fit 10.0 kB, .* divided evenly, stage 1 holds [\d.]+ MB, [\d.]+ MB too much; try --mic",
    ):
        planned(graph, **asked | {"hardware": of_memory("10 kB")})


def test_what_fits_is_better_than_a_plan_without_stages_that_does_not() -> None:
    asked: dict[str, Any] = {"batch": 256, "levels": 2}
    machine = of_memory("8 GB")
    whole = planned("sconv", hardware=machine, **asked)
    assert not planned("sconv", stages="best", hardware=machine, **asked).staged
    small = of_memory(f"{int(scored(whole).memory_bytes) - 1} B")
    best = planned("sconv", stages="best", hardware=small, **asked)
    assert best.staged
    assert scored(best).fits
    assert scored(best).time_s > scored(whole).time_s


def test_the_best_stages_have_any_mini_batch() -> None:
    """No multiple of the stages divides 50: then as many microbatches are tried as are taken by themselves."""
    best = planned("sfc", batch=50, stages="best")
    assert best.staged
    assert staged(best).microbatches in {1, 2}


# Score


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "layer-block"])
@pytest.mark.parametrize("levels", [0, 2])
def test_where_nothing_overlaps_a_step_takes_what_is_estimated(levels: int, schedule: str) -> None:
    plan = plan_model("resnet18", batch=32, stages=4, levels=levels, hardware=HMC, schedule=schedule)
    graph, bounds = load_model("resnet18").with_batch(32), bounds_of(plan)
    request = replace(Resolved.of(plan, HMC), counted="moved", microbatches=staged(plan).microbatches)
    spans = spans_of(request, graph, [None] * 4, staged(plan).microbatches)
    stages = [own.stored(plan, *ends) for own, ends in zip(spans, pairwise(bounds), strict=True)]
    assert estimated_s(stages) == pytest.approx(scored(plan).time_s, rel=1e-12)


def test_every_second_of_two_stages_and_two_microbatches() -> None:
    """1F1B where sending takes longest, and a stage receives just before it computes.

    Stage 1: F F _ _ _ e e B B e e B B U; stage 2: _ f f F B f f F B U.
    """
    graph = LENET.with_batch(256)
    plan = planned(graph, stages=2, levels=0, microbatches=2)
    score = plan.score
    assert score is not None
    assert score.groups is not None
    half = graph.with_batch(128)
    setting = Setting(machine=HMC, array=(), element_bytes=4)
    forward, backward, update = [], [], []
    layers = {layer.name: layer.nest for layer in half.contracted.layers}
    for stage in staged(plan).stages:
        times = [HMC.layer_time(layers[name], degrees(()), 4) for name in stage.layers]
        forward.append(sum(time.seconds["forward"] for time in times))
        backward.append(sum(time.seconds["backward"] + time.seconds["gradient"] for time in times))
        update.append(sum(setting.update_seconds(time) for time in times))
    sent = 128 * 4 * {1: 12 * 12 * 20, 2: 4 * 4 * 50, 3: 500}[len(staged(plan).stages[0].layers)]
    (link,) = HMC.links((2,))
    receive = link.seconds("neighbours", sent)
    assert forward[0] < receive > forward[1] + backward[1]
    assert backward[0] > forward[1] + backward[1]
    # The error goes back before the gradient of the second stage's first layer is computed.
    first = HMC.layer_time(layers[staged(plan).stages[1].layers[0]], degrees(()), 4).seconds["gradient"]
    step = forward[0] + 3 * receive + forward[1] + backward[1] - first + 2 * backward[0] + update[0]
    assert score.time_s == pytest.approx(step, rel=1e-12)
    busy = [2 * (forward[stage] + backward[stage] + receive) + update[stage] for stage in (0, 1)]
    assert [stage.busy_s for stage in staged(plan).stages] == pytest.approx(busy, rel=1e-12)
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
    assert [stage.in_flight for stage in staged(plan).stages] == [2, 1]


def test_stages_without_cuts_take_the_energy_of_one_device_and_of_sending() -> None:
    graph = load_model("cifar-c").with_batch(64)
    nodes = graph.contracted
    setting = Setting(machine=HMC, array=(), element_bytes=4)
    lanes = [Lane(nodes, [()] * len(nodes.layers), setting)]
    step = StepWork.of(lanes).run()
    alone = summarise(lanes, step, HMC)
    whole, parts = (planned(graph, stages=4, levels=0, microbatches=count).score for count in (1, 4))
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


@pytest.fixture(scope="module")
def plan() -> Plan:
    """ResNet-18 in four stages of two devices."""
    return planned("resnet18", batch=32, stages=4, levels=1)


def test_a_stored_plan_keeps_its_partition_on_another_machine(plan: Plan) -> None:
    ran = run_plan(plan, hardware="p100-4x4", optimizer="momentum", changes={"latency": "1 us"})
    assert bounds_of(planned("resnet18", batch=32, stages=4, levels=1, hardware="p100-4x4")) != bounds_of(
        plan
    )
    assert ran.stages is not None
    assert [stage.layers for stage in ran.stages.stages] == [stage.layers for stage in staged(plan).stages]
    assert (ran.score.hardware, ran.score.optimizer) == ("p100-4x4", "momentum")
    assert ran.score.communication == (plan.score and scored(plan).communication)
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


def test_where_no_stages_are_faster_the_plan_says_so() -> None:
    asked: dict[str, Any] = {"hardware": HMC, "levels": 1, "convention": "paper"}
    best, whole = plan_model("sconv", stages="best", **asked), plan_model("sconv", **asked)
    assert not best.staged
    assert best.splits == whole.splits
    assert best.score == whole.score
    assert best.claim == f"{whole.claim}; no stages that were tried are faster"
    assert (staged(best).asked, staged(best).array, len(staged(best).stages)) == ("best", [2], 1)
    ran = run_plan(best)
    assert (ran.score, ran.stages) == (whole.score, None)
    assert "stage" not in best.render().split("volume")[0]


def too_fine(plan: Plan, graph: LayerGraph) -> list[str]:
    return [own.text for own in remarks(plan) if own.label == "shards"]


def test_pieces_are_counted_of_a_microbatch() -> None:
    graph = load_model("sconv").with_batch(16)
    plan = planned(graph, stages=2, levels=2, microbatches=8, strategy="owt")
    (text,) = too_fine(plan, graph)
    assert all(f"{layer} batch" in text for layer in plan.layers[:3])
    plan = planned(graph, stages=2, levels=2, microbatches=4, strategy="owt")
    assert too_fine(plan, graph) == []
