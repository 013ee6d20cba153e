"""Cost graphs of one level whose costs are one vector.

A search level by level has many small cost graphs of one structure. Their costs are computed for many nodes and edges
together, and minimised together: nobody takes them apart into an array for each node and each edge.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.solve.cost_graph import CostGraph, places_of, refuse_infinite, rounded, structure_of
from hypar.solve.edge import Edge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.solve.cost_graph import Structure
    from hypar.solve.edge import Costs, Indices


class Layout(NamedTuple):
    """Where the costs of each node, then of each edge are in the vector of a cost graph.

    Attributes:
        starts: the first entry of each.
        ends: the node itself, or the source of an edge, and the node itself, or the target, ``[2, nodes and edges]``.
        steps: the number of entries between two choices of the one and of the other.
        later: the later one of the nodes of each edge.
        size: the number of all entries.
    """

    starts: Indices
    ends: Indices
    steps: Indices
    later: list[int]
    size: int

    def places(self, assignment: Sequence[int]) -> Indices:
        """Return the entry that an assignment, one choice index a node, picks of each node, then of each edge."""
        chosen = np.array(assignment, dtype=np.intp)[self.ends]
        return np.asarray(self.starts + (self.steps * chosen).sum(axis=0))

    def parts(self, vector: Costs) -> list[Costs]:
        """Return the entries of each node, then of each edge."""
        bounds = [*self.starts.tolist(), self.size]
        return [vector[start:stop] for start, stop in pairwise(bounds)]


@lru_cache(maxsize=64)
def layout_of(structure: Structure) -> Layout:
    """Return the layout of the costs of a structure whose edges have one term each."""
    sizes, links = structure.sizes, structure.links
    nodes = range(len(sizes))
    *starts, size = accumulate([*sizes, *(link.entries for link in links)], initial=0)
    return Layout(
        starts=np.array(starts, dtype=np.intp),
        ends=np.array([(node, node) for node in nodes] + [link[:2] for link in links], dtype=np.intp).T,
        steps=np.array(
            [(1, 0) for _ in nodes] + [(sizes[link.target], 1) for link in links], dtype=np.intp
        ).T,
        later=[max(link.source, link.target) for link in links],
        size=size,
    )


def level_structure(sizes: tuple[int, ...], ends: tuple[tuple[int, int], ...]) -> Structure:
    """Return the structure of nodes of some sizes, and of edges of one term each between two of them."""
    return structure_of(sizes, ends, tuple([((sizes[made], 1, sizes[read]),) for made, read in ends]))


class LaidOut(CostGraph):
    """A cost graph whose costs are one vector, of which its arrays are parts."""

    def __init__(self, structure: Structure, entries: Costs) -> None:
        """Store the costs.

        Args:
            structure: the structure; each edge has one term.
            entries: the costs of all nodes, then of all edges, one after another.

        Raises:
            ProblemError: a cost is not finite.
        """
        self.__dict__.update(_structure=structure, _entries=entries)
        if not math.isfinite(entries.sum()):
            refuse_infinite(self.nodes, [edge.terms for edge in self.edges])

    @property
    def structure(self) -> Structure:
        """The graph without its costs."""
        found: Structure = self.__dict__["_structure"]
        return found

    @property
    def entries(self) -> Costs:
        """The costs of all nodes, then of all edges, one after another."""
        found: Costs = self.__dict__["_entries"]
        return found

    @cached_property
    def nodes(self) -> tuple[Costs, ...]:
        """For each node the cost of each choice, ``[choices]``."""
        return tuple(layout_of(self.structure).parts(self.entries)[: len(self.structure.sizes)])

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """The cost of pairs."""
        sizes, links = self.structure.sizes, self.structure.links
        own = layout_of(self.structure).parts(self.entries)[len(sizes) :]
        terms = [
            part.reshape(sizes[link.source], 1, sizes[link.target])
            for link, part in zip(links, own, strict=True)
        ]
        return tuple(
            [Edge(link.source, link.target, (term,)) for link, term in zip(links, terms, strict=True)]
        )

    def summable_entries(self) -> Costs:
        """Return the entries of all nodes, then of all terms, one after another, rounded as ``summable`` rounds them."""
        largest = np.maximum.reduceat(np.abs(self.entries), layout_of(self.structure).starts)
        return rounded(self.entries, places_of(float(largest.sum())))

    def picked(self, assignment: Sequence[int]) -> tuple[list[float], list[float]]:
        """Return the costs that an assignment picks, those of the nodes and those of the edges."""
        count = len(assignment)
        found = self.entries[layout_of(self.structure).places(assignment)].tolist()
        return found[:count], found[count:]

    def later_ends(self) -> Sequence[int]:
        """Return the later one of the nodes of each edge."""
        return layout_of(self.structure).later
