"""Charged times of collectives, between what no schedule can be below and what an explicit one achieves."""

import itertools
import json
import math
import random
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from hypar import load_machine
from hypar.errors import HardwareError
from hypar.machine import links
from hypar.machine.links import level_links
from hypar.machine.load import machine_of
from hypar.sharding.conventions import COLLECTIVES
from tests.effort import late
from tests.heterogeneous import kind
from tests.machine import simulator
from tests.machine.bounds import bound
from tests.machine.simulator import Array, Message, Rounds, computed

PAGE = Path(__file__).parents[2] / "docs" / "collectives.md"
GROUPS = 200
SLACK = 1 + 1e-9
CUBE = [[one, one ^ bit] for one in range(8) for bit in (1, 2, 4) if one < one ^ bit]
ONE: dict[str, dict[str, Any]] = {
    "h_tree": {"topology": "h_tree", "devices": 16},
    "h_tree in_tree": {"topology": {"name": "h_tree", "reduction": "in_tree"}, "devices": 16},
    "torus": {"topology": "torus", "devices": 16},
    "torus 3x6": {"topology": {"name": "torus", "routing": "dimension_ordered"}, "devices": 18},
    "ring": {"topology": "ring", "devices": 12},
    "ring half": {"topology": "ring", "devices": 8, "duplex": "half"},
    "switch": {"topology": "switch", "devices": 12},
    "fully_connected": {"topology": "fully_connected", "devices": 8},
    "graph": {"topology": {"name": "graph", "pairs": CUBE}, "devices": 8},
    "mesh": {"topology": "mesh", "devices": 16},
    "mesh 3x3": {"topology": "mesh", "devices": 9},
}
"""Machines of one network, as changes of hmc."""

TWO: dict[str, dict[str, Any]] = {
    "two tiers": {},
    "two tiers, one port": {"ports": 1},
    "two tiers, mesh": {"topology": "mesh"},
}
"""Machines of two networks: four groups of four."""

NAMES = [*ONE, *TWO]
RELATED = ("h_tree in_tree", "torus 3x6", "two tiers, one port", "two tiers, mesh")
"""Machines of the kind of another, whose random levels the slow run tries."""


@cache
def machine(name: str) -> Any:
    if name in ONE:
        changes = {"latency": "1 us", "bandwidth": "link", "collectives": "all", **ONE[name]}
        return load_machine("hmc", changes)
    return two_tiers(TWO[name])


def two_tiers(fields: dict[str, Any]) -> Any:
    """Four groups of four on a switch, with a ring inside, or meshes of both."""
    topology = fields.get("topology")
    outer = kind(topology=topology or "switch", link="1 GB/s", latency="2 us")
    inner = kind(topology=topology or "ring", link="3 GB/s", latency="0.5 us")
    outer["interconnect"] |= (
        {"ports": {"value": fields["ports"], "source": "drawn"}} if "ports" in fields else {}
    )
    both = {**outer, "interconnect": [outer["interconnect"], inner["interconnect"]]}
    return machine_of(Path("two.yaml"), json.dumps(both))


