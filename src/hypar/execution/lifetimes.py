"""The lifetimes of a program's arrays, and the elements that are held at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.program.steps import Add, Compute, Copy, Update

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.program.steps import Program, Step


MOST_ENTRIES = 2**30
"""Entries at most of the tables that say which device holds what."""


def exchanges_gradients(step: Step) -> bool:
    """Return whether a step runs once, behind all microbatches."""
    return isinstance(step, Add) and step.item.phase == "gradient"


def last_reads(program: Program) -> dict[int, tuple[str, ...]]:
    """Return the arrays that no later step of a microbatch reads, by the number of the step that reads or writes them last."""
    kept = set(program.accumulated)
    for step in program.steps:
        if isinstance(step, Update):
            kept |= {*reads(step)}
        elif exchanges_gradients(step):
            kept |= {*reads(step), *writes(step)}
    last: dict[str, int] = {}
    for number, step in enumerate(program.steps):
        last |= dict.fromkeys([*reads(step), *writes(step)], number)
    found: dict[int, list[str]] = {}
    for name, number in last.items():
        if name not in kept:
            found.setdefault(number, []).append(name)
    return {number: tuple(names) for number, names in found.items()}


def reads(step: Step) -> tuple[str, ...]:
    """Return the arrays that a step reads."""
    if isinstance(step, Update):
        return (step.gradient,)
    return tuple(step.reads.values()) if isinstance(step, Compute) else (step.source,)


def writes(step: Step) -> tuple[str, ...]:
    """Return the arrays that a step writes."""
    if isinstance(step, Update):
        return ()
    return tuple(step.writes.values()) if isinstance(step, Compute) else (step.target,)


def most_elements(program: Program) -> int:
    """Return the elements that a run of a program holds at once at most, in arrays of the whole size on every device."""
    last, sizes, held, most = last_reads(program), _sizes(program), 0, 0
    parameters = sum(layer.num_parameters for layer in program.graph.layers)
    for number, step in enumerate(program.steps):
        held += sum(sizes[name] for name in writes(step))
        most = max(most, held)
        held -= sum(sizes.get(name, 0) for name in last.get(number, ()))
    return (most + parameters) * program.places.devices


def _sizes(program: Program) -> dict[str, int]:
    """Return the elements of each array that steps write, but for statistics, which are small."""
    layers = {layer.name: layer for layer in program.graph.layers}
    found = {}
    for step in program.steps:
        if isinstance(step, Copy | Add):
            found[step.target] = math.prod(step.need.shape)
        elif isinstance(step, Compute):
            layer, batch = layers[step.layer], program.graph.batch
            own = {f"input {at}": math.prod(shape.values()) for at, shape in enumerate(layer.input_shapes)}
            own |= dict.fromkeys(("output", "error"), math.prod(layer.shape.values()))
            elements = {role: batch * size for role, size in own.items()}
            elements |= {name: math.prod(own.shape) for name, own in layer.trained.items()}
            found |= {name: elements.get(role, 0) for role, name in step.writes.items()}
    return found


def entries_of(graph: LayerGraph, devices: int) -> int:
    """Return about how many entries the tables have that say which device holds which index of each dim."""
    rows = [graph.batch + sum(layer.shape.values()) for layer in graph.layers]
    return devices * 3 * sum(rows)
