"""The forward pass of a layer as steps of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.program.cuts import scattered, uncut
from hypar.program.flow import Made, Work, pieces_of
from hypar.program.holding import Holding, copies_of, everywhere
from hypar.program.pieces import divide
from hypar.program.reads import read
from hypar.program.steps import Compute, Item

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.layer import Layer
    from hypar.program.cuts import Cuts
    from hypar.program.flow import Flow
    from hypar.program.holding import Members

SPATIAL = ("height", "width")
AXES = ("batch", "channels", *SPATIAL)


def forward(flow: Flow, layer: Layer) -> None:
    """Add the steps of a layer's forward pass."""
    if not layer.inputs:
        shape = (flow.graph.batch, *layer.shape.values())
        holding = everywhere(shape, flow.places.devices)
        flow.made[layer.name] = Made(array=f"F {layer.name}", holding=holding, cuts=uncut(flow.places))
        return
    if layer.num_parameters or any(name in flow.trained for name in layer.inputs):
        flow.trained.add(layer.name)
    (_weighted if layer.op.weighted else _unweighted)(flow, layer)


def _weighted(flow: Flow, layer: Layer) -> None:
    """Bring F_in to the devices that read it, contract, add up partial sums and add the bias."""
    name, cuts = layer.name, flow.cuts[layer.name]
    made = flow.made[layer.inputs[0]]
    sizes = layer.einsum(flow.graph.batch).sizes
    held = made.holding.members
    dims = {"batch": divide(flow.graph.batch, cuts, "batch", held[0])}
    grouped = "groups" in sizes
    if grouped:
        dims["groups"] = divide(sizes["groups"], cuts, "groups")
    dims["in_channels"] = divide(sizes["in_channels"], cuts, "in_channels", None if grouped else held[1])
    dims["out_channels"] = divide(sizes["out_channels"], cuts, "out_channels")
    spatial = tuple(dim for dim in SPATIAL if dim in sizes)
    dims |= {dim: divide(sizes[dim], cuts, dim) for dim in spatial}
    need = Holding(
        (
            dims["batch"],
            _channels(dims, "in_channels"),
            *_read(layer, {dim: dims[dim] for dim in spatial}),
        )
    )
    output = Holding((dims["batch"], _channels(dims, "out_channels"), *(dims[dim] for dim in spatial)))
    operand = _operand(flow, layer, 0, need)
    work = Work(dims=dims, needs=(need,), operands=(operand,), output=output, reads={})
    flow.work[name] = work
    flow.steps.append(
        Compute(
            kind="forward",
            layer=name,
            pieces=work.pieces,
            reads={"input 0": operand},
            writes={"output": f"terms {name}"},
        )
    )
    copies = cuts.copies([*dims])
    left, cuts = _left(flow, layer, output, cuts)
    item = Item(name, None, "forward", "output")
    summed = flow.add(f"terms {name}", f"sums {name}", output, left, copies, item)
    flow.steps.append(
        Compute(
            kind="finish",
            layer=name,
            pieces=pieces_of(dict(zip(AXES, left.members, strict=False))),
            reads={"output": summed},
            writes={"output": f"F {name}"},
        )
    )
    flow.made[name] = Made(array=f"F {name}", holding=left, cuts=cuts)


def _left(flow: Flow, layer: Layer, output: Holding, cuts: Cuts) -> tuple[Holding, Cuts]:
    """Return who gets the sums of F_out, and the cuts after which they lie: by ``fused`` as the only reader divides them."""
    reader = flow.next_choice(layer) if flow.convention == "fused" else None
    if reader is None or not cuts.divides("in_channels"):
        return output, cuts
    cuts = scattered(cuts, reader)
    members = [
        divide(size, cuts, dim, own if dim in ("batch", "channels") else None)
        for dim, size, own in zip(AXES, output.shape, output.members, strict=False)
    ]
    return Holding(tuple(members)), cuts


