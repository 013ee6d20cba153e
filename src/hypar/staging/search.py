"""The boundaries of stages, found together with the cuts inside them.

Every block of consecutive layers gets its best cuts, by the search that the recipe names, and what it then costs as a
stage: the partition whose costliest stage is cheapest is exact over these. With ``best`` in place of a number, every
number of stages and of levels inside them that the array's devices allow is tried, and the engine decides.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hypar.errors import HardwareError, OptionError, TableLimitError
from hypar.partition import partition
from hypar.pins import parse_pin
from hypar.schedule.orders import SCHEDULES
from hypar.schedule.parts import checked_microbatches
from hypar.staging.blocks import Blocks
from hypar.staging.running import Staging, kept_in_flight, run_stages
from hypar.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypar.edge import Costs
    from hypar.graph import LayerGraph
    from hypar.hardware import Machine
    from hypar.pins import Pin
    from hypar.recipe import Recipe
    from hypar.searches.base import Answer

BEST = "best"
"""In place of a number of stages: as many as are fastest."""

MICROBATCHES = (1, 2, 4, 8)
"""Microbatches a stage that are tried for ``best``."""

MOST_BLOCKS = 2**15
"""Blocks of one network that are planned: some minutes."""


def pins_of(recipe: Recipe, graph: LayerGraph) -> tuple[Pin, ...]:
    """The pins of a recipe, which hold at the levels inside every stage.

    Raises:
        OptionError: there is no such layer, level or choice, or the levels are not known.
    """
    if recipe.pins and not recipe.array:
        raise OptionError("pins", "given where no layer is cut", "levels inside the stages")
    nodes = graph.nodes(recipe.graph)
    pins = tuple(parse_pin(text, nodes, len(recipe.array)) for text in recipe.pins)
    for pin in pins if recipe.stages == BEST else ():
        if pin.level is not None:
            allowed = f"one for all levels, as {pin.layer}={pin.choice}"
            raise OptionError(f"pin {pin.text!r:.200}", "a level where the best stages are sought", allowed)
    return pins


def plan_stages(
    recipe: Recipe, graph: LayerGraph, progress: Callable[[int, int], None] = lambda *_: None
) -> Staging | None:
    """Divide a network into the stages that a recipe asks for, and cut each.

    Args:
        recipe: what is asked for.
        graph: the network.
        progress: told how many of how many tries are done.

    Returns:
        None where no stages are best.

    Raises:
        InputError: the network, the batch or the machine does not have so many.
        TableLimitError: there would be too many blocks.
    """
    machine = recipe.machine
    if machine is None:
        raise OptionError("stages", "no machine is named", "one, as --hardware hmc")
    if recipe.stages != BEST:
        assert isinstance(recipe.stages, int)  # noqa: S101 (checked when it was asked for)
        return staged(recipe, graph, recipe.stages)
    tries = list(_tries(recipe, graph, machine))
    answers: dict[tuple[int, ...], dict[object, Answer]] = {}
    found: list[Staging] = []
    for number, (stages, own) in enumerate(tries):
        try:
            found.append(staged(own, graph, stages, answers.setdefault(own.array, {})))
        except HardwareError:
            continue  # what does not fit is not offered
        finally:
            progress(number + 1, len(tries))
    return min(found, key=lambda one: one.step.makespan, default=None)


def _tries(recipe: Recipe, graph: LayerGraph, machine: Machine) -> Iterator[tuple[int, Recipe]]:
    """Stages over the outermost levels, the levels that are left, all or the innermost, and microbatches."""
    layers = len(graph.nodes(recipe.graph).layers)
    flushes = SCHEDULES[recipe.schedule].flushes
    for outer in range(1, len(recipe.array) + 1):
        stages = math.prod(recipe.array[:outer])
        for inner in range(outer, len(recipe.array) + 1):
            array = (stages, *recipe.array[inner:])
            if stages > layers or machine.num_devices % math.prod(array):
                continue
            for each in MICROBATCHES if flushes else (None,):
                parts = None if each is None else each * stages
                if parts is None or graph.batch % parts == 0:
                    yield stages, replace(recipe, array=recipe.array[inner:], microbatches=parts)


def staged(
    recipe: Recipe, graph: LayerGraph, stages: int, answers: dict[object, Answer] | None = None
) -> Staging:
    """The best boundaries and cuts of some stages.

    Args:
        recipe: how a stage is cut; its array is that inside a stage.
        graph: the network.
        stages: how many.
        answers: the best cuts of blocks that are known by the same recipe; others are added.

    Raises:
        InputError: there cannot be so many, or no partition fits the memory.
        TableLimitError: there would be too many blocks.
    """
    parts = checked_microbatches(recipe.microbatches, recipe.schedule, graph.batch, stages)
    blocks = Blocks.of(recipe, graph, (stages, parts), answers)
    layers = len(blocks.whole.layers)
    if not 1 <= stages <= layers:
        raise OptionError("stages", f"found {stages}", f"1 to {layers}, one for each layer that is cut")
    count = layers * (layers + 1) // 2
    if count > MOST_BLOCKS:
        message = f"stages: {layers} layers have {count:,} blocks; allowed: {MOST_BLOCKS:,}"
        raise TableLimitError(message, count, MOST_BLOCKS)
    kept = kept_in_flight(recipe.schedule, stages, parts)
    costs = partial(_costs, blocks, parts, kept, stages)
    found = partition(costs, stages, _seams(blocks))
    if found is None:
        capacity = recipe.machine.memory_bytes if recipe.machine else None
        held = f"no {stages} stages fit {format_bytes(capacity or 0.0)}, the memory of a device"
        name = recipe.machine.name if recipe.machine else ""
        raise HardwareError(f"hardware {name!r}", held, hint="try more stages, or a smaller batch")
    return run_stages(recipe, parts, [blocks.block(*ends) for ends in pairwise(found.bounds)])


def _costs(blocks: Blocks, microbatches: int, kept: tuple[int, ...], stages: int, stage: int) -> Costs:
    """What every block costs as a stage, infinite where it does not fit: ``[starts, ends]``."""
    layers = len(blocks.whole.layers)
    found = np.full((layers, layers + 1), np.inf)
    for start in range(stage, layers - stages + stage + 1):
        last = layers if stage == stages - 1 else layers - (stages - stage - 1)
        ends = [layers] if stage == stages - 1 else range(start + 1, last + 1)
        for end in ends if stage or not start else ():
            block = blocks.block(start, end)
            if blocks.setting.machine.fits(math.fsum(block.held(kept[stage]).values())):
                found[start, end] = block.seconds(microbatches)
    return found


def _seams(blocks: Blocks) -> Costs:
    """Elements that cross each place between layers, for ties."""
    layers = len(blocks.whole.layers)
    found = np.zeros(layers + 1)
    for tensor in blocks.whole.tensors:
        found[tensor.producer + 1 : tensor.consumer + 1] += tensor.elements
    return found
