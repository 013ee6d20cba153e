"""Check the names and limits of a request."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from hypar.costs.base import load_cost
from hypar.errors import OptionError, shown
from hypar.plan.records import CHUNKS
from hypar.plan.stages import FLUSHES, INTERLEAVED
from hypar.planning.strategies.base import load_strategy
from hypar.registry import plugin_names
from hypar.sharding.space import parse_space
from hypar.solve.limits import DEFAULT_BYTES, DEFAULT_S, Limits

if TYPE_CHECKING:
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.records import Asked, Manner


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
