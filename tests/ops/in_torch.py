"""Layers of all ops in PyTorch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hypar.network.layer import Layer
from hypar.ops.families.contract import token_of
from hypar.ops.windows import round_of
from tests.ops.layers import CASES, NAMED, Bench

EPSILON = 1e-5
"""What normalisations add to a variance."""


def shapes(layer: Layer) -> dict[str, tuple[int, ...]]:
    op: Any = layer.op
    found: dict[str, tuple[int, ...]] = {name: (math.prod(own.shape),) for name, own in layer.trained.items()}
    if not layer.weighted:
        return found
    read, made = layer.input_shapes[0]["channels"], layer.shape["channels"]
    if layer.op_name == "linear":
        return {**found, "weight": (made, read)}
    ends = (read, made // op.groups) if layer.op_name == "conv_transpose" else (made, read // op.groups)
    return {**found, "weight": (*ends, *op.kernel)}


def native(layer: Layer, held: dict[str, Any]) -> dict[str, Any]:
    """Return the trained tensors of a kernel with their dims in PyTorch's order."""
    if not layer.weighted or layer.op_name == "embedding" or "experts" in layer.shape:
        return held
    weight, names = held["weight"], layer.nest(1).weight
    taps = [at for at, name in enumerate(names) if name.startswith("kernel")]
    if layer.op_name in {"conv", "conv1d", "conv3d", "conv_transpose"}:
        behind = len(taps)
        if layer.op_name != "conv_transpose":
            weight = weight.transpose(-behind - 2, -behind - 1)
        weight = weight.flatten(0, weight.ndim - behind - 2) if weight.ndim > behind + 2 else weight
    else:
        read = [at for at, name in enumerate(names) if name.startswith("in_")]
        made = [at for at in range(len(names)) if at not in (*read, *taps)]
        weight = weight.permute(*made, *read, *taps).flatten(0, len(made) - 1)
        inside = weight.ndim - 1 - len(taps)
        weight = weight.flatten(1, inside) if inside else weight.unsqueeze(1)
    return {name: value.flatten() for name, value in held.items()} | {"weight": weight}


WITHOUT = {"input", "dropout", "position of a table", "position of few rows"}
"""What has no counterpart: data, random numbers and tables whose rows a model does not give."""

EVERY = [case for case in (*CASES, *NAMED) if case not in WITHOUT]


def tensors(run: Bench, ops: Ops, dtype: str) -> tuple[list[Any], dict[str, Any]]:
    torch = ops.torch
    kind = getattr(torch, dtype)
    if run.layer.op_name == "embedding":
        (rows, _) = run.parameters["weight"].shape
        inputs = [torch.tensor(token_of(run.inputs[0], rows), dtype=torch.int32)]
    else:
        inputs = [torch.tensor(value, dtype=kind, requires_grad=True) for value in run.inputs]
    return inputs, {
        name: torch.tensor(value, dtype=kind, requires_grad=True) for name, value in run.parameters.items()
    }


