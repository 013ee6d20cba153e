"""The forward pass of a layer that multiplies, by a weight or activations by each other, as steps of a program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hypar.network.dims import CONTRACTED
from hypar.network.einsum import operand_name
from hypar.network.ops.bases.windowed import IN_GROUP
from hypar.program.cuts import MADE_AS, READ_AS, scattered
from hypar.program.flow import SPATIAL, Made, Work, axes_of, pieces_of
from hypar.program.holding import Holding, flattened
from hypar.program.pieces import divide
from hypar.program.reads import reached, read
from hypar.program.steps import Compute, Item
from hypar.program.unweighted import add_statistics
from hypar.sharding.placement import partial_results

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.einsum import Einsum
    from hypar.network.layer import Layer
    from hypar.network.ops.base import Shape
    from hypar.program.cuts import Cuts
    from hypar.program.flow import Flow, Reader
    from hypar.program.holding import Members


def contracted(flow: Flow, layer: Layer) -> None:
    """Bring its inputs to the devices that read them, contract, add up partial sums and add the bias."""
    name, cuts = layer.name, flow.cuts[layer.name]
    einsum = layer.einsum(flow.graph.batch)
    dims = _dims(flow, layer, einsum, cuts)
    needs = tuple(Holding(_operand(layer, einsum, number, dims)) for number in range(len(layer.inputs)))
    output = Holding(_members(layer, einsum.output, dims, layer.shape, "out_channels"))
    operands = tuple(flow.operand(layer, number, need) for number, need in enumerate(needs))
    copies = cuts.copies([*dims])
    work = Work(dims=dims, needs=needs, operands=operands, output=output, copies=copies, reads={})
    reads = {f"input {number}": operand for number, operand in enumerate(operands)}
    if cuts.divides(*(dim for dim in dims if dim.startswith(CONTRACTED))):
        # The softmax of attention needs sums over all keys; ops without statistics have none to add up.
        work = replace(work, reads=add_statistics(flow, layer, work, reads))
    flow.work[name] = work
    flow.steps.append(
        Compute(
            kind="forward",
            layer=name,
            pieces=work.pieces,
            reads=reads | dict(work.reads),
            writes={"output": f"terms {name}"},
        )
    )
    left, cuts = _left(flow, layer, einsum, output, cuts)
    item = Item(name, None, "forward", "output")
    summed = flow.add(f"terms {name}", f"sums {name}", output, left, copies, item)
    flow.steps.append(
        Compute(
            kind="finish",
            layer=name,
            pieces=pieces_of(dict(zip(axes_of(layer), left.members, strict=True))),
            reads={"output": summed},
            writes={"output": f"F {name}"},
        )
    )
    flow.made[name] = Made(array=f"F {name}", holding=left, cuts=cuts)


def _dims(flow: Flow, layer: Layer, einsum: Einsum, cuts: Cuts) -> dict[str, Members]:
    """Return the indices of each op dim that each device computes: of its inputs those that it has, if shares allow."""
    sizes = einsum.sizes
    made = [flow.made[name].holding.members for name in layer.inputs]
    held: dict[str, tuple[Members, ...]] = {}
    if layer.op.names_dims:
        windows = layer.op.windows_on(layer.input_shapes)
        for number, own in enumerate(made):
            axes = ("batch", *layer.input_shapes[number])
            for dim, axis in einsum.names(operand_name(number)).items():
                if axis not in axes or dim == "groups":
                    continue
                there = own[axes.index(axis)]
                here = reached(windows[axis], there, sizes[dim]) if axis in windows else there
                held[dim] = (*held.get(dim, ()), here)
    else:
        batch, channels = made[0][:2]
        held = {"batch": (batch,), "in_channels": () if "groups" in sizes else (channels,)}
    reader = flow.next_choice(layer)
    joined = reader.layer.inputs if reader is not None and reader.layer.op.join else ()
    others = tuple(flow.made[name].holding.members[0] for name in joined if name in flow.made)
    # Where all devices have all samples, they take those that they have of what a join reads beside the output.
    if others and all(own.all() for own in held.get("batch", ())):
        held["batch"] = others
    computed = [dim for dim in sizes if not dim.startswith("kernel")]
    return {dim: divide(sizes[dim], cuts, dim, held.get(dim, ())) for dim in computed}


def _operand(layer: Layer, einsum: Einsum, number: int, dims: Mapping[str, Members]) -> tuple[Members, ...]:
    """Return what each device reads of an input."""
    shape = layer.input_shapes[number]
    found = _members(layer, einsum.names(operand_name(number)), dims, shape, "in_channels")
    windows = layer.op.windows_on(layer.input_shapes)
    axes = ("batch", *shape)
    return tuple(
        read(windows[dim], own, shape[dim]) if dim in windows else own
        for dim, own in zip(axes, found, strict=True)
    )


def _members(
    layer: Layer, names: Mapping[str, str], dims: Mapping[str, Members], shape: Shape, channels: str
) -> tuple[Members, ...]:
    """Return the indices of each dim of a tensor that each device has, from those of the op's dims; all of other dims."""
    if layer.op.names_dims:
        working = dims["batch"].any(axis=1, keepdims=True)
        whole = {
            axis: np.repeat(working, size, axis=1)
            for axis, size in shape.items()
            if axis not in names.values()
        }
        own = {axis: dims[dim] for dim, axis in names.items()} | whole
        if IN_GROUP in own:
            own["channels"] = flattened((dims["groups"], own[IN_GROUP]))
        return tuple(own[axis] for axis in ("batch", *shape))
    return (dims["batch"], _channels(dims, channels), *(dims[dim] for dim in SPATIAL if dim in dims))


def _left(flow: Flow, layer: Layer, einsum: Einsum, output: Holding, cuts: Cuts) -> tuple[Holding, Cuts]:
    """Return who gets the sums of F_out, and the cuts after which they lie: by ``fused`` as the only reader divides them."""
    reader = flow.next_choice(layer) if flow.convention == "fused" else None
    divided = {dim for level in cuts.levels for dim in level.bounds}
    terms = frozenset(dim for dim in divided if "output" in partial_results(einsum, dim))
    if reader is None or not terms or not cuts.meets(reader.cuts):
        return output, cuts
    read_as = _names(flow, reader)
    made_as = _ungrouped(einsum.output) if layer.op.names_dims else MADE_AS
    cuts = scattered(cuts, reader.cuts, (made_as, read_as), terms)
    axes = axes_of(layer)
    members = [
        divide(size, cuts, dim, () if dim in SPATIAL else (own,))
        for dim, size, own in zip(axes, output.shape, output.members, strict=True)
    ]
    return Holding(tuple(members)), cuts


def _names(flow: Flow, reader: Reader) -> Mapping[str, str]:
    """Return the tensor's names for the dims of its reader."""
    layer = reader.layer
    if layer.op.names_dims or not set(layer.shape) <= {"channels", *SPATIAL}:
        names = layer.einsum(flow.graph.batch).names(operand_name(reader.operand))
        return {
            dim: "channels" if axis == IN_GROUP else axis for dim, axis in names.items() if dim != "groups"
        }
    return READ_AS


def _ungrouped(names: Mapping[str, str]) -> dict[str, str]:
    """Return the tensor's names for op dims, those of the channels of a group as channels."""
    return {dim: "channels" if axis == IN_GROUP else axis for dim, axis in names.items()}


def _channels(dims: Mapping[str, Members], dim: str) -> Members:
    """Return the channels of a tensor, through all groups."""
    return flattened((dims["groups"], dims[dim])) if "groups" in dims else dims[dim]
