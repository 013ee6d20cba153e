"""The forward pass of a join, a pool or a pointwise op as steps of a program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hypar.ops.dims import CONTRACTED, CUTTABLE, READ
from hypar.program.flow import AXES, SPATIAL, Made, Work
from hypar.program.holding import Holding, flattened
from hypar.program.pieces import divide
from hypar.program.reads import in_place, members
from hypar.program.steps import Compute, Item

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.layer import Layer
    from hypar.ops.nest import Nest
    from hypar.ops.operands import Operand
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
    name, nest = layer.name, flow.nest(layer)
    made = [flow.made[source] for source in layer.inputs]
    cuts = flow.cuts.get(name, made[0].cuts)
    dims = _dims(flow, layer, nest, cuts)
    needs, partial = _needs(nest, made, dims, name in flow.cuts)
    operands = tuple(flow.operand(layer, number, need) for number, need in enumerate(needs))
    output = Holding(tuple(dims.values()))
    if nest.view:
        flat = made[0].holding.members[1:]
        output = Holding((dims["batch"], flattened(flat)))
        dims = {"batch": output.members[0], "channels": output.members[1]}
    left = cuts if name in flow.cuts else cuts.without(nest.reduced)
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


def _dims(flow: Flow, layer: Layer, nest: Nest, cuts: Cuts) -> dict[str, Members]:
    """Return the indices of each output dim that each device computes."""
    made = [flow.made[source] for source in layer.inputs]
    batch = [source.holding.members[0] for source in made]
    if layer.name not in flow.cuts:
        held = made[0].holding.members
        found = {"batch": batch[0], "channels": held[1]} if nest.view else {"batch": batch[0]}
        windows = nest.inputs[0].windows
        for number, dim in enumerate(layer.shape if not nest.view else (), start=1):
            if dim in {*SPATIAL, DEPTH} and dim in windows:
                found[dim] = _resized(layer, nest, cuts, dim)
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
    if nest.concatenates:
        parts = [
            divide(shape["channels"], cuts, "channels", source.holding.members[1:2])
            for shape, source in zip(layer.input_shapes, made, strict=True)
        ]
        found["channels"] = np.concatenate(parts, axis=1)
    else:
        channels = [source.holding.members[1] for source in made]
        found["channels"] = divide(layer.shape["channels"], cuts, "channels", channels)
    return found | {dim: divide(size, cuts, dim) for dim, size in layer.shape.items() if dim != "channels"}


def _resized(layer: Layer, nest: Nest, cuts: Cuts, dim: str) -> Members:
    """Return the rows that an op without choices computes of an image of another size: all of a single one."""
    size = layer.shape[dim]
    if dim in nest.reduced:
        return np.repeat(cuts.working[:, None], size, axis=1)
    return divide(size, cuts, dim)


def _needs(
    nest: Nest, made: list[Made], dims: Mapping[str, Members], chosen: bool
) -> tuple[tuple[Holding, ...], dict[str, Members]]:
    """Return what each device reads of each input, and the input rows of which it adds up an average."""
    if nest.view:
        return (made[0].holding,), {}
    needs = [members(operand, {**dims, **_whole_dims(nest, dims)}) for operand in nest.inputs]
    partial = {}
    if nest.reduce == "mean" and not chosen:
        working = dims["batch"].any(axis=1)
        for at, (axis, own, there) in enumerate(
            zip(nest.inputs[0].axes, needs[0], made[0].holding.members, strict=True)
        ):
            if axis in nest.reduced and (own[working] & ~there[working]).any():
                partial[f"input_{axis}"] = own & there
                needs[0] = (*needs[0][:at], own & there, *needs[0][at + 1 :])
    return tuple(map(Holding, needs)), partial


def _whole_dims(nest: Nest, dims: Mapping[str, Members]) -> dict[str, Members]:
    """Return the loop dims that have other names than the axes of the output, as those of an opaque op."""
    return {own.dims[0]: dims[axis] for axis, own in nest.result.axes.items()}


def add_statistics(flow: Flow, layer: Layer, work: Work, reads: Mapping[str, str]) -> dict[str, str]:
    """Add up the sums of the forward phase, and return their arrays."""
    names = [name for name, own in flow.nest(layer).sums.items() if not own.backward]
    if not names:
        return {}
    writes = {name: f"{name} terms {layer.name}" for name in names}
    flow.steps.append(
        Compute(kind="statistics", layer=layer.name, pieces=work.pieces, reads=reads, writes=writes)
    )
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
    nest, plain = flow.nest(layer), name.removeprefix("back ")
    active = np.all([members.any(axis=1) for members in work.dims.values()], axis=0)
    own = [work.dims[dim] for dim in nest.sums[plain].dims]
    if nest.trained.get(plain) and table_rows(nest.trained[plain]):
        own = [rows_of(work.dims["batch"], table_rows(nest.trained[plain])), *own]
    terms = need = Holding(tuple(members & active[:, None] for members in own))
    if sizes := nest.sums[plain].together:
        pairs = zip(nest.sums[plain].dims, need.members, strict=True)
        need = Holding(tuple(_whole(each, sizes.get(dim, 1)) for dim, each in pairs))
    if phase == "backward" and plain in layer.trained:
        need = Holding(tuple(own))
    item = Item(layer.name, None, phase, "statistics")
    return flow.add(array, f"{name} {layer.name}", terms, need, work.copies, item)


def table_rows(own: Operand) -> int:
    """Return the rows of a trained tensor that is a table; 0 if it is none."""
    return own.axes["rows"].size if "rows" in own.axes else 0
