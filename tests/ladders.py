"""Hypothesis generators of problems from coarse to fine, and their optimum over all sequences of options."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from hypar.solve.coarse.ladder import Ladder, Rung
from hypar.solve.coarse.lattice import lattice_of
from tests.problems import bridges, chains, series_parallel, trees

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.solve.edge import Costs

RUNS = ((1,), (2,), (3,), (1, 2))
shapes = st.one_of(chains(), trees(), series_parallel(), bridges())


@st.composite
def ladders(draw: st.DrawFn) -> Ladder:
    """A few nodes of up to three options over up to three levels; some nodes and links are equal."""
    size, pairs = draw(shapes)
    runs = draw(st.sampled_from(RUNS))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = [tuple(draw(st.integers(1, 3)) for _ in runs) for _ in range(draw(st.integers(1, max(1, size))))]
    of = [draw(st.integers(0, len(kinds) - 1)) for _ in range(size)]
    most = draw(st.sampled_from((2, 10, 1000)))

    def terms(*first: tuple[int, ...], options: tuple[int, ...]) -> tuple[Costs, ...]:
        """Some costs for each level."""
        lattice, each = lattice_of(runs, options), np.repeat(np.arange(len(runs)), runs).tolist()
        return tuple(
            generator.integers(
                0, most, (*[own[run] for own in first], lattice.number(level), options[run])
            ).astype(np.float64)
            for level, run in enumerate(each)
        )

    nodes = [terms(options=options) for options in kinds]
    links: dict[tuple[int, int], tuple[Costs, ...]] = {}
    for a, b in pairs:
        if (of[a], of[b]) not in links:
            links[of[a], of[b]] = terms(kinds[of[a]], options=kinds[of[b]])
    return Ladder(
        runs=runs,
        options=tuple(kinds[kind] for kind in of),
        nodes=tuple(nodes[kind] for kind in of),
        links=tuple(Rung(a, b, links[of[a], of[b]]) for a, b in pairs),
    )


def sequences(ladder: Ladder, node: int) -> list[tuple[int, ...]]:
    """Every sequence of options of a node."""
    every = np.repeat(ladder.options[node], ladder.runs).tolist()
    return [*itertools.product(*map(range, every))]


def above(ladder: Ladder, node: int, order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """How often each option was taken above each level, run by run."""
    firsts = np.cumsum((0, *ladder.runs))
    for level in range(len(order)):
        counts: list[int] = []
        for first, last, options in zip(firsts, firsts[1:], ladder.options[node], strict=False):
            taken = order[first : min(last, level)]
            counts += [taken.count(option) for option in range(options)]
        yield tuple(counts)


def cost_of(ladder: Ladder, orders: list[tuple[int, ...]]) -> float:
    """The cost of a plan, level by level, with the states above found by counting."""
    numbers: dict[object, set[tuple[int, ...]]] = {}
    for node in {*range(len(orders))}:
        for order in sequences(ladder, node):
            for level, counts in enumerate(above(ladder, node, order)):
                numbers.setdefault((ladder.options[node], level), set()).add(counts)
    places = {
        key: {own: at for at, own in enumerate(sorted(of, reverse=True))} for key, of in numbers.items()
    }

    def state(node: int, level: int) -> int:
        counts = [*above(ladder, node, orders[node])][level]
        return places[ladder.options[node], level][counts]

    total = 0.0
    for node, terms in enumerate(ladder.nodes):
        total += sum(term[state(node, level), orders[node][level]] for level, term in enumerate(terms))
    for source, target, terms in ladder.links:
        total += sum(
            term[orders[source][level], state(target, level), orders[target][level]]
            for level, term in enumerate(terms)
        )
    return float(total)
