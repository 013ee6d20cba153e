"""A problem of fewer options: those of a class are one, which costs the least of them in the least dear state above.

Its least cost is a lower bound of the other problem's, and its tables are small where classes are few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.solve.coarse.ladder import Ladder, Rung

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from hypar.solve.coarse.lattice import Lattice
    from hypar.solve.edge import Costs, Indices

Classes = tuple[tuple[int, ...], ...]
"""For each run the class of each option, counted from 0."""


def merged(ladder: Ladder, classes: Sequence[Classes]) -> Ladder:
    """Return the problem with one option for each class; the problem itself if every option is a class of its own.

    Args:
        ladder: the problem.
        classes: the classes of each node's options; equal nodes have equal ones.
    """
    options = tuple(tuple(max(of_run) + 1 for of_run in own) for own in classes)
    if options == ladder.options:
        return ladder
    thin = Ladder(runs=ladder.runs, options=options, nodes=(), links=())
    above: dict[Hashable, list[Indices]] = {}
    keys = [(ladder.options[node], own) for node, own in enumerate(classes)]
    for node, (key, own) in enumerate(zip(keys, classes, strict=True)):
        if key not in above:
            above[key] = _above(ladder.lattice(node), thin.lattice(node), own)
    of_level = np.repeat(np.arange(len(ladder.runs)), ladder.runs).tolist()
    nodes: dict[Hashable, tuple[Costs, ...]] = {}
    for key, own, terms in zip(keys, classes, ladder.nodes, strict=True):
        if (id(terms), own) not in nodes:
            nodes[id(terms), own] = tuple(
                _least(_least(costs, 0, states), 1, own[run])
                for costs, states, run in zip(terms, above[key], of_level, strict=True)
            )
    pairs: dict[Hashable, tuple[Costs, ...]] = {}
    links = []
    for source, target, terms in ladder.links:
        made, read = classes[source], classes[target]
        pair = (id(terms), made, read)
        if pair not in pairs:
            pairs[pair] = tuple(
                _least(_least(_least(costs, 0, made[run]), 2, read[run]), 1, states)
                for costs, states, run in zip(terms, above[keys[target]], of_level, strict=True)
            )
        links.append(Rung(source, target, pairs[pair]))
    own_nodes = tuple(nodes[id(terms), own] for terms, own in zip(ladder.nodes, classes, strict=True))
    return Ladder(runs=ladder.runs, options=options, nodes=own_nodes, links=tuple(links))


def _above(whole: Lattice, thin: Lattice, classes: Classes) -> list[Indices]:
    """Return for each level the state of classes of each state of options above it."""
    found: list[Indices] = []
    outer = np.zeros(1, dtype=np.intp)
    for run, of_run in enumerate(classes):
        first = len(found)
        fine, coarse = whole.run(first), thin.run(first)
        unit = np.eye(max(of_run) + 1, dtype=np.intp)[[*of_run]]
        for at in range(whole.runs[run] + 1):
            inner = coarse.states(at, fine.counts[at] @ unit)
            found.append((outer[:, None] * len(coarse.counts[at]) + inner).reshape(-1))
        outer = found.pop()
    return found


def _least(costs: Costs, axis: int, classes: Indices | Sequence[int]) -> Costs:
    """Return the least costs of each class along an axis."""
    order = np.argsort(classes, kind="stable")
    found = np.asarray(classes)[order]
    firsts = np.searchsorted(found, np.arange(found[-1] + 1))
    least: Costs = np.minimum.reduceat(costs.take(order, axis), firsts, axis)
    return least
