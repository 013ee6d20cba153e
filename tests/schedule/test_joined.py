"""Gradients over several levels of one network as one collective, where a machine allows that."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from hypar import load_machine, load_model, plan_model, score_plan
from hypar.machine.setting import Setting
from hypar.planning.replay import run_plan
from hypar.schedule.joined import bytes_part
from hypar.schedule.lanes import Lane
from hypar.schedule.moves import PHASE, moves_of
from hypar.schedule.step import lower_lanes
from hypar.sharding.conventions import MOVED
from hypar.sharding.placement import Options, cut

if TYPE_CHECKING:
    from hypar.schedule.timeline import Task

TORUS = {"topology": "torus"}
ALL = {**TORUS, "collectives": "all"}
FOUR = (2, 2, 2, 2)


def gradients(changes: dict[str, Any], array: tuple[int, ...], strategy: str = "dp") -> float:
    """Seconds of AlexNet's exchanges of gradients on hmc."""
    machine, graph = load_machine("hmc", changes), load_model("alexnet")
    plan = plan_model(graph, array=array, strategy=strategy, hardware=machine)
    ran = run_plan(plan, hardware=machine, model=graph)
    own: list[Task] = [
        task
        for task, move in zip(ran.step.tasks, ran.step.moves, strict=True)
        if move is not None and move.phase == PHASE
    ]
    return math.fsum(task.seconds for task in own)


def moved(
    changes: dict[str, Any], array: tuple[int, ...], dims: tuple[str, ...], hardware: str = "hmc"
) -> Any:
    """The gradient's transfers of a layer that is cut alike in the whole of VGG-11, innermost level first."""
    machine, graph = load_machine(hardware, changes), load_model("vgg11").contracted
    setting = Setting(machine=machine, array=array, element_bytes=4, convention=MOVED)
    chosen: Options = tuple(cut(dim, ways) for dim, ways in zip(dims, array, strict=True))
    inner, _ = moves_of(setting, graph, [chosen] * len(graph.layers))
    return inner[-1].phases[PHASE]


def test_sixteen_cubes_exchange_as_fast_in_four_levels_as_in_one() -> None:
    """Within rounding the bound of four links: 15/16 of the weights, twice, over 4 x 200 MB/s."""
    one = gradients(ALL, (16,))
    weights = 4 * sum(layer.nest.elements("weight") for layer in load_model("alexnet").contracted.layers)
    assert one == pytest.approx(2 * 15 / 16 * weights / (4 * 100e6), rel=1e-3)
    for array in (FOUR, (4, 4), (2, 8), (8, 2)):
        assert gradients(ALL, array) == pytest.approx(one)
    assert gradients(TORUS, FOUR) == pytest.approx(4 * one, rel=1e-3)


def test_the_bytes_of_each_level_stay() -> None:
    graph = load_model("alexnet")
    machines = [load_machine("hmc", changes) for changes in (TORUS, ALL)]
    plan = plan_model(graph, levels=4, strategy="dp")
    apart, together = (score_plan(plan, hardware=machine, model=graph) for machine in machines)
    assert together.communication == apart.communication
    assert together.energy == apart.energy
    assert together.time_s < apart.time_s
    each = [apart.communication[f"H{level}"] / apart.communication_bytes for level in range(1, 5)]
    assert each == pytest.approx([bytes_part(FOUR, level) for level in range(4)])


def test_only_adjacent_levels_that_add_up_everywhere_join() -> None:
    def joined(*dims: str) -> list[Any]:
        return [(move.level, move.joined) for move in moved(ALL, FOUR, dims)]

    batch, other = "batch", "in_channels"
    assert joined(*[batch] * 4) == [(level, (0, 3)) for level in (3, 2, 1, 0)]
    assert joined(batch, other, batch, batch) == [(3, (2, 3)), (2, (2, 3)), (0, None)]
    assert joined(batch, other, batch, other) == [(2, None), (0, None)]
    assert joined(other, batch, batch, other) == [(2, (1, 2)), (1, (1, 2))]


def test_levels_of_two_networks_do_not_join() -> None:
    every = {"interconnect.0.collectives": "all", "interconnect.1.collectives": "all"}
    found = moved(every, FOUR, ("batch",) * 4, "p100-4x4")
    assert {move.level: move.joined for move in found}.keys() == {0, 1, 2, 3}
    assert all(move.joined in {None, (0, 1), (2, 3)} for move in found)


@pytest.mark.parametrize("latency", ["0 us", "1 us", "10 ms"])
@pytest.mark.parametrize("topology", ["torus", "ring", "h_tree", "switch", "mesh", "fully_connected"])
def test_the_least_of_both_is_charged(topology: str, latency: str) -> None:
    changes = {"topology": topology, "latency": latency, "bandwidth": "link", "collectives": "all"}
    machine = load_machine("hmc", changes)
    found, links = moved(changes, FOUR, ("batch",) * 4), machine.links(FOUR)
    apart = math.fsum(links[move.level].seconds("all_reduce", move.subgroup_bytes) for move in found)
    link = machine.joined(FOUR, 0, 3)
    assert link is not None
    together = link.seconds("all_reduce", sum(move.total_bytes for move in found) / 16)
    assert math.fsum(move.seconds for move in found) == pytest.approx(min(apart, together))


def test_a_chunk_is_one_collective_of_all_its_bytes() -> None:
    machine, graph = load_machine("hmc", {**ALL, "latency": "1 ms"}), load_model("vgg11").contracted
    setting = Setting(machine=machine, array=FOUR, element_bytes=4, convention=MOVED)
    lane = Lane(graph, [(cut("batch", 2),) * 4] * len(graph.layers), setting)
    moves = [move for inner in lane.inner for move in inner.phases[PHASE]]
    merged, link = lane.together(range(len(graph.layers))), machine.joined(FOUR, 0, 3)
    assert link is not None
    received = math.fsum(move.total_bytes for move in moves) / 16
    assert math.fsum(move.seconds for move in merged) == pytest.approx(link.seconds("all_reduce", received))
    assert [move.level for move in merged] == [3, 2, 1, 0]


def test_the_latency_of_one_collective_stalls_devices_once() -> None:
    changes = {**ALL, "latency": "1 ms", "exchange": "independent"}
    machine, graph = load_machine("hmc", changes), load_model("vgg11").contracted
    setting = Setting(machine=machine, array=FOUR, element_bytes=4, convention=MOVED)
    lane = Lane(graph, [(cut("batch", 2),) * 4] * len(graph.layers), setting)
    chunk = tuple(reversed(range(len(graph.layers))))
    moves, link = lane.together(chunk), machine.joined(FOUR, 0, 3)
    assert link is not None
    line = link.line("all_reduce", math.fsum(move.total_bytes for move in moves) / 16)
    assert line.latency_s > 0
    assert math.fsum(lane.latencies(moves)) == pytest.approx(line.latency_s)
    stalled = [
        task.seconds for task in lower_lanes([lane], chunks=(chunk,)).tasks if "synchronisation" in task.name
    ]
    assert stalled == [pytest.approx(line.latency_s)]
