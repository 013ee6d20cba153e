"""The product form of the amounts, which costs and scores use, against the program's count, transfer by transfer."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.sharding.placement import WHOLE, Choice, cut, grid
from tests.effort import examples
from tests.program.networks import network
from tests.program.products import by_products, by_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.graph import LayerGraph

SIZE = 144
ARRAYS = [(2,), (4,), (2, 2), (4, 2), (2, 4), (2, 2, 2)]
FLAT = [(2,), (4,), (8,)]
GRIDS = [(4,), (6,), (8,), (12,), (16,), (4, 4), (6, 2), (8, 2)]
DEGREES = (1, 2, 3, 4, 6, 8, 12, 16)
INPUT: dict[str, Any] = {"op": "input", "name": "in", "channels": SIZE}
IMAGE: dict[str, Any] = {**INPUT, "height": SIZE, "width": SIZE}
ROWS = {"height", "width"}


def agree(
    graph: LayerGraph, array: tuple[int, ...], choices: Mapping[str, Sequence[Choice]], convention: str
) -> None:
    expected = by_products(graph, array, choices, convention)
    assert by_program(graph, array, choices, convention) == pytest.approx(expected, rel=1e-9)


@st.composite
def chosen(
    draw: st.DrawFn, graph: LayerGraph, array: tuple[int, ...], rows: set[str]
) -> Mapping[str, Sequence[Choice]]:
    """Draw a choice of one dim for every layer and level; joins may be replicated."""
    found = {}
    for layer in graph.nodes(None).layers:
        dims = [dim for dim in layer.nest.sizes if not dim.startswith("kernel") and dim not in ROWS - rows]
        options = [st.sampled_from([cut(dim, ways) for dim in dims] + [WHOLE] * layer.join) for ways in array]
        found[layer.name] = [draw(option) for option in options]
    return found


@st.composite
def chains(draw: st.DrawFn) -> LayerGraph:
    """Draw linear layers with pointwise ops between."""
    layers = [INPUT]
    for number in range(draw(st.integers(2, 4))):
        layers.append(
            {"op": "linear", "name": f"fc{number}", "out_features": SIZE, "bias": draw(st.booleans())}
        )
        layers += [{"op": "relu"}] * draw(st.booleans())
    return network(*layers, batch=SIZE)


@st.composite
def convolutions(draw: st.DrawFn, kernel: int) -> LayerGraph:
    """Draw convolutions; those of one element have strides, which leave gaps, and pools between."""
    layers = [IMAGE]
    for number in range(draw(st.integers(2, 3))):
        window = {
            "kernel": kernel,
            "padding": kernel // 2,
            "stride": draw(st.integers(1, 2)) if kernel == 1 else 1,
        }
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
        op = {"op": "linear", "out_features": SIZE, "bias": False} if len(pair) == 1 else {"op": "add"}
        layers.append({**op, "name": f"{op['op']}{number}", "inputs": pair})
        names.append(layers[-1]["name"])
    needed, found = {names[-1]}, []
    for layer in reversed(layers):
        if layer["name"] in needed:
            needed.update(layer.get("inputs", []))
            found.append(layer)
    last = {"op": "linear", "name": "last", "out_features": SIZE, "bias": False}
    return network(*found[::-1], last, batch=SIZE)


@settings(max_examples=examples(200))
@given(chains(), st.sampled_from(ARRAYS), st.data())
@pytest.mark.parametrize("convention", ["moved", "fused", "direct"])
def test_chains_of_linear_layers(
    convention: str, graph: LayerGraph, array: tuple[int, ...], data: st.DataObject
) -> None:
    agree(graph, array, data.draw(chosen(graph, array, set())), convention)


@settings(max_examples=examples(100))
@given(convolutions(1), st.sampled_from(ARRAYS), st.data())
@pytest.mark.parametrize("convention", ["moved", "fused", "direct"])
def test_chains_of_convolutions_without_halos(
    convention: str, graph: LayerGraph, array: tuple[int, ...], data: st.DataObject
) -> None:
    agree(graph, array, data.draw(chosen(graph, array, ROWS)), convention)


@settings(max_examples=examples(100))
@given(convolutions(3), st.sampled_from(ARRAYS), st.data())
@pytest.mark.parametrize("convention", ["moved", "fused", "direct"])
def test_chains_of_convolutions_with_halos(
    convention: str, graph: LayerGraph, array: tuple[int, ...], data: st.DataObject
) -> None:
    agree(graph, array, data.draw(chosen(graph, array, ROWS)), convention)


@st.composite
def grids_of(draw: st.DrawFn, graph: LayerGraph, array: tuple[int, ...]) -> Mapping[str, Sequence[Choice]]:
    """Draw a grid of samples and channels of all devices for every layer and level; joins may be replicated."""
    found = {}
    for layer in graph.nodes(None).layers:
        dims = tuple(dim for dim in layer.nest.cuttable if dim not in ROWS)
        options = [
            [
                grid(dict(zip(dims, degrees, strict=True)))
                for degrees in product(DEGREES, repeat=len(dims))
                if prod(degrees) == ways
            ]
            + [WHOLE] * layer.join
            for ways in array
        ]
        found[layer.name] = [draw(st.sampled_from(own)) for own in options]
    return found


@pytest.mark.parametrize("convention", ["moved", "fused", "direct"])
@given(graph=st.one_of(chains(), convolutions(1)), array=st.sampled_from(GRIDS), data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_grids(convention: str, graph: LayerGraph, array: tuple[int, ...], data: st.DataObject) -> None:
    """Counted and laid digit by digit, of samples and channels, which need not be consecutive."""
    agree(graph, array, data.draw(grids_of(graph, array)), convention)


@pytest.mark.parametrize(
    ("convention", "made", "read"),
    [
        ("moved", ("height", "height"), ("batch", "height")),
        ("moved", ("batch", "height"), ("height", "height")),
        ("fused", ("in_channels", "height"), ("height", "width")),
    ],
)
def test_rows_that_an_outer_level_divides_at_one_end(
    convention: str, made: Sequence[str], read: Sequence[str]
) -> None:
    """The shares of an inner level do not line up: a half of a quarter of the rows is in one half, or in the other."""
    conv = {"op": "conv", "out_channels": 4, "kernel": 1, "bias": False}
    small = {"op": "input", "channels": 4, "height": 8, "width": 8}
    graph = network(small, {**conv, "name": "conv0"}, {**conv, "name": "conv1"}, batch=8)
    choices = {name: [cut(dim, 2) for dim in own] for name, own in (("conv0", made), ("conv1", read))}
    agree(graph, (2, 2), choices, convention)


@pytest.mark.xfail(
    strict=True,
    reason="pieces of a join lie in place for one of its makers, but products take each tensor by itself",
)
def test_a_join_of_makers_that_divide_channels_at_unlike_digits() -> None:
    linear = {"op": "linear", "out_features": SIZE, "bias": False, "inputs": ["in"]}
    last = {"op": "linear", "name": "last", "out_features": SIZE, "bias": False}
    add = {"op": "add", "name": "add", "inputs": ["one", "two"]}
    graph = network(INPUT, {**linear, "name": "one"}, {**linear, "name": "two"}, add, last, batch=SIZE)
    whole = [cut("out_channels", 4)]
    choices = {"one": whole, "last": whole, "add": [cut("channels", 4)]}
    agree(graph, (4,), {**choices, "two": [grid({"in_channels": 2, "out_channels": 2})]}, "moved")


@settings(max_examples=examples(200))
@given(joined(), st.sampled_from(FLAT), st.data())
@pytest.mark.parametrize("convention", ["moved", "fused", "direct"])
def test_joins(convention: str, graph: LayerGraph, array: tuple[int, ...], data: st.DataObject) -> None:
    agree(graph, array, data.draw(chosen(graph, array, set())), convention)


@st.composite
def branched(draw: st.DrawFn) -> LayerGraph:
    """Draw layers that multiply one tensor, which rests before them."""
    conv, rows = draw(st.booleans()), {"height": 16, "width": 8}
    layer = (
        {"op": "conv", "out_channels": 16, "bias": False} if conv else {"op": "linear", "out_features": 16}
    )
    made = {**layer, "name": "made", "bias": False} | ({"kernel": 1} if conv else {})
    readers = [
        {**layer, "name": f"reader{at}", "bias": False, "inputs": ["behind"]}
        | ({"kernel": 2 * size + 1, "padding": size} if conv else {})
        for at, size in enumerate(draw(st.lists(st.integers(0, 2), min_size=2, max_size=3)))
    ]
    add = {"op": "add", "name": "add", "inputs": [own["name"] for own in readers]}
    image = {"op": "input", "channels": 16, **(rows if conv else {})}
    layers: list[dict[str, Any]] = [
        image,
        made,
        {"op": "relu", "name": "behind"},
        *readers,
        add,
        {**made, "name": "last"},
    ]
    return network(*layers, batch=16).at_rest


@settings(max_examples=examples(300))
@given(branched(), st.sampled_from(ARRAYS), st.data())
@pytest.mark.parametrize("convention", ["moved", "fused"])
def test_tensors_at_rest(
    convention: str, graph: LayerGraph, array: tuple[int, ...], data: st.DataObject
) -> None:
    choices = data.draw(chosen(graph, array, {"height"}))
    agree(graph, array, {**choices, "add": [WHOLE] * len(array)}, convention)
