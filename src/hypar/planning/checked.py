"""Check the ways of levels, the stages, the names and the limits of a request."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, cast

from hypar.costs.base import load_cost
from hypar.errors import HardwareError, OptionError, shown
from hypar.plan.records import CHUNKS
from hypar.plan.request import BEST
from hypar.plan.stages import FLUSHES, INTERLEAVED
from hypar.planning.strategies.base import load_strategy
from hypar.registry import plugin_names
from hypar.sharding.space import parse_space
from hypar.sharding.tree import MOST_DEVICES
from hypar.solve.limits import DEFAULT_BYTES, DEFAULT_S, Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.records import Asked, Manner


def checked_array(
    levels: int | None, array: Sequence[int] | None, *, stages: bool = False
) -> tuple[int, ...]:
    """Return the ways of each level; with stages there may be no levels inside."""
    if stages and (levels == 0 if array is None else not array):
        return ()
    most = MOST_DEVICES.bit_length() - 1
    if array is None:
        count = 4 if levels is None else levels
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= most:
            raise OptionError(
                "levels", f"found {count!r}", f"a whole number from {int(not stages)} to {most}"
            )
        return (2,) * count
    whole = all(isinstance(ways, int) and ways > 1 for ways in array)
    if not array or not whole or math.prod(array) > MOST_DEVICES:
        shown = "x".join(str(ways) for ways in array) or "none"
        raise OptionError(
            "array", f"found {shown:.60}", f"ways of 2 or more, at most {MOST_DEVICES:,} devices"
        )
    return tuple(array)


def checked_arrays(
    heterogeneous: Machine, levels: int | None, array: Sequence[int] | None
) -> dict[str, tuple[int, ...]]:
    """Return the ways of each level inside each group of identical devices of a heterogeneous machine.

    Args:
        heterogeneous: the machine.
        levels: the number of uneven splits and two-way levels below; all devices of every group if neither is given.
        array: the ways of each uneven split and of each level below, in place of ``levels``.

    Raises:
        OptionError: they are not numbers of levels or ways.
        HardwareError: they do not fit the device groups, or the devices of a group.
    """
    if levels is None and array is None:
        from hypar.sharding.placement import primes  # noqa: PLC0415 (only for a heterogeneous machine)

        found = {name: tuple(primes(machine.num_devices)) for name, machine, _ in heterogeneous.leaves()}
    else:
        whole = checked_array(levels, array)
        found = {}
        for name, machine, depth in heterogeneous.leaves():
            found[name] = whole[depth:]
            if len(whole) < depth or math.prod(found[name]) > machine.num_devices:
                raise HardwareError(
                    "levels" if array is None else "array",
                    f"found {len(whole)} levels, {depth} of them uneven splits above {name!r}",
                    f"at least {depth}, and at most its {machine.num_devices} devices below them",
                )
        if array is not None:
            require_ways(heterogeneous, whole)
    for name, machine, _ in heterogeneous.leaves():
        if found[name]:
            machine.links(found[name])
    return found


def require_ways(heterogeneous: Machine, array: tuple[int, ...]) -> None:
    """Check that the ways of each uneven split are the number of its device groups."""
    if array[0] != len(heterogeneous.groups):
        groups = len(heterogeneous.groups)
        raise HardwareError(
            "array", f"found {array[0]} ways where {heterogeneous.name!r} has {groups} groups", str(groups)
        )
    for group in heterogeneous.groups:
        if group.machine.groups:
            require_ways(group.machine, array[1:])


class Pipelined(NamedTuple):
    """The checked request for stages; its fields have the names of a request's.

    Attributes:
        stages: the number of stages, ``best``, or None for no stages.
        schedule: the order of work.
        microbatches: the number of microbatches; None for the schedule's default.
        balance: the quantity of the costliest stage that the partition minimises.
        starts: names of the first layers of the stages, or of their parts; empty to search the best partition.
        parts: the number of parts of each stage; None for one.
    """

    stages: int | str | None
    schedule: str
    microbatches: int | None
    balance: str = "time"
    starts: tuple[str, ...] = ()
    parts: int | None = None


def checked_stages(
    stages: int | str | None,
    schedule: str | None,
    microbatches: int | None,
    balance: str | None = None,
    starts: str | Sequence[str] | None = None,
    parts: int | None = None,
    *,
    cut: bool = True,
) -> Pipelined:
    """Check the request for stages; one stage becomes None if its layers are cut, as that is a plan without stages.

    Args:
        stages: the number of stages, or ``best``.
        schedule: the order of work.
        microbatches: the number of microbatches.
        balance: the quantity that the partition minimises.
        starts: names of the stages' first layers; a text separates them with commas.
        parts: the number of parts of each stage.
        cut: whether there are levels inside the stages.

    Raises:
        OptionError: a number is out of range, or the starts are not as many as the parts of all stages.
    """
    for name, number in (("stages", None if stages == BEST else stages), ("microbatches", microbatches)):
        whole = isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST_DEVICES
        if number is not None and not whole:
            allowed = f"a whole number from 1 to {MOST_DEVICES:,}" + (", or best" if name == "stages" else "")
            raise OptionError(name, f"found {shown(number)}", allowed)
    order = "1f1b" if schedule is None else schedule
    several = _checked_parts(parts, order)
    names = _checked_starts(starts, stages, several or 1)
    count = (len(names) // (several or 1) or stages) if has_stages(stages, starts, cut=cut) else None
    return Pipelined(count, order, microbatches, balance or "time", names, several)


def _checked_parts(parts: int | None, schedule: str) -> int | None:
    """Return the number of parts of each stage: for the interleaved schedule 2 if not given, otherwise None."""
    if schedule != INTERLEAVED:
        return None
    if parts is None:
        return 2
    if not isinstance(parts, int) or isinstance(parts, bool) or not 2 <= parts <= MOST_DEVICES:
        raise OptionError("parts", f"found {shown(parts)}", f"a whole number from 2 to {MOST_DEVICES:,}")
    return parts


def named_starts(starts: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the stages' first layers; a text separates them with commas.

    Raises:
        OptionError: they are neither a text nor several names.
    """
    names = starts.split(",") if isinstance(starts, str) else starts
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise OptionError("starts", f"found {shown(starts)}", "names of layers, as 'conv1,conv3,fc1'")
    return tuple(name.strip() for name in names)


