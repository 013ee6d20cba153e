"""The backward pass of a layer as steps of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.ops.dims import READ
from hypar.program.counting import overlapping
from hypar.program.flow import Used, axes_of, pieces_of
from hypar.program.holding import Holding
from hypar.program.reads import owned
from hypar.program.statistics import add_statistics, rows_of, table_rows
from hypar.program.steps import Compute, Item, Update

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.layer import Layer
    from hypar.program.flow import Flow, Work
    from hypar.program.holding import Members
    from hypar.program.places import Numbers


def backward(flow: Flow, layer: Layer) -> None:
    """Add the steps of a layer's backward pass: nothing where no trained layer comes before it or is it."""
    if layer.name not in flow.trained:
        return
    error = _error(flow, layer)
    work = flow.work[layer.name]
    held = flow.made[layer.name].holding
    if held != work.output:
        item = Item(layer.name, None, "backward", "output")
        error = flow.copy(error, f"E all {layer.name}", held, work.output, item)
    reads = {f"input {number}": operand for number, operand in enumerate(work.operands)}
    reads |= dict(work.reads) | {"error": error}
    sums = add_statistics(flow, layer, work, reads, "back ")
    sent = [number for number, name in enumerate(layer.inputs) if name in flow.trained]
    writes = {f"input {number}": f"E terms {layer.name} {number}" for number in sent}
    trained = flow.nest(layer).trained if layer.weighted else ()
    writes |= {name: f"d terms {layer.name} {name}" for name in trained}
    pieces = pieces_of(work.dims, flow.nest(layer).result.dims)
    flow.steps.append(
        Compute(kind="backward", layer=layer.name, pieces=pieces, reads=reads | sums, writes=writes)
    )
    for number in sent:
        _send(flow, layer, work, number)
    for name in dict.fromkeys((*(["weight"] if layer.op.tied else []), *layer.trained)):
        _update(flow, layer, work, name, sums.get(f"back {name}"))


def _error(flow: Flow, layer: Layer) -> str:
    """Add up what the readers of a layer's output have sent back; at an output of the network take the loss."""
    made = flow.made[layer.name]
    pieces = pieces_of(dict(zip(axes_of(layer), made.holding.members, strict=True)))
    sent = flow.errors.get(layer.name, [])
    kind = "error" if flow.readers(layer) else "loss"
    reads = {str(number): array for number, (array, _) in enumerate(sent)} or {"output": made.array}
    flow.steps.append(
        Compute(
            kind=kind,
            layer=layer.name,
            pieces=pieces,
            reads=reads,
            writes={"error": f"E {layer.name}"},
            due={str(number): holding for number, (_, holding) in enumerate(sent)},
        )
    )
    return f"E {layer.name}"


def _send(flow: Flow, layer: Layer, work: Work, number: int) -> None:
    """Add up the terms of an input's error and bring the sums to the devices that have the input."""
    source = layer.inputs[number]
    made, terms = flow.made[source], work.needs[number]
    read = [own.any(axis=0) for own in terms.members]
    need = Holding(tuple(own & any_ for own, any_ in zip(made.holding.members, read, strict=True)))
    item = Item(layer.name, source, "backward", "input")
    name = f"{layer.name} {number}"
    array = f"E terms {name}"
    if flow.convention == "moved" or not made.holding.meets(terms):
        sums, inside = Holding(_one_each(terms, made.holding)), Item(layer.name, None, "backward", "input")
        array = flow.add(array, f"E sums {name}", terms, sums, work.copies, inside)
        array = flow.copy(array, f"E {name}", sums, need, item)
    elif overlapping(terms, work.copies):
        array = flow.add(array, f"E {name}", terms, need, work.copies, item)
    else:
        array = flow.copy(array, f"E {name}", terms, need, item)
    flow.errors.setdefault(source, []).append((array, need))


