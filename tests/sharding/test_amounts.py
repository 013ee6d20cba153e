"""The product form of the amounts by hand, and against the transfers of a score."""

from __future__ import annotations

import math
import random
from functools import cache
from typing import TYPE_CHECKING

import pytest

from hypar import LayerGraph, Plan, load_machine, load_model, plan_model
from hypar.costs.base import load_cost
from hypar.costs.graphs.tables import Tables
from hypar.machine.setting import Setting
from hypar.schedule.lanes import Lane
from hypar.schedule.stages import StepWork
from hypar.sharding.amounts.above import outermost
from hypar.sharding.levels import levels_of
from hypar.sharding.placement import cut
from hypar.sharding.space import parse_space
from tests.amounts import Amount, amounts
from tests.conventions import cost_of, drawn, network, question_of, random_network
from tests.effort import crossed

if TYPE_CHECKING:
    from hypar.schedule.pieces import Piece

graph_of = cache(load_model)


def two_layers(batch: int = 8, features: int = 16) -> LayerGraph:
    return network(
        [
            f"{{op: input, channels: {features}}}",
            f"{{name: first, op: linear, out_features: {features}}}",
            f"{{name: second, op: linear, out_features: {features}}}",
        ],
        batch,
    )


def test_the_amounts_of_a_plan_name_layers_levels_and_phases() -> None:
    graph, pair = two_layers().contracted, (cut("in_channels", 2),) * 2
    assert amounts(graph, (2, 2), [pair, pair], "moved") == [
        Amount("first", 1, "forward", "output", 512.0),
        Amount("first", 0, "forward", "output", 256.0),
        Amount("second", 1, "forward", "output", 512.0),
        Amount("second", 0, "forward", "output", 256.0),
        Amount(("first", "second"), 0, "backward", "input", 128.0),
        Amount(("first", "second"), 1, "backward", "input", 256.0),
    ]


@cache
def planned(model: str, strategy: str) -> Plan:
    return plan_model(graph_of(model), levels=4, strategy=strategy, convention="paper")


def moved_elements(model: str, strategy: str) -> list[Amount]:
    plan, graph = planned(model, strategy), graph_of(model).contracted
    return amounts(graph, plan.array, [plan.choices(layer) for layer in plan.layers], "moved")


@pytest.mark.parametrize(
    ("model", "strategy", "paper", "moved"),
    [
        ("alexnet", "dp", 7.484, 7.484),
        ("alexnet", "hypar", 0.803, 0.875),
        ("vgg16", "hypar", 2.184, 2.222),
        ("vgg16", "accpar", 2.054, 2.221),
        ("resnet18", "hypar", 1.164, 1.164),
        ("vgg16", "mp", 312.1, 554.2),
    ],
)
def test_what_plans_of_four_levels_move(model: str, strategy: str, paper: float, moved: float) -> None:
    elements = math.fsum(one.elements for one in moved_elements(model, strategy))
    digits = 1 if paper > 100 else 3
    assert round(planned(model, strategy).cost.value / 1e9, digits) == paper
    assert round(4 * elements / 1e9, digits) == moved


def images(size: int = 16) -> LayerGraph:
    conv = "op: conv, out_channels: 4, kernel: 3, padding: 1"
    lines = [f"{{op: input, channels: 4, height: {size}, width: {size}}}"]
    return network([*lines, *(f"{{name: conv{at}, {conv}}}" for at in range(2))])


@pytest.mark.parametrize("array", [(2,), (4,), (2, 2), (2, 2, 2)])
def test_a_cut_image_moves_two_rows_for_each_border(array: tuple[int, ...]) -> None:
    cuts = tuple(cut("height", ways) for ways in array)
    graph = images().contracted
    found = amounts(graph, array, [cuts, cuts], "moved")
    row, shards = graph.tensors[0].elements / 16, math.prod(array)
    for phase in ("forward", "backward"):
        rows = math.fsum(one.elements for one in found if one.phase == phase) / row
        assert rows == pytest.approx(2 * (shards - 1))


def test_a_halo_is_needed_wherever_the_rest_of_the_image_is() -> None:
    height, channels = cut("height", 2), cut("out_channels", 2)
    found = amounts(images().contracted, (2, 2), [(height, height), (height, channels)], "moved")
    row = images().contracted.tensors[0].elements / 16
    forward = {one.level: one.elements / row for one in found if one.phase == "forward"}
    # Each half of the devices lacks a row of the other half; then each device lacks 9 rows less the 4 that it made.
    assert forward == pytest.approx({0: 2.0, 1: 20.0 - 2.0}, rel=0.06)


