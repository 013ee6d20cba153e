"""The product form of the amounts by hand, and against the transfers of a score."""

import math
import random
from typing import Any

import pytest

from hypar import load_machine, load_model
from hypar.costs.base import load_cost
from hypar.costs.graphs.tables import Tables
from hypar.machine.setting import Setting
from hypar.schedule.lanes import Lane, Piece
from hypar.schedule.stages import StepWork
from hypar.sharding.amounts.counted import outermost
from hypar.sharding.placement import cut, levels_of
from hypar.sharding.space import parse_space
from tests.amounts import Amount, amounts
from tests.conventions import cost_of, drawn, network, question_of, random_network
from tests.effort import crossed

MACHINES: list[tuple[str, dict[str, Any]]] = [
    ("hmc", {"latency": "7 us"}),
    # Their levels have several algorithms worth using: the time of a transfer is the least of several lines.
    *(("tpu-v3", {"devices": 64, "latency": latency, "overlap": "none"}) for latency in ("1 us", "100 us")),
]


@crossed({"convention": ["moved", "fused"], "seed": range(24)})
def test_transfers_in_a_score_are_those_of_the_cost(seed: int, convention: str) -> None:
    rng = random.Random(seed)
    graph = random_network(rng)
    array = rng.choice([(2,), (2, 2), (4, 2), (2, 2, 2)])
    space = rng.choice(
        ["batch,in_channels,out_channels", "all", "batch*in_channels*out_channels*height*width"]
    )
    question = question_of(graph, array, convention, space=space, idle=True)
    choices = drawn(question, rng)
    machine = load_machine(*rng.choice(MACHINES))
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
