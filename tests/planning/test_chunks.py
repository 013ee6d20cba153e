"""Chunks as a part of a plan: which are the best, and what a plan file says of them."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from cgdp_2018 import groupings
from hypothesis import given
from hypothesis import strategies as st

from hypar import Plan, load_machine, plan_model
from hypar.errors import OptionError
from hypar.machine.work import LayerTimes, StepTimes
from hypar.planning.chunks import best_sizes, spans
from hypar.planning.replay import run_plan
from hypar.schedule.stages import StepWork
from tests.effort import crossed, late
from tests.kit import names_of
from tests.planning.parts import scored, staged
from tests.schedule.test_chunked import graph_of, lane_of

if TYPE_CHECKING:
    from hypar import Machine
    from hypar.planning.chunks import Sizes
    from hypar.schedule.lanes import Lane

pytestmark = pytest.mark.usefixtures("folder")

FIRST = {"collectives": ["direct", "ring"], "compute.fp32_peak": "989.4 TFLOP/s", "unweighted": "free"}
"""Exchanges slow enough, and layers fast enough, for chunks of several layers to be worth their while."""

OVERLAPPING: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "hmc": ((2, 2, 2, 2), {"overlap": "full"}),
    "hmc late": ((16,), {"overlap": "full", "latency": "20 us", "topology": "ring"}),
    "h100-8x": ((8, 8), FIRST),
    "h100-8x by twos": ((2, 2, 2, 2), {}),
    "p100-4x4": ((4, 4), {"overlap": "full"}),
    "tpu-v2": ((64,), {"overlap": "full", "collectives": ["ring"]}),
}
"""Machines that overlap, with an array."""


@cache
def machine_of(name: str) -> Machine:
    machine: Machine = load_machine(name.split(maxsplit=1)[0], OVERLAPPING[name][1])
    return machine


def planned(model: str, name: str, **asked: Any) -> Plan:
    return plan_model(graph_of(model), array=OVERLAPPING[name][0], hardware=machine_of(name), **asked)


def chunks_of(plan: Plan) -> list[list[str]]:
    assert plan.chunks is not None
    return plan.chunks.layers


def test_levels_are_summed_from_the_innermost_outward_chunk_by_chunk() -> None:
    plan = planned("lenet-c", "p100-4x4", strategy="dp", chunks="one")
    names = names_of(run_plan(plan, hardware=machine_of("p100-4x4")))
    assert [name for name in names if "all_reduce" in name] == [
        "fc2 to conv1 gradient all_reduce H2", "fc2 to conv1 gradient all_reduce H1",
    ]  # fmt: skip
    assert [*names[-4:]] == [f"{layer} update" for layer in ("fc2", "fc1", "conv2", "conv1")]


def test_layers_that_exchange_nothing_are_in_no_chunk() -> None:
    plan = planned("alexnet", "hmc", pins=["fc*=mp", "conv*=dp"], chunks="one")
    assert chunks_of(plan) == [["conv5", "conv4", "conv3", "conv2", "conv1"]]
    ran = run_plan(plan, hardware=machine_of("hmc"))
    step, names = ran.step, names_of(ran)
    update = step.timeline.tasks[names.index("fc1 update")]
    assert update.after == (names.index("fc1 gradient"),)
    nothing = planned("alexnet", "hmc", strategy="mp", chunks="best")
    assert chunks_of(nothing) == []
    assert "gradients in no chunks (best), as no layer exchanges gradients\n" in str(nothing)
    assert nothing.score == planned("alexnet", "hmc", strategy="mp").score


@crossed({"model": late(["lenet-c", "alexnet", "vgg11", "sfc"], "vgg11"), "name": OVERLAPPING})
def test_the_best_is_near_the_best_of_all_groupings(model: str, name: str) -> None:
    for strategy in ("dp", "hypar"):
        plan = planned(model, name, strategy=strategy, chunks="best")
        lane = lane_of(plan, graph_of(model), machine_of(name))
        layers = StepWork.of([lane]).run().exchanging

        def seconds(sizes: Sizes, lane: Lane = lane, layers: tuple[int, ...] = layers) -> float:
            left = iter(layers)
            chunks = tuple(tuple(next(left) for _ in range(size)) for size in sizes)
            return StepWork.of([lane]).run(chunks).timeline.makespan

        least = min(map(seconds, groupings(len(layers)) if layers else [()]))
        assert least * (1 - 1e-12) <= scored(plan).time_s <= least * 1.001
        plain = scored(planned(model, name, strategy=strategy))
        assert plan.chunks is not None
        assert plan.chunks.alone_s == plain.time_s
        assert scored(plan).communication_bytes == pytest.approx(plain.communication_bytes, rel=1e-12)
        # But for the power at rest, which is drawn for as long as the step takes.
        energies = [{**(own.energy or {}), "static": 0.0} for own in (scored(plan), plain)]
        assert energies[0] == pytest.approx(energies[1], rel=1e-12)


@st.composite
def steps(draw: st.DrawFn) -> StepTimes:
    """Up to twelve layers, of few whole numbers of seconds, so that many groupings take as long, or of any."""
    seconds = draw(st.sampled_from([st.integers(0, 6).map(float), st.floats(0, 1e3) | st.floats(0, 1e-3)]))
    layers = [
        LayerTimes(name=f"fc{number}", forward_s=0, backward_s=draw(seconds), exchange_s=draw(seconds))
        for number in range(1, draw(st.integers(1, 12)) + 1)
    ]
    return StepTimes(layers=tuple(layers), sync_s=draw(seconds))


@pytest.mark.parametrize("name", ["independent", "serial"])
@given(times=steps())
def test_of_equals_the_best_has_the_fewest_and_then_the_largest(name: str, times: StepTimes) -> None:
    """From the first on, or on a serial link from the last back."""
    serial = name == "serial"
    longest = {sizes: max(spans(times, sizes, serial=serial)) for sizes in groupings(len(times.layers))}
    least, found = min(longest.values()), best_sizes(times, serial=serial)
    ties = [sizes for sizes, span in longest.items() if span == least]
    way = 1 if name == "independent" else -1
    assert found == max(ties, key=lambda sizes: (-len(sizes), sizes[::way]))


def test_chunks_are_cut_by_the_rule_and_by_what_exchanges() -> None:
    sizes = {chunks: [len(chunk) for chunk in chunks_of(planned("vgg11", "hmc", strategy="dp", chunks=chunks))]
             for chunks in ("one", 3, 4, 11)}  # fmt: skip
    assert sizes == {"one": [11], 3: [3, 3, 3, 1, 1], 4: [4, 4, 1, 1, 1], 11: [1] * 11}
    held = planned("vgg11", "hmc", pins=["fc*=mp", "conv*=dp"], chunks=3)
    assert chunks_of(held) == [
        ["conv5_2", "conv5_1", "conv4_2"], ["conv4_1", "conv3_2", "conv3_1"], ["conv2"], ["conv1"],
    ]  # fmt: skip


def test_buffers_hold_the_larger_transfer_and_nothing_else_does() -> None:
    """A dp weight has a buffer of its own size; with all together of the size of all."""
    plain, joined = (planned("lenet-c", "hmc", strategy="dp", chunks=chunks) for chunks in ("layers", "one"))
    weights = {
        layer.name: 4 * layer.nest.elements("weight") for layer in graph_of("lenet-c").contracted.layers
    }
    memory = [dict(scored(plan).memory) for plan in (plain, joined)]
    assert [held.pop("buffers") for held in memory] == [max(weights.values()), sum(weights.values())]
    assert memory[0] == memory[1]


def test_the_best_is_of_those_that_memory_holds() -> None:
    plain = planned("cifar-c", "hmc late", strategy="dp")
    free = planned("cifar-c", "hmc late", strategy="dp", chunks="best")
    held = scored(plain).memory_bytes
    assert scored(free).memory_bytes > held
    between = (held + scored(free).memory_bytes) / 2

    def within(num_bytes: float) -> Plan:
        changes = {**OVERLAPPING["hmc late"][1], "memory.capacity": f"{int(num_bytes)} B"}
        machine = load_machine("hmc", changes)
        return plan_model(graph_of("cifar-c"), array=[16], strategy="dp", hardware=machine, chunks="best")

    tight, full = within(between), within(held / 2)
    assert scored(tight).fits
    assert scored(free).time_s < scored(tight).time_s <= scored(plain).time_s
    assert not scored(full).fits
    assert scored(full).time_s == scored(free).time_s


def test_refinement_comes_first_with_every_layer_by_itself() -> None:
    refined = planned("lenet-c", "h100-8x by twos", cost="time", refine=True)
    both = planned("lenet-c", "h100-8x by twos", cost="time", refine=True, chunks="best")
    assert (both.splits, both.refined) == (refined.splits, refined.refined)
    assert both.chunks is not None
    assert refined.refined is not None
    assert both.chunks.alone_s == refined.refined.after_s


@pytest.fixture(scope="module")
def uneven() -> dict[str | None, Plan]:
    machine = load_machine("tpu-v2-v3")
    asked: dict[str, Any] = {"strategy": "accpar", "hardware": machine}
    return {chunks: plan_model("vgg11", chunks=chunks, **asked) for chunks in (None, "layers", "one", "best")}


def test_different_groups_exchange_together_over_their_splits(uneven: dict[str | None, Plan]) -> None:
    steps = {chunks: run_plan(plan, hardware="tpu-v2-v3") for chunks, plan in uneven.items()}
    assert steps["layers"].timeline.tasks == steps[None].timeline.tasks
    assert uneven["layers"].score == uneven[None].score
    sums: dict[str | None, dict[tuple[int, tuple[int, ...]], list[float]]] = {"layers": {}, "one": {}}
    for chunks, found in sums.items():
        step = steps[chunks].step
        for piece in step.pieces:
            if piece.collective and piece.phase == "gradient":
                found.setdefault((piece.level, piece.groups), []).append(piece.num_bytes)
    assert all(len(amounts) == 1 for amounts in sums["one"].values())
    totals = [{place: math.fsum(amounts) for place, amounts in found.items()} for found in sums.values()]
    assert totals[1] == pytest.approx(totals[0], rel=1e-12)
    names = names_of(steps["one"])
    assert "tpu-v2: conv5_2 to conv1 gradient all_reduce H1" in names
    assert "tpu-v3: conv5_2 to conv1 gradient all_reduce H2" in names
    times = {chunks: scored(plan).time_s for chunks, plan in uneven.items()}
    assert times["best"] <= min(times["one"], times["layers"])


@pytest.fixture(scope="module")
def stored() -> Plan:
    """Three chunks on one level: fc2; fc1; conv2 and conv1."""
    return plan_model(
        graph_of("lenet-c"), array=[64], hardware=machine_of("h100-8x"), strategy="dp", chunks="best"
    )


def test_a_score_on_another_machine_has_the_plan_s_chunks(stored: Plan) -> None:
    names = names_of(run_plan(stored, hardware=load_machine("tpu-v2")))
    assert "conv2 to conv1 gradient all_reduce H1" in names
    assert chunks_of(stored) == [["fc2"], ["fc1"], ["conv2", "conv1"]]


@pytest.mark.parametrize("asked", ["best", "one", "2"])
def test_a_chunk_is_of_one_stage(asked: str) -> None:
    """The best chunks are no slower than single layers."""
    options: dict[str, Any] = {"levels": 1, "stages": 2, "microbatches": 4, "hardware": "h100-8x"}
    plan = plan_model("lenet-c", strategy="dp", chunks=asked, **options)
    assert plan.chunks is not None
    of = {name: number for number, stage in enumerate(staged(plan).stages) for name in stage.layers}
    assert all(len({of[name] for name in chunk}) == 1 for chunk in plan.chunks.layers)
    assert {name for chunk in plan.chunks.layers for name in chunk} == {*plan.layers}
    alone = scored(plan_model("lenet-c", strategy="dp", **options)).time_s
    assert plan.chunks.alone_s == alone
    assert asked != "best" or scored(plan).time_s <= alone


@pytest.mark.parametrize("chunks", [True, 2.0, 0, -3, ["best"], b"best"])
def test_what_python_may_not_ask(chunks: Any) -> None:
    with pytest.raises(OptionError, match=r"^chunks: found .*; allowed: best, layers, one, or 1 to 4$"):
        plan_model("lenet-c", hardware="hmc", chunks=chunks)
