"""One layer of every op in every variant, run whole or in pieces, for the tests of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from hypar.execution.exchange import Mask
from hypar.execution.simulator import finished, first_values
from hypar.network.layer import Layer
from hypar.ops.base import Op
from hypar.ops.nest import Nest, operand_name
from hypar.ops.run import Arrays, Box, Piece, Run, put
from hypar.ops.tape import Array
from hypar.registry import load_plugin

CASES: dict[str, tuple[str, dict[str, Any], list[dict[str, int]]]]
CASES, NAMED = (
    yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))[key]
    for key in ("cases", "named")
)
"""The op, the fields and the shapes read of each layer; those over named dims apart."""
BATCH = 3

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
        """Return which elements of each input the piece reads."""
        run = self.run(piece)
        operands = (self.nest.result,) if self.nest.view else self.nest.inputs
        found = (put(own.shape, np.zeros(1), run.boxes(own)[0]) == 0 for own in operands)
        return tuple(own.reshape(read.shape) for own, read in zip(found, self.nest.inputs, strict=True))

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
    layer: Layer
    inputs: tuple[Array, ...]
    parameters: dict[str, Array]
    error: Array

    @property
    def kernel(self) -> Kernel:
        return Kernel(self.layer.op, self.layer.nest(BATCH))


def bench(case: str, seed: int = 0) -> Bench:
    layer, random = layer_of(case), np.random.default_rng(seed)
    shapes = layer.input_shapes or (layer.shape,)
    inputs = tuple(random.normal(size=(BATCH, *shape.values())) for shape in shapes)
    kernel = Kernel(layer.op, layer.nest(BATCH))
    error = random.normal(size=(BATCH, *layer.shape.values()))
    return Bench(layer, inputs, first_values(kernel.op, kernel.nest, random), error)


def forward(bench: Bench, inputs: tuple[Array, ...], parameters: dict[str, Array], piece: Piece) -> Array:
    kernel = bench.kernel
    sums = kernel.sums(inputs, piece)
    return kernel.finish(kernel.forward(inputs, parameters, piece, sums), parameters)


def backward(bench: Bench, piece: Piece) -> Gradients:
    kernel, inputs, error = bench.kernel, bench.inputs, bench.error
    sums = kernel.sums(inputs, piece)
    back_sums = kernel.back_sums(inputs, bench.parameters, error, piece, sums)
    return kernel.backward(inputs, bench.parameters, error, piece, sums, back_sums)


def mask(shape: tuple[int, ...], box: Box) -> Mask:
    """Return which elements of an array lie in a box."""
    return np.asarray(put(shape, np.zeros(1), box) == 0)
