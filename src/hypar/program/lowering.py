"""Lowering of a plan to a program: the forward pass, the loss, the backward pass and the updates.

A layer with choices (a weighted layer or a join; a pool where pools are planned) computes its own piece. Every other op
runs where the tensor that it reads lies. A piece of height and width has consecutive indices; samples and channels
are those that the device has already, as far as shares allow.

The backward pass has the transfers of the forward pass transposed: what was summed and scattered is gathered, and what was
read is summed. Devices that have read an element have a term of its error, and those that had the element get the sum; so it is
for each read, also for one that copied nothing. Several copies of one error are no terms: each is summed by itself, and where
none is a sum, who lacks the error takes the nearest copy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hypar.ops.dims import READ
from hypar.ops.nest import operand_name
from hypar.program.counting import overlapping
from hypar.program.forward import Flow, forward, pieces_of
from hypar.program.holding import Holding
from hypar.program.reads import members, one_each
from hypar.program.steps import Add, Compute, Copy, Item, Program, Update

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer, Tie
    from hypar.program.forward import Pass
    from hypar.program.layout import Layout, Places


def lower(
    graph: LayerGraph, places: Places, layouts: Mapping[str, Layout], convention: str = "moved"
) -> Program:
    """Lower a training step to a program.

    Args:
        graph: the network.
        places: the devices.
        layouts: the layout of each layer that has choices, by name.
        convention: what becomes of partial sums: ``moved`` adds them up for all who have a term, ``fused`` for those who
            need them next, ``direct`` sends the terms of errors straight to those who need their sums.
    """
    flow = Flow(graph=graph, places=places, layouts=layouts, convention=convention)
    for layer in graph.layers:
        forward(flow, layer)
    for layer in reversed(graph.layers):
        if layer.name in flow.trained:
            _backward(flow, layer, flow.made[layer.name])
    return Program(graph=graph, places=places, steps=(*flow.steps, *flow.updates))


def _backward(flow: Flow, layer: Layer, made: Pass) -> None:
    """Add the steps of the backward pass of a layer that is trained, or behind one that is."""
    error = _error(flow, layer, made)
    if made.holding != made.output:
        item = Item(layer.name, None, "backward", "output")
        error = flow.move(Copy(error, f"E all {layer.name}", made.holding, made.output, item))
    reads = {**made.reads, "error": error}
    sums = flow.statistics(layer, made.dims, made.copies, reads, "back ")
    sent = [number for number, source in enumerate(layer.inputs) if source in flow.trained]
    trained = flow.nest(layer).trained if layer.weighted else ()
    writes = {operand_name(number): f"E terms {layer.name} {number}" for number in sent}
    writes |= {name: f"d terms {layer.name} {name}" for name in trained}
    pieces = pieces_of(made.dims, flow.nest(layer).result.dims)
    flow.steps.append(Compute("backward", layer.name, pieces, reads | sums, writes))
    for number in sent:
        _return(flow, layer, made, number)
    for name in dict.fromkeys((*(["weight"] if layer.op.tied else []), *layer.trained)):
        _update(flow, layer, made, name, sums.get(f"back {name}"))


def _error(flow: Flow, layer: Layer, made: Pass) -> str:
    """Add up what the readers of a layer's output have sent back; at an output of the network take the loss."""
    array, sent = f"E {layer.name}", flow.errors.get(layer.name, [])
    pieces = pieces_of(dict(zip(flow.nest(layer).result.axes, made.holding.members, strict=True)))
    each = {str(number): own for number, own in enumerate(sent)} or {"output": (made.array, made.holding)}
    reads = {role: own for role, (own, _) in each.items()}
    due = {role: own for role, (_, own) in each.items()}
    kind = "error" if flow.readers(layer) else "loss"
    flow.steps.append(Compute(kind, layer.name, pieces, reads, {"error": array}, due))
    return array


