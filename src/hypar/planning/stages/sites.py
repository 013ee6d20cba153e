"""The devices of each stage: any of identical devices, or an equal part of one device group of a heterogeneous machine.

A heterogeneous machine is divided into stages at its outermost split: each group holds equally many consecutive stages.
A stage receives from a stage of its own group over the links of their devices, and from one of another group over the
link of its group to the others.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import OptionError
from hypar.plan.request import BEST
from hypar.planning.checked import checked_array, require_ways
from hypar.planning.stages.places import places_for
from hypar.planning.stages.span import Links
from hypar.planning.stages.spans import CutSpans
from hypar.sharding.placement import primes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.machine import DeviceGroup, Machine
    from hypar.network.graph import LayerGraph
    from hypar.planning.levels import Node
    from hypar.planning.resolved import Resolved
    from hypar.planning.stages.span import LayerBounds


class Known(NamedTuple):
    """All that is known of the spans on some devices, whatever the number of stages and the links to them.

    Attributes:
        answers: the best cuts of spans.
        bounds: the lower bounds of all layers, for each number of microbatches.
    """

    answers: dict[object, Node]
    bounds: dict[int, list[LayerBounds]]


KnownOf = dict[str | None, Known]
"""All that is known of the spans on each device group; None stands for identical devices."""


def stage_arrays(
    machine: Machine,
    stages: int | str,
    levels: int | None,
    array: Sequence[int] | None,
    outside: int = 0,
) -> dict[str, tuple[int, ...]]:
    """Return the ways of each level of each group of identical devices in a stage.

    Args:
        machine: the machine.
        stages: the number of stages.
        levels: the number of two-way levels inside each stage, uneven splits included; all devices of every group if no
            array is given either.
        array: the ways of each uneven split and level of a stage, in place of ``levels``.
        outside: the number of uneven splits and levels outside the stages.

    Raises:
        OptionError: the groups cannot hold that number of stages, or of devices in each.
    """
    count, depth = (int(stages), 0) if outside else (_of_each_group(machine, stages), 1)
    groups = [*machine.leaves()]
    whole = None if levels is None and array is None else checked_array(levels, array, stages=True)
    found = {}
    for name, own, above in groups:
        inside = above - depth
        if whole is None and own.num_devices % count:
            problem = f"found {count} in group {name!r} of {_devices(own.num_devices)}"
            raise OptionError("stages", problem, "equally many devices in each, or levels inside")
        found[name] = tuple(primes(own.num_devices // count)) if whole is None else whole[inside:]
        if whole is not None and (len(whole) < inside or outside > len(whole)):
            problem = f"found {len(whole)} levels and splits of a stage of {name!r}"
            raise OptionError("array", problem, f"at least {max(inside, outside)}")
        each = math.prod(found[name])
        if count * each > own.num_devices:
            stages_of = f"each of {count} stages of" if count > 1 else "the stage of"
            problem = f"found {_devices(each)} in {stages_of} {name!r}"
            allowed = f"at most its {_devices(own.num_devices)}"
            raise OptionError("levels" if array is None else "array", problem, allowed)
    for split in [machine] if outside else [group.machine for group in machine.groups]:
        if array is not None and whole and split.groups:
            require_ways(split, whole)
    return found


def _devices(count: int) -> str:
    return f"{count:,} device{'s' * (count != 1)}"


def _of_each_group(machine: Machine, stages: int | str) -> int:
    """Return the number of stages of each group.

    Raises:
        OptionError: it is no whole number.
    """
    count = len(machine.groups)
    if stages == BEST or int(stages) % count:
        found = f"found {stages} where {machine.name!r} has {count} groups of identical devices"
        raise OptionError("stages", found, f"a multiple of {count}")
    return int(stages) // count


def orders_of(request: Resolved, stages: int) -> list[tuple[str | None, ...]]:
    """Return the orders of device groups to try, the group of each stage; None for identical devices."""
    machine = request.heterogeneous
    if machine is None or request.outside:
        return [(None,) * stages]
    each = _of_each_group(machine, stages)
    names = tuple(group.name for group in machine.groups for _ in range(each))
    return [names, names[::-1]]


def spans_of(
    request: Resolved,
    graph: LayerGraph,
    groups: Sequence[str | None],
    microbatches: int,
    known: KnownOf | None = None,
) -> tuple[CutSpans, ...]:
    """Return for each part of each stage, in the network's order, the spans of a network on its devices.

    Args:
        request: the request; its arrays are the ones inside a stage.
        graph: the network.
        groups: the device group of each stage; None for identical devices.
        microbatches: microbatches in a mini-batch.
        known: all that is known of spans for the same request; more is added.

    Raises:
        InputError: the request does not suit the network, or an array the machine.
    """
    kinds: dict[tuple[str | None, bool, bool], CutSpans] = {}
    known = {} if known is None else known
    found = []
    parts = tuple(groups) * (request.parts or 1)
    for number, name in enumerate(parts):
        before, behind = parts[number - 1 : number] if number else (), parts[number + 1 : number + 2]
        kind = (name, not {*before} <= {name}, not {*behind} <= {name})
        if kind not in kinds:
            own = known.setdefault(name, Known({}, {}))
            kinds[kind] = _spans(request, graph, kind, (groups.count(name), microbatches), own)
        found.append(kinds[kind])
    return tuple(found)


def _spans(
    request: Resolved,
    graph: LayerGraph,
    kind: tuple[str | None, bool, bool],
    counts: tuple[int, int],
    known: Known,
) -> CutSpans:
    """Return the spans on the devices of a group, for stages with or without another group before and behind them."""
    name, before, behind = kind
    group = None if name is None else _group(request, name)
    inside = of_stage(request if group is None else request.on(group.machine, group.name), counts[0])
    spans = replace(CutSpans.of(inside, graph, counts, known.answers, name), bounds=known.bounds)
    if group is None:
        return spans
    outward, (forward, backward) = group.using(request.arrays), spans.site.links
    return spans.over(Links(outward if before else forward, outward if behind else backward))


def of_stage(request: Resolved, stages: int) -> Resolved:
    """Return a request whose machine is that of a stage, with no more devices than its arrays have."""

    def ways(name: str, machine: Machine) -> int:
        return places_for(machine, request.arrays[name], stages)

    if request.machine is None:
        return request
    machine = request.machine.of_stage(request.outside, ways)
    return replace(request, machine=machine.using(request.arrays))


def _group(request: Resolved, name: str) -> DeviceGroup:
    """Return a device group of the machine of a request."""
    assert request.heterogeneous is not None  # noqa: S101 (stages are named after its groups)
    return next(group for group in request.heterogeneous.groups if group.name == name)
