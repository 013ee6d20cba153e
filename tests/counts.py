"""Hypothesis generators of problems of counts, and their optimum over all sequences of options."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from hypar.solve.cost_graph import CostGraph
from hypar.solve.counts.forms import EVERYWHERE, CountGraph, Form, Link, Term
from hypar.solve.counts.states import Cells, Own, Tier
from hypar.solve.edge import Costs, Edge, Indices
from hypar.solve.solvers.base import load_solver
from tests.problems import bridges, chains, series_parallel, trees

Graphs = st.SearchStrategy[tuple[int, list[tuple[int, int]]]]
Tiers = list[tuple[float, list[tuple[int, float]]]]
LEVELS = ({2: 1}, {2: 2}, {2: 3}, {3: 2}, {2: 2, 3: 1})
"""The number of levels of each number of ways."""


def cells_of(depths: dict[int, int]) -> Cells:
    """Groups of some numbers of levels by their ways, in one tier."""
    groups = len(depths)
    return Cells(tuple(depths.values()), tuple(range(groups)), tuple(depths), (Tier(groups, 1.0),))


shapes = st.one_of(chains(), trees(), series_parallel(), bridges())


@st.composite
def forms(draw: st.DrawFn, made: int, read: int, *, stays: bool = False) -> Form:
    """A tensor between layers of some numbers of options, with weights as ``moved`` and ``fused`` have them; options of groups may stay."""
    classes = tuple(
        tuple(draw(st.sampled_from((EVERYWHERE, 0, 1, 2 + end))) for _ in range(options))
        for end, options in enumerate((made, read))
    )
    size, owned = draw(st.sampled_from((1.0, 2.0, 7.0, 32.0))), draw(st.sampled_from((0.0, 1.0)))
    kept = draw(st.sampled_from((0.0, 1.0)))
    alone = tuple(
        (Term(2 * size, tuple(int(name == EVERYWHERE) for name in own)), Term(0.0, (0,) * len(own)))
        for own in classes
    )
    both = -size * draw(st.sampled_from((1.0, 2.0)))
    whole = [at for at, name in enumerate(classes[1]) if name == EVERYWHERE]
    staying = tuple(at for at in range(read) if stays and kept and at not in whole and draw(st.booleans()))
    return Form(classes[0], classes[1], both, -size * owned, size * kept, (alone[0], alone[1]), staying)


@st.composite
def count_graphs(draw: st.DrawFn, graphs: Graphs = shapes, *, stays: bool = False) -> CountGraph:
    """A few layers of up to three options each; some are not offered at every level, and some may stay."""
    size, pairs = draw(graphs)
    depths = draw(st.sampled_from(LEVELS))
    options = [draw(st.integers(1, 3)) for _ in range(size)]
    nodes, offered = [], []
    for own in options:
        weights = st.sampled_from((0.0, 1.0, 5.0, 40.0))
        powers = st.tuples(*[st.integers(0, 1)] * own)
        nodes.append(tuple(Term(draw(weights), draw(powers)) for _ in range(2)))
        every = tuple(range(own))
        offered.append(tuple(draw(st.sampled_from((every, every, every[-1:]))) for _ in depths))
    links = tuple(Link(a, b, draw(forms(options[a], options[b], stays=stays))) for a, b in pairs)
    return CountGraph(
        cells=cells_of(depths),
        offered=tuple(offered),
        nodes=tuple(nodes),
        links=links,
    )


@st.composite
def tiered(draw: st.DrawFn, graphs: Graphs = shapes) -> CountGraph:
    """A few layers on two tiers, with costs of their own for each state."""
    graph = draw(count_graphs(graphs).filter(lambda own: len(own.cells.ways) > 1))
    own = []
    for node in range(len(graph.nodes)):
        states = graph.states_of(node)
        costs = draw(st.lists(st.sampled_from((0.0, 1.0, 30.0)), min_size=len(states), max_size=len(states)))
        own.append(Own(states=states, costs=np.array(costs)))
    tiers = (Tier(1, draw(st.sampled_from((0.0, 1.0, 8.0)))), Tier(2, draw(st.sampled_from((1.0, 4.0)))))
    return replace(graph, cells=graph.cells._replace(tiers=tiers), own=tuple(own))


def groups_of(graph: CountGraph) -> Indices:
    return np.repeat(np.arange(len(graph.cells.ways)), graph.cells.sizes)


def sequences(graph: CountGraph, node: int) -> list[tuple[int, ...]]:
    return [*itertools.product(*(graph.offered[node][group] for group in groups_of(graph).tolist()))]


def least(graph: CountGraph) -> float:
    """The optimum over all sequences, by elimination over them."""
    every = [sequences(graph, node) for node in range(len(graph.nodes))]
    tiers = _tiers(graph)
    nodes = tuple(
        np.array([_own(graph, node, one) + _node(tiers, terms, one) for one in of])
        for node, (terms, of) in enumerate(zip(graph.nodes, every, strict=True))
    )
    edges = tuple(
        Edge(source=link.source, target=link.target, terms=(pairs_of(graph, link, every)[:, None],))
        for link in graph.links
    )
    return load_solver("elimination").solve(CostGraph(nodes=nodes, edges=edges)).cost


def _tiers(graph: CountGraph) -> Tiers:
    ways = [(at, float(graph.cells.ways[group])) for at, group in enumerate(groups_of(graph).tolist())]
    tiers = graph.cells.tiers
    return [(tier.weight, ways[: sum(graph.cells.sizes[: tier.groups])]) for tier in tiers]


def _own(graph: CountGraph, node: int, sequence: tuple[int, ...]) -> float:
    if not graph.own:
        return 0.0
    own = graph.own[node]
    assert own is not None
    counts = np.zeros((len(graph.cells.ways), graph.options(node)), dtype=np.int8)
    np.add.at(counts, (groups_of(graph), np.array(sequence)), 1)
    place = next(at for at, state in enumerate(own.states) if (state == counts).all())
    return float(own.costs[place])


def _node(tiers: Tiers, terms: tuple[Term, ...], own: tuple[int, ...]) -> float:
    return sum(
        tier * weight * math.prod(ways ** powers[own[at]] for at, ways in levels)
        for tier, levels in tiers
        for weight, powers in terms
    )


def pairs_of(graph: CountGraph, link: Link, every: list[list[tuple[int, ...]]]) -> Costs:
    """The cost of each pair of sequences of a tensor, level by level and from the words of ``Form``."""
    tiers = _tiers(graph)
    costs = [
        [_pair(tiers, link.form, own, other) for other in every[link.target]] for own in every[link.source]
    ]
    return np.array(costs)


def _pair(tiers: Tiers, form: Form, own: tuple[int, ...], other: tuple[int, ...]) -> float:
    total = 0.0
    named = [*zip(*_named(form, own, other), strict=True)]
    for tier, levels in tiers:
        both = owned = kept = 1.0
        for number, (made, read), option in ((ways, named[at], other[at]) for at, ways in levels):
            if made == EVERYWHERE and option in form.staying:
                kept *= number
            elif made == read == EVERYWHERE:
                both, kept = both * number, kept * number
            elif EVERYWHERE not in {made, read} and made != read:
                both, owned = both / number, owned / number
        total += tier * (form.both * both + form.owned * owned + form.kept * kept)
    for terms, sequence in zip(form.alone, (own, other), strict=True):
        total += _node(tiers, terms, sequence)
    return total


def _named(form: Form, own: tuple[int, ...], other: tuple[int, ...]) -> Iterator[list[int]]:
    for classes, sequence in ((form.made, own), (form.read, other)):
        yield [classes[option] for option in sequence]
