"""The forward pass of a weighted layer as steps of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.program.cuts import scattered
from hypar.program.flow import AXES, SPATIAL, Made, Work, pieces_of
from hypar.program.holding import Holding, flattened
from hypar.program.pieces import divide
from hypar.program.reads import read
from hypar.program.steps import Compute, Item

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.layer import Layer
    from hypar.program.cuts import Cuts
    from hypar.program.flow import Flow
    from hypar.program.holding import Members


def weighted(flow: Flow, layer: Layer) -> None:
    """Bring F_in to the devices that read it, contract, add up partial sums and add the bias."""
    name, cuts = layer.name, flow.cuts[layer.name]
    dims = _dims(flow, layer, cuts)
    spatial = tuple(dim for dim in SPATIAL if dim in dims)
    rows = _read(layer, {dim: dims[dim] for dim in spatial})
    need = Holding((dims["batch"], _channels(dims, "in_channels"), *rows))
    output = Holding((dims["batch"], _channels(dims, "out_channels"), *(dims[dim] for dim in spatial)))
    operand = flow.operand(layer, 0, need)
    copies = cuts.copies([*dims])
    work = Work(dims=dims, needs=(need,), operands=(operand,), output=output, copies=copies, reads={})
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


def _dims(flow: Flow, layer: Layer, cuts: Cuts) -> dict[str, Members]:
    """Return the indices of each op dim that each device computes: samples and channels of F_in that it has, if shares allow."""
    sizes = layer.einsum(flow.graph.batch).sizes
    batch, channels = flow.made[layer.inputs[0]].holding.members[:2]
    held = {"batch": (batch,), "in_channels": () if "groups" in sizes else (channels,)}
    computed = [dim for dim in sizes if not dim.startswith("kernel")]
    return {dim: divide(sizes[dim], cuts, dim, held.get(dim, ())) for dim in computed}


def _left(flow: Flow, layer: Layer, output: Holding, cuts: Cuts) -> tuple[Holding, Cuts]:
    """Return who gets the sums of F_out, and the cuts after which they lie: by ``fused`` as the only reader divides them."""
    reader = flow.next_choice(layer) if flow.convention == "fused" else None
    if reader is None or not cuts.divides("in_channels") or not cuts.meets(reader):
        return output, cuts
    cuts = scattered(cuts, reader)
    members = [
        divide(size, cuts, dim, (own,) if dim in ("batch", "channels") else ())
        for dim, size, own in zip(AXES, output.shape, output.members, strict=False)
    ]
    return Holding(tuple(members)), cuts


def _read(layer: Layer, dims: Mapping[str, Members]) -> tuple[Members, ...]:
    windows, shape = layer.op.windows_on(layer.input_shapes), layer.input_shapes[0]
    return tuple(read(windows[dim], own, shape[dim]) for dim, own in dims.items())


def _channels(dims: Mapping[str, Members], dim: str) -> Members:
    """Return the channels of a tensor, through all groups."""
    return flattened((dims["groups"], dims[dim])) if "groups" in dims else dims[dim]
