"""The search for the least time of a step within a memory: its sums at prices, bounds and folds, and every plan of small problems."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hypar import load_model, plan_model
from hypar.costs.base import Prices
from hypar.machine.load import load_machine
from hypar.plan.request import Request
from hypar.planning.fastest import proposer_of
from hypar.planning.planner import resolve
from hypar.planning.question import ask, setting_for
from hypar.schedule.lanes import COMMUNICATION, Lane
from hypar.schedule.memory import memory_of
from hypar.schedule.stages import StepWork
from hypar.sharding.placement import choice_of
from hypar.solve.counts.solution import Columns
from tests.effort import examples, late
from tests.heterogeneous import CONV, INPUT, LINEAR, kind, write_machine, written
from tests.kit import known

if TYPE_CHECKING:
    from hypar import LayerGraph, Plan, Score
    from hypar.costs.graphs.counted import Counted
    from hypar.machine.machine import Machine
    from hypar.planning.fastest import Choices, Proposer
    from hypar.planning.question import Question
    from hypar.schedule.stages import Step
    from hypar.solve.edge import Indices

SHARES = st.sampled_from([0.0, 0.3, 1.0])
CHANNELS = "batch,in_channels,out_channels"


class Problem:
    """A search problem for least time, with what runs and proposes its plans."""

    def __init__(self, model: str | LayerGraph, machine: Machine | str, **asked: Any) -> None:
        graph = load_model(load_model(model), batch=asked.pop("batch", None))
        request = resolve(Request(hardware=machine, strategy="optimal", cost="time", **asked), graph)
        network = request.network(graph)
        self.question: Question = ask(request, network)
        self.setting = setting_for(request, graph.element_bytes, self.question.cost)
        self.proposer: Proposer = known(proposer_of(request, network, self.question))

    def drawn(self, rng: random.Random) -> Choices:
        return tuple(tuple(map(rng.choice, own)) for own in self.question.options)

    def step(self, choices: Choices) -> Step:
        return StepWork.of([Lane(self.question.graph, choices, self.setting)]).run()

    def counted(self, prices: Prices) -> Counted:
        return known(replace(self.question, cost=self.question.cost.at(prices)).counted())


def orders_of(counted: Counted, seed: int) -> Indices:
    """Options of each layer at each level, whose levels of one group are next to each other, without idle devices."""
    rng, groups = random.Random(seed), counted.graph.groups.tolist()
    return np.array(
        [
            [rng.choice([option for option in of[group] if option != idle]) for group in groups]
            for of, idle in zip(counted.graph.offered, counted.graph.idle, strict=True)
        ]
    )


@settings(max_examples=examples(30, 4), deadline=None)
@given(seed=st.integers(0, 10**6), shares=st.tuples(SHARES, SHARES, SHARES, SHARES))
@pytest.mark.parametrize("model", ["lenet-c", "alexnet"])
def test_a_sum_at_prices_adds_up_what_a_step_does(
    model: str, seed: int, shares: tuple[float, float, float, float]
) -> None:
    """In a chain every layer waits for the one before, so that a piece of a step says its price."""
    forward, backward, gradient, update = shares
    asked = Problem(model, "hmc", levels=3, space=CHANNELS)
    counted = asked.counted(Prices(forward, forward, backward, gradient, gradient, update))
    orders = orders_of(counted, seed)
    choices = counted.choices(orders)
    assume(choices is not None)
    step = asked.step(known(choices))
    of, expected = {"forward": forward, "backward": backward, "gradient": gradient}, []
    for piece, place in zip(step.pieces, step.places, strict=True):
        share = of[piece.phase] if piece.kind == COMMUNICATION else 1.0
        late = update if place.layer or not gradient else 1.0
        expected.append(piece.seconds * (late if piece.kind == "update" else share))
    assert Columns(counted.graph).cost(orders) == pytest.approx(math.fsum(expected), rel=1e-9)


@pytest.mark.parametrize("model", ["gpt2", "resnet18", "vgg16", "llama3-8b"])
@pytest.mark.parametrize("prices", [Prices(), Prices(0.5, 0.4, 0.3, 0.2, 0.1, 0.6, 1e-12, 1e-12)])
def test_equal_blocks_of_a_fold_count_as_often_as_they_are(model: str, prices: Prices) -> None:
    asked = Problem(model, "h100-8x", levels=3, batch=64)
    folded = asked.proposer.folded
    assert len(folded.graph.layers) < len(folded.places) or model in {"vgg16", "resnet18"}
    own = replace(asked.question, graph=folded.graph, cost=asked.question.cost.at(prices), sizes=())
    own = replace(own, options=folded.taken(asked.question.options))
    few = known(own.counted(folded.times))
    orders = orders_of(few, 0)
    first = folded.times[0].index(max(folded.times[0]))
    last = len(folded.times[0]) - folded.times[0][::-1].index(max(folded.times[0]))
    if last - first < len(orders):
        orders[2 * first - last : first] = orders[first:last]
    whole = replace(asked.question, cost=asked.question.cost.at(prices), sizes=()).counted()
    every = np.array(folded.spread(orders.tolist()))
    cost = Columns(known(whole).graph).cost(every)
    assert Columns(few.graph).cost(orders) == pytest.approx(cost, rel=1e-9)


@settings(max_examples=examples(10, 2), deadline=None)
@given(seed=st.integers(0, 10**6))
@pytest.mark.parametrize("model", ["gpt2", "resnet18", *late(["vit-b16", "inception-v3"], "vit-b16")])
@pytest.mark.parametrize("hardware", ["h100-8x", "tpu-v3"])
@pytest.mark.parametrize("array", [(2, 2), (4,)])
def test_no_plan_is_faster_than_a_path_through_a_step(
    model: str, hardware: str, array: tuple[int, ...], seed: int
) -> None:
    asked = Problem(model, hardware, array=array, batch=16)
    found = [asked.proposer.found(prices, bounded=True) for prices in asked.proposer.paths.values()]
    rng = random.Random(seed)
    plans = [asked.drawn(rng), *(choices for choices, _ in found if choices is not None)]
    least = min(asked.step(choices).timeline.makespan for choices in plans)
    assert 0 < max(bound for _, bound in found) <= least * (1 + 1e-9)


@pytest.mark.parametrize("model", ["gpt2", "vit-b16"])
def test_what_a_plan_holds_more_than_another_is_known_before_it_is_run(model: str) -> None:
    asked = Problem(model, "h100-8x", levels=2, batch=16)
    cheap, small = (asked.proposer.found(Prices(byte=byte, saved=byte))[0] for byte in (0.0, 1e-9))
    one, other = (memory_of(Lane(asked.question.graph, known(own), asked.setting)) for own in (cheap, small))
    names = ("weights", "gradients", "optimizer", "activations")
    more = sum(other[name] - one[name] for name in names)
    assert asked.proposer.more(known(cheap), known(small)) == pytest.approx(more, rel=0.1)


@pytest.mark.parametrize(
    ("model", "array", "parts", "rough"),
    [
        ("alexnet", (8,), (3,), False),
        pytest.param("llama3-70b", (64, 8), (3, 2), True, marks=pytest.mark.slow),
    ],
)
def test_parts_of_levels_are_one_grid_of_each(
    model: str, array: tuple[int, ...], parts: tuple[int, ...], rough: bool
) -> None:
    """Of many levels parts of four ways, whose collectives count alike, are proposed, and run all the same."""
    machine = load_machine("h100-8x", {"interconnect.0.devices": 64})
    asked = Problem(model, machine, array=array, batch=512)
    assert (asked.proposer.parts, asked.proposer.rough) == (parts, rough)
    choices = known(asked.proposer.found(Prices())[0])
    for at, (own, options) in enumerate(zip(choices, asked.question.options, strict=True)):
        assert asked.question.runs(at, own)
        for choice, of, ways in zip(own, options, array, strict=True):
            assert choice in of
            assert choice.devices(ways) == ways or choice_of("idle", ways) in of
    assert asked.step(choices).timeline.makespan > 0


DIMS = st.sampled_from([4, 8, 12, 32])


@st.composite
def networks(draw: st.DrawFn) -> LayerGraph:
    text = INPUT.format(draw(DIMS), 8, draw(st.sampled_from([4, 8])))
    last, convs = "input", draw(st.integers(0, 2))
    for number in range(3):
        if number == convs:
            text += f"  - {{name: flat, op: flatten, inputs: {last}}}\n"
            last = "flat"
        text += (CONV if number < convs else LINEAR).format(f"layer{number}", draw(DIMS), last)
        last = f"layer{number}"
    return written(text, draw(st.sampled_from([8, 32])))


@settings(max_examples=examples(500, 8), deadline=None)
@given(
    network=networks(),
    overlap=st.sampled_from(["none", "full"]),
    link=st.sampled_from(["0.2 GB/s", "5 GB/s"]),
    latency=st.sampled_from(["0 s", "5 us"]),
    optimizer=st.sampled_from(["sgd", "adam"]),
    share=st.sampled_from([0.0, 0.1, 0.3, 0.6, 1.0]),
)
def test_the_fastest_of_all_plans_that_fit_is_found(
    tmp_path_factory: pytest.TempPathFactory,
    network: LayerGraph,
    overlap: str,
    link: str,
    latency: str,
    optimizer: str,
    share: float,
) -> None:
    own: dict[str, Any] = {"link": link, "latency": latency, "overlap": overlap, "peak": "0.1 TFLOP/s"}
    file = write_machine(tmp_path_factory.mktemp("machine"), {"a": kind(devices=4, **own)}, [])
    file = file.parent / "a.yaml"
    space, levels = CHANNELS, 2

    def every(machine: Machine) -> list[tuple[float, float]]:
        asked = Problem(network, machine, levels=levels, space=space, optimizer=optimizer)
        found = []
        options = [own for of_layer in asked.question.options for own in of_layer]
        for plan in product(*options):
            choices = tuple(plan[at : at + levels] for at in range(0, len(plan), levels))
            if all(map(asked.question.runs, range(len(choices)), choices)):
                lane = Lane(asked.question.graph, choices, asked.setting)
                held = math.fsum(memory_of(lane).values())
                found.append((held, asked.step(choices).timeline.makespan))
        return found

    plans = every(load_machine(file))
    sizes = sorted({held for held, _ in plans})
    limit = sizes[round(share * (len(sizes) - 1))] * (0.99 if share == 0.0 else 1.0)
    machine = load_machine(file, {"memory.capacity": f"{limit} B"})
    found: Plan = plan_model(
        network,
        levels=levels,
        space=space,
        strategy="optimal",
        cost="time",
        optimizer=optimizer,
        hardware=machine,
    )
    score, fit = known(found.score), [seconds for held, seconds in plans if held <= limit]
    assert score.fits is bool(fit)
    assert score.time_s == pytest.approx(min(fit or [seconds for _, seconds in plans]), rel=1e-9)


@pytest.mark.parametrize(
    ("sizes", "overlap", "part", "most"),
    [((1024, 4096, 4096, 1024), "full", 0.9999, 0), ((8, 1024, 1024, 16), "none", 0.95, 400)],
)
def test_moves_find_the_fastest_plan_that_fits_of_more_than_are_all_run(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], overlap: str, part: float, most: int
) -> None:
    """Sums at prices propose none that fits, or one from which only two layers together lead on."""
    text = f"  - {{op: input, channels: {sizes[0]}, height: 1, width: 1}}\n  - {{name: flat, op: flatten, inputs: input}}\n"
    for at, own in enumerate(sizes[1:]):
        text += LINEAR.format(f"fc{at}", own, f"fc{at - 1}" if at else "flat")
    changes: dict[str, Any] = {"interconnect.1.link_bandwidth": "10 GB/s", "overlap": overlap}
    asked: dict[str, Any] = {"array": (2, 2), "optimizer": "adam", "strategy": "optimal", "cost": "time"}

    def score(memory: str) -> Score:
        machine = load_machine("h100-8x", {**changes, "memory.capacity": memory})
        return known(plan_model(written(text), hardware=machine, **asked).score)

    memory = f"{int(part * score('80 GB').memory_bytes)} B"
    fastest = score(memory)
    monkeypatch.setattr("hypar.planning.fastest.MOST_PLANS", most)
    moved = score(memory)
    assert fastest.fits
    assert moved.fits
    assert moved.time_s == fastest.time_s


def test_a_transformer_that_does_not_fit_by_any_baseline_fits_by_the_search() -> None:
    machine = load_machine("h100-8x", {"memory.capacity": "6 GB"})
    asked: dict[str, Any] = {"batch": 16, "levels": 2, "optimizer": "adam", "cost": "time"}
    found = plan_model("gpt2", hardware=machine, strategy="optimal", **asked)
    baselines = known(found.baselines)
    assert known(found.score).fits
    for name in baselines.names:
        assert not known(plan_model("gpt2", hardware=machine, strategy=name, **asked).score).fits
    free = plan_model("gpt2", hardware="h100-8x", strategy="optimal", **asked)
    assert known(free.score).time_s <= known(found.score).time_s


def test_where_nothing_fits_the_claim_says_how_much_the_smallest_plan_holds() -> None:
    machine = load_machine("h100-8x", {"memory.capacity": "100 MB"})
    found = plan_model(
        "gpt2", batch=16, levels=2, optimizer="adam", hardware=machine, strategy="optimal", cost="time"
    )
    assert not known(found.score).fits
    assert "none that was found fits: the smallest holds " in found.claim
