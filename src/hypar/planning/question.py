"""The search problem that a request makes of a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.costs.base import load_cost
from hypar.errors import OptionError
from hypar.machine.setting import Setting
from hypar.planning.searches.base import Question, load_search
from hypar.registry import load_plugin
from hypar.sharding.levels import levels_of
from hypar.sharding.pins import Pin, apply_pins, parse_pin
from hypar.sharding.space import Space, parse_space

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.contraction import ContractedGraph
    from hypar.network.graph import LayerGraph
    from hypar.planning.request import Recipe


def ask(recipe: Recipe, graph: LayerGraph) -> tuple[Question, tuple[Pin, ...]]:
    """A recipe and a network as a question to a search, where all devices are alike.

    Raises:
        InputError: the recipe does not suit the network.
    """
    if recipe.mixed is not None:
        found = f"the devices of hardware {recipe.mixed.name!r} are unlike"
        raise OptionError("hardware", found, "a machine of like devices here")
    contracted = graph.nodes(recipe.graph)
    if recipe.profile is not None:
        recipe.profile.require(graph.name, graph.digest, graph.batch, recipe.array)
    pins = tuple(parse_pin(text, contracted, len(recipe.array)) for text in recipe.pins)
    return question_of(recipe, contracted, pins, graph.element_bytes), pins


def question_of(recipe: Recipe, graph: ContractedGraph, pins: Sequence[Pin], element_bytes: int) -> Question:
    """The question that a recipe makes of layers.

    Args:
        recipe: what is asked for, of like devices.
        graph: the layers.
        pins: choices to hold.
        element_bytes: bytes of an element.
    """
    space = space_of(recipe)
    levels = levels_of(recipe.array, element_bytes)
    context = {"machine": recipe.machine, "optimizer": recipe.optimizer, "profile": recipe.profile}
    cost = load_cost(recipe.cost, recipe.parameters, context)
    # Level by level computation is weighed at the innermost one alone: others would leave all devices but one idle.
    at_once = cost.counts_work and load_search(recipe.search).at_once
    kinds = [(level.ways, at_once or (cost.counts_work and level.innermost)) for level in levels]
    by_kind = {
        (ways, idle): [space.choices(layer, ways, idle=idle) for layer in graph.layers]
        for ways, idle in set(kinds)
    }
    free = list(zip(*(by_kind[kind] for kind in kinds), strict=True)) or [()] * len(graph.layers)
    options = apply_pins(pins, graph, free, recipe.array)
    return Question(graph=graph, cost=cost, levels=levels, options=options, solver=recipe.solver)


def space_of(recipe: Recipe) -> Space:
    """The space that a recipe names.

    Raises:
        InputError: it is none, or for an op that there is none of.
    """
    space = parse_space(recipe.space)
    for op in space.by_op:
        load_plugin("ops", op)
    return space


def setting_of(recipe: Recipe, question: Question) -> Setting:
    """What a step runs on.

    Raises:
        OptionError: no hardware is named.
    """
    return setting_for(recipe, question.levels[0].element_bytes, direct=question.cost.direct)


def setting_for(recipe: Recipe, element_bytes: int, *, direct: bool = False) -> Setting:
    """What a step runs on.

    Args:
        recipe: which machine, array and optimizer.
        element_bytes: bytes of an element.
        direct: whether the terms of E go straight to where they are needed.

    Raises:
        OptionError: no hardware is named.
    """
    if recipe.machine is None:
        raise OptionError("hardware", "no machine is named", "one, as --hardware hmc")
    return Setting(
        machine=recipe.machine,
        array=recipe.array,
        element_bytes=element_bytes,
        optimizer=recipe.optimizer,
        direct=direct,
    )
