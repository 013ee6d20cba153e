"""Hypothesis generators of the cuts of a network: on arrays, on trees of unequal device groups, and over stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hypothesis import strategies as st

from hypar.sharding.layout import Layout, Places
from hypar.sharding.placement import WHOLE, Choice, grid
from tests.program.arrays import array_layout, array_places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.graph import LayerGraph

ARRAYS = [
    (2,), (3,), (4,), (5,), (6,), (7,), (8,), (12,), (2, 2), (3, 2), (2, 3), (2, 4), (4, 2), (2, 6), (4, 3),
    (2, 2, 2), (2, 2, 3),
]  # fmt: skip
SMALL = [(), (2,), (3,), (4,), (2, 2)]
CUT_DIMS = ("batch", "in_channels", "out_channels", "height", "width", "groups", "channels")


class Machine(NamedTuple):
    """The devices of a case and the cuts of every layer with choices.

    Attributes:
        places: the devices.
        cuts: the cuts of each layer.
        microbatches: number of microbatches.
    """

    places: Places
    cuts: dict[str, Layout]
    microbatches: int


class Node(NamedTuple):
    """A part of a tree of device groups: an array of identical devices, or groups of unequal shares.

    Attributes:
        array: the array, if there are no groups.
        groups: the groups.
    """

    array: tuple[int, ...]
    groups: tuple[Node, ...] = ()


class Entry(NamedTuple):
    """What one level does with one device.

    Attributes:
        part: the device's coordinate.
        bounds: its share of each divided dim.
        working: whether it works.
    """

    part: int
    bounds: dict[str, tuple[float, float]]
    working: bool = True


NOTHING = Entry(0, {})


def array_machine(
    graph: LayerGraph, array: tuple[int, ...], choices: Mapping[str, Sequence[Choice]]
) -> Machine:
    """Return an array of identical devices, and the cuts of each layer by a choice at each level."""
    cuts = {
        layer.name: array_layout(array, tuple(choices[layer.name]))
        for layer in graph.nodes(None).layers
        if layer.name in choices
    }
    return Machine(array_places(array), cuts, 1)


@st.composite
def machines(draw: st.DrawFn, graph: LayerGraph) -> Machine:
    """Draw devices and any cuts of a network; pools have cuts of their own in some."""
    layers = graph.nodes(draw(st.sampled_from([None, None, "operators"]))).layers
    kind = draw(st.sampled_from(["array", "array", "tree", "stages"]))
    dims = {layer.name: _dims(layer.nest.sizes) for layer in layers}
    joins = {layer.name: layer.join for layer in layers}
    if kind == "tree":
        tree = draw(_trees())
        entries = {name: draw(_in_tree(tree, dims[name], join=joins[name])) for name in dims}
        return Machine(*laid(entries), 1)
    array = draw(st.sampled_from(ARRAYS if kind == "array" else SMALL))
    inner = {
        name: array_layout(array, tuple(draw(choices(dims[name], ways, join=joins[name])) for ways in array))
        for name in dims
    }
    if kind == "array":
        return Machine(array_places(array), inner, 1)
    count = draw(st.integers(1, 3))
    stage = sorted(draw(st.lists(st.integers(0, count - 1), min_size=len(dims), max_size=len(dims))))
    places = array_places((count, *array))
    found = {
        name: _staged(places, own, number) for (name, own), number in zip(inner.items(), stage, strict=True)
    }
    return Machine(places, found, draw(st.integers(1, 3)))


def _dims(sizes: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(dim for dim in CUT_DIMS if dim in sizes)


@st.composite
def choices(draw: st.DrawFn, dims: tuple[str, ...], ways: int, *, join: bool) -> Choice:
    """Draw a choice: one dim over all devices, or several dims, which may leave devices idle."""
    if join and not draw(st.integers(0, 3)):
        return WHOLE
    if draw(st.booleans()):
        return grid({draw(st.sampled_from(dims)): ways})
    left, degrees = ways, {}
    for dim in draw(st.permutations(dims)):
        degree = draw(st.sampled_from([number for number in range(1, left + 1) if left % number == 0]))
        if degree > 1:
            degrees[dim] = degree
            left //= degree
    return grid(degrees)


def _staged(places: Places, inner: Layout, stage: int) -> Layout:
    """Return the layout of a layer of a stage, which alone works for it."""
    times = len(np.unique(places.parts[0]))
    levels = ({dim: np.tile(own, (times, 1)) for dim, own in shares.items()} for shares in inner.levels)
    return Layout(places, ({}, *levels), (places.parts[0] == stage) & np.tile(inner.working, times))


def _trees() -> st.SearchStrategy[Node]:
    leaves = st.sampled_from(SMALL).map(Node)
    below = st.lists(leaves, min_size=2, max_size=3).map(lambda groups: Node((), tuple(groups)))
    return (
        st.lists(leaves | below, min_size=2, max_size=3)
        .map(lambda groups: Node((), tuple(groups)))
        .filter(lambda tree: size_of(tree) <= 12)
    )


def size_of(node: Node) -> int:
    """Return the number of devices."""
    return (
        sum(size_of(group) for group in node.groups) if node.groups else int(np.prod(node.array, dtype=int))
    )


@st.composite
def _in_tree(draw: st.DrawFn, node: Node, dims: tuple[str, ...], *, join: bool) -> list[list[Entry]]:
    """Draw what every level does with every device for one layer."""
    if not node.groups:
        chosen = tuple(draw(choices(dims, ways, join=join)) for ways in node.array)
        return entries_of(array_layout(node.array, chosen))
    dim = None if join and not draw(st.integers(0, 3)) else draw(st.sampled_from(dims))
    weights = draw(
        st.lists(st.integers(0, 5), min_size=len(node.groups), max_size=len(node.groups)).filter(any)
    )
    ends = np.cumsum([0, *weights]) / sum(weights)
    found = []
    for number, group in enumerate(node.groups):
        share = {} if dim is None else {dim: (float(ends[number]), float(ends[number + 1]))}
        own = Entry(number, share, dim is None or weights[number] > 0)
        found += [[own, *below] for below in draw(_in_tree(group, dims, join=join))]
    return found


def entries_of(cuts: Layout) -> list[list[Entry]]:
    """Return what every level of an array does with every device for one layer."""
    return [
        [
            Entry(
                int(cuts.places.parts[level][device]),
                {dim: (float(own[device, 0]), float(own[device, 1])) for dim, own in shares.items()},
                bool(cuts.working[device]),
            )
            for level, shares in enumerate(cuts.levels)
        ]
        for device in range(cuts.places.devices)
    ]


def laid(every: Mapping[str, list[list[Entry]]]) -> tuple[Places, dict[str, Layout]]:
    """Return the devices of a tree, and the layout of each layer on them."""
    places = _places(next(iter(every.values())))
    return places, {name: _layout(places, own) for name, own in every.items()}


def _places(entries: list[list[Entry]]) -> Places:
    """Return the devices of a tree, of which some have fewer levels than others."""
    depth = max(len(own) for own in entries)
    paths = [[entry.part for entry in (*own, *[NOTHING] * (depth - len(own)))] for own in entries]
    parts = []
    for level in range(depth):
        prefixes = [tuple(path[: level + 1]) for path in paths]
        numbers = {prefix: number for number, prefix in enumerate(dict.fromkeys(prefixes))}
        parts.append(np.array([numbers[prefix] for prefix in prefixes], np.int64))
    return Places(tuple(parts))


def _layout(places: Places, entries: list[list[Entry]]) -> Layout:
    levels = []
    for level in range(len(places.parts)):
        own = [row[level] if level < len(row) else NOTHING for row in entries]
        dims = sorted({dim for entry in own for dim in entry.bounds})
        levels.append({dim: np.array([entry.bounds.get(dim, (0.0, 1.0)) for entry in own]) for dim in dims})
    return Layout(places, tuple(levels), np.array([all(entry.working for entry in row) for row in entries]))
