"""The forward pass of a layer as steps of a program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hypar.ops.dims import CONTRACTED, CUTTABLE, KERNEL, READ
from hypar.ops.nest import IN_GROUP, operand_name
from hypar.program.cuts import scattered, uncut
from hypar.program.flow import AXES, SPATIAL, Made, Work, axes_of, pieces_of
from hypar.program.holding import Holding, everywhere, flattened
from hypar.program.pieces import divide
from hypar.program.reads import in_place, members, reached
from hypar.program.statistics import add_statistics
from hypar.program.steps import Compute, Item
from hypar.sharding.placement import partial_results

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.layer import Layer
    from hypar.ops.nest import Nest
    from hypar.program.cuts import Cuts
    from hypar.program.flow import Flow
    from hypar.program.holding import Members

DEPTH = "depth"
KNOWN = (*AXES, "out_channels", "groups")


def forward(flow: Flow, layer: Layer) -> None:
    """Bring a layer's inputs to the devices that compute it, add up its statistics and its partial sums, and add the bias."""
    name, nest = layer.name, flow.nest(layer)
    if not layer.inputs:
        holding = everywhere(nest.result.shape, flow.places.devices)
        flow.made[name] = Made(array=f"F {name}", holding=holding, cuts=uncut(flow.places))
        return
    if layer.num_parameters or any(source in flow.trained for source in layer.inputs):
        flow.trained.add(name)
    chosen = name in flow.cuts
    cuts = flow.cuts[name] if chosen else flow.made[layer.inputs[0]].cuts
    dims = (_divided if chosen else _followed)(flow, layer, nest, cuts)
    needs, partial = _needs(flow, layer, nest, dims)
    operands = tuple(flow.operand(layer, number, need) for number, need in enumerate(needs))
    reads = {f"input {number}": operand for number, operand in enumerate(operands)}
    after = cuts if chosen else cuts.without(nest.reduced)
    copies = cuts.copies([*dims]) if chosen else (cuts if partial else after).copies(_made(cuts))
    output = Holding(members(nest.result, dims))
    work = Work(dims=dims | partial, needs=needs, operands=operands, output=output, copies=copies, reads={})
    work = replace(work, reads=add_statistics(flow, layer, work, reads))
    flow.work[name], terms = work, nest.multiplies or bool(partial)
    array = f"terms {name}" if terms else f"F {name}"
    every = {**reads, **work.reads}
    flow.steps.append(
        Compute(kind="forward", layer=name, pieces=work.pieces, reads=every, writes={"output": array})
    )
    left = output
    if nest.multiplies:
        left, after = _left(flow, layer, nest, output, cuts)
    if terms:
        item = Item(name, None, "forward", "output")
        array = flow.add(array, f"{'sums' if nest.multiplies else 'F'} {name}", output, left, copies, item)
    if nest.multiplies:
        pieces, summed = pieces_of(dict(zip(axes_of(layer), left.members, strict=True))), {"output": array}
        array = f"F {name}"
        flow.steps.append(
            Compute(kind="finish", layer=name, pieces=pieces, reads=summed, writes={"output": array})
        )
    flow.made[name] = Made(array=array, holding=left, cuts=after)


def _made(cuts: Cuts) -> tuple[str, ...]:
    """Return the dims of outputs that cuts divide, by the names of every op."""
    divided = dict.fromkeys(dim for level in cuts.levels for dim in level.bounds)
    return tuple(
        dim for dim in divided if dim in KNOWN or not (dim in CUTTABLE or dim.startswith((READ, CONTRACTED)))
    )


