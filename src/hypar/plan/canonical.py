"""Plans as documents for comparison: every entry of a plan file at its place.

A place is the tuple of keys that lead to a value. An entry without a special place here is compared under its own key.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hypar.plan.plan import Plan
    from hypar.sharding.placement import Choice
    from hypar.sharding.tree import Split

    Place = tuple[Any, ...]
    Difference = tuple[Place, Any, Any]

OF_LAYERS = {("cuts",), ("splits", "*", "choices"), ("splits", "*", "costs"), ("stages", "layers")}
"""Mappings with an entry for every layer of a plan; ``*`` is a split."""

ORDERED = OF_LAYERS | {
    ("splits",),
    ("splits", "*", "layer_shares"),
    ("splits", "*", "sides"),
    ("score", "groups"),
}
"""Mappings of layers, splits and groups whose order counts."""


FORMER_WORDS = {
    "each fork is": "each uneven split is",
    "given the forks above it": "given those above it",
    "one dim a fork": "one dim a split",
    "weights of the sides": "weights of the groups",
}
"""Former words of a claim, and the words for the same today."""


def document(plan: Plan) -> dict[str, Any]:
    """Return the contents of a plan file, each split, group, stage and layer under its name.

    Measured times are known by their digest; the name of their file is left out, as are the places of all files. A claim in former words is read in
    those of today.
    """
    data = plan.to_data()
    for former, word in FORMER_WORDS.items():
        data["claim"] = data["claim"].replace(former, word)
    data.pop("files", None)
    data["layers"] = dict.fromkeys(plan.layers, "planned")
    data["splits"] = {
        (split.group, split.level): _split(split, entry)
        for split, entry in zip(plan.splits, data["splits"], strict=True)
    }
    if bounds := data.pop("bounds", None):
        bounded = [data] if len(bounds) == 1 else data["splits"].values()
        for entry, bound in zip(bounded, bounds, strict=True):
            entry["bound"] = bound
    return {name: _SECTIONS.get(name, _as_it_is)(section) for name, section in data.items()}


def document_by_layer(plan: Plan, *, cuts: bool) -> dict[str, Any]:
    """Return the contents of a plan file without its levels: in their place the cut of each layer over all of them.

    Args:
        plan: the plan.
        cuts: whether each layer has its cut, which it has on identical devices alone.
    """
    data = document(plan)
    of_levels = {name: data.pop(name, None) for name in ("array", "arrays", "splits")}
    levels: Any = of_levels["array"]
    if plan.heterogeneous:
        arrays = (of_levels["arrays"] or {}).items()
        levels = ", ".join(f"{name} {'x'.join(map(str, array))}" for name, array in arrays)
    return {
        "levels": levels,
        **data,
        **({"cuts": {name: _cut(plan, name) for name in plan.layers}} if cuts else {}),
    }


def _cut(plan: Plan, layer: str) -> str:
    """Return the degrees of a layer's dims over all levels in words, in the order of the dims' names."""
    degrees: dict[str, int] = {}
    for dim, degree in (pair for choice in plan.choices(layer) for pair in choice.degrees):
        degrees[dim] = degrees.get(dim, 1) * degree
    return ", ".join(f"{dim} {degrees[dim]}" for dim in sorted(degrees)) or "whole"


def _as_it_is(section: Any) -> Any:
    return section


def _split(split: Split, entry: dict[str, Any]) -> dict[str, Any]:
    """Return a split with each choice in words, independent of the order of its dims, and its groups by name."""
    sides = {"sides": _named(entry["sides"])} if "sides" in entry else {}
    words = {layer: choice_text(split.choice(layer)) for layer in split.choices}
    entry.pop("numbering", None)
    return {"split": "planned", **entry, "choices": words, **sides}


def _stages(data: dict[str, Any]) -> dict[str, Any]:
    """Return stages under their numbers, and the number of each layer's stage."""
    stages = data.pop("stages")
    best = ", asked for best" if data.pop("asked") == "best" else ""
    of = {layer: number for number, stage in enumerate(stages, 1) for layer in stage.pop("layers")}
    numbered = {f"stage {number}": stage for number, stage in enumerate(stages, 1)}
    return {"stages": f"{len(stages)}{best}", "layers": of, **data, **numbered}