def _return(flow: Flow, layer: Layer, made: Pass, number: int) -> None:
    """Add the transpose of a read: the terms of an input's error are summed for the devices that have what is read of it.

    By ``moved``, and where no device has both ends, the sums come to devices that have terms first, and are then copied.
    """
    read, name = made.inputs[number], f"{layer.name} {number}"
    some = [own.any(axis=0) for own in read.need.members]
    need = Holding(tuple(own & any_ for own, any_ in zip(read.have.members, some, strict=True)))
    item, array, target = read.item._replace(phase="backward"), f"E terms {name}", f"E {name}"
    step: Copy | Add = Add(array, target, read.need, need, item, made.copies)
    if flow.convention == "moved" or not read.have.meets(read.need):
        sums, inside = one_each(read.need, read.have), item._replace(maker=None)
        array = flow.move(Add(array, f"E sums {name}", read.need, sums, inside, made.copies))
        step = Copy(array, target, sums, need, item)
    elif not overlapping(read.need, made.copies):
        step = Copy(array, target, read.need, need, item)
    flow.errors.setdefault(layer.inputs[number], []).append((flow.move(step), need))


def _update(flow: Flow, layer: Layer, made: Pass, name: str, summed: str | None) -> None:
    """Add up the gradient of a trained tensor, and update it where it is held.

    The terms of a weight that an earlier layer has are left to that one, which adds up those of all its users at once.
    """
    terms, need = _held(flow, layer, made, name)
    users = flow.tied.get(layer.name, []) if name == "weight" else []
    if summed is None:
        dims = tuple(dim for dim in made.dims if name == "weight" or not dim.startswith(READ))
        copies, item = flow.layouts[layer.name].copies(dims), Item(layer.name, None, "gradient", name)
        own = Add(f"d terms {layer.name} {name}", f"d {layer.name} {name}", terms, need, item, copies)
        for tie in flow.graph.ties:
            if (tie.user, "weight") == (layer.name, name):
                flow.tied.setdefault(tie.owner, []).append((tie, own))
                return
        own = _of_users(flow, layer, own, users) if users else own
        summed, need = flow.move(own), own.need
    ties = tuple(tie for tie, _ in users)
    flow.updates.append(Update(layer=layer.name, parameter=name, gradient=summed, holding=need, ties=ties))


def _of_users(flow: Flow, layer: Layer, own: Add, users: Sequence[tuple[Tie, Add]]) -> Add:
    """Return how the terms of all users of a weight are added up, after each device has added up those that it has."""
    every = {"": (own.have, own)}
    for tie, step in users:
        every[tie.user] = Holding(tuple(step.have.members[axis] for axis in tie.axes)), step
    copies = np.maximum.reduce([step.copies for _, step in every.values()])
    whole = {str(axis): np.arange(size) for axis, size in enumerate(own.have.shape)}
    pieces = tuple(None if copy < 0 else whole for copy in copies)
    reads, target = {role: step.source for role, (_, step) in every.items()}, f"d terms {layer.name} of all"
    # Where several devices have the terms of one piece, those of the first count.
    due = {role: have.on(step.copies == 0) for role, (have, step) in every.items()}
    flow.steps.append(Compute("tied", layer.name, pieces, reads, {"weight": target}, due))
    first, *more = (have.members for have, _ in every.values())
    have = Holding(first, tuple(more))
    return replace(own, source=target, have=have, need=have, copies=np.minimum(copies, 0))


def _held(flow: Flow, layer: Layer, made: Pass, name: str) -> tuple[Holding, Holding]:
    """Return who has terms of the gradient of a trained tensor, and who holds it: a bias also where sums lie."""
    nest = flow.nest(layer)
    own = nest.trained[name]
    if layer.weighted and name == "bias":
        at = [[*nest.result.axes].index(axis) for axis in own.axes]
        terms = tuple(made.output.members[axis] for axis in at)
        lie = (each | made.holding.members[axis] for axis, each in zip(at, terms, strict=True))
        return Holding(terms), Holding(tuple(lie))
    whole = {dim: np.ones((flow.places.devices, size), bool) for dim, size in nest.sizes.items()}
    held = Holding(members(own, whole | dict(made.dims)))
    return held, held
