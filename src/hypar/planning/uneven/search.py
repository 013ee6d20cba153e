"""Down the tree of a mixed machine, fork by fork.

A fork is decided by what its sides receive from each other and compute, as AccPar does; each side then plans the part
of the network that its shares leave it, like devices by the search that the recipe names. Of the decisions that a
fork may take the one is kept that is cheapest with all that lies below it: equal shares are among them, and so is
leaving a side idle. Exact shares are found again with what was found to move below, which differs from side to side.
Shares of which a device's memory would not hold its part are not offered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hypar.costs.base import load_cost, structure
from hypar.errors import MemoryLimitError, OptionError
from hypar.machine.mixed import MixedMachine
from hypar.plan.splits import WHOLE_ARRAY
from hypar.planning.question import question_of, setting_for, space_of
from hypar.planning.searches.base import load_search
from hypar.planning.uneven.common_shares import best, search
from hypar.planning.uneven.fork import fork_of
from hypar.planning.uneven.layer_shares import by_layer, settled, settled_costs
from hypar.planning.uneven.memory import fits, limits
from hypar.planning.uneven.quadratics import quadratics_of
from hypar.planning.uneven.tree import Branching, Leaf
from hypar.schedule.lanes import Lane
from hypar.sharding.pins import apply_pins
from hypar.sharding.transfers import simple
from hypar.solve.solvers.base import cheapest, load_solver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.machine.machine import Machine
    from hypar.machine.mixed import Side
    from hypar.network.contraction import ContractedGraph
    from hypar.planning.request import Recipe
    from hypar.planning.uneven.common_shares import Decision
    from hypar.planning.uneven.fork import Fork
    from hypar.planning.uneven.layer_shares import Offer
    from hypar.planning.uneven.quadratics import Line, Quadratics
    from hypar.planning.uneven.tree import Branch
    from hypar.sharding.pins import Pin
    from hypar.sharding.placement import Options

LEAST_GAIN = 1e-12
"""Relative gain below which a decision is no better: equal shares stay where others are no cheaper."""

MOST_TURNS = 5
"""Times that shares are found from what lies below them."""

MOST_TRIES = 8
"""Times that shares are found anew within what memory holds."""


class _Place(NamedTuple):
    """A fork that is to be decided."""

    name: str
    machine: MixedMachine
    graph: ContractedGraph
    depth: int
    options: tuple[Options, ...]


def plan_branches(
    recipe: Recipe, graph: ContractedGraph, pins: Sequence[Pin], element_bytes: int
) -> Branching:
    """Plan a network for a mixed machine.

    Args:
        recipe: what is asked for.
        graph: the layers that are cut.
        pins: choices to hold.
        element_bytes: bytes of an element.

    Raises:
        InputError: the recipe does not suit the network or the machine, or memory holds no shares.
        TableLimitError: an exact search would not fit.
    """
    assert recipe.mixed is not None  # noqa: S101 (the caller asks for a mixed machine)
    planner, machine = _Planner(recipe, pins, element_bytes), recipe.mixed.using(recipe.arrays)
    found = planner.fork(WHOLE_ARRAY, machine, graph, 0)
    if planner.adapts and not fits(found):
        names = ", ".join(side.name for side in machine.sides)
        hint = "take a smaller batch, or --shares equal to see what they would hold"
        raise MemoryLimitError(
            f"hardware {machine.name!r}", f"no shares of {names} fit their memory", hint=hint
        )
    return found


class _Planner:
    """Goes down the tree."""

    def __init__(self, recipe: Recipe, pins: Sequence[Pin], element_bytes: int) -> None:
        self.recipe, self.pins, self.element_bytes = recipe, pins, element_bytes
        self.cost = load_cost(recipe.cost, recipe.parameters)
        self.adapts = recipe.shares != "equal" and self.cost.slowest

    def branch(self, side: Side, graph: ContractedGraph, depth: int) -> Branch:
        """One side of a fork."""
        if isinstance(side.machine, MixedMachine):
            return self.fork(side.name, side.machine, graph, depth)
        return self.leaf(side.name, side.machine, graph, depth)

    def leaf(self, name: str, machine: Machine, graph: ContractedGraph, depth: int) -> Leaf:
        """Like devices, by the search of the recipe."""
        recipe = replace(self.recipe, machine=machine, mixed=None, array=self.recipe.arrays[name], pins=())
        setting = setting_for(recipe, self.element_bytes)
        if not recipe.array:
            lane = Lane(graph, ((),) * len(graph.layers), setting, name, depth)
            return Leaf(lane=lane, levels=(), costs=(), solver="", exact=True)
        last = depth + len(recipe.array)
        pins = [
            replace(pin, level=None if pin.level is None else pin.level - depth)
            for pin in self.pins
            if pin.level is None or depth <= pin.level < last
        ]
        # Between layers of which one has nothing here nothing moves inside the group.
        empty = [layer.empty for layer in graph.layers]
        tensors = tuple(one for one in graph.tensors if not (empty[one.producer] or empty[one.consumer]))
        question = question_of(recipe, replace(graph, tensors=tensors), pins, self.element_bytes)
        answer = load_search(recipe.search).run(question)
        return Leaf(
            lane=Lane(graph, answer.choices, setting, name, depth),
            levels=question.levels,
            costs=answer.costs,
            solver=answer.solver,
            exact=answer.exact,
        )

    def fork(self, name: str, machine: MixedMachine, graph: ContractedGraph, depth: int) -> Branching:
        """Unlike sides: all of them, then without those that only cost.

        Where memory holds no shares of any of them, equal shares of all: a fork above may find smaller ones.
        """
        place = _Place(name, machine, graph, depth, self._options(machine, graph, depth))
        at_work = tuple(range(len(machine.sides)))
        found = self._cheapest(self._tried(place, at_work))
        while self.adapts and len(at_work) > 1:
            fewer = [tuple(side for side in at_work if side != out) for out in at_work]
            tried = {one: sides for sides in fewer for one in self._tried(place, sides)}
            without = self._cheapest(iter(tried), found)
            if without is None:
                least = min(at_work, key=lambda side: machine.sides[side].memory_bytes)
                at_work = tuple(side for side in at_work if side != least)
            elif without is found:
                break
            else:
                found, at_work = without, tried[without]
        return self._equally(place) if found is None else found

    def _options(self, machine: MixedMachine, graph: ContractedGraph, depth: int) -> tuple[Options, ...]:
        """What a fork may do to each layer: divide one dim over all its sides, or leave a join whole."""
        ways, space = len(machine.sides), space_of(self.recipe)
        free = [(space.choices(layer, ways),) for layer in graph.layers]
        own = [replace(pin, level=None) for pin in self.pins if pin.level in {None, depth}]
        held = apply_pins(own, graph, free, (ways,))
        found = [tuple(choice for choice in options if simple(choice, ways)) for (options,) in held]
        for layer, options in zip(graph.layers, found, strict=True):
            if not options:
                what = f"{layer.name!r} could not be divided in one dim over {ways} unlike groups"
                raise OptionError(f"space {self.recipe.space!r}", what, "one dim over all groups of a fork")
        return tuple(found)

    def _cheapest(self, tried: Iterator[Branching], found: Branching | None = None) -> Branching | None:
        """The cheapest decision with all below; the first of those that are as good."""
        for one in tried:
            if found is None or one.cost < found.cost * (1 - LEAST_GAIN):
                found = one
        return found

    def _tried(self, place: _Place, at_work: tuple[int, ...]) -> Iterator[Branching]:
        """The decisions for some sides that are worth a look, equal shares first."""
        every = self._quadratics(place, at_work)
        yield from self._within_memory(place, at_work, every, "equal")
        if self.adapts and len(at_work) > 1:
            yield from self._within_memory(place, at_work, every, "linear")
            if self.recipe.shares != "linear":
                yield from self._exactly(place, at_work, every)

    def _equally(self, place: _Place) -> Branching:
        """Equal shares, whether memory holds them or not."""
        at_work = tuple(range(len(place.machine.sides)))
        every = self._quadratics(place, at_work)
        decision = best(search(every, "equal"))
        offers = settled(every.fork, decision.assignment, decision.shares, integral=self.recipe.integral)
        return self._branching(place, at_work, every.fork, offers, decision)

    def _quadratics(self, place: _Place, at_work: tuple[int, ...]) -> Quadratics:
        """What all options cost some sides."""
        sides = [place.machine.sides[side] for side in at_work]
        solver = load_solver(solver_for(self.recipe, place.graph))
        return quadratics_of(
            fork_of(place.graph, place.options, sides, self.cost, solver, self.element_bytes)
        )

    def _exactly(self, place: _Place, at_work: tuple[int, ...], every: Quadratics) -> Iterator[Branching]:
        """Exact shares, found again with what moves below."""
        below: tuple[Line, ...] | None = None
        before: Branching | None = None
        for _ in range(MOST_TURNS):
            found = list(self._within_memory(place, at_work, every, "exact", below))
            yield from found
            if not found or (before is not None and found[0].shares == before.shares):
                return
            below = found[0].lines_below(at_work, before)
            before = found[0]

    def _within_memory(
        self,
        place: _Place,
        at_work: tuple[int, ...],
        every: Quadratics,
        rule: str,
        below: Sequence[Line] | None = None,
    ) -> Iterator[Branching]:
        """The decision of a rule, its shares found anew until memory holds them; equal ones stand as they are."""
        most: tuple[float, ...] | None = None
        for _ in range(MOST_TRIES):
            decisions = search(every, rule, most, below)
            if not decisions:
                return
            decision = best(decisions)
            offers = settled(every.fork, decision.assignment, decision.shares, integral=self.recipe.integral)
            made = self._branching(place, at_work, every.fork, offers, decision)
            if not self.adapts or fits(made):
                yield made
                yield from self._by_layer(place, at_work, every, decision, rule)
                return
            if rule == "equal":
                return
            room = limits(made)
            most = tuple(room[side] for side in at_work)

    def _by_layer(
        self, place: _Place, at_work: tuple[int, ...], every: Quadratics, decision: Decision, rule: str
    ) -> Iterator[Branching]:
        """The same with shares of their own for the layers, where that is asked for and memory holds them."""
        if self.recipe.shares != "layers" or rule != "exact" or not all(decision.shares):
            return
        offers = by_layer(every, decision, integral=self.recipe.integral)
        # A side without any layer is idle, which is tried by itself.
        if all(any(shares) for shares in zip(*(offer.shares for offer in offers), strict=True)):
            made = self._branching(place, at_work, every.fork, offers, decision)
            if fits(made):
                yield made

    def _branching(
        self, place: _Place, at_work: tuple[int, ...], fork: Fork, offers: Sequence[Offer], decision: Decision
    ) -> Branching:
        """A decision with all that lies below it."""
        count = len(place.machine.sides)

        def spread(shares: Sequence[float]) -> tuple[float, ...]:
            """Shares of all sides, none for those that are idle."""
            given = dict(zip(at_work, shares, strict=True))
            return tuple(given.get(side, 0.0) for side in range(count))

        received, computed = settled_costs(fork, tuple(offers))
        nothing = (0.0,) * len(offers)
        rows = {
            side: (tuple(received[row].tolist()), tuple(computed[row].tolist()))
            for row, side in enumerate(at_work)
        }
        each = [rows.get(side, (nothing, nothing)) for side in range(count)]
        made = Branching(
            name=place.name,
            depth=place.depth,
            graph=place.graph,
            machine=place.machine,
            offers=tuple(offer._replace(shares=spread(offer.shares)) for offer in offers),
            shares=spread(decision.shares),
            integral=self.recipe.integral,
            received=tuple(row[0] for row in each),
            computed=tuple(row[1] for row in each),
            below=(None,) * count,
            slowest=fork.slowest,
            element_bytes=self.element_bytes,
        )
        busy = [any(offer.shares[number] for offer in made.offers) for number in range(count)]
        below = [
            self.branch(side, made.part(number), place.depth + 1) if busy[number] else None
            for number, side in enumerate(place.machine.sides)
        ]
        return made.with_below(tuple(below))


def solver_for(recipe: Recipe, graph: ContractedGraph) -> str:
    """Return the solver that a recipe names, or the cheapest one for all forks and groups alike."""
    if recipe.solver is not None:
        return recipe.solver
    space = space_of(recipe)
    arrays = {(2,), *(recipe.arrays.values() if load_search(recipe.search).at_once else ())}
    return cheapest(
        tuple(
            structure(graph, [tuple(space.choices(layer, ways) for ways in array) for layer in graph.layers])
            for array in sorted(arrays)
        )
    )
