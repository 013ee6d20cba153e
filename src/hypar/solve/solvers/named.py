"""Every solver of hypar's own by its name, and the messages of a lower bound.

*Elimination:* node and edge elimination of DeePa (2018), generalised to the "min-sum" form of bucket elimination (Dechter, Artificial
Intelligence 113, 1999). A node that leaves takes all costs that involve it along and leaves a table over its neighbours,
``rest[y...] = min over x of (sum of its costs at x, y...)``. Order: min-fill, see ``hypar.solve.order``.
Cost: for each node the product of its neighbours' numbers of choices, times its own number of choices, or times its
digits if one of its edges is a sum of terms. Guarantee: exact on any graph; tables past the limits are refused.
Ties go from the last node back to the first declared choice, as in every exact solver.

*Chain:* the same where every component is a path through nodes of rising number: HyPar (HPCA 2019), Algorithm 1, for any number of choices.
Recurrence: ``best[i][y] = node[i][y] + min over x of (best[i - 1][x] + edge[i - 1][x, y])``. Cost: one minimisation over every edge.

*Counts:* the joint search builds its problem from layers and levels, see ``hypar.solve.counts``.

*Bounded:* a plan and its gap, where the tables of elimination would be too large.
Where elimination computes no more than the messages, it is elimination. Else messages along the edges raise a lower bound and point at an assignment after every round. If they prove none, it is
elimination where that is within the limits; if not, exchanges of one and of two choices improve the best of these, the
nodes' best choices by themselves, and some drawn.
Cost: vectors alone beside the graph, two for each edge; rounds and exchanges end with the work that they may do.
Guarantee: bound <= optimum <= cost. The bound is that of a linear relaxation, exact on trees; sums are whole
multiples of the largest power of two that divides all costs, so a bound less than one below the cost is a proof.

*Messages,* with vectors alone: no matrix of an edge is ever made whole. A message moves costs from an edge to one of its ends, so that no assignment's cost changes. Forth and back
through the nodes each node gathers its messages, gives equal fractions of its costs to the edges that lead on, and sends
the least that is then left beside each choice of the other end. The sum of all least entries is a lower bound.
Source: sequential tree-reweighted message passing (TRW-S), Kolmogorov, IEEE PAMI 28, 2006; its bound is at most that
of the linear relaxation over pairs, which is the optimum on trees.
Cost: a round minimises over every edge twice, digit by digit as edges of several levels do.

*Local search:* an assignment made better by exchanging the choices of one node or of two neighbours:
each node takes its best choice beside its neighbours' (iterated conditional modes), then each two nodes that
share an edge their best pair, until nothing is gained.
Source: Besag, On the statistical analysis of dirty pictures, Journal of the Royal Statistical Society B 48, 1986.
Cost: a sweep minimises over every edge once, digit by digit; sweeps end with the work that they may do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from hypar.errors import ProblemError
from hypar.solve.cost_graph import CostGraph, Link, Solution, Structure
from hypar.solve.edge import Costs, Edge, entries_computed
from hypar.solve.limits import ENTRIES_PER_S, Budget, checkpoint
from hypar.solve.minsum import optimum
from hypar.solve.solvers.base import Solver, Tables, require_tables, tables_of

Assignment = tuple[int, ...]

TURNS = 4
"""Rounds, and sweeps of exchanges, that a search takes at least, about."""

ROUNDING = 2.0**-36
"""Largest rounding error of the bound, relative to the sum of the largest costs; the bound is lowered by it."""

OVERHEAD = 2**13
"""Entries that could be computed while one look at a term of an edge is set up."""

PAYS = 1e-5
"""The relative amount by which a round must raise the bound for another to follow."""


class _Side(NamedTuple):
    """One end of an edge, 0 for the source, as the node there sees it; ``into`` has the messages to both ends."""

    edge: Edge
    end: int
    other: int
    into: list[Costs]

    def gathered(self) -> Costs:
        return self.into[self.end]

    def send(self, costs: Costs) -> float:
        """Send the least of some costs of the node to the other end; return the least of the message, taken off it."""
        message = self.edge.least_over(self.end, costs)
        lowest = float(message.min())
        self.into[1 - self.end] = message - lowest
        return lowest

    def beside(self, choice: int) -> Costs:
        """Return the edge's costs over the node's choices, the other end's chosen."""
        return self.edge.beside(1 - self.end, choice)


