"""What blocks cost as stages at least, whatever their cuts: known of all blocks before any of them is planned.

Each layer of a block takes what it takes under its fastest choice, with what is then added up inside it, and a block
receives every tensor that crosses its ends at least once. What its layers receive of each other is left out; where
transfers run beside computation, so is what is added up.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from hypar.recipe import question_of
from hypar.schedule.moves import moves_inside
from hypar.schedule.setting import degrees
from hypar.tally import repeated

if TYPE_CHECKING:
    from hypar.edge import Costs
    from hypar.graph import CutLayer
    from hypar.placement import Options
    from hypar.schedule.setting import Setting
    from hypar.staging.blocks import Blocks

MOST_COMBINATIONS = 4096
"""Choices at all levels together that are timed of a layer; of one with more nothing is said."""

ROUNDING = 1e-9
"""By what part a sum may be less than the same one in another order."""


def floors(blocks: Blocks, microbatches: int) -> Costs:
    """Seconds that a mini-batch keeps each block busy at least: ``[starts, ends]``, infinite where there is none."""
    before = np.concatenate([[0.0], np.cumsum(_layer_floors(blocks, microbatches))])
    layers = len(before) - 1
    computing = before[None, :] - before[:-1, None] - 1e-15 * layers * before[-1]
    crossing = np.array([blocks.seconds_of(num_bytes) for num_bytes in crossing_bytes(blocks)])
    received, returned = microbatches * crossing[:-1, None], microbatches * crossing[None, :]
    if blocks.setting.machine.overlap:
        found = np.maximum(computing, np.maximum(received, returned))
    else:
        found = computing + received + returned
    spans = np.arange(layers + 1) > np.arange(layers)[:, None]
    return np.where(spans, np.maximum(0.0, found) * (1 - ROUNDING), np.inf)


def crossing_bytes(blocks: Blocks) -> list[float]:
    """Bytes of a microbatch's F that cross each place between layers, once each, ``[layers + 1]``; E has as many."""
    found: list[dict[int, int]] = [{} for _ in range(len(blocks.part.layers) + 1)]
    for tensor in blocks.part.tensors:
        for place in range(tensor.producer + 1, tensor.consumer + 1):
            found[place][tensor.producer] = max(found[place].get(tensor.producer, 0), tensor.elements)
    return [blocks.setting.element_bytes * math.fsum(at.values()) for at in found]


def _layer_floors(blocks: Blocks, microbatches: int) -> list[float]:
    """Seconds of each layer for a mini-batch under its fastest choice."""
    question = question_of(blocks.recipe, blocks.whole, blocks.pins, blocks.setting.element_bytes)
    known: dict[object, float] = {}
    found = []
    for layer, options in zip(blocks.part.layers, question.options, strict=True):
        key = (layer.einsum, layer.output_elements, options)
        if key not in known:
            few = layer.weighted and math.prod(map(len, options)) <= MOST_COMBINATIONS
            times = (_seconds(layer, chosen, blocks.setting, microbatches) for chosen in product(*options))
            known[key] = min(times) if few else 0.0
        found.append(known[key])
    return found


def _seconds(layer: CutLayer, chosen: Options, setting: Setting, microbatches: int) -> float:
    """Seconds of a layer for a mini-batch under a choice at each level."""
    time = setting.machine.layer_time(layer.einsum, degrees(chosen), setting.element_bytes)
    found = [microbatches * seconds for seconds in time.seconds.values()]
    if not setting.machine.overlap:
        moves = moves_inside(setting, layer.einsum, layer.output_elements, chosen)
        found += [repeated(move, microbatches) * move.seconds for move in moves]
    return math.fsum(found) + setting.update_seconds(time)
