"""Hypothesis generators of cost graphs: any graph, trees, chains, series-parallel graphs, bridges, networks."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from hypar.solve.cost_graph import CostGraph, Structure, structure_of
from hypar.solve.edge import Edge

Pair = tuple[int, int]
LARGEST = 7


@st.composite
def chains(draw: st.DrawFn) -> tuple[int, list[Pair]]:
    size = draw(st.integers(1, LARGEST))
    return size, [(node, node + 1) for node in range(size - 1)]


@st.composite
def trees(draw: st.DrawFn) -> tuple[int, list[Pair]]:
    size = draw(st.integers(1, LARGEST))
    return size, [(draw(st.integers(0, node - 1)), node) for node in range(1, size)]


@st.composite
def series_parallel(draw: st.DrawFn) -> tuple[int, list[Pair]]:
    """One edge, grown by putting a node into an edge or beside it."""
    pairs = [(0, 1)]
    size = 2
    for _ in range(draw(st.integers(0, LARGEST - 2))):
        source, target = draw(st.sampled_from(pairs))
        if draw(st.booleans()):
            pairs.remove((source, target))
        pairs += [(source, size), (size, target)]
        size += 1
    return size, pairs


@st.composite
def bridges(draw: st.DrawFn) -> tuple[int, list[Pair]]:
    """Four nodes that node and edge elimination cannot take apart, with tails."""
    pairs = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3)]
    size = draw(st.integers(4, LARGEST))
    return size, pairs + [(draw(st.integers(0, node - 1)), node) for node in range(4, size)]


@st.composite
def any_graphs(draw: st.DrawFn) -> tuple[int, list[Pair]]:
    size = draw(st.integers(1, LARGEST))
    every = [(a, b) for a in range(size) for b in range(size) if a != b]
    return size, draw(st.lists(st.sampled_from(every), max_size=12)) if every else []


shapes = st.one_of(chains(), trees(), series_parallel(), bridges(), any_graphs())


@st.composite
def cost_graphs(draw: st.DrawFn, graphs: st.SearchStrategy[tuple[int, list[Pair]]] = shapes) -> CostGraph:
    """Whole-number costs from a few values, so that sums are exact and ties are common; of edges of one term or two."""
    size, pairs = draw(graphs)
    choices = draw(st.lists(st.integers(1, 4), min_size=size, max_size=size))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    problem = random_problem(generator, choices, pairs, draw(st.sampled_from([1, 5, 1000])))
    return draw(st.sampled_from([problem, of_terms(problem, generator)]))


def of_terms(problem: CostGraph, generator: np.random.Generator) -> CostGraph:
    """The graph with a second term in each edge, by the choice of its target."""
    widths = [edge.costs.shape[1] for edge in problem.edges]
    more = [generator.integers(0, 3, (1, width, 1)).astype(np.float64) for width in widths]
    edges = [edge._replace(terms=(*edge.terms, own)) for edge, own in zip(problem.edges, more, strict=True)]
    return CostGraph(nodes=problem.nodes, edges=tuple(edges))


def structure(sizes: Sequence[int], pairs: Sequence[Pair]) -> Structure:
    """The structure of a graph with whole matrices."""
    return structure_of(tuple(sizes), tuple(pairs))


def random_problem(
    generator: np.random.Generator, choices: Sequence[int], pairs: Sequence[Pair], largest: int
) -> CostGraph:
    """Whole-number costs from 0 to ``largest`` on a given graph."""
    return CostGraph(
        nodes=tuple(generator.integers(0, largest + 1, size).astype(np.float64) for size in choices),
        edges=tuple(
            Edge.dense(a, b, generator.integers(0, largest + 1, (choices[a], choices[b])).astype(np.float64))
            for a, b in pairs
        ),
    )
