"""One layer of every op in every variant, run whole or in pieces, for the tests of the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.execution.compute import finished
from hypar.execution.devices import first_values
from hypar.network.layer import Layer
from hypar.ops.nest import operand_name
from hypar.ops.run import Run, put
from hypar.registry import load_plugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.ops.base import Op
    from hypar.ops.nest import Nest
    from hypar.ops.run import Arrays, Box, Mask, Piece
    from hypar.ops.tape import Array

VECTOR = {"channels": 5}
IMAGE = {"channels": 4, "height": 4, "width": 5}
VOLUME = {"channels": 3, "depth": 5, "height": 4, "width": 6}
SLIDING: dict[str, Any] = {"kernel": [3, 2], "stride": [2, 1], "padding": [1, 0], "dilation": [1, 2]}
POOLS: dict[str, dict[str, Any]] = {
    "plain": {"kernel": 2},
    "overlapping": {"kernel": 3, "stride": 2, "padding": 1},
    "rounding up": {"kernel": [3, 2], "stride": 2, "padding": [1, 0], "rounding": "up"},
    "gaps": {"kernel": 1, "stride": 2},
    "uneven": {"kernel": [2, 3], "stride": [3, 1], "padding": [0, 1], "rounding": "up"},
    "global": {"window": "global"},
}
FUNCTIONS = ("elu", "gelu", "hardswish", "leaky_relu", "other", "relu6", "sigmoid", "silu", "tanh", "lrn")
WIDE = {"channels": 7, "height": 3, "width": 2}

CASES: dict[str, tuple[str, dict[str, Any], list[dict[str, int]]]] = {
    "input": ("input", IMAGE, []),
    "conv": ("conv", {"out_channels": 3, "kernel": 3, "padding": 1}, [IMAGE]),
    "conv of gaps": ("conv", {"out_channels": 3, "kernel": 1, "stride": 2, "bias": False}, [IMAGE]),
    "conv of groups": ("conv", {"out_channels": 6, "groups": 2, **SLIDING}, [IMAGE]),
    "depthwise": ("conv", {"out_channels": 4, "groups": 4, "kernel": 3, "stride": 2}, [IMAGE]),
    "conv1d": (
        "conv1d",
        {"out_channels": 4, "kernel": 3, "stride": 2, "padding": 2, "dilation": 2, "groups": 2},
        [{"channels": 4, "height": 1, "width": 9}],
    ),
    "conv3d": ("conv3d", {"out_channels": 4, "kernel": 3, "padding": 1, "bias": False}, [VOLUME]),
    "conv3d of unlike sides": (
        "conv3d",
        {
            "out_channels": 2,
            "kernel": [3, 1, 2],
            "stride": [2, 1, 3],
            "padding": [1, 0, 1],
            "dilation": [1, 1, 2],
        },
        [VOLUME],
    ),
    "conv3d of groups": (
        "conv3d",
        {"out_channels": 4, "kernel": [2, 3, 1], "padding": [0, 1, 0], "groups": 2},
        [{**VOLUME, "channels": 6}],
    ),
    "depthwise conv3d": ("conv3d", {"out_channels": 3, "kernel": 3, "groups": 3, "stride": 2}, [VOLUME]),
    "max pool of a volume": (
        "pool3d",
        {"mode": "max", "kernel": [3, 2, 2], "stride": [2, 1, 2], "padding": [1, 1, 0]},
        [VOLUME],
    ),
    "average of a volume": (
        "pool3d",
        {"mode": "average", "kernel": [2, 3, 2], "padding": [0, 1, 1]},
        [VOLUME],
    ),
    "average of a whole volume": ("pool3d", {"mode": "average", "window": "global"}, [VOLUME]),
    "batch_norm of a volume": ("batch_norm", {}, [VOLUME]),
    "group_norm": ("group_norm", {"groups": 2}, [IMAGE]),
    "group_norm of a volume": ("group_norm", {"groups": 3, "shift": False}, [VOLUME]),
    "group_norm of a vector": ("group_norm", {"groups": 1}, [VECTOR]),
    "conv_transpose": ("conv_transpose", {"out_channels": 3, "kernel": 3, "stride": 2}, [IMAGE]),
    "conv_transpose of groups": (
        "conv_transpose",
        {"out_channels": 6, "groups": 2, "output_padding": [1, 0], **SLIDING},
        [IMAGE],
    ),
    "conv_transpose of gaps": ("conv_transpose", {"out_channels": 2, "kernel": 1, "stride": 2}, [IMAGE]),
    "linear": ("linear", {"out_features": 4}, [VECTOR]),
    "linear without bias": ("linear", {"out_features": 4, "bias": False}, [VECTOR]),
    **{f"max pool, {name}": ("pool", {"mode": "max", **pool}, [IMAGE]) for name, pool in POOLS.items()},
    **{f"average, {name}": ("pool", {"mode": "average", **pool}, [IMAGE]) for name, pool in POOLS.items()},
    "batch_norm": ("batch_norm", {}, [IMAGE]),
    "batch_norm without scale": ("batch_norm", {"scale": False}, [IMAGE]),
    "batch_norm without shift": ("batch_norm", {"shift": False}, [VECTOR]),
    "relu": ("relu", {}, [IMAGE]),
    **{name: ("pointwise", {"function": name}, [WIDE]) for name in FUNCTIONS},
    "lrn of a vector": ("pointwise", {"function": "lrn"}, [VECTOR]),
    "dropout": ("dropout", {"probability": 0.4}, [IMAGE]),
    "softmax": ("softmax", {}, [VECTOR]),
    "softmax of an image": ("softmax", {}, [IMAGE]),
    "add": ("add", {}, [IMAGE, IMAGE, IMAGE]),
    "concat": ("concat", {}, [IMAGE, {**IMAGE, "channels": 3}, IMAGE]),
    "concat of vectors": ("concat", {}, [VECTOR, VECTOR]),
    "flatten": ("flatten", {}, [IMAGE]),
    "nearest": ("upsample", {"mode": "nearest", "scale": [2, 3]}, [IMAGE]),
    "bilinear": ("upsample", {"mode": "bilinear", "scale": [2, 3]}, [IMAGE]),
    "opaque": ("opaque", {"kind": "mul", **IMAGE}, [IMAGE, {**IMAGE, "height": 1, "width": 1}]),
    "opaque of a vector": ("opaque", {"kind": "roll", "channels": 3}, [IMAGE]),
    "crop": ("crop", {"margin": [1, 2]}, [IMAGE]),
}
BATCH = 3

POSITIONS = {"sequence": 3, "heads": 2, "head_dim": 4}
TOKENS = {"sequence": 3, "hidden": 4}
QUERIES = {"sequence": 3, "heads": 2, "group": 2, "head_dim": 4}
ROTATED = {"sequence": 3, "heads": 2, "group": 2, "rope_dim": 2}
SECOND = {"keys": 5, "heads": 2, "head_dim": 4}

NAMED: dict[str, tuple[str, dict[str, Any], list[dict[str, int]]]] = {
    "linear of heads": ("linear", {"in": ["heads", "head_dim"], "out": {"hidden": 5}}, [POSITIONS]),
    "sequence_conv": (
        "sequence_conv",
        {"in": "hidden", "out": {"ff": 3}, "kernel": 3, "padding": 2, "stride": 2, "dilation": 2},
        [{"sequence": 7, "hidden": 4}],
    ),
    "sequence_conv of features first": (
        "sequence_conv",
        {"in": ["heads", "head_dim"], "out": {"hidden": 3}, "kernel": 2, "bias": False},
        [{"heads": 2, "sequence": 5, "head_dim": 2}],
    ),
    "sequence_conv of each": (
        "sequence_conv",
        {"each": "hidden", "kernel": 4, "padding": 3, "bias": False},
        [{"sequence": 5, "hidden": 3}],
    ),
    "sequence_conv of groups": (
        "sequence_conv",
        {"each": "heads", "in": "head_dim", "out": {"features": 3}, "kernel": 3, "bias": False},
        [{"heads": 2, "sequence": 5, "head_dim": 2}],
    ),
    "embedding": ("embedding", {"over": {"vocab": 7}, "out": {"hidden": 4}}, [{"sequence": 3}]),
    "attention": ("attention", {}, [POSITIONS] * 3),
    "causal attention": ("attention", {"causal": True}, [POSITIONS] * 3),
    "grouped attention": ("attention", {"causal": True}, [QUERIES, POSITIONS, POSITIONS]),
    "attention of two parts": (
        "attention",
        {"causal": True},
        [QUERIES, POSITIONS, POSITIONS, ROTATED, {"sequence": 3, "rope_dim": 2}],
    ),
    "matmul": ("matmul", {"over": "head_dim"}, [POSITIONS, SECOND]),
    "layer_norm": ("layer_norm", {"over": "hidden"}, [TOKENS]),
    "layer_norm of heads": ("layer_norm", {"over": ["heads", "head_dim"], "shift": False}, [POSITIONS]),
    "rms_norm": ("rms_norm", {"over": "hidden"}, [TOKENS]),
    "position": ("position", {}, [TOKENS]),
    "position of a dim": ("position", {"over": "hidden"}, [TOKENS]),
    "position of a table": ("position", {"over": "heads", "rows": 5}, [POSITIONS]),
    "position of few rows": ("position", {"over": ["heads", "head_dim"], "rows": 2}, [POSITIONS]),
    "layer_scale": ("layer_scale", {}, [IMAGE]),
    "layer_scale of a dim": ("layer_scale", {"over": "hidden"}, [TOKENS]),
    "prelu": ("prelu", {}, [IMAGE]),
    "prelu of channels": ("prelu", {"over": "channels"}, [IMAGE]),
    "rope": ("rope", {}, [POSITIONS]),
    "gelu of a dim": ("gelu", {}, [TOKENS]),
    "silu of a dim": ("silu", {}, [TOKENS]),
    "scale": ("scale", {}, [IMAGE, {"channels": 4, "height": 1, "width": 1}]),
    "scale by a vector": ("scale", {}, [IMAGE, VECTOR | {"channels": 4}]),
    "linear of experts": (
        "linear",
        {"in": "hidden", "out": {"ff": 3}, "each": "experts", "bias": False},
        [{"experts": 2, "slots": 3, "hidden": 4}],
    ),
    "top_k": ("top_k", {"over": "experts", "count": 2}, [{"sequence": 5, "experts": 5}]),
    "dispatch": ("dispatch", {"to": {"experts": 4}, "count": 2}, [TOKENS]),
    "dispatch of whole rounds": (
        "dispatch",
        {"to": {"experts": 4}, "count": 2},
        [{"sequence": 4, "hidden": 4}],
    ),
    "dispatch of features first": (
        "dispatch",
        {"to": {"experts": 5}, "count": 2},
        [{"hidden": 2, "sequence": 5}],
    ),
    "combine": (
        "combine",
        {"count": 2},
        [{"experts": 4, "slots": 2, "hidden": 4}, {"sequence": 3, "experts": 4}],
    ),
    "combine of gates by expert": (
        "combine",
        {"count": 2},
        [{"hidden": 2, "slots": 3, "experts": 5}, {"experts": 5, "sequence": 5}],
    ),
    "patch": ("patch", {"kernel": [2, 1], "out": {"hidden": 3}}, [IMAGE]),
    "patch without bias": (
        "patch",
        {"kernel": 2, "out": {"heads": 2, "head_dim": 2}, "bias": False},
        [{"channels": 2, "height": 4, "width": 6}],
    ),
    "token": ("token", {}, [TOKENS]),
    "select": ("select", {"index": 1}, [TOKENS]),
    "multiply": ("multiply", {}, [TOKENS, TOKENS]),
    "softmax of a dim": ("softmax", {"over": "heads"}, [POSITIONS]),
    "cross_entropy": ("cross_entropy", {"over": "hidden"}, [TOKENS]),
}
"""Ops over named dims, of which a piece may not divide every one."""

COUNTS: dict[str, tuple[int, int]] = {
    "conv": (3 * 4 * 9 + 3, 3 * 20 * (2 * 36 - 1)),
    "conv of gaps": (3 * 4, 3 * 6 * (2 * 4 - 1)),
    "conv of groups": (6 * 2 * 6 + 6, 6 * 6 * (2 * 12 - 1)),
    "depthwise": (4 * 9 + 4, 4 * 2 * (2 * 9 - 1)),
    "conv1d": (4 * 2 * 3 + 4, 4 * 5 * (2 * 6 - 1)),
    "conv3d": (4 * 3 * 27, 4 * 120 * (2 * 81 - 1)),
    "conv_transpose": (4 * 3 * 9 + 3, 2 * 20 * 4 * 27 - 3 * 99),
    "conv_transpose of gaps": (4 * 2 + 2, 2 * 20 * 8 - 2 * 63),
    "linear": (5 * 4 + 4, 4 * (2 * 5 - 1)),
    "linear without bias": (5 * 4, 4 * (2 * 5 - 1)),
    "linear of heads": (8 * 5 + 5, 3 * 5 * (2 * 8 - 1)),
    "linear of experts": (2 * 4 * 3, 2 * 3 * 3 * (2 * 4 - 1)),
    "sequence_conv": (3 * 4 * 3 + 3, 4 * 3 * (2 * 12 - 1)),
    "patch": (3 * 4 * 2 + 3, 10 * 3 * (2 * 8 - 1)),
    "embedding": (7 * 4, 0),
    "max pool, plain": (0, 16 * 4),
    "max pool, global": (0, 80),
    "average, overlapping": (0, 24 * 9),
    "average of a volume": (0, 48 * 12),
    "batch_norm": (8, 2 * 80),
    "batch_norm without scale": (4, 2 * 80),
    "group_norm": (8, 5 * 80),
    "group_norm of a volume": (3, 5 * 360),
    "layer_norm": (8, 5 * 12),
    "layer_norm of heads": (8, 5 * 24),
    "rms_norm": (4, 4 * 12),
    "relu": (0, 80),
    "tanh": (0, 42),
    "other": (0, 42),
    "gelu of a dim": (0, 12),
    "dropout": (0, 80),
    "softmax of an image": (0, 3 * 80),
    "cross_entropy": (0, 3 * 12),
    "top_k": (0, 3 * 25),
    "rope": (0, 3 * 24),
    "add": (0, 2 * 80),
    "multiply": (0, 12),
    "scale": (0, 80),
    "concat": (0, 0),
    "flatten": (0, 0),
    "crop": (0, 0),
    "nearest": (0, 0),
    "bilinear": (0, 480 * (2 * 4 - 1)),
    "position": (12, 12),
    "position of a table": (5 * 2, 24),
    "layer_scale": (4, 80),
    "prelu": (1, 80),
    "prelu of channels": (4, 80),
    "token": (4, 0),
    "select": (0, 0),
    "opaque": (0, 0),
    # Two products over 4 features of 9 pairs of positions and 2 heads; causal ones count a half of them.
    "attention": (0, 2 * 2 * 9 * (4 + 4)),
    "causal attention": (0, 2 * 9 * (4 + 4)),
    "grouped attention": (0, 2 * 2 * 9 * (4 + 4)),
    "attention of two parts": (0, 2 * 2 * 9 * (4 + 4 + 2)),
    "matmul": (0, 2 * 2 * 15 * 4),
    "dispatch": (0, 0),
    # Each position meets two experts.
    "combine": (0, 2 * 2 * 12),
}
"""Trained numbers and operations on a sample, forward: those of AccPar for weights, and else by hand."""


def layer_of(case: str) -> Layer:
    """The layer of a case."""
    op_name, fields, shapes = {**CASES, **NAMED}[case]
    op = load_plugin("ops", op_name)(**fields)
    return Layer(
        name="layer",
        op_name=op_name,
        op=op,
        inputs=tuple(f"input{number}" for number in range(len(shapes))),
        input_shapes=tuple(shapes),
        shape=op.output_shape(tuple(shapes)),
    )


@dataclass(frozen=True)
class Kernel:
    """An op on a mini-batch, evaluated on pieces with what the tests say that a device has."""

    op: Op
    nest: Nest

    def run(
        self,
        piece: Piece,
        inputs: Sequence[Array] = (),
        parameters: Arrays | None = None,
        others: Sequence[Piece] = (),
        **known: Any,
    ) -> Run:
        arrays = {operand_name(number): own for number, own in enumerate(inputs)} | dict(parameters or {})
        return Run(value=self.op.value, nest=self.nest, pieces=[piece, *others], arrays=arrays, **known)

    def whole(self) -> Piece:
        sizes = self.nest.sizes.items()
        return {dim: np.arange(size) for dim, size in sizes if not dim.startswith("kernel_")}

    def output(self, piece: Piece) -> Box:
        return self.run(piece).boxes(self.nest.result)[0]

    def reads(self, piece: Piece) -> tuple[Mask, ...]:
        return self.run(piece).reads()

    def sums(self, inputs: Sequence[Array], piece: Piece) -> dict[str, Array]:
        unknown = {name: np.full(own.shape, np.nan) for name, own in self.nest.trained.items()}
        run = self.run(piece, inputs, parameters=unknown)
        return run.statistics()

    def forward(self, inputs: Sequence[Array], parameters: Arrays, piece: Piece, sums: Arrays) -> Array:
        return self.run(piece, inputs, parameters=parameters, sums=sums).forward()

    def finish(self, value: Array, parameters: Arrays) -> Array:
        return finished(self.nest, value, parameters)

    def back_sums(
        self, inputs: Sequence[Array], parameters: Arrays, error: Array, piece: Piece, sums: Arrays
    ) -> dict[str, Array]:
        run = self.run(piece, inputs, parameters=parameters, sums=sums)
        return run.statistics(error)

    def backward(
        self,
        inputs: Sequence[Array],
        parameters: Arrays,
        error: Array,
        piece: Piece,
        sums: Arrays,
        back_sums: Arrays,
    ) -> Gradients:
        run = self.run(piece, inputs, parameters=parameters, sums=sums, back_sums=back_sums)
        found = run.backward(error)
        backs = [found.pop(operand_name(number)) for number in range(len(inputs))]
        return Gradients(tuple(backs), found)


class Gradients(NamedTuple):
    """What the backward phase of a piece gives: terms of each input's error, and of gradients by their parameter's name."""

    inputs: tuple[Array, ...]
    parameters: dict[str, Array]


@dataclass(frozen=True)
class Bench:
    """A layer with random operands."""

    layer: Layer
    inputs: tuple[Array, ...]
    parameters: dict[str, Array]
    error: Array

    @property
    def kernel(self) -> Kernel:
        return Kernel(self.layer.op, self.layer.nest(BATCH))


def bench(case: str, seed: int = 0) -> Bench:
    """A case with random operands."""
    layer, random = layer_of(case), np.random.default_rng(seed)
    shapes = layer.input_shapes or (layer.shape,)
    inputs = tuple(random.normal(size=(BATCH, *shape.values())) for shape in shapes)
    kernel = Kernel(layer.op, layer.nest(BATCH))
    error = random.normal(size=(BATCH, *layer.shape.values()))
    return Bench(layer, inputs, first_values(kernel.op, kernel.nest, random), error)


def forward(bench: Bench, inputs: tuple[Array, ...], parameters: dict[str, Array], piece: Piece) -> Array:
    """The output, where one piece is the whole."""
    kernel = bench.kernel
    sums = kernel.sums(inputs, piece)
    return kernel.finish(kernel.forward(inputs, parameters, piece, sums), parameters)


def backward(bench: Bench, piece: Piece) -> Gradients:
    """The gradients, where one piece is the whole; what nothing reads has no error."""
    kernel, inputs, error = bench.kernel, bench.inputs, bench.error
    sums = kernel.sums(inputs, piece)
    back_sums = kernel.back_sums(inputs, bench.parameters, error, piece, sums)
    return kernel.backward(inputs, bench.parameters, error, piece, sums, back_sums)


def mask(shape: tuple[int, ...], box: Box) -> Mask:
    """Return which elements of an array lie in a box."""
    return np.asarray(put(shape, np.zeros(1), box) == 0)
