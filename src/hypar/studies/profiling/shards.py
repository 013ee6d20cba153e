"""The shard of a layer on the fullest device under a choice, as an op on tensors of its own.

Sizes are rounded up to whole elements. A cut height or width includes the input rows that its windows read, and
counts padding as rows, so that such a shard is not padded again; an uncut one is padded as the layer is. Transposed
windows make a few rows beyond those of the shard from the rows that it reads; the output is then cut to its size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hypar.errors import OptionError
from hypar.network.ops.add import Add
from hypar.network.ops.bases.windowed import Sliding
from hypar.network.ops.concat import Concat
from hypar.network.ops.conv_transpose import ConvTranspose
from hypar.network.ops.crop import Crop
from hypar.network.ops.linear import Linear
from hypar.network.ops.pool import Pool
from hypar.network.ops.upsample import Upsample
from hypar.sharding.grids.bounds import bounds
from hypar.units import DTYPE_BYTES

if TYPE_CHECKING:
    from hypar.network.einsum import Einsum
    from hypar.network.layer import Layer
    from hypar.network.windows import Window
    from hypar.sharding.placement import Choice

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShard:
    """The computation of one device; equal shards take equal time.

    Attributes:
        op: ``conv``, ``conv_transpose``, ``linear``, ``max``, ``average``, ``nearest``, ``bilinear``, ``crop``, ``add``
            or ``concat``.
        dtype: number format of every tensor.
        inputs: ``[batch, channels, height, width]`` or ``[batch, channels]`` of each tensor that is read.
        weight: ``[out_channels, in_channels, kernel_height, kernel_width]`` or ``[out_channels, in_channels]``,
            with the ``in_channels`` of a group; of a ``conv_transpose`` ``in_channels`` first, with the
            ``out_channels`` of a group; empty without a weight.
        output: as ``inputs``.
        windows: along height and width.
        groups: of the convolution.
        round_up: whether a last window may hang over the edge.
    """

    op: str
    dtype: str
    inputs: tuple[Sizes, ...]
    weight: Sizes = ()
    output: Sizes
    windows: tuple[Window, ...] = ()
    groups: int = 1
    round_up: bool = False

    @property
    def num_bytes(self) -> int:
        """Return the bytes of all tensors and of a gradient for each."""
        tensors = (*self.inputs, self.output, *filter(None, [self.weight]))
        return 2 * DTYPE_BYTES[self.dtype] * sum(map(math.prod, tensors))


def shard_of(layer: Layer, einsum: Einsum, choice: Choice, dtype: str) -> LayerShard:
    """Return the shard of a layer on the fullest device.

    Args:
        layer: the layer.
        einsum: its dims and tensors for the mini-batch.
        choice: the degree of each dim.
        dtype: number format of every tensor.

    Raises:
        OptionError: an op of another package.
    """
    sizes = {dim: -(-size // choice.degree(dim)) for dim, size in einsum.sizes.items()}
    batch = sizes["batch"]
    rows, windows = _read(einsum, choice, sizes)
    image = tuple(sizes[dim] for dim in windows)
    match layer.op:
        case Sliding() | ConvTranspose():
            groups = sizes.get("groups", 1)
            made, read, kernel = sizes["out_channels"], sizes["in_channels"], layer.op.kernel
            filters = (groups * made, read) if isinstance(layer.op, Sliding) else (groups * read, made)
            return LayerShard(
                op="conv" if isinstance(layer.op, Sliding) else layer.op_name,
                dtype=dtype, inputs=((batch, groups * read, *rows),),
                weight=(*filters, *kernel), output=(batch, groups * made, *image),
                windows=tuple(windows.values()), groups=groups,
            )  # fmt: skip
        case Linear():
            made, read = sizes["out_channels"], sizes["in_channels"]
            return LayerShard(
                op="linear", dtype=dtype, inputs=((batch, read),), weight=(made, read), output=(batch, made)
            )
        case Pool() | Upsample() | Crop():
            channels, op = sizes["channels"], layer.op
            return LayerShard(
                op=layer.op_name if isinstance(op, Crop) else op.mode, dtype=dtype,
                inputs=((batch, channels, *rows),), output=(batch, channels, *image),
                windows=tuple(windows.values()), round_up=isinstance(op, Pool) and op.rounding == "up",
            )  # fmt: skip
        case Add() | Concat():
            inputs = tuple(
                (batch, *(-(-size // choice.degree(dim)) for dim, size in shape.items()))
                for shape in layer.input_shapes
            )
            channels = sum(shape[1] for shape in inputs) if isinstance(layer.op, Concat) else inputs[0][1]
            output = (batch, channels, *inputs[0][2:])
            return LayerShard(op=layer.op_name, dtype=dtype, inputs=inputs, output=output)
    found = f"op {layer.op_name!r} of layer {layer.name!r} cannot be measured"
    raise OptionError("profile", found, "conv, conv_transpose, linear, pool, upsample, crop, add, concat")


def _read(einsum: Einsum, choice: Choice, sizes: dict[str, int]) -> tuple[Sizes, dict[str, Window]]:
    """Return the input's rows along each dim that windows slide over, and those windows, padded unless cut."""
    rows, windows = [], dict(einsum.windows)
    for dim, window in einsum.windows.items():
        if choice.degree(dim) == 1:
            rows.append(einsum.input_sizes[dim])
        else:
            shards = bounds((choice.degree(dim),), einsum.sizes[dim], whole=True)
            low, high = window.reads(shards.low, shards.high)
            windows[dim] = replace(window, padding=0)
            rows.append(max(windows[dim].least_input(sizes[dim]), int((high - low).max())))
    return tuple(rows), windows
