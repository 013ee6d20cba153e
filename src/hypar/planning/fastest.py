"""The search for the least time of the engine, within a memory: sums at prices propose, the engine decides, moves polish.

Where links work beside the devices, or the memory is short, the sum of a step's seconds is not what is to be least. Sums at other
prices of each kind of work are searched by counts. They are Lagrange relaxations of the longest path through a step, and of the
memory: at the right prices of transfers that are hidden, and of a byte, the optimum of a sum is near that of the step. Blocks of
a network that are equal get equal choices, so that two of them stand for all.

*Bound:* a path through the tasks of a step is no longer than the step. One goes through all that a device computes, and all
transfers forward for which the next layer waits; at its end are either all updates, or the exchange of the first layer's gradient
and its update. The least sum over a path is below every plan's time, whatever fits.

*Few plans* are all run, so that the fastest of them is the optimum.

*Moves:* a whole level of some plan, the choice of layers that are alike at one level, that of a single layer, those of two
layers. The first that helps is kept, until none does. Guarantee: none.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import accumulate, chain, pairwise, product
from typing import NamedTuple, cast

from hypar.activity import tell
from hypar.costs.base import Prices, Time
from hypar.network.graph import LayerGraph
from hypar.network.nodes import Kept, saved_by
from hypar.ops.nest import Nest
from hypar.planning.chunks import Ran
from hypar.planning.folding import Fold, fold
from hypar.planning.question import Question, ask, load_search
from hypar.planning.resolved import Resolved
from hypar.planning.uneven.planner import Slot
from hypar.sharding.placement import WHOLE, Choice, Level, Options, grid, primes, runs_of
from hypar.solve.limits import Budget, Limits, checkpoint

Choices = tuple[Options, ...]
Move = Callable[[int, Options], Options]

HIDDEN = Prices(gradient=0.0, last=0.0), Prices(backward=0.5, gradient=0.2, last=0.2)
"""Prices at which transfers that run beside computation are hidden, all, as in the plan with which a search begins, or in part."""

PATHS = {
    "what devices compute and wait for": Prices(1.0, 0.0, 0.0, 0.0, 0.0),
    "what devices compute and wait for, and the last exchange": Prices(1.0, 0.0, 0.0, 0.0, 1.0, 0.0),
}
"""Prices that are paths through a step."""

WORK = {"what devices compute": Prices(0.0, 0.0, 0.0, 0.0, 0.0)}
"""The path of computation alone."""

SUM = {"all that takes time": Prices()}
"""The prices that add up a step where nothing runs beside anything."""

MOST_PLANS = 2**11
"""Plans that are all run, and choices of two layers, one behind the other, that are all tried together."""

SIZES = 2, 4, 8
"""Ways of the parts of a level that takes several dims at once, larger ones where there would be too many states."""

MOST_TASKS = 2**18
"""Tasks of all steps that are tried to polish a plan that need not be refined."""

ENOUGH = 1e-3
"""Part of a step's time within which a plan that need not be refined is near enough to the bound."""

SMALLEST = Prices(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0)
"""Prices at which bytes alone count."""

MOST_PRICES, FAR = 12, 2.0
"""Prices of a byte that are tried for a plan that fits, where the smallest plan holds so many times the memory at most."""


class LowerBound(NamedTuple):
    """The least seconds of a step of any plan, and what takes them."""

    seconds: float
    path: str


