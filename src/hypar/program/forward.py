"""The forward pass of a layer as steps of a program, and what a lowering knows while it walks a network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.ops.dims import KERNEL
from hypar.ops.nest import IN_GROUP, operand_name
from hypar.program.holding import Holding, flattened, indices_of
from hypar.program.layout import Layout, divide
from hypar.program.reads import in_place, members, reached
from hypar.program.steps import Add, Compute, Copy, Item, Step, Update
from hypar.sharding.placement import partial_results

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer, Tie
    from hypar.ops.nest import Nest
    from hypar.program.holding import Members, Piece
    from hypar.program.layout import Numbers, Places

SPATIAL = ("height", "width")
DEPTH = "depth"


class Pass(NamedTuple):
    """The forward pass of a layer.

    Attributes:
        array: the array of its output.
        holding: who has what of the output.
        layout: the layout after which later ops divide an image.
        output: who computes what of the output.
        inputs: the copies of its inputs, also those that move nothing.
        dims: for each dim of the op the indices that each device computes, ``[devices, size]``.
        copies: which copy of its terms each device has, where the op leaves terms.
        reads: the arrays that it reads, by their role.
    """

    array: str
    holding: Holding
    layout: Layout
    output: Holding
    inputs: tuple[Copy, ...] = ()
    dims: Mapping[str, Members] = {}
    copies: Numbers = np.zeros(0, np.int64)
    reads: Mapping[str, str] = {}


def pieces_of(dims: Mapping[str, Members], made: Container[str] | None = None) -> tuple[Piece | None, ...]:
    """Return the indices of each dim for each device; None for a device that has none of some dim, or of some that is made."""
    rows = zip(*(indices_of(own) for own in dims.values()), strict=True)
    pieces = [dict(zip(dims, row, strict=True)) for row in rows]
    return tuple(
        own if all(len(at) for dim, at in own.items() if made is None or dim in made) else None
        for own in pieces
    )


@dataclass(frozen=True, kw_only=True)
class Flow:
    """A lowering under way.

    Attributes:
        graph: the network.
        places: the devices.
        layouts: the layout of each layer with choices.
        convention: what becomes of partial sums.
        made: the forward passes of the layers so far.
        errors: for each layer, the arrays of what its readers have sent back, and who has what of them.
        trained: the layers whose backward pass trains something.
        steps: the steps so far.
        updates: the updates, which come last.
        tied: for each layer whose weight others use too, how each of these would add up its terms of the gradient.
    """

    graph: LayerGraph
    places: Places
    layouts: Mapping[str, Layout]
    convention: str
    made: dict[str, Pass] = field(default_factory=dict)
    errors: dict[str, list[tuple[str, Holding]]] = field(default_factory=dict)
    trained: set[str] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    tied: dict[str, list[tuple[Tie, Add]]] = field(default_factory=dict)

    def nest(self, layer: Layer) -> Nest:
        """Return the loop nest of a layer."""
        return layer.nest(self.graph.batch)

    def move(self, step: Copy | Add) -> str:
        """Add a transfer, and return the array that it writes; where it is idle, the one that it would read."""
        if step.idle:
            return step.source
        self.steps.append(step)
        return step.target

    def next_choice(self, layer: Layer) -> tuple[Layer, int] | None:
        """Return the only planned layer that reads an output, through ops without choices, and the operand that it is; or None."""
        while len(readers := self.readers(layer)) == 1:
            name, (layer,) = layer.name, readers
            if layer.name in self.layouts:
                return layer, layer.inputs.index(name) if self.nest(layer).others else 0
        return None

    def readers(self, layer: Layer) -> tuple[Layer, ...]:
        """Return the layers that read a layer's output, once for each time."""
        return tuple(reader for reader in self.graph.layers for name in reader.inputs if name == layer.name)

    def statistics(
        self,
        layer: Layer,
        dims: Mapping[str, Members],
        copies: Numbers,
        reads: Mapping[str, str],
        before: str = "",
    ) -> dict[str, str]:
        """Add up the sums of a phase, and return their arrays by role, their name; of the backward phase with ``back `` before it.

        A sum over dims that every device has whole needs no other device, unless it is a gradient. Devices that compute
        nothing need the sum only if it is the gradient of a tensor that they hold.
        """
        nest, active = self.nest(layer), np.all([own.any(axis=1) for own in dims.values()], axis=0)
        roles = {}
        for name, own in nest.sums.items():
            over = [each[active].all() for dim, each in dims.items() if dim not in own.dims]
            if own.backward is bool(before) and (name in layer.trained or own.together or not all(over)):
                roles[name] = f"{before}{name}"
        if not roles:
            return {}
        writes = {name: f"{role} terms {layer.name}" for name, role in roles.items()}
        self.steps.append(Compute("statistics", layer.name, pieces_of(dims), reads, writes))
        item, found = Item(layer.name, None, "backward" if before else "forward", "statistics"), {}
        for name, role in roles.items():
            trained, own = nest.trained.get(name), nest.sums[name]
            held = Holding(members(trained, dims) if trained else tuple(dims[dim] for dim in own.dims))
            need = terms = held.on(active)
            if own.together:
                pairs = zip(own.dims, need.members, strict=True)
                need = Holding(tuple(_whole(each, own.together.get(dim, 1)) for dim, each in pairs))
            if before and name in layer.trained:
                need = held
            found[role] = self.move(Add(writes[name], f"{role} {layer.name}", terms, need, item, copies))
        return found


