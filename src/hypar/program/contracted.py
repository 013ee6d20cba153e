"""The forward pass of a layer that multiplies, by a weight or activations by each other, as steps of a program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.ops.dims import CONTRACTED, KERNEL
from hypar.ops.nest import operand_name
from hypar.ops.operands import IN_GROUP
from hypar.program.cuts import scattered
from hypar.program.flow import SPATIAL, Made, Work, axes_of, pieces_of
from hypar.program.holding import Holding
from hypar.program.pieces import divide
from hypar.program.reads import members, reached
from hypar.program.steps import Compute, Item
from hypar.program.unweighted import add_statistics
from hypar.sharding.placement import partial_results

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.layer import Layer
    from hypar.ops.nest import Nest
    from hypar.program.cuts import Cuts
    from hypar.program.flow import Flow
    from hypar.program.holding import Members


def contracted(flow: Flow, layer: Layer) -> None:
    """Bring its inputs to the devices that read them, contract, add up partial sums and add the bias."""
    name, cuts = layer.name, flow.cuts[layer.name]
    nest = flow.nest(layer)
    dims = _dims(flow, layer, nest, cuts)
    needs = tuple(Holding(members(operand, dims)) for operand in nest.inputs)
    output = Holding(members(nest.result, dims))
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
    left, cuts = _left(flow, layer, nest, output, cuts)
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


def _dims(flow: Flow, layer: Layer, nest: Nest, cuts: Cuts) -> dict[str, Members]:
    """Return the indices of each op dim that each device computes: of its inputs those that it has, if shares allow."""
    sizes = nest.sizes
    held: dict[str, tuple[Members, ...]] = {}
    for operand, name in zip(nest.inputs, layer.inputs, strict=True):
        pairs = zip(operand.axes.items(), flow.made[name].holding.members, strict=True)
        for (axis, own), there in pairs:
            if len(own.dims) == 1:
                held[own.dims[0]] = (*held.get(own.dims[0], ()), there)
            elif own.window is not None and axis not in nest.windows:
                dim = own.dims[0]
                held[dim] = (*held.get(dim, ()), reached(own.window, there, sizes[dim]))
    reader = flow.next_choice(layer)
    joined = reader.layer.inputs if reader is not None and reader.layer.op.node == "join" else ()
    others = tuple(flow.made[name].holding.members[0] for name in joined if name in flow.made)
    # Where all devices have all samples, they take those that they have of what a join reads beside the output.
    if others and all(own.all() for own in held.get("batch", ())):
        held["batch"] = others
    computed = [dim for dim in sizes if not dim.startswith(KERNEL)]
    return {dim: divide(sizes[dim], cuts, dim, held.get(dim, ())) for dim in computed}


def _left(flow: Flow, layer: Layer, nest: Nest, output: Holding, cuts: Cuts) -> tuple[Holding, Cuts]:
    """Return who gets the sums of F_out, and the cuts after which they lie: by ``fused`` as the only reader divides them."""
    reader = flow.next_choice(layer) if flow.convention == "fused" else None
    divided = {dim for level in cuts.levels for dim in level.bounds}
    terms = frozenset(dim for dim in divided if "output" in partial_results(nest, dim))
    if reader is None or not terms or not cuts.meets(reader.cuts):
        return output, cuts
    read_as = _ungrouped(flow.nest(reader.layer).names(operand_name(reader.operand)))
    read_as.pop("groups", None)
    made_as = _ungrouped(nest.output)
    cuts = scattered(cuts, reader.cuts, (made_as, read_as), terms)
    axes = axes_of(layer)
    members = [
        divide(size, cuts, dim, () if dim in SPATIAL else (own,))
        for dim, size, own in zip(axes, output.shape, output.members, strict=True)
    ]
    return Holding(tuple(members)), cuts


def _ungrouped(names: Mapping[str, str]) -> dict[str, str]:
    """Return the tensor's names for op dims, those of the channels of a group as channels."""
    return {dim: "channels" if axis == IN_GROUP else axis for dim, axis in names.items()}
