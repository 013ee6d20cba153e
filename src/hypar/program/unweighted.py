"""The forward pass of a join, a pool or a pointwise op as steps of a program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hypar.network.dims import CONTRACTED, CUTTABLE, MADE, READ
from hypar.program.flow import AXES, SPATIAL, Made, Work
from hypar.program.holding import Holding, flattened
from hypar.program.pieces import divide
from hypar.program.reads import in_place, read
from hypar.program.steps import Compute, Item

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.layer import Layer
    from hypar.program.cuts import Cuts
    from hypar.program.flow import Flow
    from hypar.program.holding import Members

DEPTH = "depth"
KNOWN = (*AXES, "out_channels", "groups")


def _made(cuts: Cuts) -> tuple[str, ...]:
    """Return the dims of outputs that cuts divide, by the names of every op."""
    divided = dict.fromkeys(dim for level in cuts.levels for dim in level.bounds)
    return tuple(
        dim for dim in divided if dim in KNOWN or not (dim in CUTTABLE or dim.startswith((READ, CONTRACTED)))
    )


def unweighted(flow: Flow, layer: Layer) -> None:
    """Bring the inputs of a join, a pool or a pointwise op to the devices that compute it, with its statistics."""
    name = layer.name
    made = [flow.made[source] for source in layer.inputs]
    cuts = flow.cuts.get(name, made[0].cuts)
    dims = _dims(flow, layer, cuts)
    needs, partial = _needs(layer, made, cuts, dims, name in flow.cuts)
    operands = tuple(flow.operand(layer, number, need) for number, need in enumerate(needs))
    output = Holding(tuple(dims.values()))
    if layer.op.view:
        flat = made[0].holding.members[1:]
        output = Holding((dims["batch"], flattened(flat)))
        dims = {"batch": output.members[0], "channels": output.members[1]}
    left = cuts if name in flow.cuts else cuts.without(layer.op.contracts(layer.input_shapes))
    copies = (cuts if partial else left).copies(_made(cuts if partial else left))
    work = Work(dims=dims | partial, needs=needs, operands=operands, output=output, copies=copies, reads={})
    reads = {f"input {number}": operand for number, operand in enumerate(operands)}
    statistics = add_statistics(flow, layer, work, reads)
    work = replace(work, reads=statistics)
    flow.work[name] = work
    target = f"terms {name}" if partial else f"F {name}"
    flow.steps.append(
        Compute(
            kind="forward",
            layer=name,
            pieces=work.pieces,
            reads=reads | statistics,
            writes={"output": target},
        )
    )
    if partial:
        target = flow.add(
            target,
            f"F {name}",
            output,
            output,
            copies,
            Item(name, None, "forward", "output"),
        )
    flow.made[name] = Made(array=target, holding=output, cuts=left)


def _dims(flow: Flow, layer: Layer, cuts: Cuts) -> dict[str, Members]:
    """Return the indices of each output dim that each device computes."""
    made = [flow.made[source] for source in layer.inputs]
    batch = [source.holding.members[0] for source in made]
    if layer.name not in flow.cuts:
        held = made[0].holding.members
        found = {"batch": batch[0], "channels": held[1]} if layer.op.view else {"batch": batch[0]}
        windows = layer.op.windows_on(layer.input_shapes)
        for number, dim in enumerate(layer.shape if not layer.op.view else (), start=1):
            if dim in {*SPATIAL, DEPTH} and dim in windows:
                found[dim] = _resized(layer, cuts, dim)
            elif dim in windows and layer.shape[dim] != layer.input_shapes[0][dim]:
                found[dim] = in_place(windows[dim], held[number], layer.shape[dim])
            else:
                found[dim] = held[number]
        return found
    found = {"batch": divide(flow.graph.batch, cuts, "batch", batch)}
    if "channels" not in layer.shape:
        for number, dim in enumerate(layer.shape, start=1):
            found[dim] = divide(
                layer.shape[dim], cuts, dim, [source.holding.members[number] for source in made]
            )
        return found
    if layer.op.concatenates:
        parts = [
            divide(shape["channels"], cuts, "channels", source.holding.members[1:2])
            for shape, source in zip(layer.input_shapes, made, strict=True)
        ]
        found["channels"] = np.concatenate(parts, axis=1)
    else:
        channels = [source.holding.members[1] for source in made]
        found["channels"] = divide(layer.shape["channels"], cuts, "channels", channels)
    return found | {dim: divide(size, cuts, dim) for dim, size in layer.shape.items() if dim != "channels"}


def _resized(layer: Layer, cuts: Cuts, dim: str) -> Members:
    """Return the rows that an op without choices computes of an image of another size: all of a single one."""
    size = layer.shape[dim]
    if dim in layer.op.contracts(layer.input_shapes):
        return np.repeat(cuts.working[:, None], size, axis=1)
    return divide(size, cuts, dim)


def _needs(
    layer: Layer, made: list[Made], cuts: Cuts, dims: Mapping[str, Members], chosen: bool
) -> tuple[tuple[Holding, ...], dict[str, Members]]:
    """Return what each device reads of each input, and the input rows of which it adds up an average."""
    if layer.op.concatenates:
        first, found = 0, []
        for shape in layer.input_shapes:
            last = first + shape["channels"]
            rest = [dims[dim] for dim in shape if dim != "channels"]
            found.append(Holding((dims["batch"], dims["channels"][:, first:last], *rest)))
            first = last
        return tuple(found), {}
    if layer.op.view:
        return (made[0].holding,), {}
    if layer.op.whole:
        working = cuts.working[:, None]
        samples = [
            [np.repeat(working, size, axis=1) for size in shape.values()] for shape in layer.input_shapes
        ]
        return tuple(Holding((dims["batch"], *sample)) for sample in samples), {}
    summed = set() if chosen or not layer.op.averages else layer.op.contracts(layer.input_shapes)
    windows = layer.op.windows_on(layer.input_shapes)
    rows, partial = [], {}
    for number, (dim, size) in enumerate(layer.input_shapes[0].items(), start=1):
        own = read(windows[dim], dims[dim], size) if dim in windows else dims[dim]
        held = own & made[0].holding.members[number]
        if dim in summed and (own[cuts.working] & ~held[cuts.working]).any():
            partial[f"input_{dim}"] = own = held
        rows.append(own)
    return (Holding((dims["batch"], *rows)),) * len(made), partial


def add_statistics(flow: Flow, layer: Layer, work: Work, reads: Mapping[str, str]) -> dict[str, str]:
    """Add up the statistics that an op takes over a dim, and return their arrays."""
    names = layer.op.statistics
    if not names:
        return {}
    writes = {name: f"{name} terms {layer.name}" for name in names}
    flow.steps.append(Compute(kind="sums", layer=layer.name, pieces=work.pieces, reads=reads, writes=writes))
    return {name: add_statistic(flow, layer, work, name, writes[name], "forward") for name in names}


def _whole(members: Members, size: int) -> Members:
    """Return the indices of a dim that devices have, with all others of runs of some size of which they have one."""
    return members.reshape(len(members), -1, size).any(axis=2).repeat(size, axis=1)


def rows_of(samples: Members, rows: int) -> Members:
    """Return the rows of a table that devices hold: all where they have samples."""
    return np.repeat(samples.any(axis=1, keepdims=True), rows, axis=1)


def add_statistic(flow: Flow, layer: Layer, work: Work, name: str, array: str, phase: str) -> str:
    """Add up one statistic over the devices that share its dims, and return the array of sums.

    Devices that compute nothing need the sum only if it is the gradient of a tensor that they hold.
    """
    reduced = layer.op.reduced(name.removeprefix("back "), layer.shape)
    active = np.all([members.any(axis=1) for members in work.dims.values()], axis=0)
    kept = [
        dim
        for dim in work.dims
        if dim not in reduced and not (layer.op.multiplies and dim.startswith((READ, MADE, CONTRACTED)))
    ]
    own = [work.dims[dim] for dim in kept]
    if rows := layer.op.table(name.removeprefix("back ")):
        own = [rows_of(work.dims["batch"], rows), *own]
    terms = need = Holding(tuple(members & active[:, None] for members in own))
    if sizes := layer.op.together_in(layer.shape):
        need = Holding(
            tuple(_whole(each, sizes.get(dim, 1)) for dim, each in zip(kept, need.members, strict=True))
        )
    if phase == "backward" and name.removeprefix("back ") in layer.op.parameters(layer.input_shapes):
        need = Holding(tuple(own))
    item = Item(layer.name, None, phase, "statistics")
    return flow.add(array, f"{name} {layer.name}", terms, need, work.copies, item)
