"""Write the certificate of a plan that is proven optimal.

Spanning trees are tried in turn: of tensors between layers that are near, that are far apart, and of those with the largest floors
left out last. States that a tree rules out leave before the next one, until a bound reaches the plan's cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.errors import OptionError
from hypar.studies.certificates.problem import orders_of, problem_of
from hypar.studies.certificates.record import Certificate, Floor, Message, Round
from hypar.studies.certificates.verify import ROUNDING, Tree, every_state
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.studies.certificates.problem import Counts, Problem

MOST_ROUNDS = 8
"""Most trees that are tried."""


def issue_certificate(plan: Plan, graph: LayerGraph) -> Certificate:
    """Return the certificate of a plan.

    Args:
        plan: the plan.
        graph: its network, with the plan's batch.

    Raises:
        OptionError: there is none for this kind of plan, or no tree's bound reaches its cost.

    Examples:
        >>> import hypar
        >>> plan = hypar.plan_model("lenet-c", levels=4, strategy="optimal")
        >>> found = issue_certificate(plan, hypar.load_model("lenet-c"))
        >>> found.cost == plan.cost.value == found.rounds[-1].bound
        True
    """
    problem = problem_of(plan, graph)
    orders_of(plan)
    states = every_state(problem)
    cost = plan.cost.value
    rounds: list[Round] = []
    best = 0.0
    while len(rounds) < MOST_ROUNDS:
        links = _links(problem, states, len(rounds))
        tree = Tree(problem, states, [(problem.names[one], problem.names[to]) for one, to in links], "round")
        rounds.append(_round(tree))
        best = max(best, tree.bound)
        if tree.bound >= cost * (1 - ROUNDING):
            return Certificate(
                model=graph.digest,
                batch=plan.model.batch,
                space=plan.space,
                array=plan.array,
                cost=cost,
                rounds=rounds,
            )
        before = sum(map(len, states))
        states = tree.left(cost)
        if len(rounds) > len(_KEYS) and sum(map(len, states)) == before:
            break
    gap = 1 - best / cost if cost else 0.0
    found = f"the bound of spanning trees is {gap:.2%} below the cost of {plan.model.name!r}, whose layers form cycles"
    raise OptionError("certificate", found, "chains and trees, and cycles at few levels")


def _round(tree: Tree) -> Round:
    names = tree.problem.names
    return Round(
        messages=[
            Message(layer=names[layer], to=names[after], bytes=[*map(exact_number, own.tolist())])
            for (layer, after), own in zip(tree.links, tree.messages, strict=True)
        ],
        floors=[
            Floor(layers=[names[one], names[other]], bytes=exact_number(least))
            for (one, other), least in tree.floors.items()
        ],
        bound=exact_number(tree.bound),
    )


def _near(problem: Problem, states: Sequence[Counts], pair: tuple[int, int]) -> float:  # noqa: ARG001
    return pair[1] - pair[0]


def _far(problem: Problem, states: Sequence[Counts], pair: tuple[int, int]) -> float:  # noqa: ARG001
    return pair[0] - pair[1]


def _flat(problem: Problem, states: Sequence[Counts], pair: tuple[int, int]) -> float:
    """Return how much less than its mean a floor is: tensors that lose least by it are left out."""
    own = problem.shared(pair, (states[pair[0]], states[pair[1]]))
    return -float(np.mean(own) - own.min())


_KEYS = (_near, _far, _flat)
"""The orders in which tensors join the tree."""


def _links(problem: Problem, states: Sequence[Counts], turn: int) -> list[tuple[int, int]]:
    """Return the links of a spanning forest, outer layers first."""
    key = _KEYS[turn % len(_KEYS)]
    parent = list(range(len(problem.names)))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    around: dict[int, list[int]] = {}
    for one, other in sorted(problem.links, key=lambda pair: (key(problem, states, pair), pair)):
        if root(one) != root(other):
            parent[root(one)] = root(other)
            around.setdefault(one, []).append(other)
            around.setdefault(other, []).append(one)
    found: list[tuple[int, int]] = []
    seen: set[int] = set()
    for first in range(len(parent)):
        todo = [] if first in seen else [first]
        seen.add(first)
        while todo:
            node = todo.pop()
            for other in around.get(node, ()):
                if other not in seen:
                    seen.add(other)
                    found.append((other, node))
                    todo.append(other)
    return found[::-1]