def _score(data: dict[str, Any]) -> dict[str, Any]:
    """Return a score with its machine's name and digest together, and each group under its name."""
    machine = [data.pop("hardware"), data.pop("hardware_digest")]
    groups = {"groups": _named(data["groups"])} if "groups" in data else {}
    counted = {"score convention": data.pop("convention")} if "convention" in data else {}
    return {"hardware": machine, **data, **groups, **counted}


_SECTIONS = {
    "model": lambda data: {"model": data.pop("name"), **data},
    "profile": lambda data: {"profile": data["digest"]},
    "cost": lambda data: {"cost name": data.pop("name"), "cost": data.pop("value"), **data},
    "stages": _stages,
    "refined": lambda data: {"refined": "yes", **data},
    "chunks": lambda data: {"chunks": [data.pop("asked"), data.pop("layers")], **data},
    "score": _score,
}
"""Functions that name the entries of a section; the first entry of each stands for the whole section."""


def _named(records: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the records of groups under the groups' names, a repeated name with its number."""
    found: dict[str, dict[str, Any]] = {}
    for number, record in enumerate(records, 1):
        name = record["group"]
        found[f"{name} (number {number})" if name in found else name] = record
    return found


def choice_text(choice: Choice) -> str:
    """Return a choice in words, in the order of the digits if its devices are numbered in an order of its own."""
    digits = (degrees_text(dict([digit])) for digit in choice.order)
    return ", ".join(digits) or degrees_text(choice.as_degrees())


def degrees_text(degrees: Mapping[str, int]) -> str:
    """Return a choice in a few letters, with the degree if it is not two."""
    named = [dim if degree == 2 else f"{dim} x{degree}" for dim, degree in degrees.items()]
    return ", ".join(named) or "whole"


def differences(
    before: Mapping[Any, Any], after: Mapping[Any, Any], place: Place = ()
) -> Iterator[Difference]:
    """Yield every place where two documents differ, with the value in each; None for an absent value.

    The first entry of a section or split that only one document has stands for the whole; a layer that only one
    document has is named once.

    Args:
        before: one document, or a mapping in it.
        after: the other, or the mapping at the same place.
        place: the place of the mappings.
    """
    common = before.keys() & after.keys()
    for key in dict.fromkeys((*before, *after)):
        if key in common or _kind(place) not in OF_LAYERS:
            yield from _at((*place, key), before.get(key), after.get(key))
    if _kind(place) in ORDERED:
        orders = [[key for key in mapping if key in common] for mapping in (before, after)]
        moved = (pair for pair in zip(*orders, strict=True) if pair[0] != pair[1])
        yield from (((*place[:-1], f"order of {place[-1]}"), old, new) for old, new in [*moved][:1])


def _at(place: Place, old: Any, new: Any) -> Iterator[Difference]:
    """Yield the differences of two values at a place."""
    present = [value for value in (old, new) if value is not None]
    if not present or not all(isinstance(value, dict) for value in present) or {} in present:
        if not same(old, new):
            yield place, old, new
    elif len(present) == 1 and _kind(place) in {(place[0],), ("splits", "*")}:
        first = next(iter(present[0]))
        yield (*place, first), (old or {}).get(first), (new or {}).get(first)
    else:
        yield from differences(old or {}, new or {}, place)


def _kind(place: Place) -> Place:
    return tuple(key if isinstance(key, str) else "*" for key in place)


def same(before: Any, after: Any) -> bool:
    """Return whether two values are equal: floats to nine digits, everything else exactly.

    The last digits of floats may differ between computers.
    """
    if isinstance(before, float) and isinstance(after, float):
        return math.isclose(before, after, rel_tol=1e-9)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(same, before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(same(before[key], after[key]) for key in before)
    return isinstance(before, bool) == isinstance(after, bool) and bool(before == after)
