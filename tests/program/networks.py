"""Hypothesis generators of small networks of all ops, and of networks written as lists of layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from hypar.network.graph import load_model
from hypar.ops.windows import ShapeError
from hypar.registry import load_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypar.network.graph import LayerGraph

Fields = dict[str, Any]
Shapes = dict[str, "Mapping[str, int]"]

IMAGE: tuple[str, ...] = ("channels", "height", "width")
WEIGHTED = ("conv", "conv_transpose", "linear")
LARGEST = 12
MOST_ELEMENTS = 700
FUNCTIONS = ("elu", "gelu", "hardswish", "leaky_relu", "lrn", "relu6", "sigmoid", "silu", "tanh")
ANYWHERE = ("relu", "pointwise", "dropout", "softmax", "batch_norm", "add", "concat")
ON_IMAGES = (
    *ANYWHERE,
    "conv",
    "conv",
    "conv",
    "conv_transpose",
    "group_norm",
    "pool",
    "pool",
    "upsample",
    "crop",
    "flatten",
)
ON_VECTORS = (*ANYWHERE, "linear", "linear", "linear")


def network(*layers: Fields, batch: int = 8) -> LayerGraph:
    """Return a network of some layers."""
    return load_model({"source": "an example", "batch": batch, "layers": list(layers)})


@st.composite
def networks(draw: st.DrawFn, most: int = 9) -> LayerGraph:
    """Draw a network of all ops, of sizes from 1 to 12, with at least one layer with a weight."""
    size = st.integers(1, LARGEST)
    image = draw(st.booleans() | st.just(value=True))
    first: Fields = {"name": "in", "op": "input", "channels": draw(st.integers(1, 6) if image else size)}
    if image:
        first |= {"height": draw(size), "width": draw(st.integers(1, 8))}
    layers = [first]
    shapes: Shapes = {"in": {dim: first[dim] for dim in IMAGE if dim in first}}
    for number in range(draw(st.integers(1, most))):
        names = [*shapes]
        source = names[-1] if draw(st.integers(0, 3)) else draw(st.sampled_from(names))
        op = draw(st.sampled_from(ON_IMAGES if "height" in shapes[source] else ON_VECTORS))
        layer = draw(_layers(op, source, shapes)) | {"name": f"{op}{number}"}
        _append(layer, layers, shapes)
    layers = read_by_last(layers)
    if draw(st.booleans()) or not any(layer["op"] in WEIGHTED for layer in layers):
        last = layers[-1]["name"]
        if "height" in shapes[last]:
            layers.append({"op": "flatten", "inputs": [last], "name": "flat"})
            last = "flat"
        layers.append({"op": "linear", "out_features": 3, "inputs": [last], "name": "last"})
    return network(*layers, batch=draw(st.integers(1, 8)))


def read_by_last(layers: list[Fields]) -> list[Fields]:
    """Return the layers of which something comes to the last one."""
    needed, found = {layers[-1]["name"]}, []
    for layer in reversed(layers):
        if layer["name"] in needed:
            needed.update(layer.get("inputs", []))
            found.append(layer)
    return found[::-1]


def _append(layer: Fields, layers: list[Fields], shapes: Shapes) -> None:
    """Add a layer if its op accepts its inputs, and makes no large tensor of them.

    Windows that meet nothing but padding are left out: all samples are alike behind them, and a normalisation of what is
    alike makes its rounding a hundred times larger.
    """
    fields = {name: value for name, value in layer.items() if name not in ("name", "op", "inputs")}
    inputs = tuple(shapes[name] for name in layer["inputs"])
    op = load_plugin("ops", layer["op"])(**fields)
    try:
        shape = op.output_shape(inputs)
    except ShapeError:
        return
    windows = op.nest(1, inputs).inputs[0].windows.items() if inputs else ()
    met = all((window.taps(inputs[0][dim], np.arange(shape[dim])) >= 0).any() for dim, window in windows)
    if met and math.prod(shape.values()) <= MOST_ELEMENTS:
        layers.append(layer)
        shapes[layer["name"]] = shape


@st.composite
def _layers(draw: st.DrawFn, op: str, source: str, shapes: Shapes) -> Fields:
    """Draw a layer that reads a given tensor; a join reads further ones of a shape that fits."""
    inputs = [source]
    if op in ("add", "concat"):
        free = {"channels"} if op == "concat" else set()
        like = [name for name, shape in shapes.items() if _alike(shape, shapes[source], free)]
        inputs += draw(st.lists(st.sampled_from(like), min_size=1, max_size=2))
    return {"op": op, "inputs": inputs} | draw(_FIELDS.get(op, _nothing)(shapes[source]))


def _alike(one: Mapping[str, int], other: Mapping[str, int], free: set[str]) -> bool:
    return [*one] == [*other] and all(one[dim] == other[dim] for dim in one if dim not in free)


def _nothing(_: Mapping[str, int]) -> st.SearchStrategy[Fields]:
    return st.just({})


def _pairs(low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=2, max_size=2)


@st.composite
def _windows(draw: st.DrawFn, shape: Mapping[str, int]) -> Fields:
    groups = draw(st.sampled_from([1, 1, *(way for way in (2, 3, 4) if shape["channels"] % way == 0)]))
    return {
        "out_channels": groups * draw(st.integers(1, LARGEST // groups)),
        "groups": groups,
        "kernel": draw(_pairs(1, 3)),
        "stride": draw(_pairs(1, 3)),
        "padding": draw(_pairs(0, 2)),
        "dilation": draw(_pairs(1, 2)),
        "bias": draw(st.booleans()),
    }


@st.composite
def _transposed(draw: st.DrawFn, shape: Mapping[str, int]) -> Fields:
    return draw(_windows(shape)) | {"output_padding": draw(_pairs(0, 1))}


@st.composite
def _in_groups(draw: st.DrawFn, shape: Mapping[str, int]) -> Fields:
    groups = [way for way in (1, 2, 3, shape["channels"]) if shape["channels"] % way == 0]
    return {"groups": draw(st.sampled_from(groups)), "shift": draw(st.booleans())}


@st.composite
def _pools(draw: st.DrawFn, _: Mapping[str, int]) -> Fields:
    mode = draw(st.sampled_from(["max", "average"]))
    if not draw(st.integers(0, 3)):
        return {"mode": mode, "window": "global"}
    kernel = draw(_pairs(1, 3))
    padding = [draw(st.integers(0, size // 2)) for size in kernel]
    rounding = draw(st.sampled_from(["up", "down"]))
    return {
        "mode": mode,
        "kernel": kernel,
        "stride": draw(_pairs(1, 3)),
        "padding": padding,
        "rounding": rounding,
    }


def _of(**fields: st.SearchStrategy[Any]) -> Callable[[Mapping[str, int]], st.SearchStrategy[Fields]]:
    return lambda _: st.fixed_dictionaries(fields)


_FIELDS: dict[str, Callable[[Mapping[str, int]], st.SearchStrategy[Fields]]] = {
    "conv": _windows,
    "conv_transpose": _transposed,
    "pool": _pools,
    "group_norm": _in_groups,
    "linear": _of(out_features=st.integers(1, LARGEST), bias=st.booleans()),
    "batch_norm": _of(scale=st.booleans(), shift=st.booleans()),
    "pointwise": _of(function=st.sampled_from(FUNCTIONS)),
    "dropout": _of(probability=st.sampled_from([0.0, 0.2, 0.5])),
    "upsample": _of(mode=st.sampled_from(["nearest", "bilinear"]), scale=_pairs(1, 3)),
    "crop": _of(margin=_pairs(0, 1)),
}