class Ops:
    """A method for each op, of the layer, its inputs and its trained tensors."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.functions = torch, torch.nn.functional

    def __call__(self, layer: Layer, reads: list[Any], held: dict[str, Any]) -> Any:
        if layer.op_name in {"relu", "gelu", "silu"}:
            return getattr(self.functions, layer.op_name)(reads[0])
        return getattr(self, layer.op_name)(layer, reads, held)

    def conv(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        op, run = layer.op, self.functions.conv3d if "depth" in layer.shape else self.functions.conv2d
        return run(reads[0], held["weight"], held.get("bias"), op.stride, op.padding, op.dilation, op.groups)

    conv1d = conv3d = conv

    def conv_transpose(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        op = layer.op
        more = op.stride, op.padding, op.output_padding, op.groups, op.dilation
        return self.functions.conv_transpose2d(reads[0], held["weight"], held.get("bias"), *more)

    def linear(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        weight = held["weight"]
        if "experts" in layer.shape:
            return self.torch.einsum("bech,ehf->becf", reads[0], weight)
        behind = sum(name.startswith("in_") for name in layer.nest(1).weight)
        made = self.functions.linear(reads[0].flatten(-behind), weight, held.get("bias"))
        return made.reshape(len(made), *layer.shape.values())

    def patch(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        made = self.functions.conv2d(reads[0], held["weight"], held.get("bias"), layer.op.kernel)
        return made.flatten(2).transpose(1, 2).reshape(len(made), *layer.shape.values())

    def sequence_conv(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        op, names = layer.op, [*layer.shape]
        (shape,) = layer.input_shapes
        read = reads[0].movedim(1 + [*shape].index("sequence"), -1).flatten(1, -2)
        each = [dim for dim in layer.nest(1).weight if dim in names]
        groups = int(np.prod([shape[dim] for dim in each], dtype=int))
        more = op.stride, op.padding, op.dilation, groups
        made = self.functions.conv1d(read, held["weight"], held.get("bias"), *more)
        rest = [layer.shape[dim] for dim in names if dim != "sequence"]
        return made.unflatten(1, rest).movedim(-1, 1 + names.index("sequence"))

    def embedding(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        return self.functions.embedding(reads[0], held["weight"])

    def pool(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        op, rank, kind = layer.op, len(layer.shape) - 1, "max" if layer.op.mode == "max" else "avg"
        if op.window == "global":
            return getattr(self.functions, f"adaptive_{kind}_pool{rank}d")(reads[0], 1)
        rounding = {"ceil_mode": getattr(op, "rounding", "") == "up"}
        run = getattr(self.functions, f"{kind}_pool{rank}d")
        return run(reads[0], op.kernel, op.stride or op.kernel, op.padding, **rounding)

    pool3d = pool

    def batch_norm(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        own = held.get("weight"), held.get("bias")
        return self.functions.batch_norm(reads[0], None, None, *own, training=True)

    def group_norm(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        return self.functions.group_norm(reads[0], layer.op.groups, held.get("weight"), held.get("bias"))

    def layer_norm(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        over = [layer.shape[dim] for dim in layer.op.over]
        return self.functions.layer_norm(reads[0], over, held.get("weight"), held.get("bias"))

    def rms_norm(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        over = [layer.shape[dim] for dim in layer.op.over]
        return self.functions.rms_norm(reads[0], over, held["weight"], EPSILON)

    def softmax(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        (over,) = layer.op.over
        return self.functions.softmax(reads[0], 1 + [*layer.shape].index(over))

    cross_entropy = softmax

    def top_k(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        chosen = self._chosen(layer, len(reads[0]), layer.shape["experts"]).any(-1)
        return self.functions.softmax(reads[0].masked_fill(~chosen, -self.torch.inf), -1)

    def attention(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        queries, keys, values, *more = reads
        for own, other in zip(more[::2], more[1::2], strict=True):
            queries = self.torch.cat([queries, own], -1)
            shared = other.unsqueeze(2).expand(*keys.shape[:3], other.shape[-1])
            keys = self.torch.cat([keys, shared], -1)
        heads_first = [value.movedim(1, -2).flatten(1, -3) for value in (queries, keys, values)]
        attend = self.functions.scaled_dot_product_attention
        grouped = {"enable_gqa": True} if queries.ndim > keys.ndim else {}
        made = attend(*heads_first, is_causal=layer.op.causal, **grouped)
        return made.unflatten(1, queries.shape[2:-1]).movedim(-2, 1)

    def matmul(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        return self.torch.einsum("bshd,bkhd->bshk", *reads)

    def dispatch(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        read = reads[0].movedim(1 + [*layer.input_shapes[0]].index("sequence"), 1)
        chosen = self._chosen(layer, len(read), layer.shape["experts"], read.shape[1]).movedim(1, -1)
        full = chosen.any(-1)
        first = chosen.int().argmax(-1) + read.shape[1] * self.torch.arange(len(read)).reshape(-1, 1, 1)
        made = (
            read.flatten(0, 1)
            .index_select(0, first.flatten().int())
            .reshape(len(read), *layer.shape.values())
        )
        return made if full.all() else made * full.unsqueeze(-1)

    def combine(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        made, gates = (
            read.permute(0, *[1 + [*shape].index(dim) for dim in dims])
            for read, shape, dims in zip(
                reads,
                layer.input_shapes,
                (("experts", "slots", "hidden"), ("sequence", "experts")),
                strict=True,
            )
        )
        chosen = self._chosen(layer, len(made), made.shape[1], gates.shape[1])
        return self.torch.einsum("nsec,nse,nech->nsh", chosen.to(made), gates, made)

    def _chosen(self, layer: Any, samples: int, experts: int, positions: int = 0) -> Any:
        """Return whether a position is in a slot of an expert, ``[samples, positions, experts, slots]``."""
        size = round_of(experts, layer.op.count)
        every = np.arange(positions or layer.shape["sequence"])
        slots = every // size
        inside = slots[:, None] == np.arange(slots.max() + 1)
        first = np.arange(samples)[:, None, None] + slots[:, None]
        place = (np.arange(experts) - first) % experts
        chosen = place // layer.op.count == (every % size)[:, None]
        return self.torch.tensor(chosen[..., None] & inside[None, :, None])

    def position(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        return reads[0] + held["weight"]

    def layer_scale(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        behind = len(layer.shape) - 1 - [*layer.shape].index(layer.op.over[-1])
        return reads[0] * held["weight"].reshape(-1, *[1] * behind)

    def prelu(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        return self.functions.prelu(reads[0], held["weight"].flatten())

    def token(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        first = held["weight"].expand(len(reads[0]), 1, -1)
        return self.torch.cat([first, reads[0]], 1)

    def select(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        return reads[0].narrow(1, layer.op.index, 1)

    def rope(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        """Su and others, RoFormer (2021), section 3.2: pairs of features as complex numbers that are turned."""
        one, two = reads[0].chunk(2, -1)
        steps = self.torch.arange(one.shape[-1], dtype=one.dtype) / one.shape[-1]
        angles = self.torch.arange(one.shape[1])[:, None, None] * 10_000.0**-steps
        turned = self.torch.complex(one, two) * self.torch.polar(self.torch.ones_like(angles), angles)
        return self.torch.cat([turned.real, turned.imag], -1)

    def scale(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        return reads[0] * reads[1].reshape(*reads[1].shape[:2], 1, 1)

    def multiply(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        return reads[0] * reads[1]

    def add(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        return sum(reads[1:], reads[0])

    def concat(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        return self.torch.cat(reads, 1)

    def flatten(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        return reads[0].flatten(1)

    def crop(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        rows, columns = (slice(margin, -margin or None) for margin in layer.op.margin)
        return reads[0][..., rows, columns]

    def upsample(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        return self.functions.interpolate(reads[0], scale_factor=layer.op.scale, mode=layer.op.mode)

    def dropout(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        return self.torch.native_dropout(reads[0], layer.op.probability, True)[0]

    def pointwise(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        (read,), function = reads, layer.op.function
        if function == "lrn":
            image = read.reshape(*read.shape, *[1] * (4 - read.ndim))
            return self.functions.local_response_norm(image, 5).reshape(read.shape)
        if function == "other":
            return read.square() / 2
        return getattr(self.functions, function, getattr(self.torch, function, None))(read)  # type: ignore[misc]

    def opaque(self, layer: Any, reads: list[Any], held: dict[str, Any]) -> Any:
        """Return what the kernel does in place of an op that is not known: sums of whole samples."""
        each = [read.flatten(1).sum(1) / read[0].numel() ** 0.5 for read in reads]
        total = sum(each[1:], each[0])
        return total.reshape(-1, *[1] * len(layer.shape)).expand(-1, *layer.shape.values())
