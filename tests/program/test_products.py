"""The product form of the amounts, which costs and scores use, against the program's count, transfer by transfer.

Of uneven splits that of all transfers of a phase; what lies below them is held by ``tests/sharding/test_edges.py``.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.execution.exchange import moved
from hypar.program.lowering import lower
from hypar.sharding.amounts.counted import outermost
from hypar.sharding.placement import WHOLE, Choice, cut, dim_of, grid
from hypar.sharding.tree import Device
from tests.effort import examples
from tests.program.machines import Taken, groups_of, laid
from tests.program.networks import network, read_by_last
from tests.program.products import by_products, by_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanNode

SIZE = 144
ARRAYS: list[tuple[int, ...]] = [(2,), (4,), (2, 2), (4, 2), (2, 4), (2, 2, 2)]
FLAT: list[tuple[int, ...]] = [(2,), (4,), (8,)]
GRIDS = [(4,), (6,), (8,), (12,), (16,), (4, 4), (6, 2), (8, 2)]
DEGREES = (1, 2, 3, 4, 6, 8, 12, 16)
INPUT: dict[str, Any] = {"op": "input", "name": "in", "channels": SIZE}
IMAGE: dict[str, Any] = {**INPUT, "height": SIZE, "width": SIZE}
LINEAR: dict[str, Any] = {"op": "linear", "out_features": SIZE, "bias": False}
ROWS = {"height", "width"}
CONVENTIONS = ("moved", "fused", "direct")


def agree(
    graph: LayerGraph, array: tuple[int, ...], choices: Mapping[str, Sequence[Choice]], convention: str
) -> None:
    expected = by_products(graph, array, choices, convention)
    assert by_program(graph, array, choices, convention) == pytest.approx(expected, rel=1e-9)


def dims_of(layer: PlanNode, rows: set[str]) -> list[str]:
    """The dims of a layer that may be cut, of an image those of its rows that are given."""
    return [dim for dim in layer.nest.sizes if not dim.startswith("kernel") and dim not in ROWS - rows]


@st.composite
def chosen(
    draw: st.DrawFn, graph: LayerGraph, array: tuple[int, ...], rows: set[str]
) -> Mapping[str, Sequence[Choice]]:
    """Draw a choice of one dim for every layer and level; joins may be replicated."""
    found = {}
    for layer in graph.nodes(None).layers:
        dims = dims_of(layer, rows)
        options = [st.sampled_from([cut(dim, ways) for dim in dims] + [WHOLE] * layer.join) for ways in array]
        found[layer.name] = [draw(option) for option in options]
    return found


@st.composite
def chains(draw: st.DrawFn) -> LayerGraph:
    """Draw linear layers with pointwise ops between."""
    layers = [INPUT]
    for number in range(draw(st.integers(2, 4))):
        layers.append({**LINEAR, "name": f"fc{number}", "bias": draw(st.booleans())})
        layers += [{"op": "relu"}] * draw(st.booleans())
    return network(*layers, batch=SIZE)


@st.composite
def convolutions(draw: st.DrawFn, kernel: int) -> LayerGraph:
    """Draw convolutions; those of one element have strides, which leave gaps, and pools between."""
    layers = [IMAGE]
    for number in range(draw(st.integers(2, 3))):
        stride = draw(st.integers(1, 2)) if kernel == 1 else 1
        window = {"kernel": kernel, "padding": kernel // 2, "stride": stride}
        layers.append({"op": "conv", "name": f"conv{number}", "out_channels": SIZE, "bias": False, **window})
        if kernel == 1 and draw(st.booleans()):
            layers.append({"op": "pool", "mode": draw(st.sampled_from(["max", "average"])), "kernel": 2})
    return network(*layers, batch=SIZE)


@st.composite
def joined(draw: st.DrawFn) -> LayerGraph:
    """Draw linear layers and sums of two tensors."""
    layers, names = [INPUT], ["in"]
    for number in range(draw(st.integers(2, 6))):
        pair = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
        op = LINEAR if len(pair) == 1 else {"op": "add"}
        layers.append({**op, "name": f"{op['op']}{number}", "inputs": pair})
        names.append(layers[-1]["name"])
    return network(*read_by_last(layers), {**LINEAR, "name": "last"}, batch=SIZE)


@st.composite
def branched(draw: st.DrawFn) -> LayerGraph:
    """Draw layers that multiply one tensor, which rests before them."""
    conv = draw(st.booleans())
    layer = {"op": "conv", "out_channels": 16} if conv else {"op": "linear", "out_features": 16}
    made = {**layer, "bias": False} | ({"kernel": 1} if conv else {})
    readers = [
        {**made, "name": f"reader{at}", "inputs": ["behind"]}
        | ({"kernel": 2 * size + 1, "padding": size} if conv else {})
        for at, size in enumerate(draw(st.lists(st.integers(0, 2), min_size=2, max_size=3)))
    ]
    add = {"op": "add", "name": "add", "inputs": [own["name"] for own in readers]}
    image = {"op": "input", "channels": 16, **({"height": 16, "width": 8} if conv else {})}
    first, last = ({**made, "name": name} for name in ("made", "last"))
    return network(image, first, {"op": "relu", "name": "behind"}, *readers, add, last, batch=16).at_rest


@st.composite
def grids_of(draw: st.DrawFn, graph: LayerGraph, array: tuple[int, ...]) -> Mapping[str, Sequence[Choice]]:
    """Draw a grid of samples and channels of all devices for every layer and level; joins may be replicated."""
    found = {}
    for layer in graph.nodes(None).layers:
        dims = tuple(dim for dim in layer.nest.cuttable if dim not in ROWS)
        every = [*product(DEGREES, repeat=len(dims))]
        options = [
            [grid(dict(zip(dims, degrees, strict=True))) for degrees in every if prod(degrees) == ways]
            + [WHOLE] * layer.join
            for ways in array
        ]
        found[layer.name] = [draw(st.sampled_from(own)) for own in options]
    return found


KINDS: dict[str, tuple[st.SearchStrategy[LayerGraph], list[tuple[int, ...]], set[str]]] = {
    "linear layers": (chains(), ARRAYS, set()),
    "convolutions without halos": (convolutions(1), ARRAYS, ROWS),
    "convolutions with halos": (convolutions(3), ARRAYS, ROWS),
    "joins": (joined(), FLAT, set()),
}


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=examples(150))
def test_one_dim_for_each_layer_and_level(kind: str, convention: str, data: st.DataObject) -> None:
    graphs, arrays, rows = KINDS[kind]
    graph, array = data.draw(graphs), data.draw(st.sampled_from(arrays))
    agree(graph, array, data.draw(chosen(graph, array, rows)), convention)


@pytest.mark.parametrize("convention", ["moved", "fused"])
@given(graph=branched(), array=st.sampled_from(ARRAYS), data=st.data())
@settings(max_examples=examples(300))
def test_tensors_at_rest(
    convention: str, graph: LayerGraph, array: tuple[int, ...], data: st.DataObject
) -> None:
    choices = data.draw(chosen(graph, array, {"height"}))
    agree(graph, array, {**choices, "add": [WHOLE] * len(array)}, convention)


@pytest.mark.parametrize("convention", CONVENTIONS)
@given(graph=st.one_of(chains(), convolutions(1)), array=st.sampled_from(GRIDS), data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_grids(convention: str, graph: LayerGraph, array: tuple[int, ...], data: st.DataObject) -> None:
    """Counted and laid digit by digit, of samples and channels, which need not be consecutive."""
    agree(graph, array, data.draw(grids_of(graph, array)), convention)


@pytest.mark.xfail(
    strict=True,
    reason="pieces of a join lie in place for one of its makers, but products take each tensor by itself",
)
def test_a_join_of_makers_that_divide_channels_at_unlike_digits() -> None:
    makers = [{**LINEAR, "name": name, "inputs": ["in"]} for name in ("one", "two")]
    add = {"op": "add", "name": "add", "inputs": ["one", "two"]}
    graph = network(INPUT, *makers, add, {**LINEAR, "name": "last"}, batch=SIZE)
    whole = [cut("out_channels", 4)]
    choices = {"one": whole, "last": whole, "add": [cut("channels", 4)]}
    agree(graph, (4,), {**choices, "two": [grid({"in_channels": 2, "out_channels": 2})]}, "moved")


# Uneven splits of single devices

UNITS = 16


@st.composite
def shares(draw: st.DrawFn, groups: int, least: int = 1) -> tuple[float, ...]:
    cuts = draw(st.lists(st.integers(least, UNITS // groups), min_size=groups - 1, max_size=groups - 1))
    found = [count / UNITS for count in (*cuts, UNITS - sum(cuts))]
    return tuple(draw(st.permutations(found)))


@st.composite
def taken(draw: st.DrawFn, graph: LayerGraph, groups: int, kind: str) -> Taken:
    """Draw a choice of one dim for every layer, mostly with common shares; joins may be done whole.

    Some linear layers are on fewer devices. Pieces of several inputs cannot lie where each of them is, so that all layers have
    the same shares where there are sums.
    """
    common, found = draw(shares(groups)), {}
    for layer in graph.contracted.layers:
        dims = dims_of(layer, ROWS if kind in {"halos", "images"} else set())
        choice = draw(st.sampled_from([cut(dim, groups) for dim in dims] + [WHOLE] * layer.join))
        own = draw(st.sampled_from([common, common, draw(shares(groups, least=int(kind != "linear")))]))
        found[layer.name] = (choice, common if choice == WHOLE or kind == "sums" else own)
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


UNEVEN = {"linear": chains(), "images": convolutions(1), "halos": convolutions(3), "sums": joined()}


@pytest.mark.parametrize("convention", ["moved", "fused"])
@pytest.mark.parametrize("kind", UNEVEN)
@given(data=st.data(), groups=st.integers(2, 3))
@settings(max_examples=examples(60), deadline=None)
def test_uneven_splits(kind: str, convention: str, data: st.DataObject, groups: int) -> None:
    graph = data.draw(UNEVEN[kind])
    own = data.draw(taken(graph, groups, kind).filter(lambda own: divides(graph, own)))
    planned, counted = Counter[str](), Counter[str]()
    state = outermost(graph.contracted, convention, tied=False)
    inside, between, _ = state.crossing(graph.contracted, [*own.values()])
    for amount in (one for each in (*inside, *between) for one in each):
        assert min(amount.elements) >= 0
        planned[amount.phase] += sum(amount.elements)
    places, cuts = laid(groups_of(own, [Device()] * groups), own)
    for step in lower(graph, places, cuts, convention).transfers.values():
        if step.item.layer in cuts and step.item.tensor in ("input", "output", "weight"):
            counted[step.item.phase] += int(moved(places, step.transfer).sum())
    assert +counted == Counter({phase: round(elements) for phase, elements in (+planned).items()})