def has_stages(stages: int | str | None, starts: str | Sequence[str] | None, *, cut: bool) -> bool:
    """Return whether a request is for stages, by their number or by their first layers.

    Args:
        stages: the number of stages, or ``best``.
        starts: names of the stages' first layers.
        cut: whether there are levels inside the stages; one stage is then a plan without stages.
    """
    none = (None, 1) if cut else (None,)
    return any(count not in none for count in (stages, None if starts is None else len(named_starts(starts))))


class Nodes(NamedTuple):
    """The nodes that are asked for by their ways.

    Attributes:
        array: the ways of each level, the stages left out; None if they are not given.
        stages: the number of stages, ``best``, or None for no stages.
        outside: the number of levels outside the stages.
    """

    array: Sequence[int] | None
    stages: int | str | None
    outside: int


def checked_nodes(array: Sequence[int | str] | None, stages: int | str | None) -> Nodes:
    """Return the levels and the stages of an array, one of whose entries may be a number of stages, as ``s4``.

    Args:
        array: the ways of each level, outermost first, and of the stages.
        stages: the number of stages if they are outside all levels.

    Raises:
        OptionError: it has several numbers of stages, or one beside ``stages``.
    """
    places = [place for place, ways in enumerate(array or ()) if isinstance(ways, str)]
    if array is None or not places:
        return Nodes(array, stages, 0)  # type: ignore[arg-type]
    (first, *others), words = places, [str(array[place]) for place in places]
    count = words[0].removeprefix("s")
    if others or count == words[0] or not count.isdecimal():
        allowed = "ways of levels, and one number of stages among them, as 2, s4, 2"
        raise OptionError("array", f"found {shown(', '.join(words))}", allowed)
    if stages is not None:
        raise OptionError("stages", f"found {shown(stages)} and an array with {words[0]}", "one of the two")
    levels = [ways for place, ways in enumerate(array) if place != first]
    return Nodes(levels, int(count), first)  # type: ignore[arg-type]


def _checked_starts(
    starts: str | Sequence[str] | None, stages: int | str | None, parts: int = 1
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
    """Return the limits of a joint search.

    Args:
        time_limit: seconds; None for the default.
        search_memory: bytes; None for the default.

    Raises:
        OptionError: one is no number above 0.
    """
    found = []
    named = (
        ("time-limit", time_limit, DEFAULT_S, "seconds"),
        ("search-memory", search_memory, DEFAULT_BYTES, "bytes"),
    )
    for name, given, default, unit in named:
        number = default if given is None else given
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < math.inf:
            raise OptionError(name, f"found {shown(given)}", f"a number of {unit} above 0")
        found.append(number)
    return Limits(*found)


def space_text(text: str) -> str:
    """Return the text of a space, with the name of a strategy replaced by that strategy's space."""
    named = plugin_names("strategies")
    words = (load_strategy(word).space if word in named else word for word in text.split())
    return parse_space(" ".join(words), None).text


def checked_shares(shares: str | None, own: str, cost: str, machine: Machine | None) -> str:
    """Check the rule for shares.

    Args:
        shares: the requested rule; None for the strategy's if the cost is of the slowest group, otherwise ``equal``.
        own: the strategy's rule.
        cost: name of the cost.
        machine: the machine; None if none is named.

    Raises:
        UnknownNameError: there is no such cost.
    """
    if shares is None:
        return own if machine is not None and machine.groups and load_cost(cost, {}).slowest else "equal"
    return shares


def checked_chunks(chunks: str | int | None, graph: LayerGraph) -> Asked | None:
    """Check the requested chunks; None stands for no request.

    Args:
        chunks: a name of ``CHUNKS``, or a size, possibly as text from the command line.
        graph: the network.

    Raises:
        OptionError: the value is not allowed.
    """
    if chunks is None:
        return None
    if isinstance(chunks, str) and chunks in CHUNKS:
        return cast("Manner", chunks)
    most = sum(layer.weighted for layer in graph.contracted.layers)
    digits = isinstance(chunks, str) and chunks.isdecimal() and len(chunks) < 9
    size = int(chunks) if digits or type(chunks) is int else 0
    if not 1 <= size <= most:
        raise OptionError("chunks", f"found {shown(chunks)}", f"{', '.join(CHUNKS)}, or 1 to {most}")
    return size


MOST_TASKS = 2**20
"""Tasks of one timeline at most, which take some ten seconds."""

TASKS = 10
"""Tasks of a stage, or of a layer, for a microbatch, by which microbatches are limited."""


def checked_microbatches(asked: int | None, schedule: str, batch: int, stages: int, layers: int = 1) -> int:
    """Return the number of microbatches; by default the largest divisor of the mini-batch up to the number of stages.

    Args:
        asked: the number requested.
        schedule: one of ``FLUSHES``.
        batch: samples in a mini-batch.
        stages: the number of stages, which take turns by ``interleaved``.
        layers: the number of layers.

    Raises:
        OptionError: the number does not divide the mini-batch, or is too large, or not allowed by the schedule.
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
