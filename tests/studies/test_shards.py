"""The piece of a layer is the largest of all pieces, looked at one by one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hypar import load_model
from hypar.errors import OptionError
from hypar.network.layer import Layer
from hypar.ops.base import Op, Shape, Sliding
from hypar.ops.families.layout import Concat
from hypar.sharding.placement import ALONE, WHOLE, Choice, cut, grid
from hypar.sharding.space import parse_space
from hypar.studies.profile import LayerShard, shard_of
from tests.effort import crossed

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanNode
    from hypar.ops.windows import Window

ENLARGED = Path(__file__).with_name("enlarged.yaml")
"""Windows of every kind that make an image larger, in groups and out of step with the shards too."""

SPACES = ["batch*out_channels*height*width", "all", "batch,in_channels,out_channels,height"]


def most(size: int, degree: int) -> int:
    """Elements of the largest part of a dim."""
    return max(size * (part + 1) // degree - size * part // degree for part in range(degree))


@lru_cache
def reach(window: Window, size: int, degree: int) -> int:
    """Input elements between the first and the last that a part reads, of the part that reads most.

    A transposed window reads as many at least as it makes the part's outputs of.
    """
    found = []
    for part in range(degree):
        rows = range(size * part // degree, size * (part + 1) // degree)
        taps = [one for row in rows for one in read_at(window, row)]
        found.append(max(taps) - min(taps) + 1 if taps else 0)
    if window.transposed:
        alone, most_rows = replace(window, padding=0), most(size, degree)
        return next(n for n in itertools.count(max(1, *found)) if alone.output_size(n) >= most_rows)
    return max(found)


def read_at(window: Window, row: int) -> list[int]:
    """The input elements that an output reads, past the ends of the image too."""
    if not window.transposed:
        return [row * window.stride + tap * window.dilation for tap in range(window.kernel)]
    near = row // window.stride
    around = range(near - window.extent - 2, near + window.padding + 2)
    taps = range(window.extent)
    return [one for one in around if row - one * window.stride + window.padding in taps]


def expected(layer: Layer, node: PlanNode, choice: Choice) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """The input and the output tensors of the fullest device."""
    nest = node.nest
    own = {dim: most(size, choice.degree(dim)) for dim, size in nest.sizes.items()}
    rows = [
        nest.input_sizes[dim]
        if choice.degree(dim) == 1
        else reach(window, nest.sizes[dim], choice.degree(dim))
        for dim, window in nest.windows.items()
    ]
    image = [own[dim] for dim in ("height", "width") if dim in own]
    groups = own.get("groups", 1)
    if node.weighted:
        made, read = own["out_channels"] * groups, own["in_channels"] * groups
        return [(own["batch"], read, *rows)], (own["batch"], made, *image)
    if isinstance(layer.op, Sliding):
        return [(own["batch"], own["channels"], *rows)], (own["batch"], own["channels"], *image)
    channels = [most(shape["channels"], choice.degree("channels")) for shape in layer.input_shapes]
    total = sum(channels) if isinstance(layer.op, Concat) else channels[0]
    return [(own["batch"], each, *image) for each in channels], (own["batch"], total, *image)


def nodes(graph: LayerGraph) -> list[tuple[Layer, PlanNode]]:
    layers = {layer.name: layer for layer in graph.layers}
    return [(layers[node.name], node) for node in graph.operators.layers]


@crossed(
    {
        "model": ["lenet-c", "alexnet-2012", "resnet18", "googlenet", "unet", "mobilenet-v2", ENLARGED],
        "space": SPACES,
    }
)
def test_sizes_are_those_of_the_fullest_device(model: str, space: str) -> None:
    graph = load_model(model, batch=24)
    for layer, node in nodes(graph):
        for choice in (*parse_space(space).choices(node, 8, idle=True), WHOLE):
            shard = shard_of(layer, node.nest, choice, graph.dtype)
            inputs, output = expected(layer, node, choice)
            assert (list(shard.inputs), shard.output) == (inputs, output), (layer.name, choice)


def shard(model: str, name: str, choice: Choice) -> LayerShard:
    graph = load_model(model, batch=64)
    layer, node = next(pair for pair in nodes(graph) if pair[0].name == name)
    return shard_of(layer, node.nest, choice, graph.dtype)


def test_a_cut_height_is_padded_no_more() -> None:
    whole = shard("vgg16", "conv1_1", ALONE)
    assert whole.inputs == ((64, 3, 224, 224),)
    assert [window.padding for window in whole.windows] == [1, 1]
    half = shard("vgg16", "conv1_1", grid({"height": 2}))
    assert half.inputs == ((64, 3, 114, 224),)
    assert [window.padding for window in half.windows] == [0, 1]


def test_groups_are_cut_between_and_inside() -> None:
    whole = shard("alexnet-2012", "conv2", WHOLE)
    assert (whole.inputs[0][1], whole.weight[:2], whole.groups) == (96, (256, 48), 2)
    between = shard("alexnet-2012", "conv2", cut("groups", 2))
    assert (between.inputs[0][1], between.weight[:2], between.groups) == (48, (128, 48), 1)
    inside = shard("alexnet-2012", "conv2", cut("out_channels", 4))
    assert (inside.inputs[0][1], inside.weight[:2], inside.groups) == (96, (64, 48), 2)


def test_bytes_are_of_all_tensors_and_their_gradients() -> None:
    found = shard("lenet-c", "fc1", ALONE)
    assert found.num_bytes == 2 * 4 * (64 * 800 + 800 * 500 + 64 * 500)
    assert shard("lenet-c", "pool2", ALONE).num_bytes == 2 * 4 * 64 * 50 * (8 * 8 + 4 * 4)


def test_an_op_of_another_package_cannot_be_measured() -> None:
    class Mix(Op):
        pass

    shape: Shape = {"channels": 4}
    layer = Layer(name="m", op_name="mix", op=Mix(), inputs=("x",), input_shapes=(shape,), shape=shape)
    with pytest.raises(OptionError, match="op 'mix' of layer 'm' cannot be measured; allowed: conv, "):
        shard_of(layer, layer.nest(4), WHOLE, "float32")


def test_a_convolution_along_a_row_is_one_of_an_image_of_one_row() -> None:
    row = {"op": "input", "channels": 8, "height": 1, "width": 12}
    conv = {"name": "c", "op": "conv1d", "out_channels": 4, "kernel": 3}
    graph = load_model({"source": "made up", "batch": 2, "layers": [row, conv]})
    layer, node = nodes(graph)[0]
    found = shard_of(layer, node.nest, ALONE, graph.dtype)
    assert (found.op, found.inputs, found.output) == ("conv", ((2, 8, 1, 12),), (2, 4, 1, 10))


def test_a_product_over_named_dims_cannot_be_measured() -> None:
    shape = {"op": "input", "shape": {"sequence": 8, "hidden": 12}}
    product = {"name": "q", "op": "linear", "in": ["hidden"], "out": {"ff": 16}}
    graph = load_model({"source": "made up", "batch": 2, "layers": [shape, product]})
    layer, node = nodes(graph)[0]
    with pytest.raises(OptionError, match="op 'linear' of layer 'q' cannot be measured"):
        shard_of(layer, node.nest, ALONE, graph.dtype)