def _divided(flow: Flow, layer: Layer, nest: Nest, cuts: Cuts) -> dict[str, Members]:
    """Return the indices of each loop dim that each device computes: of its inputs those that it has, if shares allow."""
    made, sizes = [flow.made[name].holding.members for name in layer.inputs], nest.sizes
    held: dict[str, tuple[Members, ...]] = {}
    for operand, own in zip(nest.inputs, made, strict=True):
        for (axis, (_, dims, window, *_)), there in zip(operand.axes.items(), own, strict=True):
            if len(dims) == 1 and (nest.multiplies or axis not in SPATIAL):
                held[dims[0]] = (*held.get(dims[0], ()), there)
            elif window is not None and axis not in nest.windows:
                held[dims[0]] = (*held.get(dims[0], ()), reached(window, there, sizes[dims[0]]))
    if nest.multiplies:
        reader = flow.next_choice(layer)
        joined = reader.layer.inputs if reader is not None and reader.layer.op.node == "join" else ()
        others = tuple(flow.made[name].holding.members[0] for name in joined if name in flow.made)
        # Where all devices have all samples, they take those that they have of what a join reads beside the output.
        if others and all(own.all() for own in held.get("batch", ())):
            held["batch"] = others
    found = {
        dim: divide(size, cuts, dim, () if nest.concatenates and dim == "channels" else held.get(dim, ()))
        for dim, size in sizes.items()
        if not dim.startswith(KERNEL)
    }
    if nest.concatenates:
        parts = zip(layer.input_shapes, made, strict=True)
        each = [divide(shape["channels"], cuts, "channels", own[1:2]) for shape, own in parts]
        found["channels"] = np.concatenate(each, axis=1)
    return found


def _followed(flow: Flow, layer: Layer, nest: Nest, cuts: Cuts) -> dict[str, Members]:
    """Return the indices of each output dim that each device computes of an op without choices: those that it has."""
    held = flow.made[layer.inputs[0]].holding.members
    if nest.view:
        return {"batch": held[0], "channels": flattened(held[1:])}
    found, windows = {"batch": held[0]}, nest.inputs[0].windows
    for number, (dim, size) in enumerate(layer.shape.items(), start=1):
        if dim in nest.reduced:
            found[dim] = np.repeat(cuts.working[:, None], size, axis=1)
        elif dim in {*SPATIAL, DEPTH} and dim in windows:
            found[dim] = divide(size, cuts, dim)
        elif dim in windows and size != layer.input_shapes[0][dim]:
            found[dim] = in_place(windows[dim], held[number], size)
        else:
            found[dim] = held[number]
    return found


def _needs(
    flow: Flow, layer: Layer, nest: Nest, dims: Mapping[str, Members]
) -> tuple[tuple[Holding, ...], dict[str, Members]]:
    """Return what each device reads of each input, and the input rows of which it adds up an average."""
    there, partial = flow.made[layer.inputs[0]].holding, dict[str, "Members"]()
    if nest.view:
        return (there,), partial
    first, *others = (members(operand, dims) for operand in nest.inputs)
    if nest.reduce == "mean" and layer.name not in flow.cuts:
        working, read = dims["batch"].any(axis=1), []
        for axis, own, held in zip(nest.inputs[0].axes, first, there.members, strict=True):
            lacks = axis in nest.reduced and (own[working] & ~held[working]).any()
            read.append(own & held if lacks else own)
            partial |= {f"input_{axis}": read[-1]} if lacks else {}
        first = tuple(read)
    return tuple(map(Holding, (first, *others))), partial


def _left(flow: Flow, layer: Layer, nest: Nest, output: Holding, cuts: Cuts) -> tuple[Holding, Cuts]:
    """Return who gets the sums of F_out, and the cuts after which they lie: by ``fused`` as the only reader divides them."""
    reader = flow.next_choice(layer) if flow.convention == "fused" else None
    divided = {dim for level in cuts.levels for dim in level.bounds}
    terms = frozenset(dim for dim in divided if "output" in partial_results(nest, dim))
    if reader is None or not terms or not cuts.meets(reader.cuts):
        return output, cuts
    read_as = _ungrouped(flow.nest(reader.layer).names.get(operand_name(reader.operand), {}))
    read_as.pop("groups", None)
    made_as = _ungrouped(nest.names["output"])
    cuts = scattered(cuts, reader.cuts, (made_as, read_as), terms)
    axes = axes_of(layer)
    left = [
        divide(size, cuts, dim, () if dim in SPATIAL else (own,))
        for dim, size, own in zip(axes, output.shape, output.members, strict=True)
    ]
    return Holding(tuple(left)), cuts


def _ungrouped(names: Mapping[str, str]) -> dict[str, str]:
    """Return the tensor's names for op dims, those of the channels of a group as channels."""
    return {dim: "channels" if axis == IN_GROUP else axis for dim, axis in names.items()}
