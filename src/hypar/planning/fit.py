"""How a step trains so that it is fastest within the devices' memory: a stage of ZeRO, what is computed again, and microbatches.

Choices are proposed at prices of a byte, for few samples at a time too. What a way of training adds to the time of one plan, and leaves
of what it saves, is taken to hold for all; with the bytes of each plan's weights, which are known, that ranks the pairs of a plan and a
way. The engine runs them, those of the least estimate first, until one that fits is faster than all estimates left.
Guarantee: none; the search for least time goes on from the way that is found.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from itertools import accumulate, pairwise, product, starmap
from operator import itemgetter
from statistics import mode
from typing import NamedTuple, cast

from hypar.activity import tell
from hypar.costs.base import Prices, Time
from hypar.errors import InputError, OptionError
from hypar.network.graph import LayerGraph
from hypar.network.nodes import block_of, computed_again
from hypar.network.training import ANYWHERE, GATHERED, RECOMPUTED
from hypar.plan.records import INTERLEAVED
from hypar.planning.chunks import Ran, computing_s, run_chunked
from hypar.planning.fastest import HIDDEN, MOST_TASKS, every_plan, held_bytes, proposer_of
from hypar.planning.question import Answer, Question, ask, latest
from hypar.planning.resolved import TRAINED, Resolved, checked_microbatches
from hypar.planning.searches.named import greedy
from hypar.planning.stages.running import Staging
from hypar.planning.stages.spans import spans_of
from hypar.planning.uneven.planner import Planner
from hypar.schedule.lanes import PHASE
from hypar.schedule.memory import holds, memory_of
from hypar.sharding.dims import BATCH
from hypar.sharding.placement import WHOLE, Choice, Options, cut, degrees
from hypar.solve.limits import checkpoint
from hypar.units import format_seconds

Choices = tuple[Options, ...]

SHORT = 0.0, 0.25
"""Prices of a byte of weights or of what layers save, in parts of the step's time for a full memory."""

FEWEST = 16
"""Devices that divide a sample of a microbatch, at most."""

MOST_RUNS = 24, 8
"""Ways of training that are run, each with some plans, without stages and in stages, or more of few tasks."""

FEW = 2**12
"""Choices of all plans together where every plan is tried."""

ROOM = 0.75
"""Part of the memory below which there may be room for larger microbatches."""

SMALL = 2**12
"""Tasks of a step, on all devices together, whose memory is counted for every plan."""

MARGIN = 1.1
"""Part of the memory up to which a plan may fit by an estimate."""

TRAINED_BY = "\nhow it trains:"
LEAST = f"{TRAINED_BY} of the least memory"
"""Begin what a claim says of ways of training, and of the one that is searched on from where none that was run fits."""

NAMED, MORE = 3, (2, 4, 8)
"""Other ways of training that are named, and times the devices that are tried where nothing fits."""

USEFUL = 0.95
"""Part of the saved bytes that recompute must leave at most."""


class Way(NamedTuple):
    """A way of training: fields of a request, with the parts of each stage."""

    zero: int
    recompute: str
    microbatches: int
    stages: int = 1
    parts: int = 1

    @property
    def words(self) -> str:
        """What it asks for, as options name it."""
        own = [f"{name} {own}" for name, own in self._asdict().items() if own != getattr(USUAL, name)]
        return ", ".join(own) or "zero 0"


EACH = 0.0, 0.0, 0.5, 1.5
"""Parts of the all-reduces of all gradients that each microbatch takes as long as, at a stage of ZeRO: to sum them, and gather weights twice."""

USUAL = Way(0, RECOMPUTED[0], 1)

STAGES, PARTS = (2, 4, 8, 16, 32), (1, 2, 4, 8)
"""Numbers of stages of the blocks of a network, and of parts of each, that are tried."""

MOST_INSIDE = 2**10
"""Devices of a stage, at most, where a network has blocks."""

WAITING = 1.05
"""Times an even part of what one device would compute above which a step of devices without stages is long."""


class Held(NamedTuple):
    """How long the step of a plan takes, trained as usual, and what it saves.

    Attributes:
        seconds: the time of the step.
        exchange_s: that of its sums of gradients.
        saved: bytes of activations, by what is computed again.
        samples: the parts of the mini-batch.
        memory: the bytes that the engine counts, of small steps alone.
    """

    seconds: float
    exchange_s: float
    saved: Mapping[str, float]
    samples: int
    memory: Mapping[str, float]


