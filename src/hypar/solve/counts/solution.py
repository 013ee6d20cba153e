"""The search by counts: a plan by columns, the bound of counts, and the blocks of the network.

Orders of levels that reach the cost of given counts are written down from node to node. Inside a cell, equal classes meet first; then
those who have the whole tensor meet those who divide it, as far as there are any. Any such pairing is as good as any other.
"""

from __future__ import annotations

import math
from itertools import pairwise, product
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from hypar.solve.counts.columns import Columns, Found
from hypar.solve.counts.forms import EVERYWHERE
from hypar.solve.counts.pivots import Chain, blocks_of
from hypar.solve.counts.relaxed import STEPS, Relaxed
from hypar.solve.counts.states import MOST_LEVELS, ROUNDING
from hypar.solve.limits import ENTRY_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.solve.counts.forms import CountGraph, Numbers
    from hypar.solve.counts.pivots import Block, Path, Placed
    from hypar.solve.edge import Indices
    from hypar.solve.limits import Budget

FEW_STATES = 300
"""Most states of a layer of which the costs of all pairs are computed before a plan leaves out any."""

MOST_STATES = 2**16
"""Most states of a layer, of which a plan leaves few."""


def improving(graph: CountGraph, budget: Budget) -> Iterator[Found]:
    """Yield plans that are no dearer and bounds that are no lower than those before.

    Nothing if there are too many levels or states of a layer, or the network is too wide.
    """
    sizes = [graph.number_of(node) for node in range(len(graph.nodes))]
    if sum(graph.depths) > MOST_LEVELS or max(sizes) > MOST_STATES:
        return
    many = bool(graph.own) or max(sizes) > FEW_STATES
    steps = [step for step in STEPS if _entries(graph, sizes, step) * ENTRY_BYTES <= budget.limits.bytes]
    stored = _entries(graph, sizes, steps[-1] if many and steps else math.inf)
    search = Columns(graph)
    if not search.takes(1) or not budget.allows(stored=stored):
        return
    plan = search.greedy()
    relaxed = Relaxed(graph, 0 if many else math.inf)
    bound = max(relaxed.bound(), 0.0)
    yield _found(graph, plan, bound)
    if bound < plan.cost * (1 - ROUNDING):
        for better in search.improving(plan, search.widest):
            plan = better
            yield _found(graph, plan, bound)
        # A good plan leaves few of many states by the costs of layers alone.
        bound = max(bound, _bounded(relaxed, plan, steps if many else []))
        yield _found(graph, plan, bound)
    if many and relaxed.most == 0:
        return
    if bound < plan.cost * (1 - ROUNDING) and relaxed.complete:
        yield from _closed(relaxed, search, plan, bound)


def _bounded(relaxed: Relaxed, plan: Found, steps: Sequence[float]) -> float:
    """Leave out the states that no plan of the cost of one takes, and return the bound of the others, at most that cost."""
    for most in (relaxed.most, *steps, *steps[-1:]):
        relaxed.narrow(plan.cost, most)
    bound = relaxed.bound()
    for closer in (relaxed.by_messages, relaxed.by_cliques):
        if bound < plan.cost * (1 - ROUNDING):
            bound = max(bound, closer(plan.cost))
    return min(bound, plan.cost)


def _entries(graph: CountGraph, sizes: Sequence[int], most: float) -> float:
    """Return how many entries the costs of pairs take, with up to some of a tensor; twice as many while they are computed."""
    return 2 * sum(size for _, size in {(form, min(sizes[a] * sizes[b], most)) for a, b, form in graph.links})


def _closed(relaxed: Relaxed, search: Columns, plan: Found, bound: float) -> Iterator[Found]:
    """Yield better plans and bounds by the tables of blocks; nothing if a block has no pivot."""
    graph = search.graph
    blocks = blocks_of([link[:2] for link in relaxed.graph.links], len(relaxed.graph.nodes))
    if blocks is None:
        return
    chain = Chain(relaxed, blocks, plan.cost)
    for path in chain.closing():
        # Exact entries alone are plans, of which the best one leaves less to be made exact.
        reached = path if path.exact else chain.best(exact_only=True)
        if reached.bound < plan.cost * (1 - ROUNDING):
            orders = written(chain, reached)
            plan = min(plan, Found(orders, search.cost(orders)), key=attrgetter("cost"))
            chain.known = plan.cost
        bound = max(bound, min(path.bound, plan.cost))
        yield _found(graph, plan, bound)


def _found(graph: CountGraph, plan: Found, bound: float) -> Found:
    """Return a plan and a bound, which is the cost if they differ by rounding alone."""
    proven = bound >= plan.cost * (1 - ROUNDING)
    return Found(_sorted(graph, plan.orders), plan.cost, plan.cost if proven else bound)