class Proposer(NamedTuple):
    """Plans of least sums at prices, by counts.

    Attributes:
        question: the problem, whose levels are parts of the planned ones where these take several dims at once.
        folded: its layers, of which those of two equal blocks stand for all.
        parts: how many levels of the problem each planned level has.
        planned: the problem that is planned.
        rough: whether all collectives of a level count alike.
    """

    question: Question
    folded: Fold
    parts: tuple[int, ...]
    planned: Question
    rough: bool = False

    @property
    def paths(self) -> Mapping[str, Prices]:
        """The prices that are paths through a step; what parts of a level move is no part of one."""
        paths = WORK if {*self.parts} != {1} else PATHS if self.question.overlaps else SUM
        # Who shares the state of an optimizer updates a share.
        shared = cast("Time", self.question.cost).training.zero
        return {path: own._replace(update=0.0, last=0.0) if shared else own for path, own in paths.items()}

    def found(self, prices: Prices, *, bounded: bool = False) -> tuple[Choices | None, float]:
        """Return a plan of a low sum at some prices, equal in equal blocks; or of the least sum, ``bounded``, with its lower bound.

        Plans by counts that cannot run are None.
        """
        from hypar.solve.counts.solution import improving  # noqa: PLC0415 (only where counting pays)

        problem, folded = replace(self.question, cost=self.question.cost.at(prices)), self.folded
        if not bounded:
            options, sizes = folded.taken(problem.options), folded.taken(problem.sizes)
            problem = replace(problem, graph=folded.graph, options=options, sizes=sizes)
        counted = problem.counted(None if bounded else folded.times, rough=self.rough)
        budget = Budget(problem.limits or Limits())
        every = () if counted is None else improving(counted.graph, budget, bounded=bounded)
        for found in deque(every, maxlen=1):
            choices = counted.choices(found.orders) if counted else None
            return self._joined(choices if bounded or not choices else folded.spread(choices)), found.bound
        return None, 0.0

    def more(self, before: Choices, after: Choices) -> float:
        """Return about how many bytes more a device holds by other choices."""
        cost = cast("Time", self.planned.cost).at(Prices(byte=1.0, saved=1.0))
        changed = [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
        new, old = (held_bytes(self.planned, cost, own, changed) for own in (after, before))
        return new - old

    def _joined(self, choices: Choices | None) -> Choices | None:
        """Return choices with the parts of each level as one; None where a level allows no such choice."""
        if choices is None or {*self.parts} == {1}:
            return choices
        ends = [*pairwise(accumulate(self.parts, initial=0))]
        ways = [level.ways for level in self.question.levels]
        joined = tuple(
            tuple(_grid(own[start:end], ways[start:end]) for start, end in ends) for own in choices
        )
        for at, (own, options) in enumerate(zip(joined, self.planned.options, strict=True)):
            allowed = all(one in of for one, of in zip(own, options, strict=True))
            if not (allowed and self.planned.runs(at, own)):
                return None
        return joined


def held_bytes(question: Question, cost: Time, choices: Choices, layers: Sequence[int]) -> float:
    """Return the bytes that choices of some layers hold on a device, as the prices of a cost count them."""
    graph, last = question.graph, question.levels[-1]
    level = replace(last, index=0, array=(math.prod(last.array),))
    saved = saved_by(graph, cost.training.recompute)
    return math.fsum(_held(cost, level, graph.layers[at].nest, saved[at], choices[at]) for at in layers)


@lru_cache(maxsize=2**14)
def _held(cost: Time, level: Level, nest: Nest, saved: Kept, chosen: Options) -> float:
    degrees = {dim: math.prod(own.degree(dim) for own in chosen) for dim in nest.counted}
    return float(cost.held(level, nest, (grid(degrees),), saved)[0])


def _grid(parts: Options, ways: Sequence[int]) -> Choice:
    """Return the choice of a level whose parts are chosen; copies in some of them divide what most others do."""
    degrees, copies = dict[str, int](), 1
    for choice, own in zip(parts, ways, strict=True):
        copies *= 1 if choice.degrees else own
        for dim, degree in choice.degrees:
            degrees[dim] = degrees.get(dim, 1) * degree
    if not degrees:
        return WHOLE
    most = max(degrees, key=lambda dim: degrees[dim])
    return grid({**degrees, most: degrees[most] * copies})


def proposer_of(request: Resolved, graph: LayerGraph, question: Question) -> Proposer | None:
    """Return what proposes plans for a search for least time; None where the costs cannot be counted, even of parts of its levels."""
    parts = [[ways] for ways in request.array]
    # A dim that a pin names for all levels is one of all their parts.
    held = any(pin.level is not None or any(degree for _, degree in pin.degrees) for pin in question.pins)
    own, sizes = question, [] if held or not question.by_products else [*SIZES]
    rough = False
    while own.counted(rough=rough) is None:
        if not sizes:
            return None
        size = sizes.pop(0)
        rough = size > SIZES[0]
        parts = [_parts(ways, size) for ways in request.array]
        own = _one_dim(ask(request.over([*chain(*parts)]), graph))
    folded = fold(own.graph, own.pins, request.recompute)
    return Proposer(own, folded, tuple(map(len, parts)), question, rough)


def _one_dim(question: Question) -> Question:
    ways = [level.ways for level in question.levels]
    options = tuple(
        tuple(
            tuple(choice for choice in of if len(runs_of(choice, own)) == 1)
            for of, own in zip(each, ways, strict=True)
        )
        for each in question.options
    )
    return replace(question, options=options)


def _parts(ways: int, size: int) -> list[int]:
    """Return factors of the ways of a level, each a product of primes up to a size, or one prime."""
    found = [1]
    for prime in primes(ways):
        if found[-1] > 1 and found[-1] * prime > size:
            found.append(1)
        found[-1] *= prime
    return found


def is_least_time(request: Resolved, question: Question | None) -> bool:
    """Return whether a request is for a joint search for the least time, with something to choose."""
    joint = load_search(request.search).at_once and request.cost == "time"
    return joint and question is not None and not question.leaves_no_choice


def every_plan(
    options: Sequence[Sequence[Options]], runs: Callable[[int, Options], bool]
) -> Iterator[Choices]:
    """Yield all plans of the options of each layer at each level, but for those of which a layer's choices cannot run."""
    ends = [*pairwise(accumulate(map(len, options), initial=0))]
    for plan in product(*chain.from_iterable(options)):
        choices = tuple([plan[start:end] for start, end in ends])
        if all(runs(at, own) for at, own in enumerate(choices)):
            yield choices


class Trials:
    """The plans that the engine has run, of some slots.

    Attributes:
        slots: what is chosen, layer by layer.
        ran: the steps, by the choices of the slots.
        best: the fastest plan that fits, or else the fastest one.
        more: about how many bytes more a device holds by other choices; None if it does not matter.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        run: Callable[[Choices], Ran],
        known: Mapping[Choices, Ran],
        more: Callable[[Choices, Choices], float] | None = None,
    ) -> None:
        """Start with some plans, at least one, and a function that runs the step of another one."""
        self.slots, self._run, self.ran, self.more = slots, run, dict(known), more
        self.best, *others = self.ran
        for own in others:
            self.best = own if self.ran[own].beats(self.ran[self.best]) else self.best

    def tried(self, choices: Choices | None, better: Callable[[Ran, Ran], bool] | None = None) -> Ran | None:
        """Return the step of a plan, run if it is new, which is the best from now on if it is better; None if there is none."""
        if choices is not None and choices not in self.ran:
            checkpoint()
            self.ran[choices] = self._run(choices)
            if (better or type(self.ran[choices]).beats)(self.ran[choices], self.ran[self.best]):
                self.best = choices
        return None if choices is None else self.ran[choices]

    @property
    def smallest(self) -> Choices:
        """The plan that holds least."""
        return min(self.ran, key=lambda own: self.ran[own].held)

    def every(self) -> bool:
        """Run all plans, if they are few; return whether they are."""
        options = [slot.options for slot in self.slots]
        if math.prod(map(len, chain.from_iterable(options))) > MOST_PLANS:
            return False
        plans = every_plan(options, lambda at, own: self.slots[at].runs(own))
        # The memory of plans that are slower than one that fits need not be counted.
        for choices in sorted(plans, key=lambda own: self._run(own).seconds):
            self.tried(choices)
            if self.ran[choices].fits:
                break
        return True

    def shrink(self, most: float) -> bool:
        """Move the plan that holds least until one fits, or nothing holds less; return whether one does, which is the best from now on."""
        fastest, self.best = self.best, self.smallest
        self.polish(most, math.inf, Ran.shrinks)
        fits = self.ran[self.best].fits
        self.best = self.best if fits else fastest
        return fits

    def polish(
        self, most: float = math.inf, enough: float = 0.0, better: Callable[[Ran, Ran], bool] = Ran.gains
    ) -> None:
        """Move the best plan until nothing is better, or it fits and is fast enough; steps of ``most`` tasks in all are tried at most."""
        left, before = most / max(1, len(self.ran[self.best].step.pieces)), None
        while before is not self.best:
            before = self.best
            for places, move in self._moves():
                chosen, best = self.best, self.ran[self.best]
                if left < 1 or (best.fits and best.seconds <= enough):
                    return
                new = {at: move(at, chosen[at]) for at in places}
                if not all(new[at] == chosen[at] or self._allows(at, new[at]) for at in places):
                    continue
                changed = tuple([new.get(at, own) for at, own in enumerate(chosen)])
                if changed not in self.ran and self._may_help(best, chosen, changed):
                    tell(f"refining {self.slots[places[0]].layer if len(places) == 1 else 'layers'}")
                    left -= 1
                    self.tried(changed, better)

    def _allows(self, at: int, own: Options) -> bool:
        """Return whether a slot offers choices, which come from other levels too, and may run with them."""
        slot = self.slots[at]
        return slot.runs(own) and all(one in of for one, of in zip(own, slot.options, strict=True))

    def _may_help(self, best: Ran, chosen: Choices, changed: Choices) -> bool:
        """Return whether a change may fit, or of a plan that does not hold less."""
        more = 0.0 if self.more is None else self.more(chosen, changed)
        return best.work.lanes[0].setting.machine.fits(best.held + more) if best.fits else more <= 0

    def _moves(self) -> Iterator[tuple[Sequence[int], Move]]:
        """Yield the slots that move, with a function from the number of each and its choices to others."""
        every, depths = range(len(self.slots)), {len(slot.options) for slot in self.slots}
        for levels in depths if len(depths) == 1 else ():
            columns = dict.fromkeys(own for plan in self.ran for own in zip(*plan, strict=True))
            yield from ((every, partial(_replaced, to, of)) for to, of in product(range(levels), columns))
        alike: dict[object, list[int]] = {}
        for at, slot in enumerate(self.slots):
            alike.setdefault((re.sub("[0-9]+", "", slot.layer), slot.options), []).append(at)
        single = [[at] for places in alike.values() if len(places) > 1 for at in places]
        for places in (*alike.values(), *single):
            for level, options in enumerate(self.slots[places[0]].options):
                yield from (
                    (places, partial(_replaced, level, dict.fromkeys(places, own))) for own in options
                )
        each = [math.prod(map(len, slot.options)) for slot in self.slots]
        few = sum(one * other for one, other in pairwise(each)) <= MOST_PLANS
        for pair in pairwise(every) if few else ():
            for both in product(*(product(*self.slots[at].options) for at in pair)):
                yield pair, partial(_given, dict(zip(pair, both, strict=True)))


def _replaced(level: int, of: Mapping[int, Choice] | Options, at: int, own: Options) -> Options:
    return (*own[:level], of[at], *own[level + 1 :])


def _given(chosen: Mapping[int, Options], at: int, _: Options) -> Options:
    return chosen[at]


def searched(
    proposer: Proposer | None, trials: Trials, memory_bytes: float | None, most: int = MOST_TASKS
) -> Iterator[LowerBound | None]:
    """Search for the fastest plan that fits a memory; yield after each step a lower bound of every plan's time, None if there is none.

    Args:
        proposer: what proposes plans; None for moves alone.
        trials: the plans so far, which get others beside them.
        memory_bytes: the memory of a device; None if it is not known.
        most: tasks of all steps that are tried to polish the plan.
    """
    bound: LowerBound | None = None
    if trials.every():
        yield LowerBound(trials.ran[trials.best].seconds, "every plan")
        return
    for bound in () if proposer is None else _proposals(proposer, trials, memory_bytes):
        yield bound
    fits = memory_bytes is None or trials.ran[trials.best].fits
    if memory_bytes is not None and not fits and trials.ran[trials.smallest].held <= FAR * memory_bytes:
        fits = trials.shrink(most)
        yield bound
    if fits:
        trials.polish(most, 0.0 if bound is None else bound.seconds * (1 + ENOUGH))
        yield bound


def _proposals(proposer: Proposer, trials: Trials, memory_bytes: float | None) -> Iterator[LowerBound | None]:
    """Run plans of least sums at prices of transfers, of a byte where no plan fits, and along paths through a step; yield the bound so far."""
    overlaps, price = proposer.question.overlaps, 0.0
    bound: LowerBound | None = None
    for prices in HIDDEN[1:] if overlaps else ():
        trials.tried(proposer.found(prices)[0])
        yield bound
    if memory_bytes is not None and not trials.ran[trials.best].fits:
        trials.tried(proposer.found(SMALLEST)[0])
        yield bound
        for tried in _prices(proposer, trials, memory_bytes):
            price = tried
            yield bound
    # Where nothing overlaps, the search for the least sum has a bound at no price.
    for byte in dict.fromkeys((0.0, price) if overlaps else (price,)):
        for path, prices in proposer.paths.items() if overlaps or byte else ():
            choices, least = proposer.found(prices._replace(byte=byte), bounded=True)
            trials.tried(choices)
            bound = max(filter(None, (bound, LowerBound(least - byte * (memory_bytes or 0.0), path))))
            yield bound


def _prices(proposer: Proposer, trials: Trials, memory_bytes: float) -> Iterator[float]:
    """Raise the price of a byte until a plan fits, then halve the distance to one at which none does; yield the prices.

    There are none where the smallest plan is far from fitting.
    """
    first, *_ = trials.ran.values()
    price, low, high = first.seconds / first.held / 16, 0.0, math.inf
    even = HIDDEN[-1] if proposer.question.overlaps else Prices()
    for _ in range(MOST_PRICES if trials.ran[trials.smallest].held <= FAR * memory_bytes else 0):
        yield price
        ran = trials.tried(proposer.found(even._replace(byte=price, saved=price))[0]) or first
        low, high = (low, price) if ran.fits else (price, high)
        price = 2 * low if high == math.inf else (low + high) / 2
