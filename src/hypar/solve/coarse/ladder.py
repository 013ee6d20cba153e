"""The problem: nodes that take an option at each level, at a cost that depends on how often each was taken above."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.solve.coarse.lattice import lattice_of

if TYPE_CHECKING:
    from hypar.solve.coarse.lattice import Lattice
    from hypar.solve.edge import Costs, Indices


class Rung(NamedTuple):
    """The costs between two nodes.

    Attributes:
        source: the node of which the option at a level matters.
        target: the node of which what it took above matters as well.
        terms: for each level ``[options of the source, states above of the target, options of the target]``.
    """

    source: int
    target: int
    terms: tuple[Costs, ...]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Ladder:
    """A problem of several levels.

    Attributes:
        runs: the numbers of levels in a row at which every node has the same options, outermost first.
        options: for each node the number of its options at each run.
        nodes: for each node and level the costs ``[states above, options]``; equal nodes share one object.
        links: the costs between nodes; equal ones share their terms.
    """

    runs: tuple[int, ...]
    options: tuple[tuple[int, ...], ...]
    nodes: tuple[tuple[Costs, ...], ...]
    links: tuple[Rung, ...]

    @property
    def ends(self) -> list[tuple[int, int]]:
        """The two nodes of each link."""
        return [(link.source, link.target) for link in self.links]

    @property
    def levels(self) -> int:
        """The number of levels."""
        return sum(self.runs)

    def lattice(self, node: int) -> Lattice:
        """Return the counts of a node."""
        return lattice_of(self.runs, self.options[node])

    def above(self, node: int, orders: Indices) -> Indices:
        """Return the states of a node above each level, for some sequences of options ``[sequences, levels]``."""
        lattice, found = self.lattice(node), np.zeros_like(orders)
        for level in range(self.levels - 1):
            found[:, level + 1] = lattice.below(level, 1)[found[:, level], orders[:, level]]
        return found
