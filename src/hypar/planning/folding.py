"""A network whose equal blocks, one behind another, are folded to two: what is chosen for these holds for all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from hypar.network.nodes import PlanGraph, Tensor, block_of, computed_again, kept_with_graph
from hypar.network.training import AS_USUAL
from hypar.planning.pins import Pin, pins_of_each
from hypar.sharding.amounts.transfers import network_of
from hypar.sharding.conventions import MOVED

T = TypeVar("T")


@kept_with_graph
def kinds_of(graph: PlanGraph, pins: tuple[Pin, ...], recompute: str = AS_USUAL.recompute) -> str:
    """Return a letter for each layer: equal ones for equal layers, whatever their names, with equal pins and tensors around them.

    Blocks that are computed again are equal to no others.
    """
    around: list[list[Hashable]] = [[] for _ in graph.layers]
    for tensor, parts in zip(graph.tensors, network_of(graph, MOVED, tied=False).parts, strict=True):
        ends = tuple(graph.layers[end].nest for end in (tensor.producer, tensor.consumer))
        # By ``paper`` a stage also receives what only passes.
        for layer in range(tensor.producer, tensor.consumer + 1):
            around[layer].append((counted_from(layer, tensor), parts, ends))
    for tie in graph.ties:
        for layer in (tie.producer, tie.consumer):
            around[layer].append(counted_from(layer, tie))
    kinds: defaultdict[Hashable, int] = defaultdict(lambda: len(kinds))
    held = [tuple((pin.level, pin.degrees) for pin in own) for own in pins_of_each(pins, graph)]
    names = computed_again(graph.layers, recompute)
    again = [block_of(layer.name) in names for layer in graph.layers]
    each = zip(graph.layers, held, again, around, strict=True)
    return "".join(chr(kinds[replace(layer, name=""), *own, *tensors]) for layer, *own, tensors in each)


def counted_from(start: int, tensor: Tensor) -> Tensor:
    """Return a tensor whose ends are counted from a layer on."""
    return tensor._replace(producer=tensor.producer - start, consumer=tensor.consumer - start)


class Fold(NamedTuple):
    """A network of which two equal blocks stand for all.

    Attributes:
        graph: its layers.
        places: for each layer of the whole network the one that stands for it.
        times: how many equal layers, and tensors, each stands for, those of weights last.
    """

    graph: PlanGraph
    places: tuple[int, ...]
    times: tuple[tuple[int, ...], tuple[int, ...]]

    def taken(self, every: Sequence[T]) -> tuple[T, ...]:
        """Return what holds for the layers among what holds for those of the whole network, if anything does."""
        firsts = {own: at for at, own in reversed([*enumerate(self.places)])}
        return tuple([every[firsts[at]] for at in range(len(firsts))] if every else ())

    def spread(self, own: Sequence[T]) -> tuple[T, ...]:
        """Return what holds for the whole network."""
        return tuple([own[at] for at in self.places])


@kept_with_graph
def fold(graph: PlanGraph, pins: tuple[Pin, ...], recompute: str = AS_USUAL.recompute) -> Fold:
    """Return a network with two of the most layers that repeat one after another, with equal pins, and computed again alike."""
    first, period, blocks = _repeated(kinds_of(graph, pins, recompute))
    gone = (blocks - 2) * period
    end = first + blocks * period

    def place(layer: int, back: int) -> int:
        return layer - back if layer >= first + period else layer

    def back(layer: int) -> int:
        return gone if layer >= end else max(0, (layer - first) // period - 1) * period

    tensors = [
        Counter(
            own._replace(
                producer=place(own.producer, back(own.consumer)), consumer=own.consumer - back(own.consumer)
            )
            for own in every
        )
        for every in (graph.tensors, graph.ties)
    ]
    kept = [*range(first + 2 * period), *range(end, len(graph.layers))]
    found = [own for each in tensors for own in each]
    if blocks < 3 or any(not 0 <= own.producer < own.consumer for own in found):
        return Fold(graph, tuple(range(len(graph.layers))), ((1,) * len(graph.layers), (1,) * len(found)))
    folded = PlanGraph(tuple(graph.layers[at] for at in kept), tuple(tensors[0]), ties=tuple(tensors[1]))
    times = tuple(blocks - 1 if first + period <= at < first + 2 * period else 1 for at in range(len(kept)))
    places = tuple(at - back(at) for at in range(len(graph.layers)))
    return Fold(folded, places, (times, tuple(count for each in tensors for count in each.values())))


def _repeated(kinds: str) -> tuple[int, int, int]:
    """Return the first layer of equal blocks, the layers of each, and their number, of which two leave the fewest layers.

    Examples:
        >>> _repeated("exyxyxyh")
        (1, 2, 3)
    """
    codes, best = np.array([*map(ord, kinds)]), (0, 0, len(kinds) or 1, 1)
    for period in range(1, len(kinds) // 3 + 1):
        same = np.concatenate([[False], codes[:-period] == codes[period:], [False]])
        starts, ends = (np.flatnonzero(same[:-1] != same[1:])[at::2] for at in (0, 1))
        if len(starts):
            longest = int((ends - starts).argmax())
            blocks = int(ends[longest] - starts[longest]) // period + 1
            best = max(best, ((blocks - 2) * period, -int(starts[longest]), period, blocks))
    _, first, period, blocks = best
    return -first, period, blocks
