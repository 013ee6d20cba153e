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
from hypar.sharding.placement import WHOLE, Choice, cut, dim_of
from tests.amounts import amounts
from tests.effort import examples
from tests.program.arrays import array_layout
from tests.program.machines import Entry, entries_of, laid
from tests.program.test_products import ROWS, SIZE, chains, convolutions, dims_of, joined

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanNode
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
    places, cuts = laid({name: _rows(node, name) for name in names})
    found: Counter[tuple[int, str]] = Counter()
    for step in lower(graph, places, cuts, convention).transfers.values():
        if step.item.layer in cuts and step.item.tensor in ("input", "output", "weight"):
            for level, elements in enumerate(moved(places, step.transfer).tolist()):
                found[level, step.item.phase] += elements
    return _rounded(found)


def _rows(node: Node, name: str) -> list[list[Entry]]:
    """What every level does with every device for a layer."""
    if isinstance(node, Leaf):
        return entries_of(array_layout(node.array, node.choices[name]))
    choice, shares = node.taken[name]
    ends = np.cumsum([0.0, *shares])
    dim, found = dim_of(choice), []
    for group, below in enumerate(node.below):
        bounds = {} if dim is None else {dim: (float(ends[group]), float(ends[group + 1]))}
        here = Entry(group, bounds, dim is None or shares[group] > 0)
        found += [[here, *rest] for rest in _rows(below, name)]
    return found


def _rounded(found: Counter[tuple[int, str]]) -> Counter[tuple[int, str]]:
    return Counter({key: round(elements) for key, elements in found.items() if round(elements)})


# Random cases.


@st.composite
def shares(draw: st.DrawFn, groups: int, least: int = 1) -> Shares:
    cuts = draw(st.lists(st.integers(least, UNITS // groups), min_size=groups - 1, max_size=groups - 1))
    found = [count / UNITS for count in (*cuts, UNITS - sum(cuts))]
    return tuple(draw(st.permutations(found)))


@st.composite
def taken(draw: st.DrawFn, graph: LayerGraph, groups: int, rows: set[str], least: int = 1) -> Taken:
    """Choices of one dim for every layer, mostly with common shares; joins may be done whole."""
    common, found = draw(shares(groups)), {}
    for layer in graph.contracted.layers:
        choice = draw(options(layer, groups, rows))
        own = draw(st.sampled_from([common, common, draw(shares(groups, least))]))
        found[layer.name] = (choice, common if choice == WHOLE else own)
    return found


def options(layer: PlanNode, ways: int, rows: set[str]) -> st.SearchStrategy[Choice]:
    return st.sampled_from([cut(dim, ways) for dim in dims_of(layer, rows)] + [WHOLE] * layer.join)


def divides(graph: LayerGraph, own: Taken) -> bool:
    """Return whether all shares are of whole elements, of what is read as well."""
    for layer in graph.contracted.layers:
        choice, given_shares = own[layer.name]
        dim = dim_of(choice)
        sizes = [] if dim is None else [layer.nest.sizes[dim], layer.nest.input_sizes.get(dim or "", SIZE)]
        sizes += [dict(one.content.shape).get(dim or "", SIZE) for one in graph.contracted.tensors]
        if any(share * size % 1 for share in given_shares for size in sizes):
            return False
    return True


@st.composite
def splits(draw: st.DrawFn, kind: str) -> tuple[LayerGraph, Fork]:
    """Single devices: linear layers, some on fewer of them, images, and sums, whose layers all have the same shares.

    Pieces of several inputs cannot lie where each of them is.
    """
    groups = draw(st.integers(2, 3))
    graph = draw({"linear": chains(), "sums": joined()}.get(kind, convolutions(3 if kind == "halos" else 1)))
    own = taken(graph, groups, ROWS if kind in {"halos", "images"} else set(), least=int(kind != "linear"))
    found = draw(own.filter(lambda own: divides(graph, own)) if kind in {"halos", "images"} else own)
    if kind == "sums":
        found = with_common(found, next(iter(found.values()))[1])
    return graph, Fork(found, (Leaf((), {layer.name: () for layer in graph.contracted.layers}),) * groups)


def with_common(own: Taken, common: Shares) -> Taken:
    return {name: (choice, common) for name, (choice, _) in own.items()}


@pytest.mark.parametrize("convention", ["moved", "fused"])
@pytest.mark.parametrize("kind", ["linear", "images", "halos", "sums"])
@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_single_devices(kind: str, convention: str, data: st.DataObject) -> None:
    graph, node = data.draw(splits(kind))
    assert counted(graph, node, convention) == program(graph, node, convention)


# Levels and splits below. All groups divide a layer alike inside, as one program sums it at the same places everywhere, and
# all layers have the same shares, as shards of an inner level only then lie where those of another layer do.


@st.composite
def alike(draw: st.DrawFn, graph: LayerGraph, groups: int) -> Taken:
    """Choices of one dim for every layer, with common shares of whole elements at every level."""
    weights = [2, 1, 1] if groups == 3 else draw(st.sampled_from([[1, 3], [2, 2]]))
    common = tuple(weight / 4 for weight in draw(st.permutations(weights)))
    return with_common(draw(taken(graph, groups, set())), common)


@pytest.mark.parametrize(("splits", "arrays"), [(1, [(2,), (2, 2), (4,)]), (2, [(), (2,)])])
@pytest.mark.parametrize("convention", ["moved", "fused"])
@given(graph=chains(), data=st.data(), groups=st.integers(2, 3))
@settings(max_examples=examples(80), deadline=None)
def test_groups_of_devices_and_of_groups(
    convention: str,
    splits: int,
    arrays: list[tuple[int, ...]],
    graph: LayerGraph,
    data: st.DataObject,
    groups: int,
) -> None:
    array = data.draw(st.sampled_from(arrays))
    inner: Node = Leaf(array, {
        layer.name: tuple(data.draw(options(layer, ways, set())) for ways in array) for layer in graph.contracted.layers
    })  # fmt: skip
    if splits > 1:
        inner = Fork(data.draw(alike(graph, 2)), (inner, inner))
    node = Fork(data.draw(alike(graph, groups)), (inner,) * groups)
    assert counted(graph, node, convention) == program(graph, node, convention)