def _sorted(graph: CountGraph, orders: Indices) -> Indices:
    """Return a plan with the levels of each group in the order of their options, which does not change its cost."""
    found, first = [], 0
    for depth in graph.depths:
        own = orders[:, first : first + depth]
        found.append(own[:, np.lexsort(own[::-1])])
        first += depth
    return np.concatenate(found, axis=1)


def written(chain: Chain, path: Path) -> Indices:
    """Return the option of each layer at each level, ``[layers, levels]``, of an exact path."""
    writer, left = _Writer(chain.relaxed.graph), [*chain.blocks]
    states = {node: chain.relaxed.states[node][state] for node, state in path.states.items()}
    for root in chain.ports:
        if not writer.has(root):
            writer.fill(root, writer.levels, states[root])
        while found := [own for own in left if writer.has(own[0].pivot) or writer.has(own[0].port)]:
            block, table = found[0]
            left.remove(found[0])
            known, other = (block.pivot, block.port)[:: 1 if writer.has(block.pivot) else -1]
            if len(block.nodes) == 2:
                writer.meet(other, known, block.spokes[block.port], writer.levels, states[other])
            else:
                writer.block(block, table.placed[path.entry(block)], known)
    return writer.orders


class _Writer:
    """The orders that are written down so far.

    Attributes:
        graph: the problem.
        levels: the levels of each group.
        orders: the option of each layer at each level.
    """

    def __init__(self, graph: CountGraph) -> None:
        self.graph = graph
        ends = np.cumsum((0, *graph.depths)).tolist()
        self.levels = [[*range(first, last)] for first, last in pairwise(ends)]
        self.orders = np.full((len(graph.nodes), ends[-1]), -1, dtype=np.intp)

    def has(self, node: int) -> bool:
        """Return whether a node is written down."""
        return not self.orders.size or bool(self.orders[node, 0] >= 0)

    def fill(self, node: int, cells: Sequence[Sequence[int]], counts: Numbers) -> None:
        """Place the options of a node within cells, in any order."""
        for levels, own in zip(cells, counts, strict=True):
            self.orders[node, list(levels)] = np.repeat(np.arange(len(own)), own)

    def meet(
        self, node: int, other: int, links: Sequence[int], cells: Sequence[Sequence[int]], counts: Numbers
    ) -> None:
        """Place the options of a node within cells so that they meet those of another node best."""
        source, _, form = self.graph.links[links[0]]
        ends = [(form.made, ()), (form.read, form.staying)]
        mine, theirs = ends if source == node else ends[::-1]
        for levels, own in zip(cells, counts.tolist(), strict=True):
            free = []
            for level in levels:
                name = theirs[0][self.orders[other, level]]
                alike = (at for at, of in enumerate(mine[0]) if of == name != EVERYWHERE and own[at])
                option = next(alike, None)
                if option is None:
                    free.append(level)
                else:
                    self.orders[node, level] = option
                    own[option] -= 1
            # Options that stay are next to whole tensors: they meet divided ones, as far as there are any.
            free.sort(key=lambda level: _wholeness(*theirs, self.orders[other, level]))
            rest = [at for at, number in enumerate(own) for _ in range(number)]
            self.orders[node, free] = sorted(rest, key=lambda at: -_wholeness(*mine, at))

    def block(self, block: Block, placed: Placed, known: int) -> None:
        """Place the options of all nodes of a block, of which pivot or port is known."""
        counts = {node: placed.counts[at] for at, node in enumerate(block.nodes) if node != block.pivot}
        if known == block.port:
            # The port takes each option in each cell of the pivot as often as the pivot takes its own in the port's.
            cells = [*product(range(len(self.levels)), range(counts[known].shape[1]))]
            turned = np.zeros((len(cells), self.graph.options(block.pivot)), dtype=np.int8)
            for (group, option), own in zip(placed.cells, counts[known], strict=True):
                turned[[group * len(own) + at for at in range(len(own))], option] = own
            self.fill(block.pivot, self._cells(known, cells), turned)
        found = self._cells(block.pivot, placed.cells)
        for node, above, links in block.branches:
            if node == known:
                continue
            if above is None:
                self.fill(node, found, counts[node])
            else:
                self.meet(node, above, links, found, counts[node])

    def _cells(self, node: int, parts: Iterable[tuple[int, int]]) -> list[list[int]]:
        """Return the levels of some groups at which a node takes some options."""
        return [
            [level for level in self.levels[group] if self.orders[node, level] == option]
            for group, option in parts
        ]


def _wholeness(classes: Sequence[int], staying: Sequence[int], option: int) -> int:
    """Return 2 for an option with the whole tensor, 1 for one that divides it but stays, and 0 for others."""
    return 2 if classes[option] == EVERYWHERE else int(option in staying)