class Messages:
    """The messages of a cost graph, and assignments to it that are made better one after another.

    Attributes:
        work: the table entries that exchanges may still compute.
    """

    def __init__(self, problem: CostGraph, work: int = 0) -> None:
        self._nodes, self._edges, self.work = problem.nodes, problem.joined(), work
        self._sides: list[list[_Side]] = [[] for _ in self._nodes]
        for edge in self._edges:
            ends = (edge.source, edge.target)
            into = [np.zeros(self._nodes[node].size) for node in ends]
            for end, node in enumerate(ends):
                self._sides[node].append(_Side(edge, end, ends[1 - end], into))

    def bounds(self) -> Iterator[float]:
        """Send messages forth and back, and yield the lower bound, until it rises too little for another round."""
        bound, before, forth = -math.inf, -math.inf, range(len(self._nodes))
        while bound == before == -math.inf or bound - before > PAYS * abs(bound):
            before, bound = bound, max(bound, self._sweep(forth, 1), self._sweep(reversed(forth), -1))
            yield bound

    def choices(self) -> tuple[int, ...]:
        """Return an assignment: each node's best choice beside those before it and the messages of those behind."""
        found: list[int] = []
        for node, ends in enumerate(self._sides):
            costs = self._nodes[node] + sum(
                end.beside(found[end.other]) if end.other < node else end.gathered() for end in ends
            )
            found.append(int(costs.argmin()))
        return tuple(found)

    def _sweep(self, order: Iterable[int], onward: int) -> float:
        """Send messages in one direction; return the lower bound that they give."""
        bound = []
        for node in order:
            checkpoint()
            ends = self._sides[node]
            ahead = [end for end in ends if (end.other - node) * onward > 0]
            part = 1 / max(len(ahead), len(ends) - len(ahead), 1)
            gathered = self._nodes[node] + sum(end.gathered() for end in ends)
            shared = part * gathered
            bound += [end.send(shared - end.gathered()) for end in ahead]
            bound.append(float((gathered - len(ahead) * shared).min()))
        return math.fsum(bound)

    def improved(self, start: Sequence[int]) -> tuple[int, ...]:
        """Return an assignment to a summable graph that costs no more: no exchange makes it better, unless work ran out."""
        found, gained = list(start), True
        while gained and self.work > 0:
            ones = [self._exchange_one(found, node) for node in range(len(found))]
            twos = [self.work > 0 and self._exchange_two(found, edge) for edge in self._edges]
            gained = any(ones) or any(twos)
        return tuple(found)

    def _beside(self, found: Sequence[int], node: int, but: int | None = None) -> Costs:
        """Return the cost of each choice of a node beside its neighbours' choices, without one of them."""
        total = self._nodes[node].copy()
        for end in self._sides[node]:
            if end.other != but:
                self.work -= OVERHEAD * len(end.edge.terms)
                total += end.beside(found[end.other])
        return total

    def _exchange_one(self, found: list[int], node: int) -> bool:
        costs, before = self._beside(found, node), found[node]
        best = int(costs.argmin())
        if gains := bool(costs[best] < costs[before]):
            found[node] = best
        return gains

    def _exchange_two(self, found: list[int], edge: Edge) -> bool:
        a, b = edge.source, edge.target
        checkpoint()
        self.work -= OVERHEAD * len(edge.terms) + entries_computed(*edge.digits)
        of_a, of_b = self._beside(found, a, b), self._beside(found, b, a)
        costs = edge.least_over(0, of_a) + of_b
        best = int(costs.argmin())
        if gains := bool(costs[best] < of_a[found[a]] + of_b[found[b]] + edge.at(found[a], found[b])):
            found[a], found[b] = int((of_a + edge.beside(1, best)).argmin()), best
        return gains


