"""The forward pass of a layer as steps of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.ops.dims import KERNEL
from hypar.ops.nest import IN_GROUP, operand_name
from hypar.program.flow import Pass, axes_of, pieces_of
from hypar.program.holding import Holding, flattened
from hypar.program.layout import Layout
from hypar.program.pieces import divide
from hypar.program.reads import in_place, members, reached
from hypar.program.steps import Add, Compute, Copy, Item
from hypar.sharding.placement import partial_results

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.layer import Layer
    from hypar.ops.nest import Nest
    from hypar.program.flow import Flow
    from hypar.program.holding import Members

SPATIAL = ("height", "width")
DEPTH = "depth"


def forward(flow: Flow, layer: Layer) -> None:
    """Bring a layer's inputs to the devices that compute it, add up its statistics and its partial sums, and add the bias."""
    name, nest, places = layer.name, flow.nest(layer), flow.places
    if not layer.inputs:
        output = Holding(tuple(np.ones((places.devices, size), bool) for size in nest.result.shape))
        uncut = Layout(places, ({},) * len(places.parts), np.ones(places.devices, bool))
        flow.made[name] = Pass(array=f"F {name}", holding=output, layout=uncut, output=output)
        return
    if layer.num_parameters or any(source in flow.trained for source in layer.inputs):
        flow.trained.add(name)
    chosen, made = name in flow.layouts, [flow.made[source] for source in layer.inputs]
    layout = flow.layouts[name] if chosen else made[0].layout
    dims = (_divided if chosen else _followed)(flow, layer, nest, layout)
    needs, partial = _needs(flow, layer, nest, dims)
    inputs = []
    for number, (source, own, need) in enumerate(zip(layer.inputs, made, needs, strict=True)):
        item = Item(name, source, "forward", "input")
        inputs.append(Copy(own.array, f"in {name} {number}", own.holding, need, item))
    left = nest.result.dims if chosen else {*layout.dims} - nest.reduced
    after = layout.of({dim: dim for dim in left})
    copies = layout.copies(dims) if chosen else (layout if partial else after).copies(layout.dims)
    output, dims = Holding(members(nest.result, dims)), dims | partial
    reads = {f"input {number}": flow.move(own) for number, own in enumerate(inputs)}
    reads = reads | flow.statistics(layer, dims, copies, reads)
    terms = nest.multiplies or bool(partial)
    array = f"terms {name}" if terms else f"F {name}"
    writes = {"output": array}
    flow.steps.append(Compute(kind="forward", layer=name, pieces=pieces_of(dims), reads=reads, writes=writes))
    need, after = _left(flow, layer, nest, output, after) if nest.multiplies else (output, after)
    if terms:
        item = Item(name, None, "forward", "output")
        target = f"sums {name}" if nest.multiplies else f"F {name}"
        array = flow.move(Add(array, target, output, need, item, copies))
    if nest.multiplies:
        pieces, summed = pieces_of(dict(zip(axes_of(layer), need.members, strict=True))), {"output": array}
        array = f"F {name}"
        writes = {"output": array}
        flow.steps.append(Compute(kind="finish", layer=name, pieces=pieces, reads=summed, writes=writes))
    flow.made[name] = Pass(
        array=array,
        holding=need,
        layout=after,
        output=output,
        inputs=tuple(inputs),
        dims=dims,
        copies=copies,
        reads=reads,
    )


def _divided(flow: Flow, layer: Layer, nest: Nest, layout: Layout) -> dict[str, Members]:
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
        joined = reader[0].inputs if reader is not None and reader[0].op.node == "join" else ()
        others = tuple(flow.made[name].holding.members[0] for name in joined if name in flow.made)
        # Where all devices have all samples, they take those that they have of what a join reads beside the output.
        if others and all(own.all() for own in held.get("batch", ())):
            held["batch"] = others
    found = {
        dim: divide(size, layout, dim, () if nest.concatenates and dim == "channels" else held.get(dim, ()))
        for dim, size in sizes.items()
        if not dim.startswith(KERNEL)
    }
    if nest.concatenates:
        parts = zip(layer.input_shapes, made, strict=True)
        each = [divide(shape["channels"], layout, "channels", own[1:2]) for shape, own in parts]
        found["channels"] = np.concatenate(each, axis=1)
    return found


def _followed(flow: Flow, layer: Layer, nest: Nest, layout: Layout) -> dict[str, Members]:
    """Return the indices of each output dim that each device computes of an op without choices: those that it has."""
    held = flow.made[layer.inputs[0]].holding.members
    if nest.view:
        return {"batch": held[0], "channels": flattened(held[1:])}
    found, windows = {"batch": held[0]}, nest.inputs[0].windows
    for number, (dim, size) in enumerate(layer.shape.items(), start=1):
        if dim in nest.reduced:
            found[dim] = np.repeat(layout.working[:, None], size, axis=1)
        elif dim in {*SPATIAL, DEPTH} and dim in windows:
            found[dim] = divide(size, layout, dim)
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
    if nest.reduce == "mean" and layer.name not in flow.layouts:
        working, read = dims["batch"].any(axis=1), []
        for axis, own, held in zip(nest.inputs[0].axes, first, there.members, strict=True):
            lacks = axis in nest.reduced and (own[working] & ~held[working]).any()
            read.append(own & held if lacks else own)
            partial |= {f"input_{axis}": read[-1]} if lacks else {}
        first = tuple(read)
    return tuple(map(Holding, (first, *others))), partial


def _left(flow: Flow, layer: Layer, nest: Nest, output: Holding, after: Layout) -> tuple[Holding, Layout]:
    """Return who gets the sums of F_out, and the layout in which they lie: by ``fused`` as the only reader divides them."""
    layout, reader = flow.layouts[layer.name], flow.next_choice(layer) if flow.convention == "fused" else None
    terms = {dim for dim in layout.dims if "output" in partial_results(nest, dim)}
    if reader is None or not terms or not layout.meets(flow.layouts[reader[0].name]):
        return output, after
    read_as = _ungrouped(flow.nest(reader[0]).names.get(operand_name(reader[1]), {}))
    read_as.pop("groups", None)
    made_as = _ungrouped(nest.names["output"])
    after = layout.scattered(flow.layouts[reader[0].name], (made_as, read_as), terms)
    left = [
        divide(size, after, dim, () if dim in SPATIAL else (own,))
        for dim, size, own in zip(axes_of(layer), output.shape, output.members, strict=True)
    ]
    return Holding(tuple(left)), after


def _ungrouped(names: Mapping[str, str]) -> dict[str, str]:
    """Return the tensor's names for op dims, those of the channels of a group as channels."""
    return {dim: "channels" if axis == IN_GROUP else axis for dim, axis in names.items()}
