"""Find the best number of stages: every number that the array's devices allow is tried, with the levels left inside.

Idea: candidates are divided into stages in the order of lower bounds of their steps, as long as these are below the
least estimate, and the engine decides between the fastest.
Guarantee: the same stages as if all candidates were divided, ties included.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.activity import tell
from hypar.errors import HardwareError, OptionError
from hypar.plan.request import BEST
from hypar.plan.stages import FLUSHES
from hypar.planning.checked import checked_microbatches
from hypar.planning.stages.ends import stage_ends
from hypar.planning.stages.lower_bounds import ROUNDING
from hypar.planning.stages.partition import divided, least_seconds, unfit
from hypar.planning.stages.running import estimated_s, run_stages
from hypar.planning.stages.sites import orders_of, spans_of
from hypar.sharding.conventions import PAPER
from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.planning.resolved import Resolved
    from hypar.planning.stages.running import Staging
    from hypar.planning.stages.sites import Known
    from hypar.planning.stages.spans import CutSpan, CutSpans

MULTIPLES = (1, 2, 4, 8)
"""Numbers of microbatches per stage that are tried."""

NEAR = 1.1
"""How much slower than the fastest a candidate's estimate may be for the engine to run it, where transfers overlap."""

MOST_RUN = 8
"""Largest number of candidates that the engine runs."""


def plan_stages(
    request: Resolved,
    graph: LayerGraph,
    progress: Callable[[int, int], None] = lambda *_: None,
    limit: float = math.inf,
) -> Staging | None:
    """Divide a network into the requested stages, and cut each; None if the best number is not faster than a limit in seconds.

    ``progress`` is called with the number of tries done, and their total.

    Raises:
        InputError: the network, the batch or the machine does not allow that number of stages, or none fit the memory.
        TableLimitError: the network has too many layers, or the tables of a search would not fit.
    """
    if request.stages == BEST:
        return _best_stages(request, graph, progress, limit)
    assert isinstance(request.stages, int)  # noqa: S101 (checked with the request)
    known: Known = {}
    orders = [_spans_in(request, graph, groups, known) for groups in orders_of(request, request.stages)]
    each = (divided(spans, graph) for spans in orders)
    found = _fastest(run_stages(request, own) for own in each if own is not None)
    if found is None:
        raise unfit(request, graph, orders[0])
    return found


def _spans_in(
    request: Resolved, graph: LayerGraph, groups: Sequence[str | None], known: Known
) -> tuple[CutSpans, ...]:
    """Return the spans for each part of the requested stages, for which the network has places; arguments as in ``spans_of``."""
    names, stages, parts = (
        [layer.name for layer in graph.nodes(request.graph).layers],
        len(groups),
        request.parts,
    )
    layers = len(names)
    places = layers if request.starts else len(stage_ends(names)) - 1
    each = "one for each layer that is cut" if places == layers else "one for each block of layers"
    if not 1 <= stages <= places:
        raise OptionError("stages", f"found {stages}", f"1 to {places}, {each}")
    if parts is not None and stages == 1:
        raise OptionError("parts", f"found {parts} of a single stage", "2 stages or more")
    if parts is not None and stages * parts > places:
        found = f"found {parts} of each of {stages} stages"
        raise OptionError("parts", found, f"at most {places} in all, {each}")
    microbatches = checked_microbatches(request.microbatches, request.schedule, graph.batch, stages, layers)
    return spans_of(request, graph, groups, microbatches, known)


def _best_stages(
    request: Resolved, graph: LayerGraph, progress: Callable[[int, int], None], limit: float
) -> Staging | None:
    candidates = [*_candidates(request, graph)]
    ahead = sorted((least_seconds(spans), number) for number, (_, spans) in enumerate(candidates))
    # Where nothing overlaps and no weight is tied an estimate is exact, so that only the fastest is run.
    tied = bool(graph.ties) and request.counted != PAPER
    several = tied or any(machine.overlap for machine in request.machines) or request.chunks is not None
    least, near = limit, NEAR if several else 1.0
    found: list[tuple[float, int, list[CutSpan]]] = []
    for done, (bound, number) in enumerate(ahead):
        if bound == math.inf or bound > least * near * (1 + ROUNDING):
            break
        progress(done, len(candidates))
        own, spans = candidates[number]
        inside = f" of {'x'.join(map(str, own.array))}" if own.array else ""
        tell(f"trying {len(spans) // (own.parts or 1)} stages{inside}, {own.microbatches} microbatches")
        with suppress(HardwareError):
            if stages := divided(spans, graph, least * near):
                seconds = estimated_s(stages)
                least = min(least, seconds)
                found.append((seconds, number, stages))
    progress(len(candidates), len(candidates))
    fastest = [own for own in sorted(found) if own[0] <= least * near][: MOST_RUN if several else 1]
    return _fastest((run_stages(candidates[number][0], own) for _, number, own in fastest), limit)


def _fastest(ran: Iterable[Staging], limit: float = math.inf) -> Staging | None:
    """Return the stages whose step is the fastest by the engine; None if none is below a limit."""
    best = None
    for staging in ran:
        if staging.ran.timeline.makespan < limit:
            best, limit = staging, staging.ran.timeline.makespan
    return best


def _candidates(request: Resolved, graph: LayerGraph) -> Iterator[tuple[Resolved, tuple[CutSpans, ...]]]:
    """Yield numbers of stages, levels inside and microbatches to try as requests, with the spans for each stage in some order."""
    known: dict[tuple[object, ...], Known] = {}
    places = len(stage_ends([layer.name for layer in graph.nodes(request.graph).layers])) - 1
    for stages, arrays in _divisions(request):
        several = request.parts is not None and graph.batch % stages
        if stages * (request.parts or 1) > places or several:
            continue
        answers = known.setdefault((*arrays.items(),), {})
        for microbatches in _microbatches(request, graph.batch, stages):
            own = replace(request, arrays=arrays, microbatches=microbatches)
            for groups in dict.fromkeys(orders_of(own, stages)):
                with suppress(HardwareError):
                    yield own, spans_of(own, graph, groups, microbatches, answers)


def _divisions(request: Resolved) -> Iterator[tuple[int, dict[str, tuple[int, ...]]]]:
    """Yield numbers of stages over the outermost levels, with the levels inside: all that remain, or the innermost.

    Device groups hold equally many stages each, and all their other levels are inside.
    """
    machine = request.machine
    if machine is not None and machine.groups:
        each = [
            {math.prod(array[:at]): at for at in range(len(array) + 1)} for array in request.arrays.values()
        ]
        for count in sorted(each[0].keys() & set.intersection(*map(set, each))):
            inside = zip(request.arrays.items(), each, strict=True)
            yield count * len(machine.groups), {name: array[at[count] :] for (name, array), at in inside}
        return
    assert machine is not None  # noqa: S101 (stages without a machine are refused)
    for outer in range(1, len(request.array) + 1):
        stages = math.prod(request.array[:outer])
        for inner in range(outer, len(request.array) + 1):
            if machine.num_devices % math.prod((stages, *request.array[inner:])) == 0:
                yield stages, {WHOLE_ARRAY: request.array[inner:]}


def _microbatches(request: Resolved, batch: int, stages: int) -> list[int]:
    """Return the numbers of microbatches to try: the requested one, or the schedule's default and multiples of the stages."""
    own = checked_microbatches(request.microbatches, request.schedule, batch, stages)
    flushes = request.microbatches is None and FLUSHES[request.schedule]
    more = (each * stages for each in MULTIPLES if flushes and batch % (each * stages) == 0)
    return sorted({own, *more})
