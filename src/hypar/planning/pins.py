"""Pins: choices that are held fixed while the rest of a plan is searched."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from hypar.errors import OptionError, suggestion
from hypar.network.nodes import PlanGraph, PlanNode
from hypar.sharding.dims import BATCH, grid_of
from hypar.sharding.placement import WHOLE, Choice, Options, grid
from hypar.sharding.space import Space, dims_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A choice held fixed for a ``layer``, by its name or a pattern as ``conv*``, at a level; None for all.

    ``degrees`` are the dims to cut with their degrees, 0 for all ways of the level; empty for a join that every device
    computes whole. ``place`` is the pin as given, to name in an error.
    """

    layer: str
    level: int | None
    degrees: tuple[tuple[str, int], ...]
    place: str = field(compare=False)

    def __str__(self) -> str:
        """Return the text that reads back as the same pin."""
        level = "" if self.level is None else f"@H{self.level + 1}"
        choice = " ".join(f"{dim}{degree or ''}" for dim, degree in self.degrees) or "rep"
        return f"{self.layer}{level}={choice}"


def parse_pin(text: str, graph: PlanGraph, num_levels: int) -> Pin:
    """Read ``LAYER=CHOICE`` or ``LAYER@LEVEL=CHOICE``.

    ``targets_of`` describes layers and levels. A choice is a dim or a paper's word for it, or several dims with their
    degrees, as ``n4 h2 w2``.
    Raises ``OptionError`` if the layer, level or choice does not exist.
    """
    place = f"pin {text!r:.200}"
    target, equals, word = text.rpartition("=")
    layer = target.partition("@")[0]
    if not equals or not layer:
        raise OptionError(place, "not a pin", "LAYER=CHOICE or LAYER@LEVEL=CHOICE")
    _, level = targets_of(target, [known.name for known in graph.layers], num_levels, place)
    degrees = grid_of(word, place, graph.named_dims)
    return Pin(layer=layer, level=level, degrees=tuple(degrees.items()), place=place)


def apply_pins(
    pins: Sequence[Pin],
    graph: PlanGraph,
    options: Sequence[tuple[Options, ...]],
    array: Sequence[int],
    space: Space | None = None,
) -> tuple[tuple[Options, ...], ...]:
    """Restrict pinned layers to the pinned choice; of two pins on one layer and level the later wins.

    Raises ``OptionError`` if a layer has no such dim, or too few elements of it for all levels in the ``space`` of a search.
    """
    found = []
    for layer, own, at_layer in zip(graph.layers, pins_of_each(pins, graph), options, strict=True):
        held: dict[int, tuple[Pin, Choice]] = {}
        for pin in own:
            for level in range(len(array)) if pin.level is None else [pin.level]:
                held[level] = pin, _held_choice(pin, layer, array[level], math.prod(array))
        if space is not None and not space.beyond:
            _require_elements(layer, [*held.values()], space)
        found.append(tuple((held[at][1],) if at in held else every for at, every in enumerate(at_layer)))
    return tuple(found)


def _require_elements(layer: PlanNode, held: Sequence[tuple[Pin, Choice]], space: Space) -> None:
    """Refuse pins that all levels together make more shards with than a dim has elements."""
    shards: dict[str, int] = {}
    for pin, choice in held:
        for dim, most in space.sizes(layer, choice.divided):
            shards[dim] = shards.get(dim, 1) * choice.degree(dim)
            if shards[dim] > most:
                found = f"{shards[dim]:,} shards of {dim} of {layer.name!r}, which has {most:,.10g} elements"
                where = f" in a microbatch of {space.microbatches}" * (
                    dim == BATCH and space.microbatches > 1
                )
                raise OptionError(pin.place, found + where, f"at most {most:,.10g} over all levels")


def pins_of_each(pins: Sequence[Pin], graph: PlanGraph) -> list[tuple[Pin, ...]]:
    """Return the pins of each layer, in their order."""
    found: dict[str, list[Pin]] = {layer.name: [] for layer in graph.layers}
    for pin in pins:
        for name in _matching(pin.layer, found):
            found[name].append(pin)
    return [*map(tuple, found.values())]


def _matching(pattern: str, names: Collection[str]) -> list[str]:
    """Return the names that a name or a pattern stands for; a name is looked up, as there may be a pin for each of many layers."""
    if pattern in names or not any(sign in pattern for sign in "*?["):
        return [pattern] if pattern in names else []
    return [name for name in names if fnmatchcase(name, pattern)]


def _held_choice(pin: Pin, layer: PlanNode, ways: int, devices: int) -> Choice:
    """Return the choice to which a pin holds a layer at a level of some ways; all levels have so many devices."""
    if not pin.degrees and not layer.weighted:
        return WHOLE
    parts = devices if pin.level is None else ways
    meant = [(dim, degree) for dim, degree in pin.degrees if degree != 1 or dim in layer.nest.sizes]
    named = [(_own_dim(layer, dim, degree or parts), degree) for dim, degree in meant]
    degrees = dict(named)
    if len(degrees) < len(named):
        raise OptionError(pin.place, f"channels of {layer.name!r} given twice", "each dim once")
    if not pin.degrees or not {*degrees} <= {*layer.nest.cuttable}:
        raise OptionError(pin.place, f"{layer.name!r} has no such choice", ", ".join(layer.nest.cuttable))
    product = math.prod(filter(None, degrees.values()))
    if ways % product:
        divisors = ", ".join(str(number) for number in range(1, ways + 1) if ways % number == 0)
        raise OptionError(pin.place, f"found {product} devices at a level of {ways} ways", divisors)
    for dim, degree in degrees.items():
        if degree > (size := layer.nest.sizes[dim]):
            found = f"degree {degree} of {dim}, which has {size} elements"
            raise OptionError(pin.place, found, f"at most {size}")
    return grid({dim: degree or ways for dim, degree in degrees.items()})


def _own_dim(layer: PlanNode, word: str, parts: int) -> str:
    """Return the dim that a word stands for: of several the first that has as many elements in each part."""
    channels = {} if layer.weighted else dict.fromkeys(("in_channels", "out_channels"), "channels")
    named = dims_named(layer, word) or (channels.get(word, word),)
    return next((dim for dim in named if layer.nest.sizes.get(dim, 1) % parts == 0), named[0])


def targets_of(text: str, layers: Sequence[str], num_levels: int, place: str) -> tuple[list[str], int | None]:
    """Return the layers and the level that ``LAYER`` or ``LAYER@LEVEL`` names, a pattern as ``conv*`` several; None for all levels.

    A level is ``H1``, as in tables, or a number from 0, as in plan files; the outermost is the first.
    Raises ``OptionError`` if the layer or the level does not exist.
    """
    pattern, at, level = text.partition("@")
    names = _matching(pattern, layers)
    if not names:
        found = f"no layer that is cut is named {pattern!r}"
        raise OptionError(place, found, hint=suggestion(pattern, layers))
    if not at:
        return names, None
    digits = level.removeprefix("H")
    number = int(digits) - (level != digits) if digits.isdecimal() and len(digits) < 4 else -1
    if not 0 <= number < num_levels:
        raise OptionError(place, f"found level {level!r}", f"H1 to H{num_levels}, or 0 to {num_levels - 1}")
    return names, number
