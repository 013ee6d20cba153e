"""The product form of the amounts against elements that are listed one by one, and against known numbers."""

from __future__ import annotations

import itertools
import math
import random
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from hypar import LayerGraph, Plan, load_machine, load_model, plan_model
from hypar.errors import OptionError
from hypar.machine.setting import Setting
from hypar.schedule.moves import Move, moves_of
from hypar.schedule.scoring import totals
from hypar.sharding.amounts import products
from hypar.sharding.amounts.flows import flows_of, fraction_read
from hypar.sharding.amounts.listing import Amount, amounts
from hypar.sharding.placement import ALONE, Choice, cut, grid
from tests.conventions import cost_of, drawn, network, question_of, random_network
from tests.effort import crossed, late

Elements = NDArray[np.bool_]
"""Whether a device has an element, ``[devices, elements]``."""

TYPES = ("batch", "in_channels", "out_channels")
CARRIED = {
    "input": {"batch": "batch", "in_channels": "channels"},
    "output": {"batch": "batch", "out_channels": "channels"},
    "weight": {"in_channels": "in", "out_channels": "channels"},
}
"""The dim of each tensor of a linear layer that a choice divides, by the name that neighbours share."""
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


def three_layers(batch: int, features: int) -> LayerGraph:
    lines = [f"{{op: input, channels: {features}}}"]
    lines += [
        f"{{name: {name}, op: linear, out_features: {features}}}" for name in ("zeroth", "first", "second")
    ]
    return network(lines, batch)


