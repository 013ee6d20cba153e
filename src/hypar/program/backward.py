"""The backward pass of a layer as steps of a program: its transfers are those of the forward pass, transposed.

What was summed and scattered is gathered, and what was copied is summed: devices that have read an element have a term of
its error, and those that had the element get the sum. That holds of each read, also of one that copied nothing. Copies of one
error are no terms, so each is summed by itself, and where none is a sum they are copied to who lacks one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.ops.dims import READ
from hypar.program.counting import overlapping
from hypar.program.flow import Used, axes_of, pieces_of
from hypar.program.holding import Holding
from hypar.program.reads import members, owned
from hypar.program.steps import Compute, Item, Update

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.layer import Layer
    from hypar.program.flow import Flow, Work
    from hypar.program.holding import Members


def backward(flow: Flow, layer: Layer) -> None:
    """Add the steps of a layer's backward pass: nothing where no trained layer comes before it or is it."""
    if layer.name not in flow.trained:
        return
    error, held = _error(flow, layer), flow.made[layer.name].holding
    work = flow.work[layer.name]
    if held != work.output:
        item = Item(layer.name, None, "backward", "output")
        error = flow.copy(error, f"E all {layer.name}", held, work.output, item)
    reads = {f"input {number}": operand for number, operand in enumerate(work.operands)}
    reads |= dict(work.reads) | {"error": error}
    sums = flow.statistics(layer, work, reads, "back ")
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
    made, array = flow.made[layer.name], f"E {layer.name}"
    sent = flow.errors.get(layer.name, [])
    flow.steps.append(
        Compute(
            kind="error" if flow.readers(layer) else "loss",
            layer=layer.name,
            pieces=pieces_of(dict(zip(axes_of(layer), made.holding.members, strict=True))),
            reads={str(number): own for number, (own, _) in enumerate(sent)} or {"output": made.array},
            writes={"error": array},
            due={str(number): holding for number, (_, holding) in enumerate(sent)},
        )
    )
    return array


def _send(flow: Flow, layer: Layer, work: Work, number: int) -> None:
    """Add up the terms of an input's error for the devices that have the input: the transpose of its read.

    By ``moved``, and where no device has both ends, the sums come to those that have terms first, and are then copied.
    """
    source, name = layer.inputs[number], f"{layer.name} {number}"
    have, terms = flow.made[source].holding, work.needs[number]
    read = [own.any(axis=0) for own in terms.members]
    need = Holding(tuple(own & any_ for own, any_ in zip(have.members, read, strict=True)))
    item, array = Item(layer.name, source, "backward", "input"), f"E terms {name}"
    if flow.convention == "moved" or not have.meets(terms):
        sums = Holding(_one_each(terms, have))
        array = flow.add(array, f"E sums {name}", terms, sums, work.copies, item._replace(maker=None))
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
        owned(own, held.members[number], (*dims[:number], *dims[number + 1 :]))
        for number, own in enumerate(dims[1:], start=1)
    ]
    return dims[0], *rest


def _update(flow: Flow, layer: Layer, work: Work, name: str, summed: str | None) -> None:
    """Add up the gradient of a trained tensor, and update it where it is held.

    The terms of a weight that an earlier layer has are left to that one, which adds up those of all its users at once.
    """
    terms, holding = _held(flow, layer, work, name)
    users = flow.tied.get(layer.name, []) if name == "weight" else []
    if summed is None:
        dims = [dim for dim in work.dims if name == "weight" or not dim.startswith(READ)]
        array, copies = f"d terms {layer.name} {name}", flow.layouts[layer.name].copies(dims)
        for tie in flow.graph.ties:
            if (tie.user, "weight") == (layer.name, name):
                in_order = Holding(tuple(holding.members[axis] for axis in tie.axes))
                flow.tied.setdefault(tie.owner, []).append(Used(tie, array, in_order, copies))
                return
        if users:
            _, array, holding, copies = _of_users(flow, layer, (Used(None, array, holding, copies), *users))
            terms = holding
        item = Item(layer.name, None, "gradient", name)
        summed = flow.add(array, f"d {layer.name} {name}", terms, holding, copies, item)
    ties = tuple(user.tie for user in users if user.tie is not None)
    flow.updates.append(Update(layer=layer.name, parameter=name, gradient=summed, holding=holding, ties=ties))


def _of_users(flow: Flow, layer: Layer, users: Sequence[Used]) -> Used:
    """Add up on each device what it has of the terms of all users of a weight, the first of them its own layer.

    Returns:
        Its copies are 0 for the devices that have some terms, -1 for the others.
    """
    copies = np.maximum.reduce([user.copies for user in users])
    first, *more = (user.holding.members for user in users)
    whole = {str(axis): np.arange(own.shape[1]) for axis, own in enumerate(first)}
    target = f"d terms {layer.name} of all"
    flow.steps.append(
        Compute(
            kind="tied",
            layer=layer.name,
            pieces=tuple(None if copy < 0 else whole for copy in copies),
            reads={user.role: user.array for user in users},
            writes={"weight": target},
            # Where several devices have the terms of one piece, those of the first count.
            due={user.role: user.holding.on(user.copies == 0) for user in users},
        )
    )
    return Used(None, target, Holding(first, tuple(more)), np.minimum(copies, 0))


def _held(flow: Flow, layer: Layer, work: Work, name: str) -> tuple[Holding, Holding]:
    """Return who has terms of the gradient of a trained tensor, and who holds it: a bias also where sums lie."""
    nest, made = flow.nest(layer), flow.made[layer.name].holding
    own = nest.trained[name]
    if layer.weighted and own.role != "weight":
        at = [axes_of(layer).index(axis) for axis in own.axes]
        terms = [work.output.members[axis] for axis in at]
        return Holding(tuple(terms)), Holding(
            tuple(each | made.members[axis] for axis, each in zip(at, terms, strict=True))
        )
    whole = {dim: np.ones((made.devices, size), bool) for dim, size in nest.sizes.items()}
    held = Holding(members(own, whole | dict(work.dims)))
    return held, held
