"""How a step trains so that it is fastest within the devices' memory: a stage of ZeRO, what is computed again, and microbatches.

Choices are proposed at prices of a byte of what weights need and of what layers save, as one or the other may be what is short. What a
way of training adds to the time of one plan, and leaves of what it saves, is taken to hold for all; with the bytes of each plan's weights,
which are known, that ranks the pairs of a plan and a way. The engine runs them, those of the least estimate first, until
one that fits is faster than all estimates left. Guarantee: none; the search for least time goes on from the way that is found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product, starmap
from typing import NamedTuple, cast

from hypar.activity import tell
from hypar.costs.base import Prices, Time
from hypar.network.graph import LayerGraph
from hypar.network.nodes import computed_again
from hypar.network.training import ANYWHERE, GATHERED, RECOMPUTED
from hypar.planning.chunks import Ran, run_node
from hypar.planning.fastest import HIDDEN, held_bytes, proposer_of
from hypar.planning.question import Answer, Question, ask, latest
from hypar.planning.resolved import Resolved
from hypar.planning.searches.joint import greedy
from hypar.planning.uneven.planner import Planner
from hypar.schedule.memory import memory_of
from hypar.sharding.dims import BATCH
from hypar.sharding.placement import Options, degrees
from hypar.solve.limits import checkpoint

Choices = tuple[Options, ...]

SHORT = ((0, 0), (4, 4), (16, 16), (0, 4), (4, 0))
"""Prices of a byte of weights and of one that is saved, in sixteenths of the step's time for a full memory."""

FEWEST = 64
"""Devices that divide a sample of a microbatch, at most."""

MOST_RUNS = 24
"""Pairs of a plan and a way of training that are run."""

MARGINS = 1.1, 0.9
"""Parts of the memory up to which a plan may fit, and surely does, by an estimate."""

NEAR, RISING = 1.15, (0.05, 0.2, 0.8)
"""Part of the memory up to which a plan nearly fits, and prices of a full memory at which others do, in parts of the step's time."""

USEFUL = 0.95
"""Part of the saved bytes that recompute must leave at most."""


class Way(NamedTuple):
    """A way of training: fields of a request."""

    zero: int
    recompute: str
    microbatches: int


USUAL = Way(0, RECOMPUTED[0], 1)


class Held(NamedTuple):
    """What a plan holds, and how long its step takes, trained as usual.

    Attributes:
        seconds: the time of the step.
        moving: bytes of activations and errors.
        buffers: bytes of the largest transfer.
        samples: the parts of the mini-batch.
    """

    seconds: float
    moving: float
    buffers: float
    samples: int


class Runs:
    """The steps of plans of a network by ways of training."""

    def __init__(self, request: Resolved, graph: LayerGraph) -> None:
        """Take a request for identical devices."""
        self.request, self.graph = request, graph
        self.question: Question = ask(request, graph)
        self.run = cache(self._run)
        self._microbatch = cache(lambda of: self.of(USUAL._replace(microbatches=of)).microbatch(graph))

    def of(self, way: Way) -> Resolved:
        """Return the request for a way of training."""
        return replace(self.request, **way._asdict(), free=frozenset())

    def _run(self, choices: Choices, way: Way) -> Ran:
        own, size = self.of(way), self.request.element_bytes(self.graph)
        planner = Planner(own, self.question.graph, self.question.pins, size)
        leaf = planner.answered(self.question, Answer(choices=choices, costs=(), solver="", exact=False))
        return run_node(replace(leaf, microbatch=self._microbatch(way.microbatches)))

    def held(self, choices: Choices) -> Held:
        """Return what a plan holds."""
        ran = self.run(choices, USUAL)
        memory, samples = memory_of(ran.work.lanes[0]), max(degrees(own, (BATCH,))[0] for own in choices)
        return Held(ran.seconds, memory["activations"] + memory["errors"], memory["buffers"], samples)

    def state(self, choices: Choices, zero: int) -> float:
        """Return the bytes of weights, gradients and optimizer state on a device, at a stage of ZeRO."""
        cost = cast("Time", self.question.cost).at(Prices(byte=1.0))
        training = cost.training._replace(zero=zero)
        return held_bytes(self.question, replace(cost, training=training), choices, range(len(choices)))


def ways_of(request: Resolved, graph: LayerGraph) -> Iterator[Way]:
    """Yield the ways in which a step may train, those that the request leaves open."""
    nodes, free = graph.nodes(request.graph).layers, request.free
    again = [own for own in RECOMPUTED if own in ANYWHERE or computed_again(nodes, own)]
    parts = [number for number in range(1, graph.batch + 1) if not graph.batch % number]
    every = product(
        range(GATHERED + 1) if "zero" in free else (request.zero,),
        again if "recompute" in free else (request.recompute,),
        parts if "microbatches" in free else (request.microbatches or 1,),
    )
    yield from starmap(Way, every)


def trained(request: Resolved, graph: LayerGraph) -> Resolved:
    """Return a request with the way of training that is found fastest of those that fit, or the one that holds least, as far as its time allows."""
    found, _ = latest(_found(request, graph), request.limits)
    return replace(request, free=frozenset()) if found is None else found