class Array:
    """The devices of an array, and the elements of a tensor of two dims, each of which has a digit for every level."""

    def __init__(self, array: tuple[int, ...]) -> None:
        self.array = array
        self.devices = list(itertools.product(*map(range, array)))
        digits = list(itertools.product(*map(range, array)))
        self.elements = list(itertools.product(digits, digits))

    def has(self, dims: tuple[str | None, ...], names: tuple[str, str]) -> Elements:
        """What each device has if every level divides a dim, or none."""
        return np.array(
            [
                [
                    all(
                        dim is None or element[names.index(dim)][level] == device[level]
                        for level, dim in enumerate(dims)
                    )
                    for element in self.elements
                ]
                for device in self.devices
            ]
        )

    def parts(self, level: int, has: Elements) -> Elements:
        """What the devices of each part at a level have together, ``[parts, elements]``."""
        count = math.prod(self.array[: level + 1])
        return np.asarray(has.reshape(count, -1, has.shape[1]).any(axis=1))

    def copied(self, need: Elements, have: Elements) -> list[float]:
        """The fraction of a tensor that enters the parts of each level from outside."""
        entering = [
            (self.parts(level, need) & ~self.parts(level, have)).sum() / len(self.elements)
            for level in range(len(self.array))
        ]
        return [after - before for before, after in itertools.pairwise([0.0, *entering])]

    def added(self, terms: Elements, need: Elements, owners: Elements) -> list[float]:
        """The fraction of a tensor received if terms go to one of ``owners``, and sums from it to whoever needs them."""
        owner = self.owner(terms, owners)
        to_owner, onward = self.copied(terms, owner), self.copied(need, owner)
        return [one + other for one, other in zip(to_owner, onward, strict=True)]

    def owner(self, terms: Elements, owners: Elements) -> Elements:
        """One device of ``owners`` for each element, beside its terms at every level where there is such a one."""
        found = np.zeros_like(owners)
        for element in range(len(self.elements)):
            able = [device for device in range(len(self.devices)) if owners[device, element]]
            for level in range(len(self.array)):
                with_terms = self.parts(level, terms)[:, element]
                size = math.prod(self.array[level + 1 :])
                able = [device for device in able if with_terms[device // size]] or able
            found[able[0], element] = True
        return found


def dims_of(chosen: tuple[str, ...], tensor: str) -> tuple[str | None, ...]:
    return tuple(CARRIED[tensor].get(dim) for dim in chosen)


def listed(
    array: tuple[int, ...], made: tuple[str, ...], read: tuple[str, ...], convention: str
) -> dict[tuple[str, str], list[float]]:
    """Count the sums of a layer and the tensor to the next, as fractions of each, element by element."""
    here, names = Array(array), ("batch", "channels")
    hold = here.has(dims_of(made, "output"), names)
    need = here.has(dims_of(read, "input"), names)
    straight = [
        convention == "fused" and dim == "in_channels" and other != "out_channels"
        for dim, other in zip(made, read, strict=True)
    ]
    kept = here.has(
        tuple(
            theirs if goes else own
            for goes, own, theirs in zip(
                straight, dims_of(made, "output"), dims_of(read, "input"), strict=True
            )
        ),
        names,
    )
    found = {
        ("first", "sums"): here.added(hold, kept, kept),
        ("F", "forward"): here.copied(need, kept),
        ("E", "backward"): here.copied(kept, here.owner(need, need)),
        ("E", "gathered"): here.copied(hold, kept),
    }
    if convention == "fused":
        found["E", "backward"] = here.added(need, kept, kept)
        found["second", "input"] = [0.0] * len(array)
    else:
        found["E", "backward"] = here.copied(kept, need)
        found["second", "input"] = here.added(need, need, need)
    weight = here.has(dims_of(read, "weight"), ("in", "channels"))
    found["second", "weight"] = here.added(weight, weight, weight)
    return found


def counted(
    array: tuple[int, ...], made: tuple[str, ...], read: tuple[str, ...], convention: str
) -> dict[tuple[str, str], list[float]]:
    """Count the same by products."""
    batch, features = 8, 4
    graph = three_layers(batch, features).contracted
    batches = tuple(cut("batch", ways) for ways in array)
    pair = [tuple(cut(dim, ways) for dim, ways in zip(own, array, strict=True)) for own in (made, read)]
    found: dict[tuple[str, str], list[float]] = {
        key: [0.0] * len(array)
        for key in (
            ("first", "sums"),
            ("F", "forward"),
            ("E", "backward"),
            ("E", "gathered"),
            ("second", "input"),
            ("second", "weight"),
        )
    }
    places: dict[object, tuple[str, str]] = {
        ("first", "forward", "output"): ("first", "sums"),
        (("first", "second"), "forward", "input"): ("F", "forward"),
        (("first", "second"), "backward", "input"): ("E", "backward"),
        (("first", "second"), "backward", "output"): ("E", "gathered"),
        ("second", "backward", "input"): ("second", "input"),
        ("second", "gradient", "weight"): ("second", "weight"),
    }
    for one in amounts(graph, array, [batches, *pair], convention):
        place = places.get((one.layer, one.phase, one.tensor))
        if place is not None:
            size = features * (features if one.tensor == "weight" else batch)
            found[place][one.level] += one.elements / size
    return found


@crossed(
    {
        "array": late([(2,), (4,), (2, 2), (3, 2), (2, 3)], (2, 3)),
        "convention": ["moved", "fused"],
    }
)
def test_every_pair_is_counted_as_its_elements_are(array: tuple[int, ...], convention: str) -> None:
    tuples = list(itertools.product(TYPES, repeat=len(array)))
    for made, read in itertools.product(tuples, tuples):
        by_elements = listed(array, made, read, convention)
        by_products = counted(array, made, read, convention)
        for key, fractions in by_elements.items():
            assert by_products[key] == pytest.approx(fractions, abs=1e-9), (made, read, key)


@pytest.mark.parametrize(("convention", "num_bytes"), [("paper", 7168), ("moved", 7680), ("fused", 6144)])
def test_two_layers_cut_in_input_channels_at_two_levels(convention: str, num_bytes: int) -> None:
    question = question_of(two_layers(), (2, 2), convention, space="in_channels")
    assert cost_of(question, [(cut("in_channels", 2),) * 2] * 2) == num_bytes


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


@pytest.mark.parametrize("convention", ["paper", "direct", "sent"])
def test_only_moved_and_fused_have_products(convention: str) -> None:
    with pytest.raises(OptionError, match=f"found {convention!r}.*moved, fused"):
        amounts(two_layers().contracted, (2,), [(cut("batch", 2),)] * 2, convention)


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


def test_sums_before_pools_are_a_quarter_of_what_mp_moves() -> None:
    layers = {layer.name: layer for layer in graph_of("vgg16").contracted.layers}
    found = moved_elements("vgg16", "mp")
    before = math.fsum(
        one.elements * (1 - layers[one.layer].output_elements / layers[one.layer].einsum.elements("output"))
        for one in found
        if isinstance(one.layer, str) and one.tensor == "output"
    )
    assert round(4 * before / 1e9, 1) == 141.0
    assert round(4 * (math.fsum(one.elements for one in found) - before) / 1e9, 1) == 413.1


def test_windows_that_leave_gaps_read_a_quarter() -> None:
    layers = {layer.name: layer for layer in graph_of("resnet18").contracted.layers}
    assert fraction_read(layers["layer2.0.downsample.0"].einsum) == 0.25
    assert fraction_read(layers["layer2.0.conv1"].einsum) == 1.0


def test_no_error_goes_where_nothing_is_trained() -> None:
    graph = graph_of("googlenet").contracted
    flows = flows_of(graph, "moved")
    assert [sums.input for sums in flows.sums].count(False) == 1
    assert not flows.sums[0].input
    assert all(flow.error for flow in flows.tensors)


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
    inner, outer = moves_of(setting, question.graph, choices)
    found = amounts(question.graph, array, choices, convention)
    names = [layer.name for layer in question.graph.layers]
    for name, moves in zip(names, inner, strict=True):
        _same_bytes(moves, [one for one in found if one.layer == name])
    for tensor, moves in zip(question.graph.tensors, outer, strict=True):
        ends = (names[tensor.producer], names[tensor.consumer])
        _same_bytes(moves, [one for one in found if one.layer == ends])
    total = math.fsum(move.total_bytes for moves in (*inner, *outer) for move in moves)
    assert total == pytest.approx(cost_of(question, choices), rel=1e-12)
    assert all(one.elements > 0 for one in found)
    timed = question_of(graph, array, convention, cost="time", machine=machine)
    assert totals(question.graph, choices, setting).time_s == pytest.approx(cost_of(timed, choices), rel=1e-9)


def _same_bytes(moves: tuple[Move, ...], found: list[Amount]) -> None:
    by_move = sorted((move.level, move.phase, move.total_bytes) for move in moves)
    by_amount = sorted((one.level, one.phase, 4 * one.elements) for one in found)
    assert by_move == by_amount


def test_an_idle_device_neither_needs_nor_holds() -> None:
    graph = two_layers().contracted
    all_batch, alone = (cut("batch", 4),), (ALONE,)
    found = amounts(graph, (4,), [alone, all_batch], "moved")
    moved = {(one.phase, one.tensor): one.elements for one in found}
    size = graph.tensors[0].elements
    assert moved["forward", "input"] == moved["backward", "input"] == size * 3 / 4
    assert ("forward", "output") not in moved


@pytest.mark.parametrize("convention", ["moved", "fused"])
def test_a_grid_over_one_dim_is_the_cut_of_that_dim(convention: str) -> None:
    graph = three_layers(8, 16).contracted
    for dims in itertools.product(TYPES, repeat=3):
        simple = [(cut(dim, 4),) for dim in dims]
        grids: list[tuple[Choice, ...]] = [(grid({dim: 4}),) for dim in dims]
        assert amounts(graph, (4,), simple, convention) == amounts(graph, (4,), grids, convention)


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


def test_costs_are_added_up_alike_some_rows_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal to the bit, as plans are."""
    question = question_of(load_model("lenet-c"), (2, 2), "moved")
    whole = question.cost_graph(0, 2, question.outermost())
    monkeypatch.setattr(products, "BLOCK", 7)
    for edge, other in zip(whole.edges, question.cost_graph(0, 2, question.outermost()).edges, strict=True):
        assert edge.costs.size > 7
        assert edge.costs.tolist() == other.costs.tolist()
