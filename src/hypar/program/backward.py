"""The backward pass of a layer as steps of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.program.counting import overlapping
from hypar.program.flow import pieces_of
from hypar.program.forward import AXES, add_statistic
from hypar.program.holding import Holding, copies_of
from hypar.program.reads import owned
from hypar.program.steps import Compute, Item, Update

if TYPE_CHECKING:
    from hypar.network.layer import Layer
    from hypar.program.flow import Flow, Work
    from hypar.program.holding import Members


def backward(flow: Flow, layer: Layer) -> None:
    """Add the steps of a layer's backward pass: nothing where no trained layer comes before it or is it."""
    if layer.name not in flow.trained:
        return
    error = _error(flow, layer)
    work = flow.work[layer.name]
    held = flow.made[layer.name].holding
    if not held.same(work.output):
        item = Item(layer.name, None, "backward", "output")
        error = flow.copy(error, f"E all {layer.name}", held, work.output, item)
    reads = {f"input {number}": operand for number, operand in enumerate(work.operands)}
    reads |= dict(work.reads) | {"error": error}
    sums = _statistics(flow, layer, work, reads)
    sent = [number for number, name in enumerate(layer.inputs) if name in flow.trained]
    writes = {f"input {number}": f"E terms {layer.name} {number}" for number in sent}
    writes |= {"weight": f"d terms {layer.name} weight"} if layer.op.weighted else {}
    flow.steps.append(
        Compute(kind="backward", layer=layer.name, pieces=work.pieces, reads=reads | sums, writes=writes)
    )
    if layer.op.weighted and "bias" in layer.op.parameters(layer.input_shapes):
        flow.steps.append(
            Compute(
                kind="bias",
                layer=layer.name,
                pieces=pieces_of(dict(zip(AXES, work.output.members, strict=False))),
                reads={"error": error},
                writes={"bias": f"d terms {layer.name} bias"},
            )
        )
    for number in sent:
        _send(flow, layer, work, number)
    for name in layer.op.parameters(layer.input_shapes):
        _update(flow, layer, work, name, sums.get(f"back {name}"))


def _error(flow: Flow, layer: Layer) -> str:
    """Add up what the readers of a layer's output have sent back; at an output of the network take the loss."""
    made = flow.made[layer.name]
    pieces = pieces_of(dict(zip(AXES, made.holding.members, strict=False)))
    sent = flow.errors.get(layer.name, [])
    kind = "error" if flow.readers(layer) else "loss"
    reads = {str(number): array for number, array in enumerate(sent)} if sent else {"output": made.array}
    flow.steps.append(
        Compute(kind=kind, layer=layer.name, pieces=pieces, reads=reads, writes={"error": f"E {layer.name}"})
    )
    return f"E {layer.name}"


def _statistics(flow: Flow, layer: Layer, work: Work, reads: dict[str, str]) -> dict[str, str]:
    """Add up the statistics of the error, and return their arrays by role."""
    names = layer.op.back_statistics
    if not names:
        return {}
    writes = {name: f"back {name} terms {layer.name}" for name in names}
    flow.steps.append(
        Compute(kind="back_sums", layer=layer.name, pieces=work.pieces, reads=reads, writes=writes)
    )
    return {
        f"back {name}": add_statistic(flow, layer, work, f"back {name}", writes[name], "backward")
        for name in names
    }


def _send(flow: Flow, layer: Layer, work: Work, number: int) -> None:
    """Add up the terms of an input's error and bring the sums to the devices that have the input."""
    source = layer.inputs[number]
    made, terms = flow.made[source], work.needs[number]
    read = [own.any(axis=0) for own in terms.members]
    need = Holding(tuple(own & any_ for own, any_ in zip(made.holding.members, read, strict=True)))
    copies = _copies(flow, layer, work)
    item = Item(layer.name, source, "backward", "input")
    inside = Item(layer.name, None, "backward", "input")
    array, name = f"E terms {layer.name} {number}", f"{layer.name} {number}"
    if flow.convention == "moved":
        sums = Holding(_one_each(work.needs[number], made.holding))
        array = flow.add(array, f"E sums {name}", terms, sums, copies, inside)
        have = sums if array != f"E terms {layer.name} {number}" else terms
        array = flow.copy(array, f"E {name}", have, need, item)
    elif overlapping(terms, copies):
        array = flow.add(array, f"E {name}", terms, need, copies, item)
    else:
        array = flow.copy(array, f"E {name}", terms, need, item)
    flow.errors.setdefault(source, []).append(array)


def _one_each(reading: Holding, held: Holding) -> tuple[Members, ...]:
    """Return what each device reads, but rows of an image, or channels, that several pieces read by one of them."""
    return tuple(
        own if number == 0 else owned(own, theirs)
        for number, (own, theirs) in enumerate(zip(reading.members, held.members, strict=True))
    )


def _update(flow: Flow, layer: Layer, work: Work, name: str, summed: str | None) -> None:
    """Add up the gradient of a trained tensor, and update it where it is held."""
    holding = Holding(_held(flow, layer, work, name))
    if summed is None:
        dims = [dim for dim in work.dims if name == "weight" or dim != "in_channels"]
        terms = holding if name == "weight" else Holding((work.output.members[1],))
        item = Item(layer.name, None, "gradient", name)
        array, copies = f"d terms {layer.name} {name}", flow.cuts[layer.name].copies(dims)
        summed = flow.add(array, f"d {layer.name} {name}", terms, holding, copies, item)
    flow.updates.append(Update(layer=layer.name, parameter=name, gradient=summed, holding=holding))


def _copies(flow: Flow, layer: Layer, work: Work) -> np.ndarray:
    """Return the copy of its terms of an input's error that each device has."""
    if layer.op.weighted:
        return flow.cuts[layer.name].copies([*work.dims])
    return copies_of(tuple(work.dims.values()))


def _held(flow: Flow, layer: Layer, work: Work, name: str) -> tuple[Members, ...]:
    """Return the indices of each dim of a trained tensor that each device holds."""
    if not layer.op.weighted or name == "bias":
        return (work.output.members[1] | flow.made[layer.name].holding.members[1],)
    dims, devices = work.dims, work.output.devices
    matrix = (dims["in_channels"], dims["out_channels"])
    if "height" not in dims:
        return matrix
    sizes = layer.einsum(flow.graph.batch).sizes
    kernel = tuple(np.ones((devices, sizes[f"kernel_{dim}"]), bool) for dim in ("height", "width"))
    return (dims.get("groups", np.ones((devices, 1), bool)), *matrix, *kernel)