def _one_each(reading: Holding, held: Holding) -> tuple[Members, ...]:
    """Return what each device reads, but rows of an image, or channels, that several pieces read by one of them."""
    dims = reading.members
    rest = [
        owned(own, held.members[number], [*dims[:number], *dims[number + 1 :]])
        for number, own in enumerate(dims[1:], start=1)
    ]
    return dims[0], *rest


def _update(flow: Flow, layer: Layer, work: Work, name: str, summed: str | None) -> None:
    """Add up the gradient of a trained tensor, and update it where it is held.

    The terms of a weight that an earlier layer has are left to that one, which adds up those of all its users at once.
    """
    holding = Holding(_held(flow, layer, work, name))
    tie = next((tie for tie in flow.graph.ties if (tie.user, "weight") == (layer.name, name)), None)
    users = flow.tied.get(layer.name, []) if name == "weight" else []
    if summed is None:
        dims = [dim for dim in work.dims if name == "weight" or not dim.startswith(READ)]
        array, copies = f"d terms {layer.name} {name}", flow.cuts[layer.name].copies(dims)
        if tie is not None:
            flow.tied.setdefault(tie.owner, []).append(Used(tie, array, holding, copies))
            return
        terms = holding if name == "weight" else Holding(_bias(flow, layer, work.output))
        if users:
            array, terms, copies = _of_users(flow, Used(None, array, holding, copies), layer, users)
            holding = terms
        item = Item(layer.name, None, "gradient", name)
        summed = flow.add(array, f"d {layer.name} {name}", terms, holding, copies, item)
    ties = tuple(user.tie for user in users if user.tie is not None)
    flow.updates.append(Update(layer=layer.name, parameter=name, gradient=summed, holding=holding, ties=ties))


def _of_users(flow: Flow, own: Used, layer: Layer, users: Sequence[Used]) -> tuple[str, Holding, Numbers]:
    """Add up what each device has of the terms of all users of a weight.

    Returns:
        The array; who has terms of what, and will hold it; 0 for the devices that have some, -1 for the others.
    """
    every, target = (own, *users), f"d terms {layer.name} of all"
    copies = np.maximum.reduce([user.copies for user in every])
    boxes = [user.in_order for user in every]
    whole = {str(axis): np.arange(size) for axis, size in enumerate(own.holding.shape)}
    flow.steps.append(
        Compute(
            kind="tied",
            layer=layer.name,
            pieces=tuple(None if copy < 0 else whole for copy in copies),
            reads={user.role: user.array for user in every},
            writes={"weight": target},
            # Where several devices have the terms of one piece, those of the first count.
            due={
                user.role: Holding(tuple(members & (user.copies == 0)[:, None] for members in box))
                for user, box in zip(every, boxes, strict=True)
            },
        )
    )
    return target, Holding(boxes[0], tuple(boxes[1:])), np.minimum(copies, 0)


def _bias(flow: Flow, layer: Layer, output: Holding) -> tuple[Members, ...]:
    """Return the indices of each dim of a bias that devices have, from those of the output."""
    axes = axes_of(layer)
    return tuple(output.members[axes.index(axis)] for axis in flow.nest(layer).trained["bias"].axes)


def _held(flow: Flow, layer: Layer, work: Work, name: str) -> tuple[Members, ...]:
    """Return the indices of each dim of a trained tensor that each device holds."""
    own, made = flow.nest(layer).trained[name], flow.made[layer.name].holding
    if own.role == "weight":
        return tuple(
            work.dims.get(dim, np.ones((work.output.devices, axis.size), bool))
            for dim, axis in own.axes.items()
        )
    if layer.weighted:
        return tuple(map(np.logical_or, _bias(flow, layer, work.output), _bias(flow, layer, made)))
    axes = axes_of(layer)
    at = [axes.index(axis) for axis in own.axes if axis != "rows"]
    found = [work.output.members[axis] | made.members[axis] for axis in at]
    return tuple([rows_of(work.dims["batch"], rows), *found] if (rows := table_rows(own)) else found)