def work_of_round(links: Sequence[Link]) -> int:
    """Return the table entries that a round computes, with what it takes to set each look up."""
    ways = [way for _, _, *digits in links for way in (digits, digits[::-1])]
    return sum(OVERHEAD * len(source) + entries_computed(source, target) for source, target in ways)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """Not always exact, but it says how far from the optimum it may be.

    Attributes:
        rounds: how often messages are sent along all edges at the most.
        starts: how many assignments are drawn, from a fixed seed, to be improved beside those that are found.
        work: table entries computed by rounds, and again by exchanges; one round is always made.
    """

    exact = False
    rounds: int = 50
    starts: int = 8
    work: int = 2**30

    def tables(self, structure: Structure) -> Tables:
        """Return the size of elimination's tables where they take no more work than that of two vectors for each edge and node."""
        exact, sizes = tables_of(structure), structure.sizes
        messages = sum(sizes[link.source] + sizes[link.target] for link in structure.links)
        steps = max(
            (math.prod(link.source_digits) * link.target_digits[0] for link in structure.links), default=0
        )
        found = Tables(
            stored=structure.entries + messages + 2 * sum(sizes) + 2 * steps,
            work=TURNS * work_of_round(structure.links),
        )
        return exact if exact.fit and exact.work <= found.work else found

    def solve(self, problem: CostGraph) -> Solution:
        """Bound by messages, and eliminate where that fits, else improve."""
        *_, last = self.improving(problem, Budget())
        return last

    def improving(self, problem: CostGraph, budget: Budget) -> Iterator[Solution]:
        """Yield the same after every round of messages, and every start that is improved."""
        exact = problem.summable()
        for assignment, bound in self._search(exact, budget):
            cost = problem.cost(assignment)
            proven = exact.cost(assignment) <= bound
            yield Solution(assignment=assignment, cost=cost, bound=cost if proven else min(bound, cost))

    def _search(self, problem: CostGraph, budget: Budget) -> Iterator[tuple[Assignment, float]]:
        """Yield an assignment, and a lower bound that holds however its sums were rounded."""
        structure = problem.structure
        exact, tables = tables_of(structure), self.tables(structure)
        rounding = ROUNDING * float(sum([np.abs(costs).max() for costs in problem.arrays]))
        require_tables("bounded", tables)
        messages = Messages(problem, int(min(self.work, budget.limits.seconds * ENTRIES_PER_S)))
        best, bound = (0,) * len(problem.nodes), -math.inf
        if tables is not exact or not exact.within(budget):
            for best, bound in self._sent(problem, messages, rounding):
                yield best, bound
        cost = problem.cost(best)
        if cost > bound and exact.within(budget):
            best = optimum(problem)
            yield best, problem.cost(best)
        # No assignment costs less by more than the sums' rounding: there is nothing left to search for.
        elif cost > bound + 2 * rounding:
            nodes, generator = problem.nodes, np.random.default_rng(0)
            drawn = (tuple([int(generator.integers(own.size)) for own in nodes]) for _ in range(self.starts))
            found: list[Assignment] = []
            for start in (best, tuple([int(own.argmin()) for own in nodes]), *drawn):
                found.append(messages.improved(start))
                yield min(found, key=lambda each: (problem.cost(each), each[::-1])), bound

    def _sent(
        self, problem: CostGraph, messages: Messages, rounding: float
    ) -> Iterator[tuple[Assignment, float]]:
        """Yield an assignment and a lower bound after every round of messages."""
        grain, (best, least) = problem.grain(), ((0,) * len(problem.nodes), math.inf)
        rounds = max(1, min(self.rounds, messages.work // max(1, work_of_round(problem.structure.links))))
        for bound in islice(messages.bounds(), rounds):
            choices = messages.choices()
            if (cost := problem.cost(choices)) < least:
                best, least = choices, cost
            proven = bound - rounding
            proven = math.ceil(proven / grain) * grain if grain else proven
            yield best, proven
            if least <= max(proven, bound + rounding):
                return


class Elimination:
    """An exact solver of any graph whose tables fit, unless it ``refuses`` graphs of some kind."""

    name, exact, refuses = "elimination", True, ""

    def tables(self, structure: Structure) -> Tables | None:
        """Return the size of the tables by tracing the order without costs."""
        return tables_of(structure)

    def solve(self, problem: CostGraph) -> Solution:
        """Eliminate every node, then assign choices in reverse."""
        tables = self.tables(problem.structure)
        if tables is None:
            raise ProblemError(f"solver {self.name!r}: {self.refuses}")
        require_tables(self.name, tables)
        assignment = optimum(problem)
        return Solution(assignment=assignment, cost=problem.cost(assignment))


class Chain(Elimination):
    """The same of paths alone, in time linear in their length."""

    name, refuses = "chain", "the graph has a branch or a cycle; allowed: paths"

    def tables(self, structure: Structure) -> Tables | None:
        """Return the size of the tables; None if the graph has a branch or a cycle."""
        pairs = {(min(link[:2]), max(link[:2])) for link in structure.links}
        paths = len({low for low, _ in pairs}) == len({high for _, high in pairs}) == len(pairs)
        return tables_of(structure)._replace(width=0) if paths else None


class Counts(Elimination):
    """The name of a search over levels, which takes no cost graph: that does not say which choices are orders of others."""

    name, exact = "counts", False
    refuses = (
        "found costs that depend on the order of levels, or one level at a time; allowed: cost "
        "'volume', or 'time' or 'accpar' on a machine whose outer levels are no faster than inner ones and where all "
        "collectives of a level take as long, by 'moved' or 'fused', --search joint, one dim a level"
    )

    def tables(self, structure: Structure) -> None:
        """Return None: no cost graph is supported."""


plugins: dict[str, Solver] = {
    "bounded": Bounded(),
    "chain": Chain(),
    "counts": Counts(),
    "elimination": Elimination(),
}