def _unweighted(flow: Flow, layer: Layer) -> None:
    """Bring the inputs of a join, a pool or a pointwise op to the devices that compute it, with its statistics."""
    name = layer.name
    made = [flow.made[source] for source in layer.inputs]
    cuts = flow.cuts.get(name, made[0].cuts)
    dims = _dims(flow, layer, cuts)
    needs, partial = _needs(layer, made, cuts, dims, name in flow.cuts)
    operands = tuple(_operand(flow, layer, number, need) for number, need in enumerate(needs))
    output = Holding(tuple(dims.values()))
    if layer.op.view:
        flat = made[0].holding.members[1:]
        output = Holding((dims["batch"], _outer(flat)))
        dims = {"batch": output.members[0], "channels": output.members[1]}
    work = Work(dims=dims | partial, needs=needs, operands=operands, output=output, reads={})
    reads = {f"input {number}": operand for number, operand in enumerate(operands)}
    statistics = _statistics(flow, layer, work, reads)
    work = Work(dims=work.dims, needs=needs, operands=operands, output=output, reads=statistics)
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
            copies_of(tuple(work.dims.values())),
            Item(name, None, "forward", "output"),
        )
    flow.made[name] = Made(array=target, holding=output, cuts=cuts)


def _dims(flow: Flow, layer: Layer, cuts: Cuts) -> dict[str, Members]:
    """Return the indices of each output dim that each device computes."""
    made = [flow.made[source] for source in layer.inputs]
    batch = [source.holding.members[0] for source in made]
    if layer.name not in flow.cuts:
        held = made[0].holding.members
        found = {"batch": batch[0], "channels": held[1]}
        windows = layer.op.windows_on(layer.input_shapes)
        for number, dim in enumerate(SPATIAL, start=2):
            if dim in layer.shape:
                whole = dim not in windows
                found[dim] = held[number] if whole else _resized(layer, cuts, dim)
        return found
    found = {"batch": divide(flow.graph.batch, cuts, "batch", _agreed(batch))}
    if layer.op.concatenates:
        parts = [
            divide(shape["channels"], cuts, "channels", source.holding.members[1])
            for shape, source in zip(layer.input_shapes, made, strict=True)
        ]
        found["channels"] = np.concatenate(parts, axis=1)
    else:
        channels = _agreed([source.holding.members[1] for source in made])
        found["channels"] = divide(layer.shape["channels"], cuts, "channels", channels)
    return found | {dim: divide(layer.shape[dim], cuts, dim) for dim in SPATIAL if dim in layer.shape}


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
            rest = [dims[dim] for dim in SPATIAL if dim in shape]
            found.append(Holding((dims["batch"], dims["channels"][:, first:last], *rest)))
            first = last
        return tuple(found), {}
    if layer.op.view:
        return (made[0].holding,), {}
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


def _statistics(flow: Flow, layer: Layer, work: Work, reads: Mapping[str, str]) -> dict[str, str]:
    """Add up the statistics that an op takes over a dim, and return their arrays."""
    names = layer.op.statistics
    if not names:
        return {}
    writes = {name: f"{name} terms {layer.name}" for name in names}
    flow.steps.append(Compute(kind="sums", layer=layer.name, pieces=work.pieces, reads=reads, writes=writes))
    return {name: add_statistic(flow, layer, work, name, writes[name], "forward") for name in names}


def add_statistic(flow: Flow, layer: Layer, work: Work, name: str, terms: str, phase: str) -> str:
    """Add up one statistic over the devices that share its dims, and return the array of sums."""
    kept = Holding(tuple(own for dim, own in work.dims.items() if dim not in layer.op.statistics_over))
    item = Item(layer.name, None, phase, "statistics")
    return flow.add(terms, f"{name} {layer.name}", kept, kept, copies_of(tuple(work.dims.values())), item)


def _operand(flow: Flow, layer: Layer, number: int, need: Holding) -> str:
    """Copy an input to the devices that read it, and return the array."""
    source = layer.inputs[number]
    made = flow.made[source]
    item = Item(layer.name, source, "forward", "input")
    return flow.copy(made.array, f"in {layer.name} {number}", made.holding, need, item)


def _read(layer: Layer, dims: Mapping[str, Members]) -> tuple[Members, ...]:
    windows, shape = layer.op.windows_on(layer.input_shapes), layer.input_shapes[0]
    return tuple(read(windows[dim], own, shape[dim]) for dim, own in dims.items())


def _channels(dims: Mapping[str, Members], dim: str) -> Members:
    """Return the channels of a tensor, through all groups."""
    return _outer((dims["groups"], dims[dim])) if "groups" in dims else dims[dim]


def _outer(members: tuple[Members, ...]) -> Members:
    """Return the indices of several dims flattened into one."""
    found = members[0]
    for own in members[1:]:
        found = (found[:, :, None] & own[:, None, :]).reshape(len(found), -1)
    return found


def _agreed(members: list[Members]) -> Members | None:
    """Return the indices that all inputs have alike; None if they differ."""
    return members[0] if all(np.array_equal(members[0], own) for own in members) else None