def _whole(each: Members, size: int) -> Members:
    """Return the indices of a dim that devices have, with all others of runs of some size of which they have one."""
    return each.reshape(len(each), -1, size).any(axis=2).repeat(size, axis=1)


def forward(flow: Flow, layer: Layer) -> None:
    """Bring a layer's inputs to the devices that compute it, add up its statistics and its partial sums, and add the bias."""
    name, nest, places = layer.name, flow.nest(layer), flow.places
    if not layer.inputs:
        output = Holding(tuple(np.ones((places.devices, size), bool) for size in nest.result.shape))
        uncut = Layout(places, ({},) * len(places.parts), np.ones(places.devices, bool))
        flow.made[name] = Pass(f"F {name}", output, uncut, output)
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
    copies = (layout if chosen or partial else after).copies(tuple(dims if chosen else layout.dims))
    output, dims = Holding(members(nest.result, dims)), dims | partial
    reads = {operand_name(number): flow.move(own) for number, own in enumerate(inputs)}
    reads = reads | flow.statistics(layer, dims, copies, reads)
    terms = nest.multiplies or bool(partial)
    array = f"terms {name}" if terms else f"F {name}"
    flow.steps.append(Compute("forward", name, pieces_of(dims), reads, {"output": array}))
    need, after = _left(flow, layer, nest, output, after) if nest.multiplies else (output, after)
    if terms:
        item = Item(name, None, "forward", "output")
        target = f"sums {name}" if nest.multiplies else f"F {name}"
        array = flow.move(Add(array, target, output, need, item, copies))
    if nest.multiplies:
        pieces, summed = pieces_of(dict(zip(nest.result.axes, need.members, strict=True))), array
        array = f"F {name}"
        flow.steps.append(Compute("finish", name, pieces, {"output": summed}, {"output": array}))
    flow.made[name] = Pass(array, need, after, output, tuple(inputs), dims, copies, reads)


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
    if reader is None or not terms or not (layout.working & flow.layouts[reader[0].name].working).any():
        return output, after
    read_as = _ungrouped(flow.nest(reader[0]).names.get(operand_name(reader[1]), {}))
    read_as.pop("groups", None)
    made_as = _ungrouped(nest.names["output"])
    after = layout.scattered(flow.layouts[reader[0].name], made_as, read_as, terms)
    left = [
        divide(size, after, dim, () if dim in SPATIAL else (own,))
        for dim, size, own in zip(nest.result.axes, output.shape, output.members, strict=True)
    ]
    return Holding(tuple(left)), after


def _ungrouped(names: Mapping[str, str]) -> dict[str, str]:
    """Return the tensor's names for op dims, those of the channels of a group as channels."""
    return {dim: "channels" if axis == IN_GROUP else axis for dim, axis in names.items()}
