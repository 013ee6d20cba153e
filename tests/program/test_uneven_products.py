"""What the groups of an uneven split receive by ``moved`` and ``fused``, against the program's count, level by level."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.execution.exchange import moved
from hypar.planning.uneven.tree import graph_of_group
from hypar.program.lowering import lower
from hypar.sharding.amounts.above import outermost
from hypar.sharding.layout import Layout, Places
from hypar.sharding.placement import WHOLE, Choice, cut, dim_of
from tests.amounts import amounts
from tests.effort import examples
from tests.program.arrays import array_layout
from tests.program.networks import network
from tests.program.test_products import ROWS, SIZE, chains, convolutions, joined

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.sharding.amounts.above import State

Shares = tuple[float, ...]
Taken = dict[str, tuple[Choice, Shares]]
"""The choice and the shares of every layer."""

UNITS = 16


@dataclass(frozen=True)
class Leaf:
    """Identical devices with a choice of every layer at each level."""

    array: tuple[int, ...]
    choices: Mapping[str, tuple[Choice, ...]]


@dataclass(frozen=True)
class Fork:
    """An uneven split, with what is below it in each group."""

    taken: Taken
    below: tuple[Node, ...]


Node = Leaf | Fork


# By products.


def counted(graph: LayerGraph, node: Node, convention: str) -> Counter[tuple[int, str]]:
    """Elements that all devices receive at each level in each phase."""
    found: Counter[tuple[int, str]] = Counter()
    _count(found, graph.contracted, node, outermost(graph.contracted, convention, tied=False), convention, 0)
    return _rounded(found)


def _count(found, graph, node: Node, entered: State, convention: str, depth: int) -> None:  # type: ignore[no-untyped-def]
    names = [layer.name for layer in graph.layers]
    if isinstance(node, Leaf):
        choices = [node.choices[name] for name in names]
        for one in amounts(graph, node.array, choices, convention, entered):
            found[depth + one.level, one.phase] += one.elements
        return
    taken = [node.taken[name] for name in names]
    inside, between, states = entered.crossing(graph, taken)
    for of_one in (*inside, *between):
        for amount in of_one:
            assert min(amount.elements) >= 0
            found[depth, amount.phase] += sum(amount.elements)
    for group, (below, state) in enumerate(zip(node.below, states, strict=True)):
        own = [node.taken[name][1][group] for name in names]
        left = graph_of_group(graph, [choice for choice, _ in taken], own, integral=True)
        _count(found, left, below, state, convention, depth + 1)


# By the program.


def program(graph: LayerGraph, node: Node, convention: str) -> Counter[tuple[int, str]]:
    names = [layer.name for layer in graph.contracted.layers]
    rows = {name: _rows(node, name) for name in names}
    depth = max(len(path) for path in rows[names[0]])
    paths = [tuple(level[0] for level in path) + (0,) * (depth - len(path)) for path in rows[names[0]]]
    parts = [np.unique([path[: level + 1] for path in paths], axis=0, return_inverse=True)[1].reshape(-1) for level in range(depth)]  # fmt: skip
    places = Places(tuple(part.astype(np.int64) for part in parts))
    cuts = {name: _layout(places, rows[name]) for name in names}
    lowered = lower(graph, places, cuts, convention)
    found: Counter[tuple[int, str]] = Counter()
    for step in lowered.transfers.values():
        if step.item.layer in cuts and step.item.tensor in ("input", "output", "weight"):
            for level, elements in enumerate(moved(places, step.transfer).tolist()):
                found[level, step.item.phase] += elements
    return _rounded(found)


Entry = tuple[int, dict[str, tuple[float, float]], bool]


def _rows(node: Node, name: str) -> list[list[Entry]]:
    """For each device its part, its bounds and whether it works at every level."""
    if isinstance(node, Leaf):
        own = array_layout(node.array, node.choices[name])
        return [
            [
                (
                    int(own.places.parts[level][device]),
                    {dim: (float(ends[device, 0]), float(ends[device, 1])) for dim, ends in shares.items()},
                    bool(own.working[device]),
                )
                for level, shares in enumerate(own.levels)
            ]
            for device in range(own.places.devices)
        ]
    choice, shares = node.taken[name]
    ends = np.cumsum([0.0, *shares])
    dim, found = dim_of(choice), []
    for group, below in enumerate(node.below):
        bounds = {} if dim is None else {dim: (float(ends[group]), float(ends[group + 1]))}
        here: Entry = (group, bounds, dim is None or shares[group] > 0)
        found += [[here, *rest] for rest in _rows(below, name)]
    return found


def _layout(places: Places, rows: Sequence[Sequence[Entry]]) -> Layout:
    nothing: Entry = (0, {}, True)
    levels = []
    for level in range(len(places.parts)):
        own = [bounds for _, bounds, _ in (row[level] if level < len(row) else nothing for row in rows)]
        dims = sorted({dim for bounds in own for dim in bounds})
        levels.append({dim: np.array([bounds.get(dim, (0.0, 1.0)) for bounds in own]) for dim in dims})
    return Layout(places, tuple(levels), np.array([all(works for *_, works in row) for row in rows]))


def _rounded(found: Counter[tuple[int, str]]) -> Counter[tuple[int, str]]:
    return Counter({key: round(elements) for key, elements in found.items() if round(elements)})


# Random cases.


def dims_of(graph: LayerGraph, rows: set[str]) -> dict[str, list[str]]:
    return {
        layer.name: [
            dim for dim in layer.nest.sizes if not dim.startswith("kernel") and dim not in ROWS - rows
        ]
        for layer in graph.contracted.layers
    }


@st.composite
def shares(draw: st.DrawFn, groups: int, least: int = 1) -> Shares:
    cuts = draw(st.lists(st.integers(least, UNITS // groups), min_size=groups - 1, max_size=groups - 1))
    found = [count / UNITS for count in (*cuts, UNITS - sum(cuts))]
    return tuple(draw(st.permutations(found)))


@st.composite
def taken(draw: st.DrawFn, graph: LayerGraph, groups: int, rows: set[str], least: int = 1) -> Taken:
    """Choices of one dim for every layer, mostly with common shares; joins may be done whole."""
    common, found = draw(shares(groups)), {}
    joins = {layer.name for layer in graph.contracted.layers if layer.join}
    for name, dims in dims_of(graph, rows).items():
        options = [cut(dim, groups) for dim in dims] + [WHOLE] * (name in joins)
        choice = draw(st.sampled_from(options))
        own = draw(st.sampled_from([common, common, draw(shares(groups, least))]))
        found[name] = (choice, common if choice == WHOLE else own)
    return found


def divides(graph: LayerGraph, own: Taken) -> bool:
    """Return whether all shares are of whole elements, of what is read as well."""
    for layer in graph.contracted.layers:
        choice, given_shares = own[layer.name]
        dim = dim_of(choice)
        sizes = [] if dim is None else [layer.nest.sizes[dim], layer.nest.input_sizes.get(dim or "", SIZE)]
        sizes += [dict(one.shape).get(dim or "", SIZE) for one in graph.contracted.tensors]
        if any(share * size % 1 for share in given_shares for size in sizes):
            return False
    return True


def alone(graph: LayerGraph) -> Leaf:
    return Leaf((), {layer.name: () for layer in graph.contracted.layers})


def agree(graph: LayerGraph, node: Node, convention: str) -> None:
    assert counted(graph, node, convention) == program(graph, node, convention)


@pytest.mark.parametrize("convention", ["moved", "fused"])
@given(graph=chains(), data=st.data(), groups=st.integers(2, 3))
@settings(max_examples=examples(60), deadline=None)
def test_linear_layers_on_single_devices(
    convention: str, graph: LayerGraph, data: st.DataObject, groups: int
) -> None:
    """Some layers are on fewer groups."""
    node = Fork(data.draw(taken(graph, groups, set(), least=0)), (alone(graph),) * groups)
    agree(graph, node, convention)


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("convention", ["moved", "fused"])
@given(data=st.data(), groups=st.integers(2, 3))
@settings(max_examples=examples(60), deadline=None)
def test_images_on_single_devices(convention: str, kernel: int, data: st.DataObject, groups: int) -> None:
    graph = data.draw(convolutions(kernel))
    own = data.draw(taken(graph, groups, ROWS).filter(lambda own: divides(graph, own)))
    agree(graph, Fork(own, (alone(graph),) * groups), convention)


@pytest.mark.parametrize("convention", ["moved", "fused"])
@given(graph=joined(), data=st.data(), groups=st.integers(2, 3))
@settings(max_examples=examples(100), deadline=None)
def test_joins_on_single_devices(
    convention: str, graph: LayerGraph, data: st.DataObject, groups: int
) -> None:
    """All layers have the same shares, as pieces of several inputs cannot lie where each of them is."""
    node = data.draw(taken(graph, groups, set()))
    common = next(iter(node.values()))[1]
    agree(
        graph,
        Fork({name: (own, common) for name, (own, _) in node.items()}, (alone(graph),) * groups),
        convention,
    )


# Levels and splits below. All groups divide a layer alike inside, as one program sums it at the same places everywhere, and
# all layers have the same shares, as shards of an inner level only then lie where those of another layer do.


@st.composite
def alike(draw: st.DrawFn, graph: LayerGraph, groups: int) -> Taken:
    """Choices of one dim for every layer, with common shares of whole elements at every level."""
    weights = [2, 1, 1] if groups == 3 else draw(st.sampled_from([[1, 3], [2, 2]]))
    common = tuple(weight / 4 for weight in draw(st.permutations(weights)))
    return {name: (choice, common) for name, (choice, _) in draw(taken(graph, groups, set())).items()}


@st.composite
def below(draw: st.DrawFn, graph: LayerGraph, array: tuple[int, ...]) -> Leaf:
    joins = {layer.name for layer in graph.contracted.layers if layer.join}
    options = dims_of(graph, set())
    return Leaf(
        array,
        {
            name: tuple(
                draw(st.sampled_from([cut(dim, ways) for dim in dims] + [WHOLE] * (name in joins)))
                for ways in array
            )
            for name, dims in options.items()
        },
    )


@pytest.mark.parametrize("array", [(2,), (2, 2), (4,)], ids=str)
@pytest.mark.parametrize("convention", ["moved", "fused"])
@given(graph=chains(), data=st.data(), groups=st.integers(2, 3))
@settings(max_examples=examples(40), deadline=None)
def test_linear_layers_on_groups_of_identical_devices(
    convention: str, array: tuple[int, ...], graph: LayerGraph, data: st.DataObject, groups: int
) -> None:
    node = Fork(data.draw(alike(graph, groups)), (data.draw(below(graph, array)),) * groups)
    agree(graph, node, convention)


@pytest.mark.parametrize("convention", ["moved", "fused"])
@given(graph=chains(), data=st.data(), outer=st.integers(2, 3), array=st.sampled_from([(), (2,)]))
@settings(max_examples=examples(40), deadline=None)
def test_linear_layers_on_splits_of_splits(
    convention: str, graph: LayerGraph, data: st.DataObject, outer: int, array: tuple[int, ...]
) -> None:
    leaf = data.draw(below(graph, array))
    inner = Fork(data.draw(alike(graph, 2)), (leaf, leaf))
    agree(graph, Fork(data.draw(alike(graph, outer)), (inner,) * outer), convention)


def test_inner_levels_of_layers_with_other_shares() -> None:
    layers = [{"op": "linear", "name": f"fc{at}", "out_features": SIZE, "bias": False} for at in range(4)]
    graph = network({"op": "input", "name": "in", "channels": SIZE}, *layers, batch=SIZE)
    outer: Taken = {
        "fc0": (cut("batch", 2), (0.3125, 0.6875)),
        "fc1": (cut("out_channels", 2), (0.3125, 0.6875)),
        "fc2": (cut("in_channels", 2), (0.625, 0.375)),
        "fc3": (cut("in_channels", 2), (0.625, 0.375)),
    }
    inner = {f"fc{at}": (cut("in_channels" if at < 3 else "batch", 2),) for at in range(4)}
    agree(graph, Fork(outer, (Leaf((2,), inner),) * 2), "fused")