class Runs:
    """The steps of plans of a network by ways of training."""

    def __init__(self, request: Resolved, graph: LayerGraph) -> None:
        """Take a request for identical devices, of which those of a stage are considered where there are very many.

        ``ways`` are those that it leaves open, ``pairs`` are estimated, ``fitting`` the seconds of ways of training that were run and fit.
        """
        request.machines[0].links(request.array)  # which refuses an array that it has not
        if isinstance(request.stages, int):
            request = request.over((request.stages, *request.array))
        own, devices = _blocks(request, graph), math.prod(request.array)
        self.whole, self.graph = request, graph
        few = (stages for stages in (1, *STAGES) if devices // stages <= MOST_INSIDE)
        self.least = int(request.stages or (next(few, 1) if own and "stages" in request.free else 1))
        self.pairs: list[Pair] = []
        self.fitting: dict[Way, float] = {}
        self.request = replace(request, stages=None).over(_inside(request.array, self.least))
        self.question: Question = ask(self.request, graph)
        self.run, self.staged, self.held = cache(self._run), cache(self._staged), cache(self._held)
        self.starts, self.uneven = cache(self._starts), cache(self._uneven)
        # The multiplications of all layers before each.
        self.done = [*accumulate((layer.nest.macs for layer in self.question.graph.layers), initial=0)]
        self.memory_bytes = request.machines[0].memory_bytes or math.inf
        self._microbatch = cache(lambda of: self.of(USUAL._replace(microbatches=of)).microbatch(graph))
        every = [way for way in ways_of(request, graph) if way.stages >= self.least]
        allowed = {of for of in {way.microbatches for way in every} if self.allows(of)}
        self.ways = [way for way in every if way.stages > 1 or way.microbatches in allowed]

    def allows(self, microbatches: int) -> bool:
        """Return whether pins have a choice in each of some microbatches."""
        own = self.of(USUAL._replace(microbatches=microbatches))
        with suppress(InputError):
            return not self.whole.pins or bool(ask(own, self.graph))
        return False

    def of(self, way: Way, choices: Choices = ()) -> Resolved:
        """Return the request for a way of training; in stages with choices of all layers alike."""
        own = way._asdict() | {"free": frozenset(), "stages": None, "parts": None, "proposed": choices}
        own["baselines"] = self.request.baselines[:1]
        if way.stages > 1:
            inside = _inside(self.whole.array, way.stages)
            own |= {"stages": way.stages, "arrays": self.whole.over(inside).arrays, "proposed": ()}
            shift = len(self.request.array) - len(inside)
            held = [
                pin if pin.level is None else replace(pin, level=pin.level - shift)
                for pin in self.question.pins
            ]
            own["pins"] = tuple(
                f"{name}@H{level}={choice.text(ways) or 'rep'}"
                for name, each in self.alike(choices, inside).items()
                for level, (choice, ways) in enumerate(zip(each, inside, strict=True), start=1)
            ) + tuple([str(pin) for pin in held if (pin.level or 0) >= 0])
        if way.parts > 1:
            own |= {"parts": way.parts, "schedule": INTERLEAVED}
        return replace(self.request, **own)

    def alike(self, choices: Choices, array: Sequence[int]) -> dict[str, Options]:
        """Return what most layers of a name choose at the innermost levels, whatever the number of their block.

        They choose one dim at the outermost level, as at one that has fewer ways now; raises ``OptionError`` where there are several.
        """
        found: dict[str, list[Options]] = {}
        for layer, (outer, *inner) in zip(self.question.graph.layers, choices, strict=True):
            dim, _ = max(outer.degrees, key=itemgetter(1), default=("", 0))
            first = cut(dim, self.request.array[0]) if dim else WHOLE
            found.setdefault(_pattern(layer.name), []).append((first, *inner)[-len(array) :])
        ways = [*zip(self.request.array[-len(array) :], array, strict=True)]
        each = ((name, zip(mode(own), ways, strict=True)) for name, own in found.items())
        return {name: tuple([_over(choice, *of) for choice, of in own]) for name, own in each}

    def _run(self, choices: Choices, way: Way) -> Ran:
        own, size = self.of(way, choices), self.request.element_bytes(self.graph)
        planner = Planner(own, self.question.graph, self.question.pins, size)
        leaf = planner.answered(self.question, Answer(choices=choices, costs=(), solver="", exact=False))
        return run_chunked(replace(leaf, microbatch=self._microbatch(way.microbatches)).work)

    @cached_property
    def even_s(self) -> float:
        """An even part for each device of the seconds that one would compute."""
        graph = self.question.graph
        own = Planner(self.of(USUAL).over(()), graph, (), self.request.element_bytes(self.graph))
        leaf = own.answered(self.question, Answer(choices=((),) * len(graph.layers)))
        return computing_s(run_chunked(leaf.work).step) / math.prod(self.request.array)

    def _staged(self, choices: Choices, way: Way) -> Ran | None:
        """Return the step in stages of even parts; None if some stage does not fit."""
        own = self.of(way, choices)
        spans = spans_of(own, self.graph, (None,) * way.stages, way.microbatches)
        alike = self.alike(choices, own.array)
        chosen = [alike[_pattern(layer.name)] for layer in self.question.graph.layers]
        ends = pairwise([*self.starts(way.stages * way.parts), len(chosen)])
        each = zip(spans, ends, strict=True)
        staging = Staging.of(own, [of.taking(start, chosen[start:end]) for of, (start, end) in each])
        return run_chunked(staging.work) if holds(staging.work.lanes) else None

    def tried(self, choices: Choices, way: Way) -> Ran | None:
        """Return the step of a plan, None if its stages do not fit; a way of training that fits is known from now on."""
        with suppress(InputError):
            ran = self.run(choices, way) if way.stages == 1 else self.staged(choices, way)
            if ran and ran.fits:
                self.fitting[way] = min(ran.seconds, self.fitting.get(way, math.inf))
            return ran
        return None

    def _starts(self, parts: int) -> list[int]:
        """Return the first layers of parts that begin with a block and share the multiplications about evenly."""
        blocks = dict[str, int]()
        for at, layer in enumerate(self.question.graph.layers):
            blocks.setdefault(block_of(layer.name), at)
        first = [at for own, at in blocks.items() if own != self.question.graph.layers[at].name]
        starts = [0]
        for part in range(1, parts):
            left = first[bisect_right(first, starts[-1]) : len(first) - (parts - part - 1)]
            starts.append(min(left, key=lambda at: abs(self.done[at] - self.done[-1] * part / parts)))
        return starts

    def _uneven(self, stages: int, parts: int) -> float:
        """Return how many times more than on average the largest stage multiplies."""
        ends = [*self.starts(stages * parts), len(self.done) - 1]
        each = [self.done[end] - self.done[start] for start, end in pairwise(ends)]
        return max(sum(each[stage::stages]) for stage in range(stages)) * stages / max(1, self.done[-1])

    def _held(self, choices: Choices) -> Held:
        samples = max(degrees(own, (BATCH,))[0] for own in choices)
        saved = {what: max(1.0, self.bytes(choices, Prices(saved=1.0), 0, what)) for what in RECOMPUTED}
        ran = self.run(choices, USUAL)
        sums = (own.seconds for own in ran.step.pieces if own.collective and own.phase == PHASE)
        small = len(ran.step.pieces) * math.prod(self.request.array) <= SMALL
        memory = memory_of(ran.work.lanes[0]) if small else {}
        return Held(ran.seconds, math.fsum(sums), saved, samples, memory)

    def bytes(self, choices: Choices, prices: Prices, zero: int, again: str = USUAL.recompute) -> float:
        """Return the bytes on a device that prices count, at a stage of ZeRO, where some is computed again."""
        cost = cast("Time", self.question.cost).at(prices)
        training = cost.training._replace(zero=zero, recompute=again)
        return held_bytes(self.question, replace(cost, training=training), choices, range(len(choices)))


def ways_of(request: Resolved, graph: LayerGraph) -> Iterator[Way]:
    """Yield the ways in which a step may train, those that the request leaves open."""
    nodes, free = graph.nodes(request.graph).layers, request.free
    # Parts of blocks without numbers are all of them.
    different = {computed_again(nodes, own): own for own in RECOMPUTED[len(ANYWHERE) :]}
    again = [*ANYWHERE, *(own for layers, own in different.items() if layers)]
    parts = [number for number in range(1, graph.batch + 1) if not graph.batch % number]
    every = product(
        range(GATHERED + 1) if "zero" in free else (request.zero,),
        again if "recompute" in free else (request.recompute,),
        parts if "microbatches" in free else (request.microbatches or 1,),
        (1, *STAGES) if "stages" in free else (int(request.stages or 1),),
        PARTS if "parts" in free else (request.parts or 1,),
    )
    blocks, devices = _blocks(request, graph), math.prod(request.array)
    for way in starmap(Way, every):
        even = 1 < math.prod(_inside(request.array, way.stages)) * way.stages == devices > way.stages
        several = way.stages > 1 and even and way.stages * way.parts <= blocks
        if way.stages == way.parts == 1 or (several and _in_turn(way, graph.batch, len(nodes))):
            yield way


def _in_turn(way: Way, batch: int, layers: int) -> bool:
    schedule = INTERLEAVED if way.parts > 1 else "1f1b"
    with suppress(OptionError):
        return bool(checked_microbatches(way.microbatches, schedule, batch, way.stages, layers))
    return False


def _pattern(name: str) -> str:
    return re.sub(r"\.[0-9]+\.", ".*.", name)


def _blocks(request: Resolved, graph: LayerGraph) -> int:
    names = [layer.name for layer in graph.nodes(request.graph).layers]
    return len({own for name in names if (own := block_of(name)) != name})


def _inside(array: Sequence[int], stages: int) -> tuple[int, ...]:
    """Return the ways of the levels inside some stages over the outermost ones.

    Examples:
        >>> _inside((2, 4, 8), 4)
        (2, 8)
    """
    found = []
    for ways in array:
        taken = math.gcd(ways, stages)
        stages //= taken
        found += [ways // taken] if taken < ways else []
    return tuple(found)


def _over(choice: Choice, ways: int, own: int) -> Choice:
    """Return a choice over other ways of a level; raises ``OptionError`` if it is of several dims."""
    if ways == own or choice == WHOLE:
        return choice
    dim, degree = choice.degrees[0]
    if degree < ways:
        raise OptionError("stages", f"found {choice.text(ways)} over {ways} devices", "one dim over all")
    return cut(dim, own)


def trained(request: Resolved, graph: LayerGraph) -> tuple[Resolved, str]:
    """Return a request with the way of training that is found fastest of those that fit, or holds least, and what its claim says of others.

    Where none fits these are of the fewest devices more with which one does, or of what the request holds.
    """
    found, cut = latest(_searched(request, graph), request.limits)
    if found is None:
        return replace(request, free=frozenset()), ""
    own, words = found
    return own, f"{TRAINED_BY} searched until its time was over" if cut and not words else words


def _searched(request: Resolved, graph: LayerGraph) -> Iterator[tuple[Resolved, str]]:
    runs = Runs(request, graph)
    if not runs.ways:
        return
    if leanest := [own for own in runs.ways if own.stages == runs.least == 1]:
        most = max(1, graph.batch // math.prod(request.array))
        leanest = [own for own in leanest if own.microbatches <= most] or leanest
        yield runs.of(max(leanest, key=lambda own: (own[0], RECOMPUTED.index(own[1]), own[2]))), ""
    for found in _found(runs):
        pair, ran = found
        yield runs.of(*pair[1:]), ""
    wider = ran is None and request.stages is None
    yield runs.of(*pair[1:]), _wider(request, graph) if wider else _others(runs, pair.way)


def _others(runs: Runs, taken: Way) -> str:
    first = {own.way: own for own in sorted(runs.pairs, reverse=True)}
    for _, way, choices in sorted(first.values())[: 2 * NAMED]:
        if len(runs.fitting) <= NAMED and way not in runs.fitting:
            checkpoint()
            runs.tried(choices, way)
    others = sorted((seconds, way) for way, seconds in runs.fitting.items() if way != taken)[:NAMED]
    each = [f"{format_seconds(seconds)} with {way.words}" for seconds, way in others]
    beside = f", next best {'; '.join(each)}" if each else ""
    return f"{TRAINED_BY} the fastest of {len(runs.fitting)} ways that were run and fit{beside}"


def _wider(request: Resolved, graph: LayerGraph) -> str:
    outer, *inner = request.array
    open_, most = replace(request, free=frozenset(TRAINED)), 0
    for factor in (1, *MORE) if open_ != request else MORE:
        with suppress(InputError):
            own = open_.over((outer * factor, *inner))
            *_, (pair, ran) = _found(Runs(own, graph))
            most = math.prod(own.array)
            if ran is not None:
                took = f"{format_seconds(ran.seconds)} a step with {pair.way.words}"
                who = f"{most:,} devices" if factor > 1 else "with nothing held the same devices"
                return f"{LEAST}; {who} would fit: {took}"
    return f"{LEAST}; {f'not even {most:,} devices would fit' if most else 'the machine has no more devices'}"


def _found(runs: Runs) -> Iterator[tuple[Pair, Ran | None]]:
    """Yield the plan and the way of training that hold least by an estimate, then better and better ones that fit, with their steps."""
    plans = {choices: runs.held(choices) for choices in _proposed(runs)}
    pairs, smallest = _estimated(runs, plans)
    runs.pairs = [*pairs]
    yield smallest, None
    best: Ran | None = None
    for staged in (False, True):
        if best is None or best.seconds > WAITING * runs.even_s:
            open_ = [own for own in pairs if (own.way.stages > 1) is staged]
            for pair, ran in _run(runs, open_, best):
                best = ran
                yield pair, ran


def _run(runs: Runs, pairs: list[Pair], best: Ran | None) -> Iterator[tuple[Pair, Ran]]:
    """Yield pairs of a plan and a way of training that fit, each faster than those before, in the order of their estimates."""
    known: dict[Way, float] = {}
    tried, left = {own[1:] for own in pairs}, MOST_TASKS // 8
    while pairs and (len(known) < MOST_RUNS[pairs[0].way.stages > 1] or left > 0):
        # What ways of training took longer than was estimated tells of others that are alike.
        seconds, pair = min((_learnt(known, own), own) for own in pairs)
        _, way, choices = pair
        if best is not None and seconds >= best.seconds:
            return
        checkpoint()
        pairs.remove(pair)
        tell("trying " + ", ".join(f"{name} {own}" for name, own in way._asdict().items()))
        ran = runs.tried(choices, way)
        known[way] = ran.seconds / pair.seconds if ran else 1.0
        if ran is None:
            continue
        left -= len(ran.step.pieces) if way.stages == 1 else left
        if way.stages == 1:
            new = [own for own in _beside(runs, pair, ran) if own[1:] not in tried]
            tried.update(own[1:] for own in new)
            pairs += new
        if ran.fits and (best is None or ran.beats(best)):
            best = ran
            yield pair, ran


def _beside(runs: Runs, pair: Pair, ran: Ran) -> Iterator[Pair]:
    """Yield a plan with the next more microbatches that have a sample for each device, where it does not fit, or the next fewer ones."""
    way, more = pair.way, ran.held > runs.memory_bytes
    alike = [own for own in runs.ways if own._replace(microbatches=way.microbatches) == way]
    each = [own for own in alike if (own > way) is more and own != way]
    for own in each[: 1 if more else None][-1:] if more or ran.held < ROOM * runs.memory_bytes else ():
        if runs.held(pair.choices).samples * own.microbatches <= runs.graph.batch:
            yield pair._replace(way=own)


class Pair(NamedTuple):
    """A plan and a way of training it, with the seconds that are estimated."""

    seconds: float
    way: Way
    choices: Choices


def _learnt(known: Mapping[Way, float], pair: Pair) -> float:
    """Return the estimated seconds, as much longer as those of the most alike way that was run: no more microbatches, whatever is computed again."""
    zero, _, microbatches, *stages = pair.way
    alike = [key for key in known if key[0] == zero and key[2] <= microbatches and [*key[3:]] == stages]
    return pair.seconds * (known[max(alike, key=lambda key: key.microbatches)] if alike else 1.0)


def _proposed(runs: Runs) -> Iterator[Choices]:
    """Yield plans of low sums at prices of bytes, first those of whole mini-batches, then those of which each microbatch has fewer samples than devices."""
    devices, batch, price = math.prod(runs.request.array), runs.graph.batch, 0.0
    options = [own for each in runs.question.options for own in each]
    if math.prod(map(len, options)) * len(options) <= FEW:
        yield from every_plan(runs.question.options, runs.question.runs)
        return
    parts = sorted({way.microbatches for way in runs.ways})
    few = [own for own in parts if devices // FEWEST <= batch // own < devices and runs.allows(own)]
    if runs.least > 1:
        # Those of a stage have no more samples at a time than the outermost level has ways.
        at_once = (own for own in parts if own * runs.request.array[0] <= runs.graph.batch)
        parts, few = [max(at_once, default=1)], []
    for own in dict.fromkeys((parts[0], *few[::2])):
        request = runs.of(USUAL._replace(microbatches=own))
        question = runs.question if own == 1 else ask(request, runs.graph)
        proposer = proposer_of(request, runs.graph, question)
        checkpoint()
        for short in SHORT if own == parts[0] else SHORT[:1]:
            prices = HIDDEN[-1]._replace(byte=short * price, saved=short * price)
            choices = proposer.found(prices)[0] if proposer else greedy(question).choices
            if choices is not None:
                if runs.least > 1:
                    chosen = runs.alike(choices, runs.request.array)
                    choices = tuple([chosen[_pattern(layer.name)] for layer in question.graph.layers])
                yield choices
                held = runs.held(choices)
                saved_bytes = held.saved[USUAL.recompute]
                price = price or held.seconds / min(runs.least * runs.memory_bytes, saved_bytes)
    if not price:
        yield greedy(runs.question).choices


def _estimated(runs: Runs, plans: Mapping[Choices, Held]) -> tuple[list[Pair], Pair]:
    """Return plans with ways of training that may fit, with the fewest microbatches with which they may; and the way that holds least."""
    first, own = min(plans.items(), key=lambda plan: plan[1].seconds)

    def more(way: Way) -> float:
        return runs.run(first, way).seconds / own.seconds - 1

    zero = {stage: more(USUAL._replace(zero=stage)) for stage in {way.zero for way in runs.ways}}
    again = {what: more(USUAL._replace(recompute=what)) for what in {way.recompute for way in runs.ways}}
    # What the engine holds at a time is more than what is saved.
    usual = USUAL.recompute
    memories = {
        what: memory_of(runs.run(first, USUAL._replace(recompute=what)).work.lanes[0])
        for what in {usual, *again}
    }
    moving = {what: each["activations"] + each["errors"] for what, each in memories.items()}
    left = {what: moving[what] / own.saved[what] / moving[usual] * own.saved[usual] for what in moving}
    spare = [
        way for way in runs.ways if way.recompute == usual or moving[way.recompute] <= USEFUL * moving[usual]
    ]
    # The pipeline runs empty for less of the time with more microbatches.
    useful = sorted(spare or runs.ways, key=lambda own: own.microbatches * (1 if own.stages == 1 else -1))
    found: list[Pair] = []
    smallest = math.inf, runs.ways[0], first
    even_s, devices = runs.even_s, math.prod(runs.request.array)
    for choices, held in plans.items():
        fewest: dict[Way, Pair] = {}
        state = {stage: runs.bytes(choices, Prices(byte=1.0), stage) for stage in {0, *zero, GATHERED}}
        memory = held.memory or memories[usual]
        moves = memory["activations"] + memory["errors"]
        moves *= 1 if held.memory else held.saved[usual] / own.saved[usual]
        # All devices share what ZeRO shards, in whatever stages they are.
        others = max(1.0, state[0] / max(1.0, state[GATHERED]) - 1)
        shared = {stage: (state[0] - state[stage]) / others for stage in zero}
        for way in useful:
            if held.samples * way.microbatches * runs.least <= runs.graph.batch * way.stages:
                empty = (way.stages - 1) / way.parts
                waiting = min(way.stages + empty * (way.parts > 1), way.microbatches)
                kept = held.saved[way.recompute] / held.saved[usual] * left[way.recompute] * moves * waiting
                size = shared[way.zero] + kept / way.microbatches
                once = (state[way.zero] - shared[way.zero] + memory["buffers"]) / way.stages
                uneven = runs.uneven(way.stages, way.parts)
                size = uneven * (size / runs.least + once)
                # Of fewer devices beside each other each waits less, about as there are levels fewer.
                left_of = math.log(devices * runs.least / way.stages) / math.log(devices)
                alone_s = even_s + max(0.0, held.seconds - even_s) * left_of
                seconds = uneven * alone_s * (1 + zero[way.zero] + again[way.recompute]) / runs.least
                sent_s = EACH[way.zero] * held.exchange_s * way.microbatches / way.stages
                seconds = max(seconds, sent_s) * (1 + empty / way.microbatches)
                kind = way._replace(microbatches=0)
                if way.stages == runs.least:
                    smallest = min(smallest, (size, way, choices), key=itemgetter(0))
                if size <= MARGIN * runs.memory_bytes:
                    fewest.setdefault(kind, Pair(seconds, way, choices))
        found += fewest.values()
    return found, Pair(*smallest)
