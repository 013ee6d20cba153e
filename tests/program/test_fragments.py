"""Fragments on a grid, which keeps an axis for each level, against those of the same devices one by one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hypar.network.graph import load_model
from hypar.program.fragments import following
from hypar.program.holding import grid_of, grids
from hypar.sharding.layout import Layout, places_of
from hypar.sharding.placement import cut
from tests.effort import examples
from tests.program.machines import ARRAYS, choices
from tests.program.networks import networks

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.program.fragments import Fragment
    from hypar.sharding.layout import Grid
    from hypar.sharding.placement import Options

DIMS = ("batch", "in_channels", "out_channels", "height", "width", "groups", "channels")


@st.composite
def cases(draw: st.DrawFn) -> tuple[LayerGraph, list[Grid], str]:
    """A network, the layout of each of its nodes on an array, and a convention."""
    graph, array = draw(networks()), draw(st.sampled_from(ARRAYS))
    chosen: list[Options] = []
    for node in graph.contracted.layers:
        dims = tuple(dim for dim in DIMS if dim in node.nest.sizes)
        chosen.append(tuple([draw(choices(dims, ways, join=node.join)) for ways in array]))
    try:
        found = grids(chosen, (), array)
    except ValueError:
        assume(False)
    return graph, found, draw(st.sampled_from(["moved", "fused", "direct"]))


def one_by_one(grid: Grid) -> Layout:
    """The layout of the same devices on one axis."""
    places = places_of(grid.ways)
    levels = zip(grid.levels, places.parts, strict=True)
    each = tuple({dim: own[part] for dim, own in level.items()} for level, part in levels)
    return Layout(places, each, np.broadcast_to(grid.working, grid.ways).reshape(-1))


def facts(own: Fragment, ways: tuple[int, ...]) -> list[object]:
    """What each device has of the tensors of a layer, and what its transfers do."""
    holdings = [own.output, own.left[0], *own.needs, *(each.need for each in own.transfers)]
    tables = [dim for holding in holdings for dim in holding.members]
    tables += [each.inside[..., None] for each in own.transfers]
    each = [np.broadcast_to(table, (*ways, table.shape[-1])).reshape(-1).tolist() for table in tables]
    return [each, [(transfer.kind, transfer.terms) for transfer in own.transfers]]


@settings(max_examples=examples(1000, 40))
@given(cases())
def test_a_grid_has_what_its_devices_have(case: tuple[LayerGraph, list[Grid], str]) -> None:
    graph, layouts, convention = case
    nodes = graph.contracted.layers
    ways, ops, names = (
        layouts[0].ways,
        [*{op.name: op for node in nodes for op in node.ops}.values()],
        [node.name for node in nodes],
    )
    whole = grid_of(tuple(((own, "copies"),) for own in ways), ())
    found = following(ops, dict(zip(names, layouts, strict=True)), whole, convention)
    each = dict(zip(names, map(one_by_one, layouts), strict=True))
    expected = following(ops, each, one_by_one(whole), convention)
    devices = (math.prod(ways),)
    assert [name for name in found if facts(found[name], ways) != facts(expected[name], devices)] == []


def test_what_devices_have_is_not_moved() -> None:
    """Behind halves of the batch all layers read, and send back, what their devices have."""
    nodes = load_model("lenet-c").contracted.layers
    layouts = grids([(cut("batch", 2),)] * len(nodes), (), (2,))
    ops = [*{op.name: op for node in nodes for op in node.ops}.values()]
    chosen = dict(zip([node.name for node in nodes], layouts, strict=True))
    found = following(ops, chosen, grid_of((((2, "copies"),),), ()), "moved")
    assert [name for name, own in found.items() if own.transfers] == []
