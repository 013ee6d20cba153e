"""The devices of each stage: any of identical devices, or an equal part of one device group of a heterogeneous machine.

A heterogeneous machine is divided into stages at its outermost split: each group holds equally many consecutive stages.
A stage receives from a stage of its own group over the links of their devices, and from one of another group over the
link of its group to the others.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from hypar.errors import OptionError
from hypar.plan.request import BEST
from hypar.planning.checked import checked_array, require_ways
from hypar.planning.levels import LevelPlanner
from hypar.planning.pins import parse_pin
from hypar.planning.question import setting_for
from hypar.planning.stages.arriving import Beside, places_for
from hypar.planning.stages.spans import CutSpans
from hypar.planning.uneven.planner import Planner
from hypar.sharding.placement import primes
from hypar.sharding.tree import MOST_DEVICES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.machine import Machine
    from hypar.machine.setting import Setting
    from hypar.network.graph import LayerGraph
    from hypar.planning.levels import Node
    from hypar.planning.resolved import Resolved
    from hypar.schedule.costed import Link


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


Known = dict[str | None, dict[str, "Node"]]
"""The best cuts of spans on each device group, whatever the number of stages and the links; None stands for identical devices."""


def spans_of(
    request: Resolved,
    graph: LayerGraph,
    groups: Sequence[str | None],
    microbatches: int,
    known: Known | None = None,
) -> tuple[CutSpans, ...]:
    """Return for each part of each stage, in the network's order, the spans of a network on its devices.

    Args:
        request: the request; its arrays are the ones inside a stage.
        graph: the network.
        groups: the device group of each stage; None for identical devices.
        microbatches: microbatches in a mini-batch.
        known: the best cuts of spans for the same request; more are added.

    Raises:
        InputError: the request does not suit the network, or an array the machine.
    """
    request = replace(request, microbatches=microbatches)
    answers: Known = {} if known is None else known
    machines = {} if request.machine is None else {group.name: group for group in request.machine.groups}
    made: dict[tuple[str | None, bool, bool], CutSpans] = {}
    for name in dict.fromkeys(groups):
        group, each = machines.get(name or ""), groups.count(name)
        own = request if group is None else request.on(group.machine, group.name)
        spans = _spans(of_stage(own, each), graph, name, each, answers.setdefault(name, {}))
        outward, link = group and group.using(request.arrays), spans.forward
        for before, behind in product((False, True), repeat=2):
            forward, backward = (outward if other else link for other in (before, behind))
            made[name, before, behind] = spans.over(forward, backward)
    parts = (None, *tuple(groups) * (request.parts or 1), None)
    around = zip(parts, parts[1:], parts[2:], strict=False)
    return tuple(
        made[own, before not in {None, own}, behind not in {None, own}] for before, own, behind in around
    )


def _spans(
    request: Resolved, graph: LayerGraph, name: str | None, stages: int, answers: dict[str, Node]
) -> CutSpans:
    """Return the spans on the devices of a group, for stages between others there."""
    whole = graph.nodes(request.graph)
    pins = [parse_pin(text, whole, MOST_DEVICES.bit_length()) for text in request.pins]
    pins = [pin for pin in pins if pin.level is None or pin.level < request.levels]
    alone, planner = request, LevelPlanner(request, pins, graph.element_bytes)
    if request.heterogeneous is not None:
        first, machine, _ = next(request.heterogeneous.leaves())
        alone = request.on(machine, first)
        planner = Planner.of(request, whole, pins, graph.element_bytes, root=name, in_stage=True)
    setting = setting_for(alone, graph.element_bytes, planner.cost)
    link = _link(request, setting, stages) if stages > 1 else None
    return CutSpans(
        request=request,
        planner=planner,
        whole=whole,
        microbatch=graph.with_batch(graph.batch // (request.microbatches or 1)).nodes(request.graph),
        setting=setting,
        group=name,
        stages=stages,
        forward=link,
        backward=link,
        answers=answers,
    )


def _link(request: Resolved, setting: Setting, stages: int) -> Link:
    """Return the link between stages on the devices of one group."""
    if request.heterogeneous is None:
        return setting.machine.stage_link(request.array, places_for(setting.machine, request.array, stages))
    each = request.heterogeneous.leaves()
    return Beside.of([(machine, request.arrays[name]) for name, machine, _ in each], stages)


def of_stage(request: Resolved, stages: int) -> Resolved:
    """Return a request whose machine is that of a stage, with no more devices than its arrays have."""

    def ways(name: str, machine: Machine) -> int:
        return places_for(machine, request.arrays[name], stages)

    if request.machine is None:
        return request
    machine = request.machine.of_stage(request.outside, ways)
    return replace(request, machine=machine.using(request.arrays))
