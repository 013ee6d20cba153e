"""What the groups of an uneven split receive by ``moved`` and ``fused``, against the program's count, level by level."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.execution.exchange import moved
from hypar.planning.uneven.tree import graph_of_group
from hypar.program.lowering import lower
from hypar.sharding.amounts.counted import outermost
from hypar.sharding.placement import WHOLE, Choice, cut, dim_of
from hypar.sharding.tree import Device, Level, splits_of
from tests.amounts import amounts
from tests.effort import examples
from tests.program.machines import Taken, array_of, groups_of, laid
from tests.program.test_products import ROWS, SIZE, chains, convolutions, dims_of, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanNode
    from hypar.sharding.amounts.counted import State
    from hypar.sharding.tree import Node

Shares = tuple[float, ...]
UNITS = 16


# By products.


def counted(graph: LayerGraph, node: Node, convention: str) -> Counter[tuple[int, str]]:
    """Elements that all devices receive at each level in each phase."""
    found: Counter[tuple[int, str]] = Counter()
    _count(found, graph.contracted, node, outermost(graph.contracted, convention, tied=False), convention, 0)
    return _rounded(found)


def _count(found, graph, node: Node | None, entered: State, convention: str, depth: int) -> None:  # type: ignore[no-untyped-def]
    names, splits = [layer.name for layer in graph.layers], [*splits_of(node)]
    if not isinstance(node, Level) or node.split.sides is None:
        choices = [tuple(split.choice(name) for split in splits) for name in names]
        for one in amounts(graph, [split.ways for split in splits], choices, convention, entered):
            found[depth + one.level, one.phase] += one.elements
        return
    taken = [(node.split.choice(name), node.split.shares_of(name)) for name in names]
    inside, between, states = entered.crossing(graph, taken)
    for of_one in (*inside, *between):
        for amount in of_one:
            assert min(amount.elements) >= 0
            found[depth, amount.phase] += sum(amount.elements)
    for group, (below, state) in enumerate(zip(node.below, states, strict=True)):
        own = [shares[group] for _, shares in taken]
        left = graph_of_group(graph, [choice for choice, _ in taken], own, integral=True)
        _count(found, left, below, state, convention, depth + 1)


# By the program.


def program(graph: LayerGraph, node: Node, convention: str) -> Counter[tuple[int, str]]:
    places, cuts = laid(node, [layer.name for layer in graph.contracted.layers])
    found: Counter[tuple[int, str]] = Counter()
    for step in lower(graph, places, cuts, convention).transfers.values():
        if step.item.layer in cuts and step.item.tensor in ("input", "output", "weight"):
            for level, elements in enumerate(moved(places, step.transfer).tolist()):
                found[level, step.item.phase] += elements
    return _rounded(found)


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
        sizes += [dict(one.shape).get(dim or "", SIZE) for one in graph.contracted.tensors]
        if any(share * size % 1 for share in given_shares for size in sizes):
            return False
    return True


@st.composite
def splits(draw: st.DrawFn, kind: str) -> tuple[LayerGraph, Node]:
    """Single devices: linear layers, some on fewer of them, images, and sums, whose layers all have the same shares.

    Pieces of several inputs cannot lie where each of them is.
    """
    groups = draw(st.integers(2, 3))
    graph = draw({"linear": chains(), "sums": joined()}.get(kind, convolutions(3 if kind == "halos" else 1)))
    own = taken(graph, groups, ROWS if kind in {"halos", "images"} else set(), least=int(kind != "linear"))
    found = draw(own.filter(lambda own: divides(graph, own)) if kind in {"halos", "images"} else own)
    if kind == "sums":
        found = with_common(found, next(iter(found.values()))[1])
    return graph, groups_of(found, [Device()] * groups)


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
def alike(draw: st.DrawFn, graph: LayerGraph, weights: Sequence[int]) -> Taken:
    """Choices of one dim for every layer, with common shares of whole elements at every level."""
    common = tuple(weight / sum(weights) for weight in draw(st.permutations(weights)))
    return with_common(draw(taken(graph, len(weights), set())), common)


OUTER = st.sampled_from([(1, 3), (1, 1), (2, 1, 1)])


@pytest.mark.parametrize(("splits", "arrays"), [(1, [(2,), (2, 2), (4,)]), (2, [(), (2,)])])
@pytest.mark.parametrize("convention", ["moved", "fused"])
@given(graph=chains(), data=st.data(), weights=OUTER)
@settings(max_examples=examples(80), deadline=None)
def test_groups_of_devices_and_of_groups(
    convention: str,
    splits: int,
    arrays: list[tuple[int, ...]],
    graph: LayerGraph,
    data: st.DataObject,
    weights: tuple[int, ...],
) -> None:
    array = data.draw(st.sampled_from(arrays))
    layers = graph.contracted.layers
    inner = array_of(
        array, {layer.name: [data.draw(options(layer, ways, set())) for ways in array] for layer in layers}
    )
    if splits > 1:
        inner = groups_of(data.draw(alike(graph, (1, 2))), [inner] * 2)
    node = groups_of(data.draw(alike(graph, weights)), [inner] * len(weights))
    assert counted(graph, node, convention) == program(graph, node, convention)
