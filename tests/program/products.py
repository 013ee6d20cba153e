"""The amounts of a program and those of the product form, side by side for layers, pairs of layers, levels and tensors."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypar.execution.exchange import moved
from hypar.program.lowering import lower
from tests.amounts import amounts
from tests.program.machines import array_of, laid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.program.lowering import Item
    from hypar.sharding.placement import Choice

    Choices = Mapping[str, Sequence[Choice]]

Key = tuple[object, ...]


def by_products(
    graph: LayerGraph, array: tuple[int, ...], choices: Choices, convention: str
) -> dict[Key, float]:
    """Return the elements of the product form by layer or pair of layers, phase, tensor and level."""
    contracted = graph.contracted
    found: Counter[Key] = Counter()
    own = [tuple(choices[layer.name]) for layer in contracted.layers]
    for amount in amounts(contracted, array, own, convention):
        found[amount.layer, amount.phase, amount.tensor, amount.level] += amount.elements  # type: ignore[assignment]
    return {key: round(elements, 6) for key, elements in found.items() if round(elements, 6)}


def by_program(
    graph: LayerGraph, array: tuple[int, ...], choices: Choices, convention: str
) -> dict[Key, float]:
    """Return the elements that a program counts, but for biases, statistics and what ops without choices read and sum."""
    places, cuts = laid(array_of(array, choices), choices)
    program = lower(graph, places, cuts, convention)
    found: Counter[Key] = Counter()
    for step in program.transfers.values():
        if step.item.layer in cuts and step.item.tensor in ("input", "output", "weight"):
            for level, elements in enumerate(moved(program.places, step.transfer).tolist()):
                found[_ends(graph, step.item, cuts), step.item.phase, step.item.tensor, level] += elements
    return {key: float(elements) for key, elements in found.items() if elements}


def _ends(graph: LayerGraph, item: Item, chosen: Mapping[str, object]) -> object:
    """Return the layer of a transfer, or both layers with choices that it is between."""
    if item.maker is not None:
        return _chosen(graph, item.maker, chosen), item.layer
    if (item.phase, item.tensor) == ("backward", "output"):
        return item.layer, _reader(graph, item.layer, chosen)
    return item.layer


def _chosen(graph: LayerGraph, name: str, chosen: Mapping[str, object]) -> str:
    inputs = {layer.name: layer.inputs for layer in graph.layers}
    while name not in chosen and inputs[name]:
        name = inputs[name][0]
    return name


def _reader(graph: LayerGraph, name: str, chosen: Mapping[str, object]) -> str:
    while True:
        name = next(layer.name for layer in graph.layers if name in layer.inputs)
        if name in chosen:
            return name
