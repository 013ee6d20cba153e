"""Write the certificate of a plan that is proven optimal.

Spanning trees are tried in turn: of tensors between layers that are near, that are far apart, and of those with the largest floors
left out last. States that a tree rules out leave before the next one, until a bound reaches the plan's cost. Where cycles keep it below, the last round is a
tree of blocks: the entries of their tables that the best plan uses are raised, until no plan costs less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.errors import OptionError, PlanError
from hypar.studies.certificates.problem import orders_of, problem_of
from hypar.studies.certificates.record import Certificate, Floor, Message, Raised, Round
from hypar.studies.certificates.turns import turns_of
from hypar.studies.certificates.verify import ROUNDING, Tree, Turn, every_state
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.studies.certificates.problem import Counts, Problem

    Entries = dict[tuple[int, int], dict[tuple[int, int], float]]

MOST_ROUNDS = 8
"""Most trees that are tried."""

MOST_ENTRIES = 2000
"""Most entries of tables that are raised."""


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
        tree = Tree(
            problem, states, [Turn(problem.names[one], problem.names[to]) for one, to in links], "round"
        )
        rounds.append(_round(tree, []))
        best = max(best, tree.bound)
        if tree.bound >= cost * (1 - ROUNDING):
            return _certificate(plan, graph, rounds)
        before = sum(map(len, states))
        states = tree.left(cost)
        if len(rounds) > len(_KEYS) and sum(map(len, states)) == before:
            break
    last, bound = _by_blocks(problem, states, cost)
    if last is not None and bound >= cost * (1 - ROUNDING):
        return _certificate(plan, graph, [*rounds, last])
    gap = 1 - max(best, bound) / cost if cost else 0.0
    found = f"the bound is {gap:.2%} below the cost of {plan.model.name!r}, whose layers form cycles"
    raise OptionError("certificate", found, "chains and trees, and blocks of layers with few states")


def _certificate(plan: Plan, graph: LayerGraph, rounds: list[Round]) -> Certificate:
    return Certificate(
        model=graph.digest,
        batch=plan.model.batch,
        space=plan.space,
        array=plan.array,
        cost=plan.cost.value,
        rounds=rounds,
    )


def _by_blocks(problem: Problem, states: Sequence[Counts], cost: float) -> tuple[Round | None, float]:
    """Return a round of blocks and its bound; None and 0 if there is none."""
    turns = turns_of(problem)
    try:
        tree = Tree(problem, states, turns or [], "round")
        raised: Entries = {}
        while turns and tree.bound < cost * (1 - ROUNDING) and sum(map(len, raised.values())) < MOST_ENTRIES:
            path = {link: own for link, own in _path(tree).items() if own not in raised.get(link, {})}
            if not path:
                break
            for link, entry in path.items():
                least = tree.least_of(link, entry, cost, "round")
                raised.setdefault(link, {})[entry] = least
                tree.tables[link].costs[entry] = least
            tree.send()
    except PlanError:
        turns = None
    return (_round(tree, turns, raised), tree.bound) if turns else (None, 0.0)


def _path(tree: Tree) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the entry of each block's table that the best plan uses."""
    states = {layer: int(tree.least[layer].argmin()) for layer in tree.roots}
    found = {}
    for link in reversed(tree.links):
        layer, after = link
        states[layer] = int((tree.across(link)[:, states[after]] + tree.least[layer]).argmin())
        if link in tree.tables:
            block = tree.tables[link].block
            found[link] = (states[block.pivot], states[block.port])
    return found


def _round(tree: Tree, turns: Sequence[Turn], raised: Entries | None = None) -> Round:
    names = tree.problem.names
    blocks = [turn.block for turn in turns] or [None] * len(tree.links)
    return Round(
        messages=[
            Message(
                layer=names[link[0]],
                to=names[link[1]],
                block=block and block.model_copy(update={"raised": _raised(tree, link, raised or {})}),
                bytes=[*map(exact_number, own.tolist())],
            )
            for link, block, own in zip(tree.links, blocks, tree.messages, strict=True)
        ],
        floors=[
            Floor(layers=[names[one], names[other]], bytes=exact_number(least))
            for (one, other), least in tree.floors.items()
        ],
        bound=exact_number(tree.bound),
    )


def _raised(tree: Tree, link: tuple[int, int], raised: Entries) -> list[Raised]:
    """Return the entries of a block's table that were raised."""
    block = tree.tables[link].block
    return [
        Raised(
            pivot=tree.states[block.pivot][row].tolist(),
            port=tree.states[block.port][column].tolist(),
            bytes=exact_number(least),
        )
        for (row, column), least in raised.get(link, {}).items()
    ]


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
