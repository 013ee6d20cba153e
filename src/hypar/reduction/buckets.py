"""Mini-buckets: elimination with tables of a bounded size, for a lower bound.

Idea: a node that leaves gathers the costs that touch it. Where their joint table would be larger than a cap, they are
split into parts whose tables fit, and the node takes its best choice in each part by itself: what it leaves costs
no more than in truth, so the last table is a lower bound. Where nothing is split it is elimination.
Source: Dechter and Rish, Mini-buckets: A general scheme for bounded inference, Journal of the ACM 50, 2003.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from hypar.reduction.order import Scope, steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.problem import Structure


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the costs that touch a node.

    Attributes:
        factors: their numbers: first the nodes' vectors, then the edges, then the tables left so far.
        scope: the other nodes that they name, in rising order.
        entries: entries of their sum over the node and its scope.
    """

    factors: tuple[int, ...]
    scope: Scope
    entries: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """A node leaving, part by part.

    Attributes:
        node: the node.
        parts: what touches it; one part where all fits.
    """

    node: int
    parts: tuple[Part, ...]


@lru_cache(maxsize=16)
def buckets(structure: Structure, cap: int) -> tuple[Bucket, ...]:
    """Who leaves when, with what; a part has more than ``cap`` entries only where one factor has."""
    sizes = structure.sizes
    scopes: list[Scope] = [(node,) for node in range(len(sizes))]
    scopes += [(link.source, link.target) for link in structure.links]
    touching: list[set[int]] = [set() for _ in sizes]
    for number, scope in enumerate(scopes):
        for node in scope:
            touching[node].add(number)
    found = []
    for step in steps(structure):
        bucket = Bucket(step.node, tuple(_parts(step.node, touching[step.node], scopes, sizes, cap)))
        found.append(bucket)
        for part in bucket.parts:
            for node in part.scope:
                touching[node] -= {*part.factors}
                touching[node].add(len(scopes))
            scopes.append(part.scope)
    return tuple(found)


def _parts(
    node: int, numbers: Iterable[int], scopes: Sequence[Scope], sizes: Sequence[int], cap: int
) -> list[Part]:
    """Costs put together first fit, those over most nodes first."""
    found: list[tuple[list[int], set[int]]] = []
    for number in sorted(numbers, key=lambda number: (-len(scopes[number]), number)):
        for factors, named in found:
            if math.prod(sizes[near] for near in named.union(scopes[number])) <= cap:
                factors.append(number)
                named.update(scopes[number])
                break
        else:
            found.append(([number], {node, *scopes[number]}))
    return [
        Part(tuple(factors), tuple(sorted(named - {node})), math.prod(sizes[near] for near in named))
        for factors, named in found
    ]