@crossed(
    {
        "convention": ["moved", "fused"],
        "seed": range(24),
    }
)
def test_transfers_in_a_score_are_those_of_the_cost(seed: int, convention: str) -> None:
    rng = random.Random(seed)
    graph = random_network(rng)
    array = rng.choice([(2,), (2, 2), (4, 2), (2, 2, 2)])
    space = rng.choice(
        ["batch,in_channels,out_channels", "all", "batch*in_channels*out_channels*height*width"]
    )
    question = question_of(graph, array, convention, space=space, idle=True)
    choices = drawn(question, rng)
    machine = load_machine("hmc", {"latency": "7 us"})
    setting = Setting(machine=machine, array=array, element_bytes=4, convention=convention)
    lane = Lane(question.graph, choices, setting)
    found = amounts(question.graph, array, choices, convention)
    names = [layer.name for layer in question.graph.layers]
    for name, moves in zip(names, lane.inner, strict=True):
        _same_bytes(moves, [one for one in found if one.layer == name])
    for tensor, moves in zip(question.graph.tensors, lane.outer, strict=True):
        ends = (names[tensor.producer], names[tensor.consumer])
        _same_bytes(moves, [one for one in found if one.layer == ends])
    total = math.fsum(piece.num_bytes for pieces in (*lane.inner, *lane.outer) for piece in pieces)
    assert total == pytest.approx(cost_of(question, choices), rel=1e-12)
    assert all(one.elements > 0 for one in found)
    step = StepWork.of([lane]).run()
    timed = question_of(graph, array, convention, cost="time", machine=machine)
    assert step.timeline.makespan == pytest.approx(cost_of(timed, choices), rel=1e-9)


def _same_bytes(pieces: tuple[Piece, ...], found: list[Amount]) -> None:
    by_move = sorted((piece.level, piece.phase, piece.num_bytes) for piece in pieces)
    by_amount = sorted((one.level, one.phase, 4 * one.elements) for one in found)
    assert by_move == by_amount


@pytest.mark.parametrize("after", ["batch", "in_channels", "out_channels"])
def test_sums_before_a_global_pool_are_of_the_whole_image(after: str) -> None:
    lines = [
        "{op: input, channels: 4, height: 8, width: 8}",
        "{name: conv, op: conv, out_channels: 4, kernel: 1}",
        "{op: pool, mode: average, window: global}",
        "{op: flatten}",
        "{name: fc, op: linear, out_features: 4}",
    ]
    graph = network(lines).contracted
    size, pooled = 8 * 4 * 8 * 8, 8 * 4
    for convention in ("moved", "fused"):
        height = amounts(graph, (2,), [(cut("height", 2),), (cut(after, 2),)], convention)
        averages = [one.elements for one in height if one.phase == "forward" and one.layer == ("conv", "fc")]
        assert averages == [2 * pooled]
        assert not [one for one in height if one.layer == "conv" and one.tensor == "output"]
        partial = amounts(graph, (2,), [(cut("in_channels", 2),), (cut(after, 2),)], convention)
        straight = convention == "fused" and after != "out_channels"
        sums = [one.elements for one in partial if one.layer == "conv" and one.tensor == "output"]
        assert sums == [size if straight else 2 * size]


@pytest.mark.parametrize(
    "pins", [("fc1@H1=batch1",), ("conv2@H1=batch1", "fc1@H1=batch1"), ("fc2@H2=batch1",)]
)
def test_a_plan_costs_the_bytes_that_its_score_counts_where_devices_are_idle(pins: tuple[str, ...]) -> None:
    plan = plan_model(
        "lenet-c", array=(2, 4), space="all", pins=pins, strategy="hypar", convention="paper", hardware="hmc"
    )
    assert plan.score is not None
    assert plan.score.communication_bytes == pytest.approx(plan.cost.value, rel=1e-12)


@pytest.mark.parametrize("ways", [6, 9, 12])
def test_by_paper_grids_move_whole_bytes_or_nothing(ways: int) -> None:
    """Of shares that are no sums of powers of two no rounding is left where the same is read as is held."""
    graph = load_model("sfc").contracted
    space = parse_space("batch*in_channels*out_channels divisors")
    options = [space.choices(layer, ways, idle=True) for layer in graph.layers]
    (level,) = levels_of((ways,), 4)
    above = outermost(graph, "paper")
    problem = Tables(load_cost("volume", {}), graph, [level], [(own,) for own in options], above).built()
    assert all(((edge.costs == 0) | (edge.costs >= 1)).all() for edge in problem.edges)