def _found(request: Resolved, graph: LayerGraph) -> Iterator[Resolved]:
    """Yield the request with better and better ways of training."""
    runs, ways = Runs(request, graph), [*ways_of(request, graph)]
    memory_bytes = request.machines[0].memory_bytes or math.inf
    plans = {choices: runs.held(choices) for choices in _proposed(runs, ways, memory_bytes)}
    pairs, smallest = _estimated(runs, plans, ways, memory_bytes)
    found: Ran | None = None
    yield runs.of(smallest)
    known: dict[tuple[int, int], float] = {}
    for _ in range(MOST_RUNS):
        # What ways of training took longer than was estimated tells of others that are alike.
        seconds, pair = min(((_learnt(known, own), own) for own in pairs), default=(math.inf, None))
        if pair is None or (found is not None and seconds >= found.seconds):
            break
        checkpoint()
        pairs.remove(pair)
        way = pair.way
        tell(f"trying ZeRO {way.zero}, recompute {way.recompute}, microbatches {way.microbatches}")
        ran = runs.run(pair.choices, way)
        known[way.zero, way.microbatches] = ran.seconds / pair.seconds
        if not ran.fits and ran.held <= NEAR * memory_bytes:
            ran = _smaller(runs, way, ran, memory_bytes)
        if ran.fits and (found is None or ran.beats(found)):
            found = ran
            yield runs.of(way)


def _smaller(runs: Runs, way: Way, ran: Ran, memory_bytes: float) -> Ran:
    """Return the first plan that fits of those that a way of training proposes at rising prices of a byte, or the one that is given."""
    request = runs.of(way)
    proposer = proposer_of(request, runs.graph, ask(request, runs.graph))
    for factor in RISING if proposer else ():
        price = factor * ran.seconds / memory_bytes
        choices = proposer.found(HIDDEN[-1]._replace(byte=price, saved=price))[0] if proposer else None
        if choices is not None and (own := runs.run(choices, way)).fits:
            return own
    return ran


class Pair(NamedTuple):
    """A plan and a way of training it, with the seconds that are estimated."""

    seconds: float
    way: Way
    choices: Choices


def _learnt(known: Mapping[tuple[int, int], float], pair: Pair) -> float:
    """Return the estimated seconds, as much longer as those of the most alike way that was run: of the same ZeRO, and no more microbatches."""
    zero, parts = pair.way.zero, pair.way.microbatches
    alike = [key for key in known if key[0] == zero and key[1] <= parts]
    return pair.seconds * (known[max(alike)] if alike else 1.0)


def _proposed(runs: Runs, ways: Sequence[Way], memory_bytes: float) -> Iterator[Choices]:
    """Yield plans of low sums at prices of bytes, first those of whole mini-batches, then those of which each microbatch has fewer samples than devices."""
    devices, batch, price = math.prod(runs.request.array), runs.graph.batch, 0.0
    parts = sorted({way.microbatches for way in ways})
    few = [own for own in parts if devices // FEWEST <= batch // own < devices]
    for own in dict.fromkeys((parts[0], *few)):
        request = runs.of(USUAL._replace(microbatches=own))
        question = runs.question if own == 1 else ask(request, runs.graph)
        proposer = proposer_of(request, runs.graph, question)
        checkpoint()
        for byte, saved in SHORT[: len(SHORT) if own == parts[0] else 2]:
            prices = HIDDEN[-1]._replace(byte=byte * price, saved=saved * price)
            choices = proposer.found(prices)[0] if proposer else greedy(question).choices
            if choices is not None:
                yield choices
                held = runs.held(choices)
                price = price or held.seconds / min(memory_bytes, held.moving) / 16


def _estimated(
    runs: Runs, plans: Mapping[Choices, Held], ways: Sequence[Way], memory_bytes: float
) -> tuple[list[Pair], Way]:
    """Return plans with ways of training that may fit, with the fewest microbatches with which they may, and surely do; and the way that holds least."""
    first, own = min(plans.items(), key=lambda plan: plan[1].seconds)

    def more(way: Way) -> float:
        return runs.run(first, way).seconds / own.seconds - 1

    zero = {stage: more(USUAL._replace(zero=stage)) for stage in {way.zero for way in ways}}
    again = {what: more(USUAL._replace(recompute=what)) for what in {way.recompute for way in ways}}
    left = {what: _left(runs, first, own, what) for what in again}
    most = left.get(USUAL.recompute, math.inf) * USEFUL
    kept = [way for way in ways if way.recompute == USUAL.recompute or left[way.recompute] <= most]
    useful = sorted(kept or ways, key=lambda own: own.microbatches)
    found: list[Pair] = []
    smallest = math.inf, ways[0]
    for choices, held in plans.items():
        fewest: dict[tuple[float, int, str], Pair] = {}
        state = {stage: runs.state(choices, stage) + held.buffers for stage in zero}
        for way in useful:
            if held.samples * way.microbatches <= runs.graph.batch:
                size = state[way.zero] + held.moving * left[way.recompute] / way.microbatches
                seconds = held.seconds * (1 + zero[way.zero] + again[way.recompute])
                smallest = min(smallest, (size, way))
                for part in MARGINS:
                    if size <= part * memory_bytes:
                        fewest.setdefault((part, way.zero, way.recompute), Pair(seconds, way, choices))
        found += dict.fromkeys(fewest.values())
    return found, smallest[1]


def _left(runs: Runs, choices: Choices, held: Held, what: str) -> float:
    memory = memory_of(runs.run(choices, USUAL._replace(recompute=what)).work.lanes[0])
    return (memory["activations"] + memory["errors"]) / held.moving