def splits(count: int) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [(count,)] if count > 1 else []
    for ways in range(2, count):
        if count % ways == 0:
            found += [(ways, *rest) for rest in splits(count // ways)]
    return found


@cache
def level(name: str, array: tuple[int, ...], at: int) -> Array:
    return Array(machine(name), array, at)


@cache
def links_of(name: str, array: tuple[int, ...], fewer: float) -> Any:
    """The links of an array: 0 lists the messages of all exchanges, and infinity counts them, in several tables."""
    own = machine(name)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(links, "FEWER", fewer)
        patched.setattr(links, "MOST_CELLS", 3 * own.num_devices)
        return level_links.__wrapped__(name, own.tiers, array)


@cache
def schedules(name: str, array: tuple[int, ...], at: int, collective: str) -> list[tuple[float, float, str]]:
    own = level(name, array, at)
    ways, found = own.ways, []
    made = {
        "all_reduce": simulator.all_reduces,
        "reduce_scatter": simulator.scatters,
        "all_gather": simulator.all_gathers,
    }.get(collective)
    if made is None:
        targets = {
            "all_to_all": list(itertools.permutations(range(ways), 2)),
            "neighbours": [(one, (one + 1) % ways) for one in range(ways)],
        }[collective]
        rounds: Rounds = [[Message(one, other, frozenset({(0, other)}), add=False) for one, other in targets]]
        late, seconds = own.achieved(rounds, 1 / (len(targets) // ways) / own.inner)
        return [(late, seconds, "direct")]
    for algorithm, parts, rounds in made(own):
        check(collective, ways, parts, rounds)
        # A subgroup receives k - 1 of the k shards of the data, twice for an all-reduce.
        shard = 1 / ((ways - 1) * (2 if collective == "all_reduce" else 1) * own.inner)
        late, seconds = own.achieved(rounds, shard / parts)
        found.append((late, seconds, algorithm))
    if collective == "all_reduce" and "in_tree" in name:
        late, seconds = own.in_tree(ways / (2 * (ways - 1)) / own.inner)
        found.append((late, seconds, "in_tree"))
    return found


def check(collective: str, ways: int, parts: int, rounds: Rounds) -> None:
    everyone = frozenset(range(ways))
    state = computed(ways, parts, rounds, gathers=collective == "all_gather")
    for own, chunks in enumerate(state):
        for (_, owner), terms in chunks.items():
            if collective != "reduce_scatter" or owner == own:
                assert terms == everyone


def drawn(name: str) -> list[tuple[tuple[int, ...], int, str, float]]:
    """Random groups, collectives and bytes from 1 B to 1 GB."""
    draw = random.Random(name)
    arrays = splits(machine(name).num_devices)
    if name in TWO:
        arrays = [
            array for array in arrays if any(math.prod(array[:at]) == 4 for at in range(len(array)))
        ] + [(16,)]
    found = []
    for _ in range(GROUPS):
        array = draw.choice(arrays)
        at = draw.randrange(len(array))
        found.append((array, at, draw.choice(COLLECTIVES), 10 ** draw.uniform(0, 9)))
    return found


@pytest.mark.parametrize("name", late(NAMES, "h_tree", *RELATED))
def test_every_charged_time_is_between_the_bound_and_an_explicit_schedule(
    name: str, request: pytest.FixtureRequest
) -> None:
    """It is the time of the best schedule, which is run; the page has its ratios to the bound."""
    ratios: dict[str, list[float]] = {collective: [] for collective in COLLECTIVES}
    for number, (array, at, collective, received) in enumerate(drawn(name)):
        link, hops = (
            links_of(name, array, math.inf if number % 2 else 0)[at],
            level(name, array, at).every_hops,
        )
        assert (link.hops, link.mean_hops) == (max(hops), pytest.approx(fmean(hops)))
        charged = link.seconds(collective, received)
        achieved = min(
            late + seconds * received for late, seconds, _ in schedules(name, array, at, collective)
        )
        least = bound(level(name, array, at), collective, received, in_tree="in_tree" in name)
        where = (array, at, collective, received, link.line(collective, received))
        assert least <= charged * SLACK, where
        assert charged == pytest.approx(achieved, rel=1e-9), where
        ratios[collective].append(charged / least)
    row = " | ".join(f"{min(own):.2f} to {max(own):.2f}" for own in ratios.values())
    compare_row(f"| {name} | {row} |", update=request.config.getoption("--update-golden", default=False))


def test_messages_of_a_graph_are_listed_and_may_be_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MOST_MESSAGES", 30)
    tiers = machine("graph").tiers
    with pytest.raises(HardwareError) as raised:
        level_links.__wrapped__("cube", tiers, (8,))
    said = "found 56 messages of a level of 8 ways on a network 'graph'; allowed: 30, so levels of fewer ways"
    assert str(raised.value) == f"hardware 'cube': {said}"


@pytest.mark.parametrize("edge", [64, 128])
def test_an_exchange_of_many_ways_is_that_of_the_bisection(edge: int) -> None:
    """A torus of 64 x 64, or 128 x 128: half of all bytes cross the middle, and the one at the ends, on as many links each way."""
    ways = edge**2
    changes = {
        "topology": "torus",
        "devices": ways,
        "bandwidth": "link",
        "latency": "1 us",
        "collectives": ["direct"],
    }
    own = load_machine("hmc", changes)
    (tier,), (link,) = own.tiers, own.links((ways,))
    (line,) = link.lines["all_to_all"]
    assert line.seconds_per_byte * tier.bytes_per_s * (ways - 1) == pytest.approx(
        (ways // 2) ** 2 / (2 * edge)
    )
    assert link.hops == edge
    assert line.latency_s == pytest.approx(edge * 1e-6)
    # The mean of 0, 1, .. a half, .. 1 links along each edge, a device itself left out.
    assert link.mean_hops == pytest.approx(2 * edge / 4 * ways / (ways - 1))


def compare_row(row: str, *, update: bool) -> None:
    """Compare a row of the page's table, or write it."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = row[: row.index("|", 1) + 1]
    if update:
        known = [number for number, line in enumerate(lines) if line.startswith(start)]
        lines[known[0] if known else len(lines) :] = [row, *(lines[known[0] + 1 :] if known else [])]
        PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert row in lines, "outdated: pytest --update-golden rewrites it"


# The cases that one bandwidth for all bytes got wrong


def test_seconds_of_an_array_are_those_of_its_numbers() -> None:
    (link,) = load_machine("tpu-v3").links((256,))
    sizes = np.logspace(0, 10, 50)
    for collective in COLLECTIVES:
        each = [link.seconds(collective, size) for size in sizes.tolist()]
        assert link.seconds(collective, sizes).tolist() == each
        # More bytes take longer, and twice the bytes at most twice as long.
        assert each == sorted(each)
        assert (link.seconds(collective, 2 * sizes) <= 2 * link.seconds(collective, sizes)).all()


def test_only_algorithms_that_a_file_names_are_used() -> None:
    for name in ("direct", "ring", "two_rings", "hamiltonian", "dimensions", "tree", "halving"):
        (link,) = load_machine("tpu-v3", {"collectives": [name], "devices": 16}).links((16,))
        used = {line.algorithm for kind in ("all_reduce", "all_gather") for line in link.lines[kind]}
        allowed = {"halving": ("halving", "doubling"), "tree": ("tree", "direct")}.get(name, (name,))
        # Only direct exchange gathers where a tree is all that there is.
        assert all(algorithm.startswith(allowed) for algorithm in used), used


# A plan of least time
