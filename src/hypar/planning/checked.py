"""Check the ways of levels, the stages, the names and the limits of a request."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hypar.costs.base import load_cost
from hypar.errors import HardwareError, OptionError, shown
from hypar.plan.records import CHUNKS, Asked, Manner
from hypar.plan.stages import FLUSHES, INTERLEAVED
from hypar.planning.strategies.base import load_strategy
from hypar.registry import plugin_names
from hypar.sharding.placement import primes
from hypar.sharding.space import parse_space
from hypar.sharding.tree import MOST_DEVICES
from hypar.solve.limits import DEFAULT_BYTES, DEFAULT_S, Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph

    Ways = tuple[int, ...]

MOST_LEVELS = MOST_DEVICES.bit_length() - 1

MOST_TASKS = 2**20
"""Tasks of one timeline at most, which take some ten seconds."""

TASKS = 10
"""Tasks of a stage, or of a layer, for a microbatch, by which microbatches are limited."""


def require_whole(name: str, found: Any, least: int, most: int, more: str = "") -> None:
    """Raise ``OptionError`` for what is no whole number in a range; ``more`` is what else the option allows."""
    if type(found) is not int or not least <= found <= most:
        raise OptionError(name, f"found {shown(found)}", f"a whole number from {least} to {most:,}{more}")


def checked_array(levels: int | None, array: Sequence[int] | None, *, stages: bool = False) -> Ways:
    """Return the ways of each level; with stages there may be no levels inside."""
    if stages and (levels == 0 if array is None else not array):
        return ()
    if array is None:
        levels = 4 if levels is None else levels
        require_whole("levels", levels, int(not stages), MOST_LEVELS)
        return (2,) * levels
    whole = all(isinstance(ways, int) and ways > 1 for ways in array)
    if not array or not whole or math.prod(array) > MOST_DEVICES:
        found = f"found {'x'.join(str(ways) for ways in array) or 'none':.60}"
        raise OptionError("array", found, f"ways of 2 or more, at most {MOST_DEVICES:,} devices")
    return tuple(array)


def checked_arrays(machine: Machine, levels: int | None, array: Sequence[int] | None) -> dict[str, Ways]:
    """Return the ways of each level inside each group of identical devices of a heterogeneous machine.

    Uneven splits and the levels below are given by their number or their ways; neither stands for all devices of every group.

    Raises:
        OptionError: they are not numbers of levels or ways.
        HardwareError: they do not fit the device groups, or the devices of a group.
    """
    given = (levels, array) != (None, None)
    whole, found = checked_array(levels, array) if given else (), {}
    for name, own, depth in machine.leaves():
        found[name] = whole[depth:] if given else tuple(primes(own.num_devices))
        if given and (len(whole) < depth or math.prod(found[name]) > own.num_devices):
            raise HardwareError(
                "levels" if array is None else "array",
                f"found {len(whole)} levels, {depth} of them uneven splits above {name!r}",
                f"at least {depth}, and at most its {own.num_devices} devices below them",
            )
    if array is not None:
        require_ways(machine, whole)
    for name, own, _ in machine.leaves():
        if found[name]:
            own.links(found[name])
    return found


def require_ways(heterogeneous: Machine, array: Ways) -> None:
    """Check that the ways of each uneven split are the number of its device groups."""
    groups = len(heterogeneous.groups)
    if array[0] != groups:
        found = f"found {array[0]} ways where {heterogeneous.name!r} has {groups} groups"
        raise HardwareError("array", found, str(groups))
    for group in heterogeneous.groups:
        if group.machine.groups:
            require_ways(group.machine, array[1:])


class Nodes(NamedTuple):
    """The nodes that are asked for by their ways: those of levels alone, the number of stages, and of levels outside these."""

    array: Sequence[int] | None
    stages: int | str | None
    outside: int


def checked_nodes(array: Sequence[int | str] | None, stages: int | str | None) -> Nodes:
    """Return the levels and the stages of an array, one of whose entries may be a number of stages, as ``s4``.

    Raises ``OptionError`` if it has several numbers of stages, or one beside ``stages``, which are outside all levels.
    """
    words = [ways for ways in array or () if isinstance(ways, str)]
    if array is None or not words:
        return Nodes(array, stages, 0)  # type: ignore[arg-type]
    if len(words) > 1 or not re.fullmatch(r"s\d+", words[0]):
        allowed = "ways of levels, and one number of stages among them, as 2, s4, 2"
        raise OptionError("array", f"found {shown(', '.join(words))}", allowed)
    if stages is not None:
        raise OptionError("stages", f"found {shown(stages)} and an array with {words[0]}", "one of the two")
    levels = [ways for ways in array if not isinstance(ways, str)]
    return Nodes(levels, int(words[0][1:]), [*array].index(words[0]))


def named_starts(starts: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the stages' first layers, which a text separates with commas; raises ``OptionError`` for what is neither."""
    names = starts.split(",") if isinstance(starts, str) else starts
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise OptionError("starts", f"found {shown(starts)}", "names of layers, as 'conv1,conv3,fc1'")
    return tuple(name.strip() for name in names)


