"""The search problem built from a request and a network."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypar.costs.base import load_cost
from hypar.errors import OptionError
from hypar.machine.setting import Setting
from hypar.planning.searches.base import Question
from hypar.registry import load_plugin
from hypar.sharding.conventions import DIRECT, PAPER
from hypar.sharding.levels import levels_of
from hypar.sharding.space import Pin, Space, apply_pins, parse_pin, parse_space

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.costs.base import Cost
    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanGraph
    from hypar.ops.nest import Nest
    from hypar.planning.resolved import Resolved
    from hypar.sharding.placement import Options


def ask(request: Resolved, graph: LayerGraph) -> tuple[Question, tuple[Pin, ...]]:
    """Build the search problem of a request and a network for identical devices.

    Raises:
        InputError: the request does not suit the network.
    """
    if request.heterogeneous is not None:
        found = f"the devices of hardware {request.heterogeneous.name!r} are heterogeneous"
        raise OptionError("hardware", found, "a machine of identical devices here")
    contracted = graph.nodes(request.graph)
    if request.profile is not None:
        request.profile.require(graph.name, graph.digest, graph.batch, request.array)
    pins = tuple(parse_pin(text, contracted, len(request.array)) for text in request.pins)
    question = question_of(request, contracted, pins, graph.element_bytes)
    return replace(question, limits=request.limits), pins


def question_of(request: Resolved, graph: PlanGraph, pins: Sequence[Pin], element_bytes: int) -> Question:
    """Build the search problem of a request and given layers.

    Args:
        request: the request, for identical devices.
        graph: the layers.
        pins: choices to hold.
        element_bytes: bytes of an element.
    """
    space = space_of(request, graph)
    levels = levels_of(request.array, element_bytes)
    cost = load_cost(request.cost, request.parameters, context_of(request))
    # Only grids may leave devices idle, at the innermost level: further out computation is not weighed.
    idle = [space.grids and cost.counts_work and level.innermost for level in levels]
    kinds = [(level.ways, own) for level, own in zip(levels, idle, strict=True)]
    by_kind = {kind: _choices(space, graph, *kind) for kind in set(kinds)}
    free = list(zip(*(by_kind[kind] for kind in kinds), strict=True)) or [()] * len(graph.layers)
    options = apply_pins(pins, graph, free, request.array)
    return Question(graph=graph, cost=cost, levels=levels, options=options, solver=request.solver)


def _choices(space: Space, graph: PlanGraph, ways: int, idle: bool) -> list[Options]:
    """Return the choices of each layer at a level; layers of equal dims and ops share them.

    Sizes above the ways allow the same choices.
    """
    found: dict[object, Options] = {}
    known: dict[tuple[Nest, str], Options] = {}
    most = max(ways, 2)
    for layer in graph.layers:
        nest = layer.nest
        if (nest, layer.op_name) not in known:
            sizes = tuple([(dim, min(size, most)) for dim, size in nest.sizes.items()])
            key = (nest.unsized, nest.products, nest.whole, layer.op_name, layer.channels, sizes)
            if key not in found:
                found[key] = space.choices(layer, ways, idle=idle)
            known[nest, layer.op_name] = found[key]
    return [known[layer.nest, layer.op_name] for layer in graph.layers]


def context_of(request: Resolved) -> dict[str, Any]:
    """Return the values of the fields of a cost that are no parameters."""
    return {
        "machine": request.identical,
        "optimizer": request.optimizer,
        "profile": request.profile,
        "convention": request.convention,
    }


def space_of(request: Resolved, graph: PlanGraph) -> Space:
    """Parse the space of a request.

    Raises:
        InputError: it is not a space, or names an unknown op.
    """
    space = parse_space(request.space, graph.named_dims)
    for op in filter(None, space.by_op):
        load_plugin("ops", op)
    return space


def convention_for(request: Resolved, cost: Cost) -> str:
    """Return the convention that counts a step: the cost's where that is ``direct``, unless another one is asked for."""
    return DIRECT if cost.convention == DIRECT and request.counted == PAPER else request.counted


def setting_for(request: Resolved, element_bytes: int, cost: Cost) -> Setting:
    """Return the setting in which a step runs.

    Args:
        request: the request, for its machine, array and optimizer.
        element_bytes: bytes of an element.
        cost: the cost of the plan, for the convention that counts the step.

    Raises:
        OptionError: no hardware is named.
    """
    if request.identical is None:
        raise OptionError("hardware", "no machine is named", "one, as --hardware hmc")
    return Setting(
        machine=request.identical,
        array=request.array,
        element_bytes=element_bytes,
        optimizer=request.optimizer,
        convention=convention_for(request, cost),
    )