def has_stages(stages: int | str | None, starts: str | Sequence[str] | None, *, cut: bool) -> bool:
    """Return whether a request is for stages, by their number or by their first layers; one with layers that are ``cut`` is none."""
    none = (None, 1) if cut else (None,)
    return any(count not in none for count in (stages, None if starts is None else len(named_starts(starts))))


def checked_starts(
    starts: str | Sequence[str] | None, stages: int | str | None, parts: int
) -> tuple[str, ...]:
    """Return the names of the first layers of the parts of all stages; empty if none are given."""
    if starts is None:
        return ()
    names = named_starts(starts)
    if not names:
        raise OptionError("starts", "found none", "the first layer of each stage")
    if len(names) % parts:
        raise OptionError("starts", f"found {len(names)}", f"a multiple of the {parts} parts of each stage")
    if stages not in {None, len(names) // parts}:
        raise OptionError("stages", f"found {shown(stages)} and starts of {len(names)}", "one of the two")
    return names


def checked_limits(time_limit: float | None, search_memory: float | None) -> Limits:
    """Return the limits of a joint search, in seconds and in bytes; None stands for the default."""
    for name, given, unit in (
        ("time-limit", time_limit, "seconds"),
        ("search-memory", search_memory, "bytes"),
    ):
        number = isinstance(given, int | float) and not isinstance(given, bool)
        if given is not None and not (number and 0 < given < math.inf):
            raise OptionError(name, f"found {shown(given)}", f"a number of {unit} above 0")
    return Limits(time_limit or DEFAULT_S, search_memory or DEFAULT_BYTES)


def space_text(text: str) -> str:
    """Return the text of a space, with the name of a strategy replaced by that strategy's space."""
    named = plugin_names("strategies")
    words = (load_strategy(word).space if word in named else word for word in text.split())
    return parse_space(" ".join(words), None).text


def checked_chunks(chunks: str | int | None, graph: LayerGraph) -> Asked | None:
    """Check the requested chunks, by name or by size, possibly as text from the command line; None stands for no request.

    Raises ``OptionError`` if the value is not allowed for the network.
    """
    if chunks is None or chunks in CHUNKS:
        return cast("Manner | None", chunks)
    most = sum(layer.weighted for layer in graph.contracted.layers)
    digits = isinstance(chunks, str) and chunks.isdecimal() and len(chunks) < 9
    size = int(chunks) if digits or type(chunks) is int else 0
    if not 1 <= size <= most:
        raise OptionError("chunks", f"found {shown(chunks)}", f"{', '.join(CHUNKS)}, or 1 to {most}")
    return size


def checked_microbatches(asked: int | None, schedule: str, batch: int, stages: int, layers: int = 1) -> int:
    """Return the number of microbatches; by default the largest divisor of the mini-batch up to the number of stages.

    Raises ``OptionError`` if the number does not divide the mini-batch, or is too large, or not allowed by the schedule.
    """
    found, allowed, turns = f"found {shown(asked)}", f"a divisor of the batch {batch:,}", 1
    if not FLUSHES[schedule]:
        asked, batch = 1 if asked is None else asked, 1
        allowed = f"1, as {schedule!r} takes whole mini-batches"
    elif schedule == INTERLEAVED:
        asked, turns = stages if asked is None else asked, stages
        found = f"found {asked:,} of a batch of {batch:,}"
        allowed = f"a multiple of the {stages} stages that divides the batch, in schedule {INTERLEAVED!r}"
    if asked is None:
        return max(count for count in range(1, stages + 1) if batch % count == 0)
    if type(asked) is not int or asked < 1 or batch % asked or asked % turns:
        raise OptionError("microbatches", found, allowed)
    most = MOST_TASKS // (TASKS * max(stages, layers))
    if asked > most and FLUSHES[schedule]:
        raise OptionError("microbatches", f"found {asked:,}", f"at most {most:,} in {stages} stages")
    return asked


def fields_of(cost: str) -> set[str]:
    """Return the names of the fields of a cost: its parameters, and what it counts with besides."""
    return {item.name for item in fields(load_cost(cost, {}))}  # type: ignore[arg-type]


def follows(cost: str) -> bool:
    """Return whether a cost can count by any convention."""
    return "convention" in fields_of(cost)
